package redis

import (
	"testing"

	"pgregory.net/rapid"
)

var stringExamples = []example{
	{name: "get", draw: words(someKey)},
	{name: "set", draw: func(t *rapid.T) []string {
		return append([]string{someKey(t), someValue(t)}, setWords(t)...)
	}},
	{name: "set", draw: words(someKey, someValue)},
	{name: "setnx", draw: words(someKey, someValue)},
	{name: "setex", draw: words(someKey, someSeconds, someValue)},
	{name: "psetex", draw: words(someKey, someMilliseconds, someValue)},
	{name: "getset", draw: words(someKey, someValue)},
	{name: "getdel", draw: words(someKey)},
	{name: "getex", draw: func(t *rapid.T) []string { return append([]string{someKey(t)}, setWords(t)...) }},
	{name: "mget", draw: func(t *rapid.T) []string { return several(t, 0, 4, someKey) }},
	{name: "mset", draw: somePairs},
	{name: "msetnx", draw: somePairs},
	{name: "append", draw: words(someKey, someValue)},
	{name: "strlen", draw: words(someKey)},
	{name: "getrange", draw: words(someKey, someInt, someInt)},
	{name: "substr", draw: words(someKey, someInt, someInt)},
	{name: "setrange", draw: words(someKey, someOffset, someValue)},
	{name: "incr", draw: words(someKey)},
	{name: "decr", draw: words(someKey)},
	{name: "incrby", draw: words(someKey, someInt)},
	{name: "decrby", draw: words(someKey, someInt)},
	{name: "incrbyfloat", draw: words(someKey, someFloat)},
	{name: "lcs", draw: func(t *rapid.T) []string {
		return append([]string{someKey(t), someKey(t)}, options(t,
			[]string{"LEN"}, []string{"idx"}, []string{"WITHMATCHLEN"}, []string{"MINMATCHLEN", someInt(t)}, []string{"x"})...)
	}},
}

func somePairs(t *rapid.T) []string {
	var all []string
	for range rapid.IntRange(0, 4).Draw(t, "pairs") {
		all = append(all, someKey(t), someValue(t))
	}
	if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
		all = append(all, someKey(t))
	}
	return all
}

func setWords(t *rapid.T) []string {
	return options(t, []string{"NX"}, []string{"xx"}, []string{"GET"}, []string{"keepttl"}, []string{"PERSIST"},
		[]string{"EX", someSeconds(t)}, []string{"px", someMilliseconds(t)},
		[]string{"exat", someSeconds(t)}, []string{"PXAT", someMilliseconds(t)}, []string{"EX"})
}

// Times are far away or past, so that nothing expires during a sequence.

func someSeconds(t *rapid.T) string {
	return rapid.SampledFrom([]string{"1000", "5000", "99999999999", "0", "-1", "x", "9223372036854775807", "9223372036854776"}).Draw(t, "seconds")
}

func someMilliseconds(t *rapid.T) string {
	return rapid.SampledFrom([]string{"1000000", "5000000", "99999999999999", "0", "-1", "x", "9223372036854775807"}).Draw(t, "milliseconds")
}

func someOffset(t *rapid.T) string {
	return rapid.SampledFrom([]string{"0", "1", "5", "20", "-1", "x", "536870912", "9223372036854775807"}).Draw(t, "offset")
}

func TestStrings(t *testing.T) { compareWithRedis(t, stringExamples) }
