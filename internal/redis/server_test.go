package redis

import (
	"testing"

	"pgregory.net/rapid"
)

// serverExamples are commands about the server whose replies do not depend on it, or are compared by their form.
var serverExamples = []example{
	{name: "flushdb", draw: func(t *rapid.T) []string {
		return options(t, []string{"SYNC"}, []string{"async"}, []string{"x"})
	}},
	{name: "set", draw: words(someKey, someValue)},
	{name: "role", draw: words()},
	{name: "wait", draw: words(oneOf("0", "x", ""), oneOf("0", "x", "-1", "1.5"))},
	{name: "time", same: sameLength, draw: words()},
	{name: "lastsave", same: sameType, draw: words()},
	{name: "info", same: sameType, draw: func(t *rapid.T) []string { return several(t, 0, 2, oneOf("server", "all", "x")) }},
	{name: "memory usage", same: bothFail, draw: func(t *rapid.T) []string {
		return append([]string{someKey(t)}, options(t, []string{"SAMPLES", someInt(t)}, []string{"x"})...)
	}},
	{name: "config get", same: sameType, draw: func(t *rapid.T) []string { return several(t, 0, 2, oneOf("maxmemory", "x")) }},
	{name: "command count", same: sameType, draw: words()},
	{name: "command x", draw: words()},
	{name: "memory x", draw: words()},
	{name: "config x", draw: words()},
	{name: "dump", same: sameType, draw: words(someKey)},
}

// bothFail reports whether two replies are the same error, or none is one. MEMORY USAGE also tells of keys that have
// expired in redis-server.
func bothFail(a, b any) bool {
	m, failed := a.(failure)
	n, also := b.(failure)
	return failed == also && m == n
}

func TestServer(t *testing.T) { compareWithRedis(t, serverExamples) }
