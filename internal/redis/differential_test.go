package redis

import (
	"bufio"
	"bytes"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/resource/rediskv/redistest"
)

// example is a way to draw a command for the comparison with redis-server.
type example struct {
	name string
	// draw returns the arguments behind the name.
	draw func(t *rapid.T) []string
	// same says how replies are compared; nil means that they are equal.
	same func(theirs, ours any) bool
}

// request draws a request.
func (e example) request(t *rapid.T) []string { return append(strings.Fields(e.name), e.draw(t)...) }

// examples are those of all groups of commands: each file of a group's tests has some.
func examples() []example {
	return slices.Concat(stringExamples, keyExamples, hashExamples, setExamples, listExamples, zsetExamples,
		bitmapExamples, sortExamples, hyperLogLogExamples, geoExamples, streamExamples, serverExamples)
}

// TestDifferential runs random commands on redis-server and on a store, and compares replies, keys, and
// what the log makes of them. The usual run is short and always the same. This runs 100,000 sequences of
// each group of commands, and of all together:
//
//	make redis-differential CHECKS=100000
//
// GROUP=TestStreams runs one of them, and SEED=7 draws other sequences.
func TestDifferential(t *testing.T) { compareWithRedis(t, examples()) }

// compareWithRedis runs sequences of some examples.
func compareWithRedis(t *testing.T, all []example) {
	j := newJudge(t)
	rapid.Check(t, func(rt *rapid.T) {
		j.begin(rt, rapid.SampledFrom([]int{2, 3}).Draw(rt, "protocol"))
		var steps []example
		var requests [][]string
		for range rapid.IntRange(1, 30).Draw(rt, "length") {
			e := rapid.SampledFrom(all).Draw(rt, "command")
			steps = append(steps, e)
			requests = append(requests, e.request(rt))
		}
		j.compare(rt, requests, func(i int) func(theirs, ours any) bool { return steps[i].same })
		j.compareKeys(rt)
		j.compareReplay(rt)
	})
}

// judge has a redis-server and a store. The store has no goroutine of its own, and its disk is in memory.
type judge struct {
	theirs *wire
	disk   *disk
	store  *Store
	client *Client
	// replayed is a store that reads the disk again.
	replayed *Store
}

func newJudge(t *testing.T) *judge {
	j := newLocal(t)
	j.theirs = dial(t, startRedis(t))
	return j
}

// newLocal returns a judge without a redis-server.
func newLocal(t rapid.TB) *judge {
	j := &judge{store: newStore(nil, Options{}), replayed: newStore(nil, Options{})}
	j.empty(t, 2)
	return j
}

// startRedis starts a redis-server without a password and returns the path of its socket.
func startRedis(t testing.TB) string {
	socket := filepath.Join(t.TempDir(), "redis.sock")
	redistest.Start(t, "--requirepass", "", "--unixsocket", socket)
	return socket
}

// begin empties both, and makes connections of a version of the protocol.
func (j *judge) begin(t rapid.TB, protocol int) {
	j.theirs.pipeline(t, [][]string{{"FLUSHALL"}, {"RESET"}, {"HELLO", strconv.Itoa(protocol)}})
	j.empty(t, protocol)
}

// empty makes the store one on an empty disk.
func (j *judge) empty(t rapid.TB, protocol int) {
	j.disk = newDisk(nil)
	j.load(t, j.store)
	j.client = NewClient(1, "")
	j.client.store = j.store
	j.client.out.resp3 = protocol == 3
}

// load has a store read the disk.
func (j *judge) load(t rapid.TB, s *Store) {
	s.fs = j.disk
	if err := s.load(); err != nil {
		t.Fatal(err)
	}
}

// run runs requests on the store, without a connection, in one turn.
func (j *judge) run(requests [][]string) []any {
	var replies []any
	j.store.runTurn(nil, []job{{run: func() {
		for _, args := range requests {
			j.store.execute(j.client, args)
			reply, err := readReply(bufio.NewReader(bytes.NewReader(j.client.out.b)))
			if err != nil {
				reply = fmt.Sprintf("%q: %v", j.client.out.b, err)
			}
			replies = append(replies, reply)
			j.client.out.b = j.client.out.b[:0]
		}
	}}})
	return replies
}

