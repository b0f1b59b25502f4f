// Package sink has the server that receives deliveries in end-to-end tests.
package sink

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"steward/internal/waittest"
)

// Arrival is a request that reached the sink.
type Arrival struct {
	Method, Host, Body, remote string
	Header                     http.Header
	At                         time.Time
}

// Handler responds to the nth request at a path, from 1.
type Handler func(w http.ResponseWriter, r *http.Request, n int)

// Sink is an HTTP server that deliveries are sent to. It responds with 200, or as Handle says.
type Sink struct {
	*httptest.Server
	t testing.TB

	mu       sync.Mutex
	got      map[string][]Arrival // by path
	handlers map[string]Handler   // by path
}

// New starts a sink that is closed when the test ends.
func New(t testing.TB) *Sink {
	k := &Sink{t: t, got: map[string][]Arrival{}, handlers: map[string]Handler{}}
	k.Server = httptest.NewServer(http.HandlerFunc(k.serve))
	t.Cleanup(k.Close)
	t.Cleanup(k.CloseClientConnections) // before Close, which would wait for them
	return k
}

func (k *Sink) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender was killed
	}
	path := r.URL.Path
	k.mu.Lock()
	k.got[path] = append(k.got[path], Arrival{r.Method, r.Host, string(body), r.RemoteAddr, r.Header.Clone(), time.Now()})
	n := len(k.got[path])
	respond := k.handlers[path]
	k.mu.Unlock()
	if respond != nil {
		respond(w, r, n)
	}
}

// Handle sets how a path responds.
func (k *Sink) Handle(path string, respond Handler) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.handlers[path] = respond
}

// Status makes a path respond with a status, its text, and these headers, which come in pairs.
func (k *Sink) Status(path string, status int, headers ...string) {
	k.Handle(path, func(w http.ResponseWriter, _ *http.Request, _ int) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		if status != http.StatusNoContent {
			fmt.Fprint(w, http.StatusText(status))
		}
	})
}

// Hang makes a path read requests and never respond.
func (k *Sink) Hang(path string) {
	k.Handle(path, func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() })
}

// Wait waits for n requests at a path and returns all that came.
func (k *Sink) Wait(path string, n int) (got []Arrival) {
	k.t.Helper()
	waittest.Until(k.t, fmt.Sprintf("%d requests at %s", n, path), func() (int, bool) {
		got = k.Requests(path)
		return len(got), len(got) >= n
	})
	return got
}

// Requests returns the requests at a path so far.
func (k *Sink) Requests(path string) []Arrival {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.got[path]
}

// Count returns the number of requests at a path.
func (k *Sink) Count(path string) int { return len(k.Requests(path)) }

// SentFrom returns the number of requests that came from one of these addresses.
func (k *Sink) SentFrom(addresses map[string]bool) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, all := range k.got {
		for _, a := range all {
			if addresses[a.remote] {
				n++
			}
		}
	}
	return n
}
