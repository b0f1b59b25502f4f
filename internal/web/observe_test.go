package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/auth"
	"steward/internal/budget"
	"steward/internal/encode"
	"steward/internal/page"
	"steward/internal/waittest"
	"steward/internal/web/pipetest"
)

// bodySize is more than the buffers of a connection take.
const bodySize = 64 << 20

// textPage returns a page whose JSON has about bodySize bytes.
func textPage(context.Context, *struct{}) (page.Page[text], error) {
	items := make([]text, 64)
	for i := range items {
		items[i] = text(strings.Repeat("x", bodySize/len(items)))
	}
	return page.Page[text]{Items: items, Total: page.Unknown}, nil
}

// text is an item that appends itself, as those of long lists do.
type text string

func (t text) AppendJSON(to []byte) ([]byte, error) { return encode.String(to, string(t)), nil }

// serveTexts serves textPage at GET /texts on a real listener. Each request that has been served is
// sent to the channel.
func serveTexts(t *testing.T, timeout writeTimeout) (address string, served <-chan Served) {
	t.Helper()
	guard := func(_ Route, _ http.ResponseWriter, r *http.Request) *http.Request { return r }
	done := make(chan Served, 1)
	api := NewAPI([]Route{On("GET /texts", "", auth.Self, 200, "List texts", textPage)}, guard, nil)
	api.Memory = budget.NewPool(8*bodySize, MaxBody)
	srv := httptest.NewServer(&observer{
		log:     slog.New(slog.DiscardHandler),
		next:    api,
		done:    func(s Served) { done <- s },
		timeout: timeout,
	})
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String(), done
}

// get sends a request for the texts and does not read the response.
func get(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, "GET /texts HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestStalledReaderIsCutOff(t *testing.T) {
	address, served := serveTexts(t, writeTimeout{base: 50 * time.Millisecond, rate: 1 << 30})
	conn := get(t, address)
	s := waittest.Receive(t, "the end of the request", served)
	if s.Bytes >= bodySize {
		t.Errorf("%d bytes were written to a reader that stalls", s.Bytes)
	}
	if n, err := io.Copy(io.Discard, conn); n >= bodySize {
		t.Errorf("the connection had %d bytes, %v", n, err)
	}
}

