package redis

import (
	"testing"

	"pgregory.net/rapid"
)

var zsetExamples = []example{
	{name: "zadd", draw: addWords},
	{name: "zadd", draw: addWords},
	{name: "zadd", draw: words(someKey, someFloat, someElement)},
	{name: "sadd", draw: words(someKey, someElement)},
	{name: "zadd lex 0", draw: words(someMember)}, // ranges of members need equal scores
	{name: "zadd lex 0", draw: words(someElement)},
	{name: "zincrby", draw: words(someKey, someFloat, someElement)},
	{name: "zrem", draw: keyAndElements},
	{name: "zcard", draw: words(someKey)},
	{name: "zscore", draw: words(someKey, someElement)},
	{name: "zmscore", draw: keyAndElements},
	{name: "zrank", draw: words(someKey, someElement)},
	{name: "zrevrank", draw: words(someKey, someElement)},
	{name: "zrandmember", same: sameLength, draw: func(t *rapid.T) []string {
		return append([]string{someKey(t)}, options(t, []string{someInt(t)}, []string{"WITHSCORES"})...)
	}},
	{name: "zscan", same: sameScan(2), draw: scanWords},
	{name: "zrange", draw: func(t *rapid.T) []string {
		by := oneOf("BYSCORE", "bylex", "")(t)
		first, last := someInt, someInt
		switch by {
		case "BYSCORE":
			first, last = someBound, someBound
		case "bylex":
			first, last = someLex, someLex
		}
		key := someKey(t)
		if by == "bylex" {
			key = "lex"
		}
		all := append([]string{key, first(t), last(t)}, rangeOptions(t)...)
		if by != "" {
			all = append(all, by)
		}
		return append(all, options(t, []string{"REV"}, []string{"x"})...)
	}},
	{name: "zrangestore", draw: func(t *rapid.T) []string {
		return append([]string{someKey(t), someKey(t), someInt(t), someInt(t)}, options(t, []string{"REV"}, []string{"BYSCORE"}, []string{"BYLEX"},
			[]string{"LIMIT", someInt(t), someInt(t)}, []string{"WITHSCORES"})...)
	}},
	{name: "zrevrange", draw: func(t *rapid.T) []string {
		return append([]string{someKey(t), someInt(t), someInt(t)}, rangeOptions(t)...)
	}},
	{name: "zrangebyscore", draw: scoreWords},
	{name: "zrevrangebyscore", draw: scoreWords},
	{name: "zrangebylex", draw: lexWords},
	{name: "zrevrangebylex", draw: lexWords},
	{name: "zcount", draw: words(someKey, someBound, someBound)},
	{name: "zlexcount", draw: words(oneOf("lex"), someLex, someLex)},
	{name: "zremrangebyrank", draw: words(someKey, someInt, someInt)},
	{name: "zremrangebyscore", draw: words(someKey, someBound, someBound)},
	{name: "zremrangebylex", draw: words(oneOf("lex"), someLex, someLex)},
	{name: "zpopmin", draw: keyAndCount},
	{name: "zpopmax", draw: keyAndCount},
	{name: "zmpop", draw: zPopWords},
	{name: "zunion", draw: combineWords},
	{name: "zinter", draw: combineWords},
	{name: "zdiff", draw: combineWords},
	{name: "zunionstore", draw: storeWords},
	{name: "zinterstore", draw: storeWords},
	{name: "zdiffstore", draw: storeWords},
	{name: "zintercard", draw: func(t *rapid.T) []string {
		all := append([]string{oneOf("1", "2", "3", "0", "x")(t)}, someKeys(t)...)
		return append(all, options(t, []string{"LIMIT", someInt(t)}, []string{"y"})...)
	}},
	{name: "object encoding", same: sameEncoding, draw: words(someKey)},
	{name: "set", draw: words(someKey, someValue)},
	{name: "del", draw: words(someKey)},
	{name: "copy", draw: words(someKey, someKey)},
}

var (
	someBound = func(t *rapid.T) string { return oneOf("", "(")(t) + someFloat(t) }
	someLex   = oneOf("-", "+", "[a", "(a", "[b", "(c", "[", "(", "x", "")
)

func addWords(t *rapid.T) []string {
	all := append([]string{someKey(t)}, options(t, []string{"NX"}, []string{"xx"}, []string{"GT"}, []string{"lt"}, []string{"CH"}, []string{"INCR"})...)
	most := rapid.SampledFrom([]int{1, 3, 3, 200}).Draw(t, "most")
	for range rapid.IntRange(1, most).Draw(t, "pairs") {
		member := someElement
		if most > 3 {
			member = someMember
		}
		all = append(all, someFloat(t), member(t))
	}
	return append(all, options(t, []string{"odd"})...)
}

func rangeOptions(t *rapid.T) []string {
	return options(t, []string{"WITHSCORES"}, []string{"limit", someInt(t), someInt(t)})
}

func scoreWords(t *rapid.T) []string {
	return append([]string{someKey(t), someBound(t), someBound(t)}, rangeOptions(t)...)
}

func lexWords(t *rapid.T) []string {
	return append([]string{"lex", someLex(t), someLex(t)}, options(t, []string{"limit", someInt(t), someInt(t)}, []string{"WITHSCORES"})...)
}

func zPopWords(t *rapid.T) []string {
	all := append([]string{oneOf("1", "2", "0", "x")(t)}, several(t, 1, 2, someKey)...)
	all = append(all, oneOf("MIN", "max", "x")(t))
	return append(all, options(t, []string{"COUNT", someInt(t)}, []string{"x"})...)
}

func combineWords(t *rapid.T) []string {
	n := rapid.IntRange(1, 3).Draw(t, "n")
	all := []string{oneOf("1", "2", "3", "0", "x")(t)}
	all = append(all, several(t, n, n, someKey)...)
	return append(all, options(t, append([]string{"WEIGHTS"}, several(t, n, n, someFloat)...),
		[]string{"aggregate", oneOf("SUM", "min", "MAX", "x")(t)}, []string{"WITHSCORES"})...)
}

func storeWords(t *rapid.T) []string { return append([]string{someKey(t)}, combineWords(t)...) }

func TestSortedSets(t *testing.T) { compareWithRedis(t, zsetExamples) }
