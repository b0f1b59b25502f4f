package redis

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

var bitmapExamples = []example{
	{name: "setbit", draw: words(someKey, someBitOffset, oneOf("0", "1", "1", "2", "x"))},
	{name: "setbit", draw: words(someKey, someBitOffset, oneOf("0", "1"))},
	{name: "getbit", draw: words(someKey, someBitOffset)},
	{name: "bitcount", draw: bitRangeWords(0)},
	{name: "bitpos", draw: func(t *rapid.T) []string {
		all := bitRangeWords(0)(t)
		return append([]string{all[0], oneOf("0", "1", "1", "2", "x")(t)}, all[1:]...)
	}},
	{name: "bitop", draw: func(t *rapid.T) []string {
		return append([]string{oneOf("AND", "or", "XOR", "not", "x")(t)}, several(t, 1, 4, someKey)...)
	}},
	{name: "bitfield", draw: bitFieldWords},
	{name: "bitfield_ro", draw: bitFieldWords},
	{name: "get", draw: words(someKey)},
	{name: "set", draw: words(someKey, someValue)},
	{name: "lpush", draw: words(someKey, someValue)},
	{name: "del", draw: words(someKey)},
}

func someBitOffset(t *rapid.T) string {
	return rapid.OneOf(rapid.Map(rapid.IntRange(0, 200), strconv.Itoa),
		rapid.SampledFrom([]string{"-1", "x", "4294967296", "9223372036854775807"})).Draw(t, "offset")
}

func bitRangeWords(int) func(*rapid.T) []string {
	return func(t *rapid.T) []string {
		all := []string{someKey(t)}
		for range rapid.IntRange(0, 2).Draw(t, "bounds") {
			all = append(all, someInt(t))
		}
		if len(all) > 1 {
			all = append(all, options(t, []string{oneOf("BIT", "byte", "x")(t)})...)
		}
		return all
	}
}

func bitFieldWords(t *rapid.T) []string {
	all := []string{someKey(t)}
	kind := func(t *rapid.T) string {
		return rapid.OneOf(rapid.Map(rapid.IntRange(1, 64), func(n int) string { return "i" + strconv.Itoa(n) }),
			rapid.Map(rapid.IntRange(1, 63), func(n int) string { return "u" + strconv.Itoa(n) }),
			rapid.SampledFrom([]string{"u64", "i65", "x", "i0", "u8", "i8"})).Draw(t, "type")
	}
	offset := func(t *rapid.T) string {
		return rapid.OneOf(rapid.Map(rapid.IntRange(0, 100), strconv.Itoa), rapid.Map(rapid.IntRange(0, 10), func(n int) string { return "#" + strconv.Itoa(n) }),
			rapid.SampledFrom([]string{"-1", "x", "#x", "4294967296"})).Draw(t, "offset")
	}
	for range rapid.IntRange(0, 4).Draw(t, "operations") {
		switch oneOf("get", "set", "incrby", "overflow", "x")(t) {
		case "get":
			all = append(all, "GET", kind(t), offset(t))
		case "set":
			all = append(all, "set", kind(t), offset(t), someInt(t))
		case "incrby":
			all = append(all, "INCRBY", kind(t), offset(t), someInt(t))
		case "overflow":
			all = append(all, "OVERFLOW", oneOf("WRAP", "sat", "FAIL", "x")(t))
		default:
			all = append(all, "x")
		}
	}
	return all
}

func TestBitmaps(t *testing.T) { compareWithRedis(t, bitmapExamples) }
