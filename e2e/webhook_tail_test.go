package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/e2e/process"
	"steward/internal/waittest"
)

// tailEvent is an event of a tail.
type tailEvent struct {
	id, kind string
	data     json.RawMessage
}

// key returns the id of the receipt or delivery.
func (e tailEvent) key() string {
	var object struct{ ID string }
	_ = json.Unmarshal(e.data, &object) // an empty id fails the test
	return object.ID
}

// tail follows a tail as a client does: it reconnects with the id of the last event whenever the
// connection ends, which it also does itself every now and then.
type tail struct {
	t      testing.TB
	path   string
	cut    int             // about how many events it reads from one connection; 0 for all
	server func() *steward // the one to connect to next
	stop   context.CancelFunc

	mu       sync.Mutex
	position string
	events   []tailEvent
	opened   int
}

// follow starts a tail and waits until it has its position.
func follow(t testing.TB, path, position string, cut int, server func() *steward) *tail {
	ctx, stop := context.WithCancel(context.Background())
	f := &tail{t: t, path: path, position: position, cut: cut, server: server, stop: stop}
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			if err := f.connect(ctx); err != nil {
				time.Sleep(10 * time.Millisecond) // the process is being started again
			}
		}
	})
	t.Cleanup(func() { stop(); group.Wait() })
	waittest.True(t, "the beginning of "+path, func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.position != "" })
	return f
}

// connect reads one connection.
func (f *tail) connect(ctx context.Context) error {
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	s := f.server()
	req, err := http.NewRequestWithContext(ctx, "GET", s.URL+f.path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	f.mu.Lock()
	if f.position != "" {
		req.Header.Set("Last-Event-ID", f.position)
	}
	f.mu.Unlock()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != 200 {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	left := -1
	if f.cut > 0 {
		left = 1 + rand.N(2*f.cut)
	}
	return readEvents(res, func(e tailEvent) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.position = e.id
		if e.kind == "" {
			f.opened++
			return true
		}
		f.events = append(f.events, e)
		left--
		return left != 0
	})
}

// readEvents reads server-sent events until next returns false.
func readEvents(res *http.Response, next func(e tailEvent) bool) error {
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	var e tailEvent
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.kind = value
		case "data":
			e.data = json.RawMessage(value)
		case "":
			if e.id != "" && !next(e) {
				return nil
			}
			e = tailEvent{}
		}
	}
	return lines.Err()
}

// seen returns the ids of the receipts or deliveries, in order.
func (f *tail) seen(kind string) (ids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.events {
		if e.kind == kind {
			ids = append(ids, e.key())
		}
	}
	return ids
}

// wait waits until so many events of a kind were read.
func (f *tail) wait(kind string, n int) []string {
	f.t.Helper()
	waittest.Until(f.t, fmt.Sprintf("%d events of %s", n, f.path), func() (int, bool) {
		got := len(f.seen(kind))
		return got, got >= n
	})
	return f.seen(kind)
}

// caughtUp reads a tail up to its present end.
func (s *steward) caughtUp(path string, headers ...string) (all []tailEvent) {
	s.t.Helper()
	body := s.call("GET", path, nil, headers...).want(200).body
	res := &http.Response{Body: http.NoBody}
	res.Body = nopCloser{strings.NewReader(string(body))}
	s.must(readEvents(res, func(e tailEvent) bool {
		if e.kind != "" {
			all = append(all, e)
		}
		return true
	}))
	return all
}

type nopCloser struct{ *strings.Reader }

func (nopCloser) Close() error { return nil }

