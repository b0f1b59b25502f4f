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

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/e2e/sink"
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
	cut    int                          // about how many events it reads from one connection; 0 for all
	server func() *installation.Steward // the one to connect to next
	stop   context.CancelFunc

	mu       sync.Mutex
	position string
	events   []tailEvent
	opened   int
}

// follow starts a tail and waits until it has its position.
func follow(t testing.TB, path, position string, cut int, server func() *installation.Steward) *tail {
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
	req.Header.Set("Authorization", "Bearer "+s.Key)
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
func caughtUp(s *installation.Steward, path string, headers ...string) (all []tailEvent) {
	s.T.Helper()
	body := s.Call("GET", path, nil, headers...).Want(200).Body
	res := &http.Response{Body: http.NoBody}
	res.Body = nopCloser{strings.NewReader(string(body))}
	s.Must(readEvents(res, func(e tailEvent) bool {
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
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		k, h, other := sink.New(t), s.NewHook("orders"), s.NewHook("other")
		s.NewDestination(h, k.URL+"/hook")
		before := s.Ingest(other, "before")
		if shown := caughtUp(s, "/webhook/tail?follow=false&since=2026-01-01T00:00:00Z"); len(shown) != 1 {
			t.Errorf("%d events, want the one that was acknowledged", len(shown))
		}
		one := follow(t, "/webhook/tail/"+h.ID, "", 0, func() *installation.Steward { return s })
		all := follow(t, "/webhook/tail", "", 0, func() *installation.Steward { return s })
		receipts := []string{s.Ingest(h, `{"n": 1}`), s.Ingest(other, "text"), s.Ingest(h, strings.Repeat("x", 70_000))}
		one.wait("delivery", 2)
		if got := all.wait("receipt", 3); !slices.Equal(got, receipts) {
			t.Errorf("all: %v, want %v", got, receipts)
		}
		if got := one.wait("receipt", 2); !slices.Equal(got, []string{receipts[0], receipts[2]}) {
			t.Errorf("one: %v, want those of one webhook of %v", got, receipts)
		}
		for kind, path := range map[string]string{"receipt": "/webhook/receipt-list/", "delivery": "/webhook/delivery-list/"} {
			var listed []json.RawMessage
			s.Call("GET", path+h.ID, nil).Want(200).Decode(&listed)
			slices.Reverse(listed)
			for i, id := range one.seen(kind) {
				got := one.events[slices.IndexFunc(one.events, func(e tailEvent) bool { return e.key() == id })].data
				if !slices.ContainsFunc(listed, func(l json.RawMessage) bool { return string(l) == string(got) }) {
					t.Errorf("%s %d is %.200s, the list has %.300s", kind, i, got, listed)
				}
			}
		}
		since := caughtUp(s, "/webhook/tail?follow=false&since=2026-01-01T00:00:00Z")
		if len(since) != 6 || since[0].key() != before {
			t.Errorf("%d events since the beginning, want 4 receipts and 2 deliveries", len(since))
		}
		rest := caughtUp(s, "/webhook/tail?follow=false", "Last-Event-ID", since[2].id)
		if len(rest) != 3 || rest[0].id != since[3].id {
			t.Errorf("%d events after the third", len(rest))
		}
		s.Call("GET", "/webhook/tail?since=yesterday", nil).Want(422)
		s.Call("GET", "/webhook/tail", nil, "Last-Event-ID", "x").Want(422)
		s.Call("GET", "/webhook/tail/wh_none", nil).Want(404)
	})
}

// TestTailEndsWithItsRight checks that a tail does not outlive its key or its webhook, and that it
// does not keep the process from stopping.
func TestTailEndsWithItsRight(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		h := s.NewHook("orders")
		made := s.Call("POST", "/cli/apikey", object{"name": "tail"}).Want(201)
		other := s.As(made.Text("value"))
		ended := make(chan struct{})
		open := func(path string) {
			req, err := http.NewRequest("GET", s.URL+path, nil)
			s.Must(err)
			req.Header.Set("Authorization", "Bearer "+other.Key)
			res, err := installation.Client.Do(req)
			s.Must(err)
			go func() {
				defer res.Body.Close()
				_ = readEvents(res, func(tailEvent) bool { return true })
				ended <- struct{}{}
			}()
		}
		open("/webhook/tail")
		s.Call("DELETE", "/cli/apikey/"+made.Text("id"), nil).Want(204)
		waittest.Receive(t, "the end of the tail of a deleted key", ended)
		other = s
		open("/webhook/tail/" + h.ID)
		s.Stop()
		waittest.Receive(t, "the end of the tail of a stopped process", ended)
		s.Start()
	})
}

