package redis

import (
	"testing"

	"pgregory.net/rapid"
)

var listExamples = []example{
	{name: "lpush", draw: keyAndElements},
	{name: "rpush", draw: keyAndElements},
	{name: "lpushx", draw: keyAndElements},
	{name: "rpushx", draw: keyAndElements},
	{name: "lpop", draw: keyAndCount},
	{name: "rpop", draw: keyAndCount},
	{name: "llen", draw: words(someKey)},
	{name: "lindex", draw: words(someKey, someInt)},
	{name: "lset", draw: words(someKey, someInt, someElement)},
	{name: "lrange", draw: words(someKey, someInt, someInt)},
	{name: "ltrim", draw: words(someKey, someInt, someInt)},
	{name: "lrem", draw: words(someKey, someInt, someElement)},
	{name: "linsert", draw: words(someKey, oneOf("BEFORE", "after", "x"), someElement, someElement)},
	{name: "lpos", draw: func(t *rapid.T) []string {
		return append([]string{someKey(t), someElement(t)}, options(t, []string{"RANK", someInt(t)},
			[]string{"count", someInt(t)}, []string{"MAXLEN", someInt(t)}, []string{"x"})...)
	}},
	{name: "lmove", draw: words(someKey, someKey, oneOf("LEFT", "right"), oneOf("left", "RIGHT", "x"))},
	{name: "rpoplpush", draw: words(someKey, someKey)},
	{name: "lmpop", draw: mPopWords},
	{name: "brpop", draw: func(t *rapid.T) []string { return append(someKeys(t), "x") }},
	{name: "set", draw: words(someKey, someValue)},
	{name: "del", draw: words(someKey)},
	{name: "rename", draw: words(someKey, someKey)},
	{name: "copy", draw: words(someKey, someKey)},
}

// oneOf draws one of some words.
func oneOf(all ...string) func(*rapid.T) string {
	return func(t *rapid.T) string { return rapid.SampledFrom(all).Draw(t, "word") }
}

var someElement = oneOf("a", "b", "c", "")

func keyAndElements(t *rapid.T) []string {
	return append([]string{someKey(t)}, several(t, 0, 6, someElement)...)
}

func keyAndCount(t *rapid.T) []string {
	return append([]string{someKey(t)}, options(t, []string{someInt(t)})...)
}

func mPopWords(t *rapid.T) []string {
	all := append([]string{oneOf("1", "2", "0", "x")(t)}, several(t, 1, 2, someKey)...)
	all = append(all, oneOf("LEFT", "right", "x")(t))
	return append(all, options(t, []string{"COUNT", someInt(t)}, []string{"x"})...)
}

func TestLists(t *testing.T) { compareWithRedis(t, listExamples) }
