package e2e

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

// arrival is a request that reached the sink.
type arrival struct {
	method, host, body, remote string
	header                     http.Header
	at                         time.Time
}

// handler responds to the nth request at a path, from 1.
type handler func(w http.ResponseWriter, r *http.Request, n int)

// sink is an HTTP server that deliveries are sent to. It responds with 200, or as handle says.
type sink struct {
	*httptest.Server
	t testing.TB

	mu       sync.Mutex
	got      map[string][]arrival // by path
	handlers map[string]handler   // by path
}

func newSink(t testing.TB) *sink {
	k := &sink{t: t, got: map[string][]arrival{}, handlers: map[string]handler{}}
	k.Server = httptest.NewServer(http.HandlerFunc(k.serve))
	t.Cleanup(k.Close)
	t.Cleanup(k.CloseClientConnections) // before Close, which would wait for them
	return k
}

func (k *sink) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender was killed
	}
	path := r.URL.Path
	k.mu.Lock()
	k.got[path] = append(k.got[path], arrival{r.Method, r.Host, string(body), r.RemoteAddr, r.Header.Clone(), time.Now()})
	n := len(k.got[path])
	respond := k.handlers[path]
	k.mu.Unlock()
	if respond != nil {
		respond(w, r, n)
	}
}

// handle sets how a path responds.
func (k *sink) handle(path string, respond handler) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.handlers[path] = respond
}

// status makes a path respond with a status, its text, and these headers, which come in pairs.
func (k *sink) status(path string, status int, headers ...string) {
	k.handle(path, func(w http.ResponseWriter, _ *http.Request, _ int) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		if status != http.StatusNoContent {
			fmt.Fprint(w, http.StatusText(status))
		}
	})
}

// hang makes a path read requests and never respond.
func (k *sink) hang(path string) {
	k.handle(path, func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() })
}

// wait waits for n requests at a path and returns all that came.
func (k *sink) wait(path string, n int) (got []arrival) {
	k.t.Helper()
	waittest.Until(k.t, fmt.Sprintf("%d requests at %s", n, path), func() (int, bool) {
		k.mu.Lock()
		defer k.mu.Unlock()
		got = k.got[path]
		return len(got), len(got) >= n
	})
	return got
}

// count returns the number of requests at a path.
func (k *sink) count(path string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.got[path])
}

// arrived returns the number of requests for each receipt of these webhooks, which are named by path.
func (k *sink) arrived(hooks map[string]hook) map[string]int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := map[string]int{}
	for path := range hooks {
		for _, a := range k.got[path] {
			n[a.header.Get("Webhook-Id")]++
		}
	}
	return n
}

// latest returns the time of the last request for these webhooks.
func (k *sink) latest(hooks map[string]hook) (at time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for path := range hooks {
		for _, a := range k.got[path] {
			if a.at.After(at) {
				at = a.at
			}
		}
	}
	return at
}

// sentFrom returns the number of requests that came from one of these addresses.
func (k *sink) sentFrom(addresses map[string]bool) (n int) {
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
