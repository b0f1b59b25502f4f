package redis

import "testing"

var stringExamples = []example{
	{name: "get", draw: words(someKey)},
	{name: "set", draw: words(someKey, someValue)},
	{name: "incr", draw: words(someKey)},
}

func TestStrings(t *testing.T) { compareWithRedis(t, stringExamples) }
