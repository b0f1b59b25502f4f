package installation

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/internal/waittest"
)

// TailEvent is an event in a tail.
type TailEvent struct {
	ID, kind string
	Data     json.RawMessage
}

// Key returns the receipt's or delivery's id.
func (e TailEvent) Key() string {
	var object struct{ ID string }
	_ = json.Unmarshal(e.Data, &object) // an empty id fails the test
	return object.ID
}

// Tail follows a tail as a client does: whenever the connection ends, it reconnects with the last event's
// id. Now and then it ends the connection itself.
type Tail struct {
	t      testing.TB
	path   string
	cut    int             // about how many events it reads from one connection; 0 for all
	server func() *Steward // picks the next one to connect to
	stop   context.CancelFunc

	mu       sync.Mutex
	position string
	Events   []TailEvent
	opened   int
}

// Follow starts a tail and waits until it has its position.
func Follow(t testing.TB, path, position string, cut int, server func() *Steward) *Tail {
	ctx, stop := context.WithCancel(context.Background())
	f := &Tail{t: t, path: path, position: position, cut: cut, server: server, stop: stop}
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			if err := f.connect(ctx); err != nil {
				time.Sleep(10 * time.Millisecond) // the process is restarting
			}
		}
	})
	t.Cleanup(func() { stop(); group.Wait() })
	waittest.True(t, "the beginning of "+path, func() bool { f.mu.Lock(); defer f.mu.Unlock(); return f.position != "" })
	return f
}

// connect reads one connection.
func (f *Tail) connect(ctx context.Context) error {
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
	return ReadEvents(res.Body, func(e TailEvent) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.position = e.ID
		if e.kind == "" {
			f.opened++
			return true
		}
		f.Events = append(f.Events, e)
		left--
		return left != 0
	})
}

// ReadEvents reads server-sent events until next returns false.
func ReadEvents(stream io.Reader, next func(e TailEvent) bool) error {
	lines := bufio.NewScanner(stream)
	lines.Buffer(nil, 1<<20)
	var e TailEvent
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			e.ID = value
		case "event":
			e.kind = value
		case "data":
			e.Data = json.RawMessage(value)
		case "":
			if e.ID != "" && !next(e) {
				return nil
			}
			e = TailEvent{}
		}
	}
	return lines.Err()
}

// Seen returns the ids of the receipts or deliveries, in order.
func (f *Tail) Seen(kind string) (ids []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.Events {
		if e.kind == kind {
			ids = append(ids, e.Key())
		}
	}
	return ids
}

// Wait waits until the tail has shown at least n events of a kind.
func (f *Tail) Wait(kind string, n int) []string {
	f.t.Helper()
	waittest.Until(f.t, fmt.Sprintf("%d events of %s", n, f.path), func() (int, bool) {
		got := len(f.Seen(kind))
		return got, got >= n
	})
	return f.Seen(kind)
}

// CaughtUp reads a tail up to its present end.
func (s *Steward) CaughtUp(path string, headers ...string) (all []TailEvent) {
	s.T.Helper()
	body := s.Call("GET", path, nil, headers...).Want(200).Body
	s.Must(ReadEvents(bytes.NewReader(body), func(e TailEvent) bool {
		if e.kind != "" {
			all = append(all, e)
		}
		return true
	}))
	return all
}

// CheckTails compares the events that the tails have shown with each other and with the stored receipts.
func (s *Steward) CheckTails(h Hook, tails []*Tail, acked *Acknowledged) {
	s.T.Helper()
	stored := s.Pages("/webhook/receipt-list/"+h.ID+"?limit=1000", nil)
	first := tails[0].Wait("receipt", len(stored))
	for i, f := range tails {
		got := f.Wait("receipt", len(stored))
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
	for receiptID := range acked.All {
		if _, found := slices.BinarySearch(got, receiptID); !found {
			s.T.Errorf("%s was acknowledged and not shown", receiptID)
		}
	}
	s.WaitEnded(map[string]Hook{"": h})
	ended := s.CountDeliveries(h, "")
	deliveries := tails[1].Wait("delivery", ended)
	slices.Sort(deliveries)
	if n := len(slices.Compact(deliveries)); n != ended || len(deliveries) != ended {
		s.T.Errorf("%d deliveries were shown %d times, %d have ended", n, len(deliveries), ended)
	}
	s.T.Logf("%d receipts and %d deliveries, over %d connections", len(first), ended, tails[1].opened)
}
