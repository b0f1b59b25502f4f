package redis

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var streamExamples = []example{
	{name: "xadd", draw: drawAdd},
	{name: "xadd", draw: drawAdd},
	{name: "xadd", draw: drawAdd},
	{name: "xadd", draw: drawAdd},
	{name: "xadd", draw: drawAddOptions},
	{name: "xlen", draw: words(streamKey)},
	{name: "xdel", draw: drawKeyAndIDs},
	{name: "xtrim", draw: drawTrim},
	{name: "xrange", draw: drawRange(someStart, someEnd)},
	{name: "xrevrange", draw: drawRange(someEnd, someStart)},
	{name: "xread", draw: drawRead},
	{name: "xsetid", draw: drawSetID},
	{name: "set", draw: words(streamKey, someValue)},
	{name: "del", draw: words(streamKey)},
	{name: "xgroup create", draw: drawGroupCreate},
	{name: "xgroup create", draw: drawGroupCreate},
	{name: "xgroup setid", draw: drawGroupSetID},
	{name: "xgroup createconsumer", draw: words(streamKey, someGroup, someConsumer)},
	{name: "xgroup delconsumer", draw: words(streamKey, someGroup, someConsumer)},
	{name: "xgroup destroy", draw: words(streamKey, someGroup)},
	{name: "xgroup", draw: drawWrongSubcommand},
	{name: "xreadgroup", draw: drawReadGroup},
	{name: "xreadgroup", draw: drawReadGroup},
	{name: "xreadgroup", draw: drawReadGroup},
	{name: "xack", draw: drawAck},
	{name: "xpending", draw: drawPending, same: sameTimes},
	{name: "xclaim", draw: drawClaim},
	{name: "xclaim", draw: drawClaim},
	{name: "xautoclaim", draw: drawAutoClaim},
	{name: "xinfo stream", draw: drawInfoStream, same: sameTimes},
	{name: "xinfo groups", draw: words(streamKey)},
	{name: "xinfo consumers", draw: words(streamKey, someGroup), same: sameTimes},
	{name: "xinfo", draw: drawWrongSubcommand},
}

func TestStreams(t *testing.T) { compareWithRedis(t, streamExamples) }

// sameTimes compares replies in which times and idle times differ by little, and which say how Redis's
// radix trees are made. Redis 7.0 does not say when a consumer was active.
func sameTimes(theirs, ours any) bool {
	a, b := reflect.ValueOf(theirs), reflect.ValueOf(ours)
	if !a.IsValid() || !b.IsValid() || a.Type() != b.Type() || a.Kind() != reflect.Slice {
		return reflect.DeepEqual(theirs, ours)
	}
	b = withoutActivity(b)
	if a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		before := any("")
		if i > 0 {
			before = a.Index(i - 1).Interface()
		}
		if !sameElement(before, a.Index(i).Interface(), b.Index(i).Interface()) {
			return false
		}
	}
	return true
}

// withoutActivity returns a description without the time when a consumer was active.
func withoutActivity(all reflect.Value) reflect.Value {
	for i := range all.Len() {
		if name := all.Index(i).Interface(); name == "active-time" || name == "inactive" {
			return reflect.AppendSlice(all.Slice3(0, i, i), all.Slice(i+2, all.Len()))
		}
	}
	return all
}

// sameElement compares elements behind others, which may be their names.
func sameElement(before, theirs, ours any) bool {
	switch before {
	case "radix-tree-keys", "radix-tree-nodes":
		return true
	case "idle", "seen-time", "c1", "c2", "c3":
		return about(theirs, ours)
	}
	m, ok := theirs.(int64)
	n, also := ours.(int64)
	if ok && also && m > 1e11 && n > 1e11 {
		return about(theirs, ours)
	}
	return sameTimes(theirs, ours)
}

// mostly returns what usual draws, and rarely what wrong draws.
func mostly(usual, wrong func(*rapid.T) string) func(*rapid.T) string {
	return func(t *rapid.T) string {
		if rapid.IntRange(0, 19).Draw(t, "wrong") == 7 {
			return wrong(t)
		}
		return usual(t)
	}
}

func streamKey(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "a", "a", "a", "a", "b"}).Draw(t, "key")
}

