package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// sizeOfAllNames adds up what the store remembers for its clients.
func sizeOfAllNames(s *Store) int64 {
	var size int64
	for c := range s.clients {
		for _, names := range []map[string]bool{c.channels, c.patterns, c.shards, c.watching, c.tracked} {
			for name := range names {
				size += sizeOfNames([]string{name})
			}
		}
		size += sizeOfNames(c.tracking.prefixes)
	}
	return size
}

// TestNamesAreCounted compares the size of names with what there is after each of many requests.
func TestNamesAreCounted(t *testing.T) {
	name := oneOf("a", "bb", "ccc", "dddd")
	all := []example{
		{name: "subscribe", draw: words(name, name)},
		{name: "unsubscribe", draw: words(name)},
		{name: "unsubscribe", draw: words()},
		{name: "psubscribe", draw: words(name, name)},
		{name: "punsubscribe", draw: words(name, name)},
		{name: "ssubscribe", draw: words(name)},
		{name: "sunsubscribe", draw: words()},
		{name: "watch", draw: words(name, name, name)},
		{name: "unwatch", draw: words()},
		{name: "multi", draw: words()},
		{name: "exec", draw: words()},
		{name: "discard", draw: words()},
		{name: "client", draw: words(oneOf("tracking"), oneOf("on", "off"))},
		{name: "client", draw: words(oneOf("tracking"), oneOf("on"), oneOf("bcast"), oneOf("prefix"), name, oneOf("prefix"), name)},
		{name: "client", draw: words(oneOf("tracking"), oneOf("on"), oneOf("bcast"))},
		{name: "get", draw: words(name)},
		{name: "set", draw: words(name, name)},
		{name: "del", draw: words(name)},
		{name: "flushall", draw: words()},
		{name: "reset", draw: words()},
	}
	rapid.Check(t, func(rt *rapid.T) {
		s := newStore(newDisk(nil), Options{Memory: rapid.SampledFrom([]int64{1 << 20, 6 * namesShare * nameOverhead}).Draw(rt, "memory")})
		if err := s.load(); err != nil {
			rt.Fatal(err)
		}
		r := &runner{t: rt, store: s}
		clients := []*Client{r.client(1), r.client(2), r.client(3)}
		for range rapid.IntRange(1, 60).Draw(rt, "length") {
			c := rapid.SampledFrom(clients).Draw(rt, "client")
			c.out.resp3 = true
			r.submit(c, rapid.SampledFrom(all).Draw(rt, "command").request(rt))
			c.outbox = nil
			if want := sizeOfAllNames(s); s.names.size != want || want > s.options.Memory/namesShare {
				rt.Fatalf("names take %d bytes of %d, but %d are counted", want, s.options.Memory/namesShare, s.names.size)
			}
		}
		for _, c := range clients {
			s.leave(c)
		}
		if s.names.size != 0 {
			rt.Fatalf("%d bytes are left", s.names.size)
		}
	})
}

// TestNamesTakeBoundedMemory has clients subscribe, watch and set prefixes until that is refused. Keys that another client
// has read make room for them.
func TestNamesTakeBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
	long := strings.Repeat("x", 3<<20)
	for what, request := range map[string]func(i int) []string{
		"channels": func(i int) []string { return []string{"SUBSCRIBE", fmt.Sprint(long, i)} },
		"patterns": func(i int) []string { return []string{"PSUBSCRIBE", fmt.Sprint(long, i)} },
		"shards":   func(i int) []string { return []string{"SSUBSCRIBE", fmt.Sprint(long, i)} },
		"keys":     func(i int) []string { return []string{"WATCH", fmt.Sprint(long, i)} },
	} {
		t.Run(what, func(t *testing.T) {
			r := newRunner(t)
			c, reader := r.client(1), r.client(2)
			c.out.resp3, reader.out.resp3 = true, true
			r.expect(reader, "CLIENT TRACKING ON", simple("OK"))
			for i := range 20 {
				r.run(reader, fmt.Sprint("GET ", long, i))
			}
			r.messages(reader)
			n := 0
			for ; n < 100; n++ {
				r.submit(c, request(n))
				if reply := r.received(c); reply == failure(errNames) {
					break
				}
			}
			if n != 10 {
				t.Errorf("%d were accepted, want 10", n)
			}
			if left := len(reader.tracked); left != 0 {
				t.Errorf("%d keys are tracked", left)
			}
			if got := len(r.messages(reader)); got != 10 {
				t.Errorf("the reader has %d messages, want 10", got)
			}
			r.expect(r.client(3), "GET k", nil)
			r.store.leave(c)
			r.submit(reader, request(0))
			if reply := r.received(reader); reply == failure(errNames) {
				t.Error("refused when there is memory again")
			}
		})
	}
}

