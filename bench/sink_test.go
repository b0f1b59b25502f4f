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
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/waittest"
)

// An event is a JSON body of eventSize bytes with its number and the time it was sent at fixed places, so that the sink need not parse it.
const (
	eventSize   = 450
	eventHead   = `{"number":"`
	eventMiddle = `","sent":"`
	eventDigits = 16
	numberFrom  = len(eventHead)
	sentFrom    = numberFrom + eventDigits + len(eventMiddle)
)

func newEvent() []byte {
	zeros := fmt.Sprintf("%0*d", eventDigits, 0)
	body := append([]byte(eventHead+zeros+eventMiddle+zeros+`","text":"`), bytes.Repeat([]byte("x"), eventSize)...)
	return append(body[:eventSize-2], `"}`...)
}

// mark writes number and time into an event, or into a request that ends with one.
func mark(b []byte, number int64, sent time.Time) {
	body := b[len(b)-eventSize:]
	putDigits(body[numberFrom:numberFrom+eventDigits], number)
	putDigits(body[sentFrom:sentFrom+eventDigits], sent.UnixMicro())
}

func putDigits(b []byte, n int64) {
	for i := len(b) - 1; i >= 0; i-- {
		b[i] = byte('0' + n%10)
		n /= 10
	}
}

func digits(b []byte) (n int64) {
	for _, c := range b {
		n = n*10 + int64(c-'0')
	}
	return n
}

// feed makes the requests of a load. Each event has a number of its own.
type feed struct{ last atomic.Int64 }

// events are sent as fast as they are answered. Each connection has its own copy of the request, in which number and time change.
func (f *feed) events(path string, conns int) func(conn, i int) []byte {
	return f.timed(request("POST", path, "", newEvent()), conns, func(int, int) time.Time { return time.Now() })
}

// deliveries are events as Steward delivers them, with all that it sends beside the body.
func (f *feed) deliveries(conns int) func(conn, i int) []byte {
	head := "POST / HTTP/1.1\r\nHost: 127.0.0.1:12345\r\nContent-Length: " + strconv.Itoa(eventSize) + "\r\nUser-Agent: Steward/1\r\n" +
		"Content-Type: application/json\r\nWebhook-Id: whrc_01jcq3v5w8z9d6y4k2m7n0p1rt\r\nWebhook-Timestamp: 1794731400\r\n" +
		"Webhook-Signature: v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=\r\nSteward-Delivery: whdv_01jcq3v5w8z9d6y4k2m7n0p1rt\r\n" +
		"Steward-Attempt: 0\r\n\r\n"
	return f.timed(append([]byte(head), newEvent()...), conns, func(int, int) time.Time { return time.Now() })
}

// paced events are spread evenly. One that leaves late, since its connection was busy, counts from when it was due.
func (f *feed) paced(path string, conns, perSecond int) func(conn, i int) []byte {
	start := time.Now()
	return f.timed(request("POST", path, "", newEvent()), conns, func(conn, i int) time.Time {
		due := start.Add(time.Duration(i*conns+conn) * time.Second / time.Duration(perSecond))
		time.Sleep(time.Until(due))
		return due
	})
}

func (f *feed) timed(pattern []byte, conns int, sent func(conn, i int) time.Time) func(conn, i int) []byte {
	requests := make([][]byte, conns)
	for i := range requests {
		requests[i] = slices.Clone(pattern)
	}
	return func(conn, i int) []byte {
		at := sent(conn, i)
		mark(requests[conn], f.last.Add(1), at)
		return requests[conn]
	}
}

// arrivals is what reached the sink since it was last asked: each event once, however often it came.
type arrivals struct {
	Count       int64
	Repeated    int64
	First, Last time.Time
	Times       []time.Duration // from sent to arrived, sorted
}

func (a arrivals) quantile(q float64) time.Duration { return result{times: a.Times}.quantile(q) }

// rate is per second, from the first to the last arrival.
func (a arrivals) rate() float64 { return float64(a.Count-1) / a.Last.Sub(a.First).Seconds() }

// sinkHandler is a destination that answers at once, and remembers what came.
type sinkHandler struct {
	mu    sync.Mutex
	since arrivals
	seen  []uint64 // a bit for each number
	total int64
	await int64
	ready chan struct{}
}

// newSink answers events at /, hangs at /hang, answers 500 at /fail. /await?total=n returns how many events have come since the start,
// when that is n or a second has passed; /take tells of the arrivals since it was last asked.
func newSink() http.Handler {
	s := &sinkHandler{ready: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{$}", s.event)
	mux.HandleFunc("POST /hang", func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // the end of a connection is noticed only once its request is read
		<-r.Context().Done()
	})
	mux.HandleFunc("POST /fail", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "no", http.StatusInternalServerError) })
	mux.HandleFunc("GET /await", s.awaitTotal)
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
	s.since.Last = now
	s.since.Times = append(s.since.Times, took)
	s.total++
	if s.total == s.await {
		close(s.ready)
	}
}

func (s *sinkHandler) awaitTotal(w http.ResponseWriter, r *http.Request) {
	want, err := strconv.ParseInt(r.FormValue("total"), 10, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.await, s.ready = want, make(chan struct{})
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
	json.NewEncoder(w).Encode(s.total)
}

func (s *sinkHandler) take(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	since := s.since
	s.since = arrivals{}
	s.mu.Unlock()
	slices.Sort(since.Times)
	json.NewEncoder(w).Encode(since)
}

// sink is a running sink, with the number of events that it has told of.
type sink struct {
	server
	t   *testing.T
	got int64
}

func startSink(t *testing.T) *sink { return &sink{server: startRole(t, "sink"), t: t} }

// expect waits until n more events have arrived, and gives all that did.
func (k *sink) expect(n int) arrivals {
	k.t.Helper()
	waittest.Until(k.t, fmt.Sprintf("%d events at the sink", n), func() (int, bool) {
		got := k.await(n)
		return got, got >= n
	})
	return k.take()
}

// await waits for n more events, but not longer than a second, and gives how many have come.
func (k *sink) await(n int) int {
	k.t.Helper()
	var total int64
	k.get(fmt.Sprintf("/await?total=%d", k.got+int64(n)), &total)
	return int(total - k.got)
}

// take gives what arrived since it was last called.
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

// newForwarder is the least that a gateway can do: it reads the body, sends it on, and answers what it was answered. It stores nothing.
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
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.WriteHeader(res.StatusCode)
		w.Write(answer)
	})
}

func startForwarder(t *testing.T, to *sink) server {
	return startRole(t, "forwarder", "BENCH_SINK="+to.address)
}
