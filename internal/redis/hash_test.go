package redis

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

var hashExamples = []example{
	{name: "hset", draw: someFieldPairs},
	{name: "hset", draw: someFieldPairs},
	{name: "hmset", draw: someFieldPairs},
	{name: "hsetnx", draw: words(someKey, someField, someValue)},
	{name: "hget", draw: words(someKey, someField)},
	{name: "hmget", draw: func(t *rapid.T) []string { return append([]string{someKey(t)}, several(t, 0, 3, someField)...) }},
	{name: "hdel", draw: func(t *rapid.T) []string { return append([]string{someKey(t)}, several(t, 0, 3, someField)...) }},
	{name: "hlen", draw: words(someKey)},
	{name: "hstrlen", draw: words(someKey, someField)},
	{name: "hexists", draw: words(someKey, someField)},
	{name: "hkeys", same: anyOrder, draw: words(someKey)},
	{name: "hvals", same: anyOrder, draw: words(someKey)},
	{name: "hgetall", same: anyPairs, draw: words(someKey)},
	{name: "hincrby", draw: words(someKey, someField, someInt)},
	{name: "hincrbyfloat", draw: words(someKey, someField, someFloat)},
	{name: "hrandfield", same: sameLength, draw: func(t *rapid.T) []string {
		return append([]string{someKey(t)}, options(t, []string{someInt(t)}, []string{"WITHVALUES"})...)
	}},
	{name: "hscan", same: sameScan(2), draw: scanWords},
	{name: "object encoding", same: sameEncoding, draw: words(someKey)},
	{name: "set", draw: words(someKey, someValue)},
	{name: "del", draw: words(someKey)},
	{name: "copy", draw: words(someKey, someKey)},
}

func someField(t *rapid.T) string {
	return rapid.OneOf(rapid.SampledFrom([]string{"f", "g", "h", ""}), rapid.Map(rapid.IntRange(0, 600), strconv.Itoa)).Draw(t, "field")
}

func someFieldPairs(t *rapid.T) []string {
	all := []string{someKey(t)}
	most := rapid.SampledFrom([]int{3, 3, 3, 600}).Draw(t, "most")
	for range rapid.IntRange(0, most).Draw(t, "pairs") {
		all = append(all, someField(t), someValue(t))
	}
	return append(all, options(t, []string{"odd"}, []string{"f", fmt.Sprintf("%065d", 0)})...)
}

func scanWords(t *rapid.T) []string {
	return append([]string{someKey(t), rapid.SampledFrom([]string{"0", "0", "0", "x"}).Draw(t, "cursor"), "COUNT", "100000"}, options(t,
		[]string{"match", somePattern(t)}, []string{"COUNT", "x"}, []string{"x"})...)
}

// sameScan compares the elements of complete scans, in groups.
func sameScan(group int) func(a, b any) bool {
	return func(a, b any) bool {
		m, ok := a.([]any)
		n, also := b.([]any)
		if !ok || !also {
			return fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b)
		}
		return m[0] == n[0] && slices.Equal(sorted(m[1], group), sorted(n[1], group))
	}
}

// sameLength compares the form of random results.
func sameLength(a, b any) bool {
	m, ok := a.([]any)
	n, also := b.([]any)
	return sameType(a, b) && len(m) == len(n) && ok == also
}

func TestHashes(t *testing.T) { compareWithRedis(t, hashExamples) }

// TestPackedHashes lets a hash grow until its fields are no longer in one string, and then until they are ordered by hash.
func TestPackedHashes(t *testing.T) {
	r := newRunner(t)
	c := r.client(1)
	const most = 600
	for i := range most {
		r.expect(c, fmt.Sprintf("HSET h field:%d old", i), int64(1))
		r.expect(c, fmt.Sprintf("HSET h field:%d value:%d", i, i), int64(0))
		if h := r.store.keys.find("h").value.(*hash); len(h.fields.packed) > maxPacked || h.fields.dict == nil && i > 200 {
			t.Fatalf("%d packed bytes after %d fields", len(h.fields.packed), i)
		}
		if i == 511 {
			r.expect(c, "OBJECT ENCODING h", "listpack")
		}
	}
	r.expect(c, "OBJECT ENCODING h", "hashtable")
	for i := 10; i < most; i++ {
		r.expect(c, fmt.Sprintf("HGET h field:%d", i), fmt.Sprintf("value:%d", i))
		r.expect(c, fmt.Sprintf("HDEL h field:%d", i), int64(1))
	}
	r.expect(c, "HLEN h", int64(10))
	if err := r.reopen(); err != nil {
		t.Fatal(err)
	}
	r.expect(r.client(2), "HMGET h field:9 field:10", []any{"value:9", nil})
}