// TestPrefixesTakeBoundedMemory has as many clients as a store may have set as many prefixes as they may.
func TestPrefixesTakeBoundedMemory(t *testing.T) {
	r := newRunner(t)
	request := []string{"CLIENT", "TRACKING", "ON", "BCAST"}
	for i := range maxPrefixes {
		request = append(request, "PREFIX", fmt.Sprintf("%02d%s", i, strings.Repeat("x", maxPrefix-2)))
	}
	accepted := 0
	for id := range 1875 {
		c := r.client(int64(id))
		r.submit(c, request)
		if r.received(c) == simple("OK") {
			accepted++
		}
	}
	if limit := r.store.options.Memory / namesShare; r.store.names.size > limit || accepted < 100 {
		t.Errorf("%d clients have prefixes of %d bytes", accepted, r.store.names.size)
	}
}

func TestNamesOfClientsAreShort(t *testing.T) {
	r := newRunner(t)
	c := r.client(1)
	long := strings.Repeat("x", maxName+1)
	for _, request := range []string{"CLIENT SETNAME ", "CLIENT SETINFO lib-name ", "CLIENT SETINFO lib-ver ", "HELLO 3 SETNAME "} {
		if reply, failed := r.run(c, request+long).(failure); !failed || !strings.Contains(string(reply), "cannot be longer than 1024 bytes") {
			t.Errorf("%s: %v", request, reply)
		}
		if reply, failed := r.run(c, request+long[1:]).(failure); failed {
			t.Errorf("%s of the longest: %v", request, reply)
		}
	}
}

// TestChangesOfOneRequestTakeBoundedMemory has scripts and transactions that change much more than there is room for. What
// they have changed until they are refused is kept.
func TestChangesOfOneRequestTakeBoundedMemory(t *testing.T) {
	value := strings.Repeat("x", 1<<20)
	for what, requests := range map[string][][]string{
		"script":                  {{"EVAL", "for i = 1, 200 do redis.call('set', 'k', ARGV[1] .. i) redis.call('incr', 'n') end", "0", value}},
		"script that catches":     {{"EVAL", "for i = 1, 200 do redis.pcall('set', 'k', ARGV[1] .. i) redis.pcall('incr', 'n') end", "0", value}},
		"script with a long name": {{"EVAL", "redis.call('set', ARGV[1], '') for i = 1, 200 do redis.call('expire', ARGV[1], 100 + i) redis.call('incr', 'n') end", "0", value}},
		"transaction": append(append([][]string{{"RPUSH", "list", value}, {"MULTI"}}, twoHundred([]string{"COPY", "list", "k", "REPLACE"}, []string{"INCR", "n"})...),
			[]string{"EXEC"}),
	} {
		t.Run(what, func(t *testing.T) {
			dir := Dir(t.TempDir())
			s := open(t, dir, Options{ScriptTime: time.Hour}) // for a busy machine
			w := dial(t, serve(t, s))
			w.pipeline(t, requests)
			n, _ := w.pipeline(t, [][]string{{"GET", "n"}})[0].(string)
			if n != "30" && n != "31" && n != "32" {
				t.Errorf("%s changes were kept", n)
			}
			want := dumps(s)
			if size := s.log.size; size > longFrame+8<<20 {
				t.Errorf("the log has %d bytes", size)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, Options{})
			if fmt.Sprint(dumps(s)) != fmt.Sprint(want) {
				t.Error("the log makes other keys")
			}
			expectReplies(t, dial(t, serve(t, s)), [][]string{{"SET", "after", "1"}}, "OK")
		})
	}
}

// twoHundred repeats requests 200 times.
func twoHundred(requests ...[]string) [][]string {
	var all [][]string
	for range 200 {
		all = append(all, requests...)
	}
	return all
}