func someGroup(t *rapid.T) string {
	return rapid.SampledFrom([]string{"g", "g", "g", "g", "h", "none"}).Draw(t, "group")
}

func someConsumer(t *rapid.T) string {
	return rapid.SampledFrom([]string{"c1", "c2", "c3"}).Draw(t, "consumer")
}

func wrongID(t *rapid.T) string {
	return rapid.SampledFrom([]string{
		"", "x", "-", "+", "$", ">", "*", "1-x", "x-1", "1-", "-1", "1--1", "1--01", " 1", "01-02", "+1", "1-2-3", "(1", "(",
		"18446744073709551615", "18446744073709551616", "18446744073709551615-18446744073709551615", "1-*", "0-0", "0",
		"9223372036854775808-9223372036854775808", "1\x00x", "1.5",
	}).Draw(t, "wrong id")
}

func goodID(t *rapid.T) string {
	if rapid.IntRange(0, 3).Draw(t, "other") > 0 {
		return "5-" + strconv.Itoa(rapid.IntRange(0, 8).Draw(t, "seq"))
	}
	ms := strconv.Itoa(rapid.IntRange(0, 20).Draw(t, "ms"))
	switch seq := rapid.IntRange(-3, 3).Draw(t, "seq"); {
	case seq < 0:
		return ms
	default:
		return ms + "-" + strconv.Itoa(seq)
	}
}

func someID(t *rapid.T) string { return mostly(goodID, wrongID)(t) }

func someStart(t *rapid.T) string { return streamBound(t, "-") }

func someEnd(t *rapid.T) string { return streamBound(t, "+") }

func streamBound(t *rapid.T, edge string) string {
	switch rapid.IntRange(0, 4).Draw(t, "bound") {
	case 0, 1:
		return edge
	case 2:
		return "(" + someID(t)
	}
	return someID(t)
}

func smallCount(t *rapid.T) string { return mostly(smallInt, someInt)(t) }

func smallInt(t *rapid.T) string {
	return strconv.Itoa(rapid.IntRange(0, 6).Draw(t, "count"))
}

// newID returns an ID for XADD, which is mostly greater than those before.
func newID(t *rapid.T) string {
	switch rapid.IntRange(0, 9).Draw(t, "new id") {
	case 0:
		return "6-*"
	case 1:
		return mostly(goodID, addWrongID)(t)
	}
	return "5-*"
}

// addWrongID is wrongID without what depends on the time.
func addWrongID(t *rapid.T) string {
	if id := wrongID(t); id != "*" {
		return id
	}
	return "*-*"
}

// streamPairs returns fields and values, sometimes one too few.
func streamPairs(t *rapid.T) []string {
	n := 2 * rapid.IntRange(1, 3).Draw(t, "pairs")
	if rapid.IntRange(0, 29).Draw(t, "odd") == 7 {
		n--
	}
	return several(t, n, n, someValue)
}

func drawAdd(t *rapid.T) []string {
	return slices.Concat([]string{streamKey(t), newID(t)}, streamPairs(t))
}

// someTrim returns MAXLEN or MINID with their arguments.
func someTrim(t *rapid.T) []string {
	var args []string
	word := rapid.SampledFrom([]string{"maxlen", "MINID"}).Draw(t, "trim")
	args = append(args, word)
	args = append(args, rapid.SampledFrom([][]string{{}, {}, {"="}, {"~"}, {"~"}}).Draw(t, "approximate")...)
	if word == "maxlen" {
		args = append(args, smallCount(t))
	} else {
		args = append(args, someID(t))
	}
	if rapid.IntRange(0, 3).Draw(t, "limited") == 0 {
		args = append(args, "limit", smallCount(t))
	}
	return args
}

func drawAddOptions(t *rapid.T) []string {
	args := append([]string{streamKey(t)}, options(t, []string{"nomkstream"}, someTrim(t), []string{"limit", smallCount(t)})...)
	return slices.Concat(args, []string{newID(t)}, streamPairs(t))
}

func drawTrim(t *rapid.T) []string {
	args := append([]string{streamKey(t)}, someTrim(t)...)
	return append(args, rapid.SampledFrom([][]string{{}, {}, {}, {}, {}, {"x"}, {"maxlen", "1"}}).Draw(t, "more")...)
}

func drawKeyAndIDs(t *rapid.T) []string {
	return append([]string{streamKey(t)}, several(t, 1, 3, someID)...)
}

