package webhook

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/db/dbtest"
)

// event is a body of usual size: 450 bytes of JSON.
var event = []byte(`{"id":"evt_1","type":"order.created","data":"` + strings.Repeat("x", 450-47) + `"}`)

// flood sends b.N events from some clients over real sockets.
func flood(b *testing.B, clients int, url string) {
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	var left atomic.Int64
	left.Store(int64(b.N))
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				req, _ := http.NewRequest("POST", url, bytes.NewReader(event))
				req.Header.Set("Content-Type", "application/json")
				resp, err := transport.RoundTrip(req)
				if err != nil {
					b.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != 200 {
					b.Errorf("status %d", resp.StatusCode)
					return
				}
			}
		})
	}
	group.Wait()
}

func rate(b *testing.B, what string) { b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), what+"/s") }

// BenchmarkReference is an empty handler that reads the same body: what HTTP alone costs here.
func BenchmarkReference(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
	defer server.Close()
	b.ResetTimer()
	flood(b, 64, server.URL)
	rate(b, "requests")
}

// BenchmarkIngest accepts events, with and without a destination that takes them. Set STEWARD_TEST_FSYNC=1, else PostgreSQL does not fsync.
func BenchmarkIngest(b *testing.B) {
	for _, dialect := range dbtest.Dialects {
		for _, forward := range []bool{false, true} {
			for _, clients := range []int{64, 256} {
				b.Run(fmt.Sprintf("%s/forward=%v/clients=%d", dialect, forward, clients), func(b *testing.B) {
					h := newHouse(b, dbtest.Open(b, dialect))
					h.store.Now, h.store.Lanes.now = time.Now, time.Now
					h.run()
					server := httptest.NewServer(h.mux)
					defer server.Close()
					var delivered atomic.Int64
					sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						io.Copy(io.Discard, r.Body)
						delivered.Add(1)
					}))
					defer sink.Close()
					w, path := h.webhook(alice)
					if forward {
						h.destination(alice, w.ID, `{"url": "`+sink.URL+`", "concurrency": 32}`)
					}
					b.ResetTimer()
					flood(b, clients, server.URL+path)
					if forward {
						eventually(b, "all are delivered", func() bool { return delivered.Load() >= int64(b.N) })
					}
					rate(b, "events")
				})
			}
		}
	}
}

// BenchmarkBacklog drains deliveries that waited in the database.
func BenchmarkBacklog(b *testing.B) {
	for _, dialect := range dbtest.Dialects {
		b.Run(dialect.String(), func(b *testing.B) {
			h := newHouse(b, dbtest.Open(b, dialect))
			h.store.Now, h.store.Lanes.now = time.Now, time.Now
			var delivered atomic.Int64
			sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body)
				delivered.Add(1)
			}))
			defer sink.Close()
			w, _ := h.webhook(alice)
			h.destination(alice, w.ID, `{"url": "`+sink.URL+`"}`)
			for left := b.N; left > 0; left -= 500 {
				var bodies []string
				for range min(left, 500) {
					bodies = append(bodies, string(event))
				}
				h.accept(w, alice, bodies...)
			}
			b.ResetTimer()
			h.run()
			eventually(b, "all are delivered", func() bool { return delivered.Load() >= int64(b.N) })
			rate(b, "deliveries")
		})
	}
}

// BenchmarkFinish writes results of successes, 200 at a time.
func BenchmarkFinish(b *testing.B) {
	for _, dialect := range dbtest.Dialects {
		b.Run(dialect.String(), func(b *testing.B) {
			h := newHouse(b, dbtest.Open(b, dialect))
			w, _ := h.webhook(alice)
			to := h.destination(alice, w.ID, `{"url": "http://127.0.0.1:9"}`)
			_, _, err := h.store.TakeTurns(b.Context(), []string{to.ID})
			must(b, err)
			answered := newAnswer(200, []field{
				{"content-length", "2"}, {"content-type", "text/plain; charset=utf-8"}, {"date", "Sun, 15 Nov 2026 08:00:00 GMT"},
			}, "ok", time.Millisecond)
			for left := b.N; left > 0; left -= 200 {
				b.StopTimer()
				h.accept(w, alice, slices.Repeat([]string{string(event)}, min(left, 200))...)
				asks := []*ask{{destinationID: to.ID, limit: 200, bytes: laneBytes}}
				must(b, h.store.Ready(b.Context(), asks))
				var results []Result
				for _, t := range asks[0].tasks {
					results = append(results, Result{Delivery: &t.Delivery, At: t.Date, Response: answered})
				}
				b.StartTimer()
				finished, err := h.store.Finish(b.Context(), results)
				if must(b, err); len(finished) != len(results) {
					b.Fatalf("%d of %d were finished", len(finished), len(results))
				}
			}
		})
	}
}
