package redis

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var keyExamples = []example{
	{name: "set", draw: words(someKey, someValue)},
	{name: "del", draw: func(t *rapid.T) []string { return several(t, 0, 4, someKey) }},
	{name: "unlink", draw: func(t *rapid.T) []string { return several(t, 0, 4, someKey) }},
	{name: "exists", draw: func(t *rapid.T) []string { return several(t, 0, 4, someKey) }},
	{name: "touch", draw: func(t *rapid.T) []string { return several(t, 0, 4, someKey) }},
	{name: "type", draw: words(someKey)},
	{name: "rename", draw: words(someKey, someKey)},
	{name: "renamenx", draw: words(someKey, someKey)},
	{name: "copy", draw: func(t *rapid.T) []string {
		return append([]string{someKey(t), someKey(t)}, options(t, []string{"REPLACE"}, []string{"db", "0"}, []string{"DB", "x"}, []string{"y"})...)
	}},
	{name: "randomkey", same: sameType, draw: words()},
	{name: "keys", same: anyOrder, draw: words(somePattern)},
	{name: "scan", same: func(a, b any) bool {
		m, ok := a.([]any)
		n, also := b.([]any)
		if !ok || !also {
			return fmt.Sprint(a) == fmt.Sprint(b)
		}
		return anyOrder(m[1], n[1])
	}, draw: func(t *rapid.T) []string {
		return append([]string{rapid.SampledFrom([]string{"0", "0", "0", "x", "-"}).Draw(t, "cursor"), "COUNT", "1000"}, options(t,
			[]string{"match", somePattern(t)}, []string{"COUNT", "1000"}, []string{"TYPE", "string"}, []string{"TYPE", "list"}, []string{"count", "x"}, []string{"x"})...)
	}},
	{name: "object encoding", same: sameEncoding, draw: words(someKey)},
	{name: "object refcount", draw: words(someKey), same: sameType},
	{name: "object idletime", same: about, draw: words(someKey)},
	{name: "object freq", draw: words(someKey)},
	{name: "object help", same: sameType, draw: words()},
	{name: "object x", draw: words(someKey)},
	{name: "object", draw: words()},
	{name: "expire", draw: expireWords(someSeconds)},
	{name: "pexpire", draw: expireWords(someMilliseconds)},
	{name: "expireat", draw: expireWords(someSeconds)},
	{name: "pexpireat", draw: expireWords(someMilliseconds)},
	{name: "persist", draw: words(someKey)},
	{name: "ttl", same: about, draw: words(someKey)},
	{name: "pttl", same: about, draw: words(someKey)},
	{name: "expiretime", same: about, draw: words(someKey)},
	{name: "pexpiretime", same: about, draw: words(someKey)},
	{name: "restore", draw: func(t *rapid.T) []string {
		return append([]string{someKey(t), someMilliseconds(t), "x"}, options(t, []string{"REPLACE"}, []string{"absttl"},
			[]string{"IDLETIME", someInt(t)}, []string{"FREQ", someInt(t)}, []string{"y"})...)
	}},
	{name: "flushall", draw: func(t *rapid.T) []string {
		return options(t, []string{"SYNC"}, []string{"async"}, []string{"x"})
	}},
	{name: "dbsize", same: sameType, draw: words()},
	{name: "nosuch", draw: words(someKey, someValue)},
}

// expireWords draws the arguments of a command that has a key expire. Times that are compared with others are all
// different: whether equal ones are, if they count from now, depends on when each server has the next millisecond.
func expireWords(draw func(*rapid.T) string) func(*rapid.T) []string {
	return func(t *rapid.T) []string {
		words := []string{someKey(t), draw(t)}
		more := options(t, []string{"NX"}, []string{"xx"}, []string{"GT"}, []string{"lt"}, []string{"y"})
		if slices.Contains(more, "GT") || slices.Contains(more, "lt") {
			words[1] = strconv.FormatInt(rapid.Int64Range(100_000, 1<<40).Draw(t, "other time"), 10)
		}
		return append(words, more...)
	}
}

func somePattern(t *rapid.T) string {
	return rapid.OneOf(rapid.SampledFrom([]string{"*", "?", "a", "[a-c]", "[^a]", "\\a", "{e}*", "*f", "[", "[a", "[c-a]"}),
		rapid.StringMatching(`[a-c*?\[\]\^\\-]{0,5}`)).Draw(t, "pattern")
}

func TestExistsIsNoUse(t *testing.T) {
	r := newRunner(t)
	c := r.client(1)
	r.expect(c, "SET a 1", simple("OK"))
	r.now = r.now.Add(10 * time.Second)
	r.expect(c, "EXISTS a", int64(1))
	r.expect(c, "OBJECT IDLETIME a", int64(10))
	r.expect(c, "TOUCH a", int64(1))
	r.expect(c, "OBJECT IDLETIME a", int64(0))
}

func TestCommandTellsSubcommandsAndKeys(t *testing.T) {
	r := newRunner(t)
	c := r.client(1)
	r.expect(c, "COMMAND LIST FILTERBY PATTERN client|li*", []any{"client|list"})
	r.expect(c, "COMMAND GETKEYS EVAL x 0", []any{})
	r.expect(c, "COMMAND GETKEYS PING", failure("ERR The command has no key arguments"))
}

func TestKeys(t *testing.T) { compareWithRedis(t, slices.Concat(keyExamples, stringExamples[:5])) }

// TestRestoreRefusesWhatNobodyDumps restores values that have a checksum and cannot exist.
func TestRestoreRefusesWhatNobodyDumps(t *testing.T) {
	j := newLocal(t)
	z := newZSet()
	z.scores.set("m", math.NaN())
	z.order.Set(scored{math.NaN(), "m"})
	for _, v := range []value{&hash{}, &list{}, newMembers(), newZSet(), z} {
		if reply := j.run([][]string{{"RESTORE", "k", "1000000", string(dump(v))}})[0]; reply == simple("OK") {
			t.Errorf("%T was restored", v)
		}
	}
	if n := j.store.keys.entries.Len() + j.store.keys.expiring.Len(); n != 0 {
		t.Errorf("%d entries are left", n)
	}
}

// TestReadsAreCounted compares what INFO tells of reads with what was read.
func TestReadsAreCounted(t *testing.T) {
	j := newLocal(t)
	replies := j.run([][]string{{"SET", "a", "1"}, {"MGET", "a", "a", "b"}, {"INFO", "stats"}})
	if text := fmt.Sprint(replies[2]); !strings.Contains(text, "keyspace_hits:2\r\nkeyspace_misses:1\r\n") {
		t.Error(text)
	}
}
