package load

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/internal/waittest"
)

// memoryLimit is the most resident memory that the process may have in these tests.
const memoryLimit = 400_000_000

// hanging are destinations that never respond, with the highest concurrency and timeout.
type hanging struct {
	release  chan struct{} // when it is closed, requests with a short body get a response
	inFlight atomic.Int64  // requests without a response
	large    atomic.Int64  // those with a body of 1 MiB
}

// addHanging adds hanging destinations to a webhook.
func addHanging(s *installation.Steward, h installation.Hook, destinations int) *hanging {
	s.T.Helper()
	k := &hanging{release: make(chan struct{})}
	for range destinations {
		server := httptest.NewServer(k)
		s.T.Cleanup(server.Close)
		s.T.Cleanup(server.CloseClientConnections) // before Close, which would wait for them
		s.NewDestination(h, server.URL, "concurrency", 100, "timeout_seconds", 60, "max_retries", 0)
	}
	return k
}

func (k *hanging) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return
	}
	k.inFlight.Add(1)
	defer k.inFlight.Add(-1)
	release := k.release
	if n >= 1<<20 {
		k.large.Add(1)
		defer k.large.Add(-1)
		release = nil
	}
	select {
	case <-release:
	case <-r.Context().Done():
	}
}

func checkMemory(s *installation.Steward) {
	s.T.Helper()
	peak := s.PeakRSS()
	s.T.Logf("peak memory: %d MB", peak/1_000_000)
	if peak > memoryLimit {
		s.T.Errorf("the process had %d MB of resident memory, at most %d are allowed", peak/1_000_000, memoryLimit/1_000_000)
	}
}

// TestHangingDestinationsDoNotFillMemoryOrStarveOthers has a webhook with 8 destinations that hang and
// one that is healthy. Bodies of 1 MiB wait in the queue until requests with short ones, which take all
// of the concurrency, get their responses: then there is memory for a part of the bodies only.
func TestHangingDestinationsDoNotFillMemoryOrStarveOthers(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		var arrived atomic.Int64
		healthy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err == nil {
				arrived.Add(1)
			}
		}))
		t.Cleanup(healthy.Close)
		h := s.NewHook("orders")
		hung := addHanging(s, h, 8)
		s.NewDestination(h, healthy.URL)
		var sent int64
		send := func(n int, body string) {
			t.Helper()
			for range n {
				s.Ingest(h, body)
				sent++
				waittest.Within(t, 10*time.Second, fmt.Sprintf("event %d at the healthy destination", sent), func() bool {
					s.Call("GET", "/healthz", nil).Want(200)
					return arrived.Load() >= sent
				})
			}
		}
		large := strings.Repeat("x", 1<<20)
		send(100, "short")
		send(100, large)
		t.Logf("%d requests in flight to hanging destinations", hung.inFlight.Load())
		close(hung.release)
		waittest.True(t, "large requests to hanging destinations", func() bool { return hung.large.Load() > 0 })
		send(50, large)
		t.Logf("%d large requests in flight to hanging destinations", hung.large.Load())
		checkMemory(s)
	})
}

// TestStalledReadersOfPagesTakeLittleMemory has 12 clients that request a page of 1,000 receipts with
// payloads of 64,000 bytes and do not read it.
func TestStalledReadersOfPagesTakeLittleMemory(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		h := s.NewHook("orders")
		ingestMany(s, h, 1000, strings.Repeat("x", 64_000))
		path := "/webhook/receipt-list/" + h.ID + "?limit=1000"
		checkPageIsBounded(s, path)
		for range 12 {
			stallPage(s, path)
		}
		checkMemory(s)
	})
}

// ingestMany sends an event n times, from 8 clients.
func ingestMany(s *installation.Steward, h installation.Hook, n int, body string) {
	s.T.Helper()
	var clients sync.WaitGroup
	var left atomic.Int64
	left.Store(int64(n))
	for range 8 {
		clients.Go(func() {
			for left.Add(-1) >= 0 {
				r, err := s.Send("POST", h.Path, strings.NewReader(body))
				if err != nil || r.Status != 200 {
					s.T.Errorf("ingest: %v %v", r, err)
					return
				}
			}
		})
	}
	clients.Wait()
	if s.T.Failed() {
		s.T.FailNow()
	}
}

// stallPage requests a page and reads the first byte of the response, but nothing more until the test ends.
func stallPage(s *installation.Steward, path string) {
	s.T.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	s.Must(err)
	s.T.Cleanup(func() { conn.Close() })
	s.Must(conn.(*net.TCPConn).SetReadBuffer(4096))
	s.Must(conn.SetDeadline(time.Now().Add(installation.RequestTimeout)))
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: steward\r\nAuthorization: Bearer %s\r\n\r\n", path, s.Key)
	s.Must(err)
	_, err = conn.Read(make([]byte, 1))
	s.Must(err)
}

// checkPageIsBounded checks that a page of 1,000 receipts of 64,000 bytes has all rows, and payloads of
// 8 MiB.
func checkPageIsBounded(s *installation.Steward, path string) {
	s.T.Helper()
	var rows []struct {
		Payload json.RawMessage
		Omitted bool `json:"payload_omitted"`
	}
	s.Call("GET", path, nil).Want(200).Decode(&rows)
	if len(rows) != 1000 {
		s.T.Errorf("the page has %d rows, want 1000", len(rows))
	}
	size, omitted := 0, 0
	for i, row := range rows {
		present := len(row.Payload) > 0 && string(row.Payload) != "null"
		if present == row.Omitted || present && omitted > 0 {
			s.T.Fatalf("row %d: payload of %d bytes, payload_omitted %v, after %d omitted ones",
				i, len(row.Payload), row.Omitted, omitted)
		}
		if row.Omitted {
			omitted++
		} else {
			size += len(row.Payload)
		}
	}
	s.T.Logf("%d bytes of payloads in %d rows, %d omitted", size, len(rows)-omitted, omitted)
	if size < 7<<20 || size > 8<<20+2*64_000 {
		s.T.Errorf("the page has %d bytes of payloads, want about 8 MiB", size)
	}
}
