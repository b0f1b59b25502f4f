package redis

import (
	"bufio"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/resource/rediskv/redistest"
)

// TestEventsOfKeys compares what subscribers are told of the keys that random commands change.
func TestEventsOfKeys(t *testing.T) {
	server := redistest.Start(t)
	theirs := dial(t, server.Addr)
	listener := dial(t, server.Addr)
	for _, w := range []*wire{theirs, listener} {
		w.pipeline(t, [][]string{{"AUTH", redistest.Password}})
	}
	listener.pipeline(t, [][]string{{"PSUBSCRIBE", "__key*"}})
	theirs.pipeline(t, [][]string{{"CONFIG", "SET", "notify-keyspace-events", "KEAn"}})
	store := open(t, Dir(t.TempDir()), Options{})
	all := examples()
	rapid.Check(t, func(rt *rapid.T) {
		var requests [][]string
		for range rapid.IntRange(1, 10).Draw(rt, "length") {
			e := rapid.SampledFrom(all).Draw(rt, "command")
			requests = append(requests, append(strings.Fields(e.name), e.draw(rt)...))
		}
		want := eventsOfRedis(rt, theirs, listener, requests)
		got := eventsHere(rt, store, requests)
		for i := range requests {
			if !reflect.DeepEqual(want[i], got[i]) {
				rt.Fatalf("%q of %q:\nredis-server %q\nhere         %q", requests[i], requests, want[i], got[i])
			}
		}
	})
}

// eventsOfRedis runs requests on redis-server, and returns the messages that a subscriber received for each.
func eventsOfRedis(t rapid.TB, w, listener *wire, requests [][]string) [][]string {
	all := [][]string{{"FLUSHALL"}, {"PUBLISH", "__keymark", "begin"}}
	for i, args := range requests {
		all = append(all, args, []string{"PUBLISH", "__keymark", strconv.Itoa(i)})
	}
	w.pipeline(t, all)
	readEvents(t, listener.in)
	var events [][]string
	for range requests {
		events = append(events, readEvents(t, listener.in))
	}
	return events
}

// readEvents returns the messages up to the next mark, but for those of keys that have expired, which come at any
// time.
func readEvents(t rapid.TB, in *bufio.Reader) []string {
	var events []string
	for {
		reply, err := readReply(in)
		if err != nil {
			t.Fatal(err)
		}
		message := reply.([]any)
		channel, text := message[2].(string), message[3].(string)
		switch {
		case channel == "__keymark":
			return events
		case text != "expired" && channel != "__keyevent@0__:expired":
			events = append(events, channel+" "+text)
		}
	}
}

// eventsHere is eventsOfRedis for a store.
func eventsHere(t rapid.TB, s *Store, requests [][]string) [][]string {
	var events [][]string
	c, listener := NewClient(1, ""), NewClient(2, "")
	c.store = s
	listener.store = s
	_ = s.do(func() {
		s.execute(c, []string{"FLUSHALL"})
		s.execute(c, []string{"CONFIG", "SET", "notify-keyspace-events", "KEAn"})
		s.execute(listener, []string{"PSUBSCRIBE", "__key*"})
		for _, args := range requests {
			listener.out.b = nil
			s.execute(c, slices.Clone(args))
			s.execute(c, []string{"PUBLISH", "__keymark", ""})
			events = append(events, readEvents(t, bufio.NewReader(strings.NewReader(string(listener.out.b)))))
		}
		s.leave(listener)
	})
	return events
}

// TestEventsOfExpiredEvictedAndMissingKeys is about events that no command of a client causes by a change.
func TestEventsOfExpiredEvictedAndMissingKeys(t *testing.T) {
	r := newRunner(t)
	c, listener := r.client(1), r.client(2)
	r.expect(c, "CONFIG SET notify-keyspace-events Exem", simple("OK"))
	r.expect(listener, "PSUBSCRIBE *", []any{"psubscribe", "*", int64(1)})

	r.expect(c, "GET a", nil)
	r.expect(c, "SET a 1 PX 100", simple("OK"))
	r.now = r.now.Add(time.Second)
	r.store.expireSome(1)
	r.expect(c, "SET b 1", simple("OK"))
	r.expect(c, "CONFIG SET maxmemory 1 maxmemory-policy allkeys-lru", simple("OK"))
	for _, want := range []string{"keymiss a", "expired a", "evicted b"} {
		message, ok := r.received(listener).([]any)
		if !ok {
			t.Fatalf("no message about %s", want)
		}
		wantReply(t, "message", message[2].(string)+" "+message[3].(string), "__keyevent@0__:"+want)
	}
}