// compare runs requests on both and compares the replies, with a function for each; nil means that they are
// equal.
func (j *judge) compare(t rapid.TB, requests [][]string, same func(i int) func(theirs, ours any) bool) {
	theirs, ours := j.theirs.pipeline(t, requests), j.run(requests)
	for i, request := range requests {
		equal := same(i)
		if equal == nil {
			equal = reflect.DeepEqual
		}
		if !equal(theirs[i], ours[i]) {
			t.Fatalf("%q:\nredis-server %#v\nhere         %#v", request, theirs[i], ours[i])
		}
	}
}

// contents are the commands that read the values of each type.
var contents = map[kind]struct {
	before, after []string
	same          func(theirs, ours any) bool
}{
	kindString: {before: []string{"get"}},
	kindList:   {before: []string{"lrange"}, after: []string{"0", "-1"}},
	kindSet:    {before: []string{"smembers"}, same: anyOrder},
	kindZSet:   {before: []string{"zrange"}, after: []string{"0", "-1", "withscores"}},
	kindHash:   {before: []string{"hgetall"}, same: anyPairs},
	kindStream: {before: []string{"xinfo", "stream"}, after: []string{"full", "count", "0"}, same: sameTimes},
}

// compareKeys compares the keys of both: their names, when they expire, their types and values.
func (j *judge) compareKeys(t rapid.TB) {
	requests := [][]string{{"keys", "*"}}
	same := []func(theirs, ours any) bool{anyOrder}
	j.store.keys.entries.All(func(e *entry) bool {
		if e.expired(j.store.now()) {
			return true
		}
		read := contents[e.value.kind()]
		requests = append(requests, []string{"pexpiretime", e.key}, []string{"object", "encoding", e.key},
			slices.Concat(read.before, []string{e.key}, read.after))
		if e.key == distancesKey {
			read.same = sameDistances
		}
		same = append(same, about, sameEncoding, read.same)
		return true
	})
	j.compare(t, requests, func(i int) func(theirs, ours any) bool { return same[i] })
}

// sameEncoding compares encodings with those of Redis 7.0, which has no short lists and sets in listpacks.
func sameEncoding(theirs, ours any) bool {
	return reflect.DeepEqual(theirs, ours) || ours == "listpack" && (theirs == "quicklist" || theirs == "hashtable")
}

// compareReplay compares the keys of the store with those that its log makes.
func (j *judge) compareReplay(t rapid.TB) {
	j.load(t, j.replayed)
	if want, got := valuesOf(j.store), valuesOf(j.replayed); !reflect.DeepEqual(want, got) {
		t.Fatalf("the log makes other keys:\nwant %q\ngot  %q", want, got)
	}
}

// TestLogOfRareRequests compares what the log makes of requests that long runs found.
func TestLogOfRareRequests(t *testing.T) {
	for _, requests := range [][]string{
		{"rpush a x", "pexpireat a 99999999999999", "lmove a a left right"},
		{"xgroup create a g 0 mkstream entriesread 9223372036854775807", "xadd a 1 f v", "xreadgroup group g c streams a >"},
		{"zadd a 1 m", "sort a by nosort", "zadd a -0 n"},
		{"pfadd a x y", "pfcount a", "pfadd a z", "pfcount a"},
	} {
		j := newLocal(t)
		for _, request := range requests {
			if reply, failed := j.run([][]string{strings.Fields(request)})[0].(failure); failed {
				t.Errorf("%s: %s", request, reply)
			}
		}
		j.compareReplay(t)
	}
}

// dumps returns the values of all keys of a store that runs.
func dumps(s *Store) map[string]string {
	var all map[string]string
	_ = s.do(func() { all = valuesOf(s) })
	return all
}

// valuesOf returns the values of all keys that have not expired.
func valuesOf(s *Store) map[string]string {
	all := map[string]string{}
	s.keys.entries.All(func(e *entry) bool {
		if !e.expired(s.now() + 100) {
			all[e.key] = strconv.FormatInt(e.expires, 10) + " " + string(dump(e.value))
		}
		return true
	})
	return all
}
