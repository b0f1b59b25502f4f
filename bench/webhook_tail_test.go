//go:build bench

package bench

import (
	"bufio"
	"errors"
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
