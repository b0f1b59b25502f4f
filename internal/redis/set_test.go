package redis

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

var setExamples = []example{
	{name: "sadd", draw: keyAndMembers},
	{name: "sadd", draw: keyAndMembers},
	{name: "srem", draw: keyAndMembers},
	{name: "smove", draw: words(someKey, someKey, someMember)},
	{name: "sismember", draw: words(someKey, someMember)},
	{name: "smismember", draw: keyAndMembers},
	{name: "scard", draw: words(someKey)},
	{name: "smembers", same: anyOrder, draw: words(someKey)},
	{name: "srandmember", same: sameLength, draw: func(t *rapid.T) []string {
		return append([]string{someKey(t)}, options(t, []string{someInt(t)})...)
	}},
	{name: "spop", draw: words(func(*rapid.T) string { return "nokey" }, someInt)},
	{name: "sinter", same: anyOrder, draw: someKeys},
	{name: "sunion", same: anyOrder, draw: someKeys},
	{name: "sdiff", same: anyOrder, draw: someKeys},
	{name: "sinterstore", draw: someKeys},
	{name: "sunionstore", draw: someKeys},
	{name: "sdiffstore", draw: someKeys},
	{name: "sintercard", draw: func(t *rapid.T) []string {
		all := append([]string{rapid.SampledFrom([]string{"1", "2", "3", "0", "x"}).Draw(t, "n")}, someKeys(t)...)
		return append(all, options(t, []string{"LIMIT", someInt(t)}, []string{"y"})...)
	}},
	{name: "sscan", same: sameScan(1), draw: scanWords},
	{name: "object encoding", same: sameEncoding, draw: words(someKey)},
	{name: "set", draw: words(someKey, someValue)},
	{name: "del", draw: words(someKey)},
	{name: "copy", draw: words(someKey, someKey)},
}

func someMember(t *rapid.T) string {
	return rapid.OneOf(rapid.Map(rapid.IntRange(0, 600), strconv.Itoa), rapid.SampledFrom([]string{"m", "n", "", "1", "2", "3"})).Draw(t, "member")
}

func keyAndMembers(t *rapid.T) []string {
	most := rapid.SampledFrom([]int{3, 3, 3, 600}).Draw(t, "most")
	return append([]string{someKey(t)}, several(t, 0, most, someMember)...)
}

func someKeys(t *rapid.T) []string { return several(t, 0, 4, someKey) }

// TestPopRemovesWhatItReturns pops all members of a set, in steps.
func TestPopRemovesWhatItReturns(t *testing.T) {
	j := newLocal(t)
	add := []string{"sadd", "s"}
	for i := range 1000 {
		add = append(add, strconv.Itoa(i))
	}
	j.run([][]string{add})
	seen := map[any]bool{}
	for _, count := range []string{"1", "10", "989"} {
		for _, member := range j.run([][]string{{"spop", "s", count}})[0].([]any) {
			if seen[member] {
				t.Fatalf("%v was popped twice", member)
			}
			seen[member] = true
		}
	}
	if left := j.run([][]string{{"exists", "s"}})[0]; left != int64(0) || len(seen) != 1000 {
		t.Fatalf("%d members were popped, and the key exists: %v", len(seen), left)
	}
	j.compareReplay(t)
}

func TestSets(t *testing.T) { compareWithRedis(t, setExamples) }