func TestTailShowsReceiptsAndDeliveriesAsListsDo(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h, other := newSink(t), s.hook("orders"), s.hook("other")
		s.destination(h, k.URL+"/hook")
		before := s.ingest(other, "before")
		if shown := s.caughtUp("/webhook/tail?follow=false&since=2026-01-01T00:00:00Z"); len(shown) != 1 {
			t.Errorf("%d events, want the one that was acknowledged", len(shown))
		}
		one := follow(t, "/webhook/tail/"+h.ID, "", 0, func() *steward { return s })
		all := follow(t, "/webhook/tail", "", 0, func() *steward { return s })
		receipts := []string{s.ingest(h, `{"n": 1}`), s.ingest(other, "text"), s.ingest(h, strings.Repeat("x", 70_000))}
		one.wait("delivery", 2)
		if got := all.wait("receipt", 3); !slices.Equal(got, receipts) {
			t.Errorf("all: %v, want %v", got, receipts)
		}
		if got := one.wait("receipt", 2); !slices.Equal(got, []string{receipts[0], receipts[2]}) {
			t.Errorf("one: %v, want those of one webhook of %v", got, receipts)
		}
		for kind, path := range map[string]string{"receipt": "/webhook/receipt-list/", "delivery": "/webhook/delivery-list/"} {
			var listed []json.RawMessage
			s.call("GET", path+h.ID, nil).want(200).decode(&listed)
			slices.Reverse(listed)
			for i, id := range one.seen(kind) {
				got := one.events[slices.IndexFunc(one.events, func(e tailEvent) bool { return e.key() == id })].data
				if !slices.ContainsFunc(listed, func(l json.RawMessage) bool { return string(l) == string(got) }) {
					t.Errorf("%s %d is %.200s, the list has %.300s", kind, i, got, listed)
				}
			}
		}
		since := s.caughtUp("/webhook/tail?follow=false&since=2026-01-01T00:00:00Z")
		if len(since) != 6 || since[0].key() != before {
			t.Errorf("%d events since the beginning, want 4 receipts and 2 deliveries", len(since))
		}
		rest := s.caughtUp("/webhook/tail?follow=false", "Last-Event-ID", since[2].id)
		if len(rest) != 3 || rest[0].id != since[3].id {
			t.Errorf("%d events after the third", len(rest))
		}
		s.call("GET", "/webhook/tail?since=yesterday", nil).want(422)
		s.call("GET", "/webhook/tail", nil, "Last-Event-ID", "x").want(422)
		s.call("GET", "/webhook/tail/wh_none", nil).want(404)
	})
}

// TestTailEndsWithItsRight checks that a tail does not outlive its key or its webhook, and that it
// does not keep the process from stopping.
func TestTailEndsWithItsRight(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		h := s.hook("orders")
		made := s.call("POST", "/cli/apikey", object{"name": "tail"}).want(201)
		other := s.as(made.text("value"))
		ended := make(chan struct{})
		open := func(path string) {
			req, err := http.NewRequest("GET", s.URL+path, nil)
			s.must(err)
			req.Header.Set("Authorization", "Bearer "+other.key)
			res, err := client.Do(req)
			s.must(err)
			go func() {
				defer res.Body.Close()
				_ = readEvents(res, func(tailEvent) bool { return true })
				ended <- struct{}{}
			}()
		}
		open("/webhook/tail")
		s.call("DELETE", "/cli/apikey/"+made.text("id"), nil).want(204)
		waittest.Receive(t, "the end of the tail of a deleted key", ended)
		other = s
		open("/webhook/tail/" + h.ID)
		s.stop()
		waittest.Receive(t, "the end of the tail of a stopped process", ended)
		s.start()
	})
}