func TestSlowReaderGetsTheWholeResponse(t *testing.T) {
	const base = 50 * time.Millisecond
	address, served := serveTexts(t, writeTimeout{base: base, rate: 64 << 10})
	conn := get(t, address)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	var read int64
	for range 10 {
		n, err := io.CopyN(io.Discard, res.Body, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		read += n
		time.Sleep(base / 5)
	}
	rest, err := io.Copy(io.Discard, res.Body)
	if read += rest; err != nil || read != res.ContentLength || read < bodySize {
		t.Errorf("read %d of %d bytes: %v", read, res.ContentLength, err)
	}
	if s := waittest.Receive(t, "the end of the request", served); s.Took < base {
		t.Errorf("the response took %s only: the reader was not slow", s.Took)
	}
}

func TestStalledReaderHoldsOneCopyOfTheBody(t *testing.T) {
	heap := func() int64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	address, _ := serveTexts(t, writeTimeout{base: time.Hour, rate: 1})
	before := heap()
	conn := get(t, address)
	// Once the response begins, it has been encoded.
	if _, err := io.CopyN(io.Discard, conn, 1); err != nil {
		t.Fatal(err)
	}
	var held int64
	waittest.Until(t, "no more than the body to be held", func() (int64, bool) {
		held = heap() - before
		return held >> 20, held < bodySize*3/2
	})
	if held < bodySize/2 {
		t.Errorf("%d MiB are held: the reader has not stalled", held>>20)
	}
}

// TestStalledReadersTakeTheirShareOnly has clients request responses and not read them, until one is
// refused. Another organization is served.
func TestStalledReadersTakeTheirShareOnly(t *testing.T) {
	guard := func(_ Route, _ http.ResponseWriter, r *http.Request) *http.Request {
		return r.WithContext(auth.With(r.Context(), &auth.Caller{OrgID: r.URL.Query().Get("org")}))
	}
	api := NewAPI([]Route{On("GET /texts", "", auth.Self, 200, "List texts", textPage)}, guard, nil)
	api.Memory = budget.NewPool(8*bodySize, 2*bodySize) // the grant is a response with the slack of its buffer
	srv := httptest.NewServer(Observe(slog.New(slog.DiscardHandler), nil, api))
	t.Cleanup(srv.Close)
	t.Cleanup(srv.CloseClientConnections)
	status := func(org string) int {
		res, err := http.Get(srv.URL + "/texts?org=" + org)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res.StatusCode
	}
	served := 0
	for status("hostile") == http.StatusOK {
		served++
	}
	if got := status("victim"); got != http.StatusOK || served == 0 || served > 8 {
		t.Errorf("%d of the hostile organization, then the victim got %d", served, got)
	}
}

// TestWriteDeadlines measures deadlines with the clock of a synctest bubble: 10 s plus 1 s for each
// KiB.
func TestWriteDeadlines(t *testing.T) {
	for name, test := range map[string]struct {
		pause time.Duration // between reads of 1 KiB
		whole bool
	}{
		"faster than the rate":       {time.Second, true},
		"slower, but within base":    {1100 * time.Millisecond, true},
		"slower and later than base": {1200 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn := servePipe(t, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Length", fmt.Sprint(64<<10))
					w.Write(make([]byte, 64<<10))
				})
				_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
				in := bufio.NewReaderSize(conn, 1<<10)
				res, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Fatal(err)
				}
				for err == nil {
					_, err = io.CopyN(io.Discard, res.Body, 1<<10)
					time.Sleep(test.pause)
				}
				if errors.Is(err, io.EOF) != test.whole {
					t.Errorf("reading ended with %v", err)
				}
			})
		})
	}
}

// TestDeadlineDoesNotOutliveItsResponse covers keep-alive connections that idle, handlers that take
// long, and the interim response to Expect: 100-continue, which is written before a handler writes
// anything.
func TestDeadlineDoesNotOutliveItsResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := servePipe(t, func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(time.Hour)
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(http.StatusNoContent)
		})
		in := bufio.NewReader(conn)
		want := func(status int) {
			t.Helper()
			if res, err := http.ReadResponse(in, nil); err != nil || res.StatusCode != status {
				t.Fatalf("got %v, %v; want status %d", res, err, status)
			}
		}
		for range 3 {
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
			want(http.StatusNoContent)
			time.Sleep(time.Hour)
			_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n")
			want(http.StatusContinue)
			_, _ = io.WriteString(conn, "x")
			want(http.StatusNoContent)
		}
	})
}

func TestHijackedConnectionHasNoDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn := servePipe(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusSwitchingProtocols)
			hijacked, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(time.Hour)
			if _, err := io.WriteString(hijacked, "hello"); err != nil {
				t.Error(err)
			}
			hijacked.Close()
		})
		_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		got, err := io.ReadAll(conn)
		if err != nil || !strings.HasSuffix(string(got), "\r\n\r\nhello") {
			t.Errorf("read %q, %v", got, err)
		}
	})
}

// servePipe serves a handler behind Observe and returns a connection to it.
func servePipe(t *testing.T, handler http.HandlerFunc) net.Conn {
	t.Helper()
	listener := make(pipetest.Listener)
	srv := &http.Server{Handler: &observer{
		log:     slog.New(slog.DiscardHandler),
		next:    handler,
		timeout: writeTimeout{base: 10 * time.Second, rate: 1 << 10},
	}}
	go func() { _ = srv.Serve(listener) }()
	conn, err := listener.Dial(t.Context(), "", "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		close(listener)
		_ = srv.Close()
	})
	return conn
}
