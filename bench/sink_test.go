//go:build bench

package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"steward/internal/waittest"
)

// arrivals are the events that reached the sink since the last take, without duplicates.
type arrivals struct {
	Count       int64
	Repeated    int64
	Late        int64 // of Count, those that a higher number has overtaken
	First, Last time.Time
	Times       []time.Duration // from sent to arrived, sorted
}

func (a arrivals) quantile(q float64) time.Duration { return result{times: a.Times}.quantile(q) }

// sinkHandler is a destination that responds at once and records what arrived.
type sinkHandler struct {
	mu    sync.Mutex
	since arrivals
	seen  []uint64 // a bit for each number
	last  int64    // the highest number
	total int64    // events since the start
	want  int64    // total at which ready is closed
	ready chan struct{}
}

// newSink returns a handler that takes events at /, hangs at /hang and responds with 500 at /fail.
// /wait?total=n waits until n events have arrived since the start, but not longer than a second, and
// returns their number. /take returns the arrivals since the last /take.
func newSink() http.Handler {
	s := &sinkHandler{ready: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{$}", s.event)
	mux.HandleFunc("POST /hang", func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // net/http notices the end of a connection only once the body is read
		<-r.Context().Done()
	})
	mux.HandleFunc("POST /fail", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusInternalServerError)
	})
	mux.HandleFunc("GET /wait", s.waitTotal)
	mux.HandleFunc("GET /take", s.take)
	return mux
}

func (s *sinkHandler) event(w http.ResponseWriter, r *http.Request) {
	var body [eventSize + 1]byte
	n, err := io.ReadFull(r.Body, body[:])
	if n != eventSize || err != io.ErrUnexpectedEOF {
		http.Error(w, "not an event", http.StatusBadRequest)
		return
	}
	now := time.Now()
	number, sent := digits(body[numberFrom:numberFrom+eventDigits]), digits(body[sentFrom:sentFrom+eventDigits])
	s.note(number, now, now.Sub(time.UnixMicro(sent)))
	w.Write([]byte("ok"))
}

func (s *sinkHandler) note(number int64, now time.Time, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	word, bit := number/64, uint64(1)<<(number%64)
	if word >= int64(len(s.seen)) {
		s.seen = append(s.seen, make([]uint64, word+1-int64(len(s.seen)))...)
	}
	if s.seen[word]&bit != 0 {
		s.since.Repeated++
		return
	}
	s.seen[word] |= bit
	if s.since.Count == 0 {
		s.since.First = now
	}
	s.since.Count++
	if number < s.last {
		s.since.Late++
	}
	s.last = max(s.last, number)
	s.since.Last = now
	s.since.Times = append(s.since.Times, took)
	s.total++
	if s.total == s.want {
		close(s.ready)
	}
}

func (s *sinkHandler) waitTotal(w http.ResponseWriter, r *http.Request) {
	want, err := strconv.ParseInt(r.FormValue("total"), 10, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.want = want
	s.ready = make(chan struct{})
	if s.total >= want {
		close(s.ready)
	}
	ready := s.ready
	s.mu.Unlock()
	select {
	case <-ready:
	case <-r.Context().Done():
	case <-time.After(time.Second):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = json.NewEncoder(w).Encode(s.total) // the client fails if it cannot decode this
}

func (s *sinkHandler) take(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	since := s.since
	s.since = arrivals{}
	s.mu.Unlock()
	slices.Sort(since.Times)
	_ = json.NewEncoder(w).Encode(since)
}

// sink is a running sink.
type sink struct {
	server
	t   *testing.T
	got int64 // events that take has returned
}

func startSink(t *testing.T) *sink { return &sink{server: startRole(t, "sink"), t: t} }

// expect waits until n more events have arrived and returns all that did.
func (k *sink) expect(n int) arrivals {
	k.t.Helper()
	waittest.Until(k.t, fmt.Sprintf("%d events at the sink", n), func() (int, bool) {
		got := k.wait(n)
		return got, got >= n
	})
	return k.take()
}

// wait waits for n more events, but not longer than a second, and returns how many have arrived.
func (k *sink) wait(n int) int {
	k.t.Helper()
	var total int64
	k.get(fmt.Sprintf("/wait?total=%d", k.got+int64(n)), &total)
	return int(total - k.got)
}

// take returns what has arrived since the last call.
func (k *sink) take() (got arrivals) {
	k.t.Helper()
	k.get("/take", &got)
	k.got += got.Count
	return got
}

func (k *sink) get(path string, into any) {
	k.t.Helper()
	res, err := client.Get("http://" + k.address + path)
	if err != nil {
		k.t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		k.t.Fatalf("%s: %v", path, err)
	}
}

// newForwarder returns a handler that forwards the body to the sink and returns the response. It stores
// nothing.
func newForwarder() http.Handler {
	to := "http://" + os.Getenv("BENCH_SINK") + "/"
	transport := &http.Transport{MaxIdleConns: 1000, MaxIdleConnsPerHost: 1000}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		req, err := http.NewRequestWithContext(r.Context(), "POST", to, bytes.NewReader(body))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		req.Header.Set("Content-Type", r.Header.Get("Content-Type"))
		res, err := transport.RoundTrip(req)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer res.Body.Close()
		response, err := io.ReadAll(res.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.WriteHeader(res.StatusCode)
		w.Write(response)
	})
}

func startForwarder(t *testing.T, to *sink) server {
	return startRole(t, "forwarder", "BENCH_SINK="+to.address)
}