// TestStalledTailIsClosed has a client that takes nothing. The kernel buffers some megabytes of a
// connection; what comes then has to be taken within 30 s.
func TestStalledTailIsClosed(t *testing.T) {
	t.Parallel()
	s := start(t, "sqlite", "--metrics-listen", "127.0.0.1:0")
	h := s.hook("orders")
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	s.must(err)
	defer conn.Close()
	s.must(conn.(*net.TCPConn).SetReadBuffer(4096))
	_, err = fmt.Fprintf(conn, "GET /webhook/tail HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", s.key)
	s.must(err)
	tails := func() string {
		res, err := client.Get("http://" + s.addresses().Listen["metrics"] + "/metrics")
		s.must(err)
		got, err := read(t, res)
		s.must(err)
		_, rest, _ := strings.Cut(string(got.body), "\nsteward_webhook_open_tails ")
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	waittest.True(t, "the tail", func() bool { return tails() == "1" })
	for range 200 {
		s.ingest(h, strings.Repeat("x", 60_000))
	}
	waittest.True(t, "the end of the tail", func() bool { return tails() == "0" })
}

// TestTailMissesNothing sends 20,000 events while processes are killed and tails reconnect, on
// PostgreSQL to another of two replicas each time. Every tail must show each receipt once, in the
// same order.
func TestTailMissesNothing(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			s := start(t, name)
			servers := []*steward{s}
			if name == "postgres" {
				servers = append(servers, s.replica())
			}
			var mu sync.Mutex // held while a process is started again
			any := func() *steward {
				mu.Lock()
				defer mu.Unlock()
				copied := *servers[rand.N(len(servers))].Steward
				return &steward{Steward: &copied, t: t, key: s.key}
			}
			k, h := newSink(t), s.hook("orders")
			s.destination(h, k.URL+"/hook", "concurrency", 50)
			tails := []*tail{
				follow(t, "/webhook/tail", "", 0, any), follow(t, "/webhook/tail", "", 300, any),
				follow(t, "/webhook/tail/"+h.ID, "", 1500, any), follow(t, "/webhook/tail/"+h.ID, "", 0, any),
			}
			acked := newAcknowledged()
			victim := servers[len(servers)-1]
			for round := 1; round <= 4; round++ {
				stop := make(chan struct{})
				var clients []*sync.WaitGroup
				for i, to := range servers {
					clients = append(clients, to.load(h, fmt.Sprintf("/hook-%d-%d", round, i), 16, acked, stop))
				}
				waittest.Until(t, "events", func() (int, bool) { n := acked.size(); return n, n >= round*5000 })
				if round < 4 {
					victim.kill()
				}
				close(stop)
				for _, c := range clients {
					c.Wait()
				}
				if round < 4 {
					mu.Lock()
					victim.start()
					mu.Unlock()
				}
			}
			s.checkTails(h, tails, acked)
		})
	}
}

// checkTails compares what tails have shown with each other and with the stored receipts.
func (s *steward) checkTails(h hook, tails []*tail, acked *acknowledged) {
	s.t.Helper()
	stored := s.pages("/webhook/receipt-list/"+h.ID+"?limit=1000", nil)
	first := tails[0].wait("receipt", len(stored))
	for i, f := range tails {
		got := f.wait("receipt", len(stored))
		if !slices.Equal(got, first) {
			s.t.Errorf("tail %d showed %d receipts in another order than the first, which showed %d", i, len(got), len(first))
		}
	}
	got := slices.Clone(first)
	slices.Sort(got)
	slices.Sort(stored)
	if !slices.Equal(got, stored) {
		s.t.Errorf("%d receipts were shown, %d are stored", len(got), len(stored))
	}
	for receiptID := range acked.all {
		if _, found := slices.BinarySearch(got, receiptID); !found {
			s.t.Errorf("%s was acknowledged and not shown", receiptID)
		}
	}
	s.waitEnded(map[string]hook{"": h})
	ended := s.countDeliveries(h, "")
	deliveries := tails[1].wait("delivery", ended)
	slices.Sort(deliveries)
	if n := len(slices.Compact(deliveries)); n != ended || len(deliveries) != ended {
		s.t.Errorf("%d deliveries were shown %d times, %d have ended", n, len(deliveries), ended)
	}
	s.t.Logf("%d receipts and %d deliveries, over %d connections", len(first), ended, tails[1].opened)
}
