package redis

import (
	"testing"

	"pgregory.net/rapid"
)

var sortExamples = []example{
	{name: "rpush", draw: func(t *rapid.T) []string { return append([]string{sortKeyName(t)}, several(t, 1, 6, someNumber)...) }},
	{name: "sadd", draw: func(t *rapid.T) []string { return append([]string{sortKeyName(t)}, several(t, 1, 6, someNumber)...) }},
	{name: "zadd", draw: words(sortKeyName, someInt, someNumber)},
	{name: "set", draw: words(oneOf("w_1", "w_2", "w_3", "w_10"), oneOf("5", "1", "x", "2.5", ""))},
	{name: "hset", draw: words(oneOf("h_1", "h_2", "h_3"), oneOf("f", "g"), oneOf("5", "1", "x"))},
	{name: "sort", draw: sortWords},
	{name: "sort", draw: words(sortKeyName)},
	{name: "sort_ro", draw: sortWords},
	{name: "lrange", draw: words(oneOf("dst"), oneOf("0"), oneOf("-1"))},
	{name: "del", draw: words(sortKeyName)},
}

var (
	sortKeyName = oneOf("a", "b", "c")
	someNumber  = oneOf("1", "2", "3", "10", "x", "2.5")
)

// sortWords draws options. Sets are sorted, since their order is none otherwise; ALPHA without BY, since elements
// without a text have none either.
func sortWords(t *rapid.T) []string {
	return append([]string{sortKeyName(t)}, options(t,
		rapid.SampledFrom([][]string{{"BY", "w_*"}, {"BY", "h_*->f"}, {"ALPHA"}}).Draw(t, "by"), []string{"limit", someInt(t), someInt(t)},
		[]string{"GET", oneOf("#", "w_*", "h_*->g", "none")(t)}, []string{"get", "#"},
		[]string{"DESC"}, []string{"asc"}, []string{"STORE", "dst"}, []string{"x"})...)
}

func TestSort(t *testing.T) { compareWithRedis(t, sortExamples) }