// TestStalledTailIsClosed has a client that takes nothing. The kernel buffers some megabytes of a
// connection; what comes then has to be taken within 30 s.
func TestStalledTailIsClosed(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite", "--metrics-listen", "127.0.0.1:0")
	h := s.NewHook("orders")
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	s.Must(err)
	defer conn.Close()
	s.Must(conn.(*net.TCPConn).SetReadBuffer(4096))
	_, err = fmt.Fprintf(conn, "GET /webhook/tail HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", s.Key)
	s.Must(err)
	tails := func() string {
		res, err := installation.Client.Get("http://" + s.Addresses().Listen["metrics"] + "/metrics")
		s.Must(err)
		got, err := installation.ReadResponse(t, res)
		s.Must(err)
		_, rest, _ := strings.Cut(string(got.Body), "\nsteward_webhook_open_tails ")
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	waittest.True(t, "the tail", func() bool { return tails() == "1" })
	for range 200 {
		s.Ingest(h, strings.Repeat("x", 60_000))
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
			s := installation.Start(t, name)
			servers := []*installation.Steward{s}
			if name == "postgres" {
				servers = append(servers, s.Replica())
			}
			var mu sync.Mutex // held while a process is started again
			any := func() *installation.Steward {
				mu.Lock()
				defer mu.Unlock()
				copied := *servers[rand.N(len(servers))].Steward
				return &installation.Steward{Steward: &copied, T: t, Key: s.Key}
			}
			k, h := sink.New(t), s.NewHook("orders")
			s.NewDestination(h, k.URL+"/hook", "concurrency", 50)
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
					clients = append(clients, sendLoad(to, h, fmt.Sprintf("/hook-%d-%d", round, i), 16, acked, stop))
				}
				waittest.Until(t, "events", func() (int, bool) { n := acked.size(); return n, n >= round*5000 })
				if round < 4 {
					victim.Kill()
				}
				close(stop)
				for _, c := range clients {
					c.Wait()
				}
				if round < 4 {
					mu.Lock()
					victim.Start()
					mu.Unlock()
				}
			}
			checkTails(s, h, tails, acked)
		})
	}
}

// checkTails compares what tails have shown with each other and with the stored receipts.
func checkTails(s *installation.Steward, h installation.Hook, tails []*tail, acked *acknowledged) {
	s.T.Helper()
	stored := s.Pages("/webhook/receipt-list/"+h.ID+"?limit=1000", nil)
	first := tails[0].wait("receipt", len(stored))
	for i, f := range tails {
		got := f.wait("receipt", len(stored))
		if !slices.Equal(got, first) {
			s.T.Errorf("tail %d showed %d receipts in another order than the first, which showed %d", i, len(got), len(first))
		}
	}
	got := slices.Clone(first)
	slices.Sort(got)
	slices.Sort(stored)
	if !slices.Equal(got, stored) {
		s.T.Errorf("%d receipts were shown, %d are stored", len(got), len(stored))
	}
	for receiptID := range acked.all {
		if _, found := slices.BinarySearch(got, receiptID); !found {
			s.T.Errorf("%s was acknowledged and not shown", receiptID)
		}
	}
	waitEnded(s, map[string]installation.Hook{"": h})
	ended := countDeliveries(s, h, "")
	deliveries := tails[1].wait("delivery", ended)
	slices.Sort(deliveries)
	if n := len(slices.Compact(deliveries)); n != ended || len(deliveries) != ended {
		s.T.Errorf("%d deliveries were shown %d times, %d have ended", n, len(deliveries), ended)
	}
	s.T.Logf("%d receipts and %d deliveries, over %d connections", len(first), ended, tails[1].opened)
}