func drawRange(first, second func(*rapid.T) string) func(*rapid.T) []string {
	return func(t *rapid.T) []string {
		args := []string{streamKey(t), first(t), second(t)}
		return append(args, options(t, []string{"count", smallCount(t)}, mistake(t))...)
	}
}

// mistake returns an option that does not exist, rarely.
func mistake(t *rapid.T) []string {
	return rapid.SampledFrom([][]string{{}, {}, {}, {}, {}, {}, {"x"}, {"count"}}).Draw(t, "mistake")
}

// someStreams returns keys and IDs for XREAD or XREADGROUP.
func someStreams(t *rapid.T, id func(*rapid.T) string) []string {
	n := rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "streams")
	args := slices.Concat([]string{"streams"}, several(t, n, n, streamKey), several(t, n, n, id))
	if rapid.IntRange(0, 29).Draw(t, "unbalanced") == 7 {
		args = append(args, "1")
	}
	return args
}

func readID(t *rapid.T) string {
	if rapid.IntRange(0, 4).Draw(t, "last") == 0 {
		return "$"
	}
	return someID(t)
}

func drawRead(t *rapid.T) []string {
	args := options(t, []string{"count", smallCount(t)}, mistake(t))
	if rapid.IntRange(0, 19).Draw(t, "blocks") == 7 {
		args = append(args, "block", rapid.SampledFrom([]string{"-1", "x", "9223372036854775808"}).Draw(t, "block"))
	}
	return append(args, someStreams(t, readID)...)
}

func groupReadID(t *rapid.T) string {
	if rapid.IntRange(0, 3).Draw(t, "history") > 0 {
		return ">"
	}
	return someID(t)
}

func drawReadGroup(t *rapid.T) []string {
	args := []string{"group", someGroup(t), someConsumer(t)}
	args = append(args, options(t, []string{"count", smallCount(t)}, []string{"noack"}, mistake(t))...)
	return append(args, someStreams(t, groupReadID)...)
}

func drawSetID(t *rapid.T) []string {
	args := []string{streamKey(t), someID(t)}
	return append(args, options(t, []string{"entriesadded", smallCount(t)}, []string{"maxdeletedid", someID(t)}, mistake(t))...)
}

func groupID(t *rapid.T) string {
	return rapid.OneOf(rapid.SampledFrom([]string{"$", "0", "0"}), rapid.Custom(someID)).Draw(t, "id")
}

func drawGroupCreate(t *rapid.T) []string {
	args := []string{streamKey(t), someGroup(t), groupID(t)}
	return append(args, options(t, []string{"mkstream"}, []string{"entriesread", smallCount(t)}, mistake(t))...)
}

func drawGroupSetID(t *rapid.T) []string {
	args := []string{streamKey(t), someGroup(t), groupID(t)}
	return append(args, options(t, []string{"entriesread", smallCount(t)}, mistake(t))...)
}

func drawWrongSubcommand(t *rapid.T) []string {
	return rapid.SampledFrom([][]string{
		{},
		{"help", "x"},
		{"x"},
		{"create"},
		{"create", "a", "g"},
		{"destroy", "a"},
		{"setid", "a"},
		{"stream"},
		{"groups"},
		{"groups", "a", "g"},
		{"consumers", "a"},
		{"createconsumer", "a", "g", "c1", "x"},
		{"delconsumer", "a", "g"},
	}).Draw(t, "subcommand")
}

func drawAck(t *rapid.T) []string {
	return append([]string{streamKey(t), someGroup(t)}, several(t, 1, 3, someID)...)
}

// Idle times are far from those that entries have.

func someMinIdle(t *rapid.T) string {
	return rapid.SampledFrom([]string{"0", "0", "0", "3600000", "360000000", "-1", "x"}).Draw(t, "min idle")
}

func someIdle(t *rapid.T) string {
	return rapid.SampledFrom([]string{"0", "7200000", "720000000", "-1", "x"}).Draw(t, "idle")
}

func drawPending(t *rapid.T) []string {
	args := []string{streamKey(t), someGroup(t)}
	if rapid.IntRange(0, 3).Draw(t, "summary") == 0 {
		return args
	}
	args = append(args, options(t, []string{"idle", someMinIdle(t)})...)
	args = append(args, someStart(t), someEnd(t), smallCount(t))
	return append(args, options(t, []string{someConsumer(t)}, mistake(t), mistake(t))...)
}

