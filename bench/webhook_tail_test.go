//go:build bench

package bench

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/waittest"
)

// openTails opens tails of all webhooks, and reads and counts what they show until the returned
// function is called.
func openTails(t *testing.T, in *installation, n int) (shown *atomic.Int64, stop func()) {
	t.Helper()
	shown = &atomic.Int64{}
	var group sync.WaitGroup
	var conns []net.Conn
	for range n {
		conn, err := net.Dial("tcp", in.server.address)
		in.Must(err)
		conns = append(conns, conn)
		in.Must(conn.SetDeadline(time.Now().Add(time.Hour)))
		_, err = conn.Write(request("GET", "/webhook/tail", in.Key, nil))
		in.Must(err)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		in.Must(err)
		if res.StatusCode != http.StatusOK {
			t.Fatalf("status %d", res.StatusCode)
		}
		group.Go(func() { countEvents(res.Body, shown) })
	}
	return shown, func() {
		for _, conn := range conns {
			conn.Close()
		}
		group.Wait()
	}
}

func countEvents(body io.Reader, shown *atomic.Int64) {
	in := bufio.NewReaderSize(body, 16<<10)
	for {
		line, err := in.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
		if strings.HasPrefix(string(line[:min(6, len(line))]), "event:") {
			shown.Add(1)
		}
	}
}

// TestTailMemory measures what an open tail takes of the process.
func TestTailMemory(t *testing.T) {
	const tails = 1000
	in := install(t, "sqlite")
	h, f := in.hook(), &feed{}
	load(t, in.server, 4, span/4, f.events(h.path, 4)) // warms up
	before := in.RSS()
	shown, stop := openTails(t, in, tails)
	defer stop()
	in.Must(sendOne(in, h))
	waittest.Until(t, "an event at each tail", func() (int64, bool) { n := shown.Load(); return n, n >= tails })
	report("memory of a tail, KB", float64(in.RSS()-before)/1000/tails, atMost(60), "%d tails, %d KB before", tails, before/1000)
}

func sendOne(in *installation, h hook) error {
	res, err := client.Post("http://"+in.server.address+h.path, "application/json", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	return res.Body.Close()
}

// TestTailIngest compares ingest while 100 tails are open, and read, with ingest without.
func TestTailIngest(t *testing.T) {
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in, f := install(t, database), &feed{}
		h := in.hook()
		load(t, in.server, clients, span/2, f.events(h.path, clients)) // warms up
		var sent int64
		ratio, alone, got := compare(3,
			func() result { return load(t, in.server, clients, span, f.events(h.path, clients)) },
			func() result {
				shown, stop := openTails(t, in, 100)
				defer stop()
				r := load(t, in.server, clients, span, f.events(h.path, clients))
				sent += shown.Load()
				return r
			})
		report(database+": ingest with 100 tails", ratio, atLeast(0.8), "%.0f/s of %.0f/s, %d events were shown", got.rate, alone.rate, sent)
	})
}

// TestReplayIsolation measures the deliveries of one destination while another one replays.
func TestReplayIsolation(t *testing.T) {
	const perSecond, conns, receipts = 100, 10, 100_000
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		in, to, f := install(t, database), startSink(t), &feed{}
		h, other := in.hook(), in.hook()
		in.destination(h, to.address)
		load(t, in.server, clients, time.Hour, f.events(other.path, clients).first(receipts, clients))
		p99 := func() float64 {
			sent := load(t, in.server, conns, 5*time.Second, f.paced(h.path, conns, perSecond))
			return millis(to.expect(len(sent.times)).quantile(0.99))
		}
		p99() // warms up
		alone := p99()
		second := startSink(t)
		destinationID := in.destination(other, second.address)
		var replay struct {
			ID    string
			State string
			Done  int
		}
		began := time.Now()
		in.call("POST", "/webhook/replay/"+other.id, map[string]any{"since": "2026-01-01T00:00:00Z", "to": destinationID}, &replay)
		var beside []float64
		for range 3 {
			beside = append(beside, p99())
		}
		path := "/webhook/replay/" + other.id + "/" + replay.ID
		waittest.Until(t, "the end of the replay", func() (int, bool) {
			in.call("GET", path, nil, &replay)
			return replay.Done, replay.State == "done"
		})
		report(fmt.Sprintf("%s: p99 ms beside a replay of %d", database, receipts), median(beside), atMost(round(alone+20)),
			"alone %.1f, beside %.1f; replayed %.0f/s", alone, beside, receipts/time.Since(began).Seconds())
	})
}
