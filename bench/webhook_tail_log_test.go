//go:build bench

package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"steward/internal/db"
	"steward/internal/waittest"
	"steward/internal/webhook/eventlog"
)

// TestTailLog sends BENCH_EVENTS events, 50,000 by default, while processes are killed and tails
// reconnect, on PostgreSQL to another of two replicas each time. Every tail must show each receipt once,
// in the order of the log, which must be that in which each client sent them.
func TestTailLog(t *testing.T) {
	events := envInt(t, "BENCH_EVENTS", 50_000)
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in := install(t, database)
		h := in.hook()
		c := &tailCluster{t: t, hook: h, servers: in.replicas(), want: int64(events)}
		tails := []*tailReader{
			c.tail("/webhook/tail", 0), c.tail("/webhook/tail", events/100), c.tail("/webhook/tail/"+h.id, events/10),
		}
		began := time.Now()
		var clients sync.WaitGroup
		for n := range clientsPerTail {
			clients.Go(func() { c.send(n) })
		}
		c.killInTurn()
		clients.Wait()
		sent := time.Since(began)
		stored := c.stored()
		late := c.tail("/webhook/tail?since=2026-01-01T00:00:00Z", 0) // was offline all the time
		for i, r := range append(tails, late) {
			r.wait(len(stored))
			fmt.Printf("%s: tail %d had %d events %.0f s after the first was sent, over %d connections\n",
				database, i, r.size(), time.Since(began).Seconds(), r.opened.Load())
			r.stop()
			r.compare(stored)
		}
		c.checkOrder(tails[0])
		fmt.Printf("%s: %d events were sent in %.0f s, over %d kills; %d are stored\n", database, c.acked.Load(), sent.Seconds(), tailKills,
			len(stored))
	})
}

const (
	// clientsPerTail is the number of clients that send at the same time.
	clientsPerTail = 32
	// tailKills is how many times a process is killed.
	tailKills = 6
)

// tailCluster is what the clients and the tails of TestTailLog share.
type tailCluster struct {
	t       *testing.T
	hook    hook
	servers []*installation
	want    int64
	acked   atomic.Int64
	sent    [clientsPerTail][]bool // by client: which of its events were acknowledged

	mu sync.Mutex // held while a process is started again
}

// any returns the address of one of the servers, and the key to use it with.
func (c *tailCluster) any() (address, key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.servers[rand.N(len(c.servers))]
	return s.address, s.Key
}

// send sends one event after the other until there are enough, and connects anew when a process is gone.
// The number of an event tells its client and its place.
func (c *tailCluster) send(client int) {
	template := request("POST", c.hook.path, "", newEvent())
	for c.acked.Load() < c.want {
		address, _ := c.any()
		_, _ = plainHTTP.client(address, time.Now().Add(time.Hour), func(i int) []byte { // fails when the process is killed
			if i > 0 { // the one before it was acknowledged
				c.sent[client][len(c.sent[client])-1] = true
				c.acked.Add(1)
			}
			if c.acked.Load() >= c.want {
				return nil
			}
			mark(template, int64(len(c.sent[client])*clientsPerTail+client), time.Now())
			c.sent[client] = append(c.sent[client], false)
			return template
		})
	}
}

// killInTurn kills processes, one after the other, and starts them again.
func (c *tailCluster) killInTurn() {
	for round := 1; round <= tailKills; round++ {
		enough := c.want * int64(round) / (tailKills + 1)
		waittest.Until(c.t, fmt.Sprintf("%d events", enough), func() (int64, bool) { n := c.acked.Load(); return n, n >= enough })
		victim := c.servers[round%len(c.servers)]
		c.mu.Lock()
		victim.Kill()
		victim.start()
		c.mu.Unlock()
	}
}

// stored stops the servers and returns the receipts in the order of the log. Those of the log must be
// those of the table.
func (c *tailCluster) stored() (order []ulid.ULID) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.servers {
		s.Stop()
	}
	in := c.servers[0]
	d, err := db.Open(c.t.Context(), db.Options{URL: in.Database, Path: filepath.Join(in.Dir, "steward.db")})
	in.Must(err)
	q := d.Read(c.t.Context())
	for page := (eventlog.Page{More: true}); page.More; {
		page, err = eventlog.After(q, in.orgID, "", page.End)
		in.Must(err)
		for _, e := range page.Events {
			order = append(order, ulid.MustParseStrict(e.Key[len(e.Key)/2:]))
		}
	}
	rows, err := db.Collect(q, func(row db.Row) (id ulid.ULID, err error) {
		var key string
		if err := row.Scan(&key); err != nil {
			return id, err
		}
		return ulid.ParseStrict(key[len(key)/2:])
	}, `SELECT key FROM webhook_receipts ORDER BY key`)
	in.Must(err)
	in.Must(d.Close())
	if !slices.Equal(slices.SortedFunc(slices.Values(order), ulid.ULID.Compare), rows) {
		c.t.Errorf("the log has %d receipts, the table %d", len(order), len(rows))
	}
	for _, s := range c.servers {
		s.start()
	}
	return order
}

