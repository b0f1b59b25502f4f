package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/e2e/process"
)

// TestHangingDestinationsLeaveFilesForRequests limits the process to 400 open files, has destinations
// that never respond and may have 800 connections, and sends requests over new connections.
func TestHangingDestinationsLeaveFilesForRequests(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			s := prepare(t, name)
			s.MaxFiles = 400
			s.start()
			k, hung, other := newSink(t), s.hook("hung"), s.hook("other")
			hanging := s.hang(hung, 8)
			for i := range 120 {
				s.promptly(k, fmt.Sprintf("event %d for hanging destinations", i), "POST", hung.path, 200)
			}
			for i := range 60 {
				s.promptly(k, fmt.Sprintf("event %d", i), "POST", other.path, 200)
				s.promptly(k, fmt.Sprintf("list %d", i), "GET", "/webhook/list", 200)
			}
			t.Logf("%d requests in flight to hanging destinations", hanging.inFlight.Load())
		})
	}
}

// promptly sends a request over a new connection. It fails the test when there is no response although
// 5 s have passed and the sink has responded to 200 requests since.
func (s *steward) promptly(k *sink, what, method, path string, want int) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.URL+path, strings.NewReader("x"))
	s.must(err)
	if method == "GET" {
		req.Body = nil
		req.ContentLength = 0
	}
	req.Header.Set("Authorization", "Bearer "+s.key)
	req.Close = true
	var status atomic.Int64
	go func() {
		res, err := client.Do(req)
		if err != nil {
			status.Store(-1)
			return
		}
		res.Body.Close()
		status.Store(int64(res.StatusCode))
	}()
	within(s.t, 5*time.Second, what, func() bool {
		res, err := client.Get(k.URL)
		s.must(err)
		res.Body.Close()
		return status.Load() != 0
	})
	if got := status.Load(); got != int64(want) {
		s.t.Fatalf("%s: got %d, want %d", what, got, want)
	}
}