func drawClaim(t *rapid.T) []string {
	args := []string{streamKey(t), someGroup(t), someConsumer(t), someMinIdle(t)}
	args = append(args, several(t, 1, 4, someID)...)
	return append(args, options(t, []string{"idle", someIdle(t)}, []string{"time", rapid.SampledFrom([]string{"0", "1000", "9223372036854775807", "x"}).Draw(t, "time")},
		[]string{"retrycount", smallCount(t)}, []string{"force"}, []string{"justid"}, []string{"lastid", someID(t)}, mistake(t))...)
}

func drawAutoClaim(t *rapid.T) []string {
	args := []string{streamKey(t), someGroup(t), someConsumer(t), someMinIdle(t), someStart(t)}
	return append(args, options(t, []string{"count", smallCount(t)}, []string{"justid"}, mistake(t))...)
}

func drawInfoStream(t *rapid.T) []string {
	args := []string{streamKey(t)}
	return append(args, rapid.SampledFrom([][]string{
		{},
		{},
		{"full"},
		{"full"},
		{"FULL", "COUNT", "2"},
		{"full", "count", "0"},
		{"full", "count", "-1"},
		{"full", "count", "x"},
		{"full", "count"},
		{"x"},
		{"full", "x", "1"},
	}).Draw(t, "full")...)
}

// TestStreamsBreakTransactions compares which commands break a transaction that watches a stream.
func TestStreamsBreakTransactions(t *testing.T) {
	j := newJudge(t)
	j.begin(t, 2)
	for _, command := range []string{
		"xadd a 1 f v", "xadd a 2 f v", "xadd a 3 f v", "xadd a 4 f v", "xadd a 4 f v", "xgroup create a g 0",
		"xgroup createconsumer a g d", "xgroup setid a g 0", "xreadgroup group g c streams a >",
		"xreadgroup group g c streams a 0", "xack a g 1", "xclaim a g d 0 2", "xautoclaim a g c 0 0",
		"xgroup delconsumer a g d", "xsetid a 9", "xdel a 1", "xdel a 1", "xtrim a maxlen 2", "xtrim a maxlen 2",
		"xadd a maxlen 1 10 f v", "xgroup destroy a g", "del a", "xgroup create a g 0 mkstream", "xrange a - +",
	} {
		requests := [][]string{{"watch", "a"}, strings.Fields(command), {"multi"}, {"ping"}, {"exec"}}
		theirs, ours := j.theirs.pipeline(t, requests), j.run(requests)
		if !reflect.DeepEqual(theirs, ours) {
			t.Errorf("%s:\nredis-server %v\nhere         %v", command, theirs, ours)
		}
	}
}

// TestAutoClaimEnds compares where XAUTOCLAIM ends, with many pending entries.
func TestAutoClaimEnds(t *testing.T) {
	j := newJudge(t)
	j.begin(t, 2)
	requests := [][]string{{"xgroup", "create", "a", "g", "0", "mkstream"}}
	for range 250 {
		requests = append(requests, []string{"xadd", "a", "1-*", "f", "v"})
	}
	for _, command := range []string{
		"xreadgroup group g c1 streams a >", "xautoclaim a g c2 3600000 - count 1", "xautoclaim a g c2 3600000 1-20 count 3",
		"xautoclaim a g c2 3600000 1-245 count 3", "xdel a 1-1 1-3 1-5 1-250", "xautoclaim a g c2 0 - count 3 justid",
		"xautoclaim a g c2 0 - count 4", "xautoclaim a g c2 0 -", "xautoclaim a g c2 0 1-150", "xautoclaim a g c2 3600000 -",
		"xautoclaim a g c2 3600000 - count 25", "xpending a g", "xinfo groups a",
	} {
		requests = append(requests, strings.Fields(command))
	}
	theirs, ours := j.theirs.pipeline(t, requests), j.run(requests)
	for i, request := range requests {
		if !reflect.DeepEqual(theirs[i], ours[i]) {
			t.Errorf("%s:\nredis-server %v\nhere         %v", request, theirs[i], ours[i])
		}
	}
	j.compareReplay(t)
}
