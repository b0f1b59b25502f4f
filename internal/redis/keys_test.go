package redis

import "testing"

var keyExamples = []example{
	{name: "del", draw: words(someKey)},
	{name: "dbsize", draw: words()},
}

func TestKeys(t *testing.T) { compareWithRedis(t, keyExamples) }