// checkOrder compares what a tail has shown with what clients have sent: an event comes before those that
// its client sent after it was acknowledged.
func (c *tailCluster) checkOrder(r *tailReader) {
	c.t.Helper()
	shown := make([]int, clientsPerTail) // by client: how many of its events were acknowledged and shown
	last := slices.Repeat([]int{-1}, clientsPerTail)
	for _, number := range r.numbers {
		client, place := int(number)%clientsPerTail, int(number)/clientsPerTail
		if !c.sent[client][place] {
			continue // whether it was stored was left open
		}
		if place <= last[client] {
			c.t.Errorf("event %d of client %d was shown after event %d", place, client, last[client])
		}
		last[client] = place
		shown[client]++
	}
	for client, sent := range c.sent {
		acked := len(slices.DeleteFunc(slices.Clone(sent), func(ok bool) bool { return !ok }))
		if shown[client] != acked {
			c.t.Errorf("%d of %d acknowledged events of client %d were shown", shown[client], acked, client)
		}
	}
}

// tailReader follows a tail as a client does: it reconnects with the id of the last event whenever the
// connection ends, which it also does itself every now and then.
type tailReader struct {
	cluster *tailCluster
	path    string
	cut     int // about how many events it reads from one connection; 0 for all
	stop    func()
	opened  atomic.Int64

	position string

	mu      sync.Mutex
	ids     []ulid.ULID // of the receipts
	numbers []int64
}

// tail starts a tail and waits until it has its position.
func (c *tailCluster) tail(path string, cut int) *tailReader {
	ctx, cancel := context.WithCancel(context.Background())
	r := &tailReader{cluster: c, path: path, cut: cut}
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			if err := r.connect(ctx); err != nil {
				time.Sleep(10 * time.Millisecond) // the process is being started again
			}
		}
	})
	r.stop = func() { cancel(); running.Wait() }
	c.t.Cleanup(r.stop)
	waittest.True(c.t, "the beginning of "+path, func() bool { return r.opened.Load() > 0 })
	return r
}

// connect reads one connection.
func (r *tailReader) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	address, key := r.cluster.any()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+address+r.path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if r.position != "" {
		req.Header.Set("Last-Event-ID", r.position)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", res.StatusCode)
	}
	left := -1
	if r.cut > 0 {
		left = 1 + rand.N(2*r.cut)
	}
	return r.read(bufio.NewReaderSize(res.Body, 64<<10), left)
}

// read reads so many events, all if that is negative. The position is that of the last event that was
// read as a whole.
func (r *tailReader) read(in *bufio.Reader, left int) error {
	var position string
	var data []byte
	begun := false
	for left != 0 {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return err
		}
		name, value, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(": "))
		switch string(name) {
		case "id":
			position = string(value)
		case "data":
			data = append(data[:0], value...)
		case "":
			if position == "" {
				continue // a comment
			}
			if len(data) > 0 {
				if err := r.add(data); err != nil {
					return err
				}
				left--
			}
			r.position = position
			if !begun {
				begun = true
				r.opened.Add(1)
			}
			position = ""
			data = data[:0]
		}
	}
	return nil
}

// add adds a receipt.
func (r *tailReader) add(data []byte) error {
	rest, ok := bytes.CutPrefix(data, []byte(`{"id":"whrc_`))
	_, number, found := bytes.Cut(data, []byte(`"number":"`))
	if !ok || !found {
		return fmt.Errorf("not a receipt of this test: %s", data)
	}
	id, err := ulid.ParseStrict(string(rest[:ulid.EncodedSize]))
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = append(r.ids, id)
	r.numbers = append(r.numbers, digits(number[:eventDigits]))
	return nil
}

func (r *tailReader) size() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ids)
}

// wait waits until so many receipts were shown.
func (r *tailReader) wait(n int) {
	r.cluster.t.Helper()
	waittest.Until(r.cluster.t, fmt.Sprintf("%d events of %s", n, r.path), func() (int, bool) { got := r.size(); return got, got >= n })
}

// compare fails unless the tail has shown these receipts.
func (r *tailReader) compare(stored []ulid.ULID) {
	r.cluster.t.Helper()
	if slices.Equal(r.ids, stored) {
		return
	}
	at := 0
	for at < min(len(r.ids), len(stored)) && r.ids[at] == stored[at] {
		at++
	}
	r.cluster.t.Errorf("%s showed %d receipts, %d are stored; the first difference is at %d", strings.TrimPrefix(r.path, "/webhook/"),
		len(r.ids), len(stored), at)
}
