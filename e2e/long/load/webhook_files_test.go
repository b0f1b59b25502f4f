package load

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/e2e/sink"
	"steward/internal/waittest"
)

// TestHangingDestinationsLeaveFilesForRequests limits the process to 400 open files, has destinations
// that never respond and may have 800 connections, and sends requests over new connections.
func TestHangingDestinationsLeaveFilesForRequests(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			s := installation.Prepare(t, name)
			s.MaxFiles = 400
			s.Start()
			k, hung, other := sink.New(t), s.NewHook("hung"), s.NewHook("other")
			hanging := addHanging(s, hung, 8)
			for i := range 120 {
				callPromptly(s, k, fmt.Sprintf("event %d for hanging destinations", i), "POST", hung.Path, 200)
			}
			for i := range 60 {
				callPromptly(s, k, fmt.Sprintf("event %d", i), "POST", other.Path, 200)
				callPromptly(s, k, fmt.Sprintf("list %d", i), "GET", "/webhook/list", 200)
			}
			t.Logf("%d requests in flight to hanging destinations", hanging.inFlight.Load())
		})
	}
}

// callPromptly sends a request over a new connection. It fails the test when there is no response although
// 5 s have passed and the sink has responded to 200 requests since.
func callPromptly(s *installation.Steward, k *sink.Sink, what, method, path string, want int) {
	s.T.Helper()
	req, err := http.NewRequest(method, s.URL+path, strings.NewReader("x"))
	s.Must(err)
	if method == "GET" {
		req.Body = nil
		req.ContentLength = 0
	}
	req.Header.Set("Authorization", "Bearer "+s.Key)
	req.Close = true
	var status atomic.Int64
	go func() {
		res, err := installation.Client.Do(req)
		if err != nil {
			status.Store(-1)
			return
		}
		res.Body.Close()
		status.Store(int64(res.StatusCode))
	}()
	waittest.Within(s.T, 5*time.Second, what, func() bool {
		res, err := installation.Client.Get(k.URL)
		s.Must(err)
		res.Body.Close()
		return status.Load() != 0
	})
	if got := status.Load(); got != int64(want) {
		s.T.Fatalf("%s: got %d, want %d", what, got, want)
	}
}
