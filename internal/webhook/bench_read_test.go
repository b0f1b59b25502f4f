package webhook

import (
	"context"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/web"
)

// BenchmarkReads is what the pages of lists and a year's series cost, from the handler to the bytes of the answer.
func BenchmarkReads(b *testing.B) {
	for _, dialect := range dbtest.Dialects {
		h := newHouse(b, dbtest.Open(b, dialect))
		w, _ := h.webhook(alice)
		h.stock(w, 12_000, 6_000)
		at := func(d time.Duration) *stamp.Time { t := stamp.Of(h.clock.now().Add(d)); return &t }
		year := Asked{Start: at(-365 * 24 * time.Hour).String(), Granularity: "hour"}
		hour := Filter{Since: at(-90 * time.Minute), Until: at(-30 * time.Minute)}
		result := page.Paging{Limit: 100}
		for _, c := range []struct {
			name string
			ask  func(ctx context.Context) (any, error)
		}{
			{"receipts", func(ctx context.Context) (any, error) {
				p, err := h.store.Receipts(ctx, "org_a", w.ID, Filter{}, result)
				return Receipts{p}, err
			}},
			{"receipts of an hour", func(ctx context.Context) (any, error) {
				p, err := h.store.Receipts(ctx, "org_a", w.ID, hour, result)
				return Receipts{p}, err
			}},
			{"deliveries", func(ctx context.Context) (any, error) {
				return h.store.Deliveries(ctx, "org_a", w.ID, Filter{}, result)
			}},
			{"deliveries of an hour", func(ctx context.Context) (any, error) {
				return h.store.Deliveries(ctx, "org_a", w.ID, hour, result)
			}},
			{"sums", func(ctx context.Context) (any, error) { return h.http.Analytics(ctx, &struct{ Asked }{year}) }},
			{"hours of a year", func(ctx context.Context) (any, error) { return h.http.Timeseries(ctx, &struct{ Asked }{year}) }},
		} {
			b.Run(dialect.String()+"/"+c.name, func(b *testing.B) { answers(b, c.ask) })
		}
	}
}

// answers asks again and again, and writes each answer to nowhere.
func answers(b *testing.B, ask func(context.Context) (any, error)) {
	r := httptest.NewRequest("GET", "/", http.NoBody)
	ctx, cancel := context.WithCancel(as(alice))
	defer cancel()
	b.ReportAllocs()
	before := cpuTime(b)
	for b.Loop() {
		value, err := ask(ctx)
		must(b, err)
		web.Write(nowhere{http.Header{}}, r, http.StatusOK, value)
	}
	b.ReportMetric(float64((cpuTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// cpuTime is what this process has used: it tells more than the clock while others use the machine.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// nowhere is a response that costs nothing.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header         { return n.header }
func (n nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (n nowhere) WriteHeader(int)             {}

// stock accepts so many events, an hour's share every hour, has them delivered, and counts a year.
func (h *house) stock(w Webhook, events, hourly int) {
	h.destination(alice, w.ID, `{"url": "http://127.0.0.1:9"}`)
	const atOnce = 100
	for range events / atOnce {
		bodies := make([]string, atOnce)
		for i := range bodies {
			bodies[i] = string(event)
		}
		h.accept(w, alice, bodies...)
		h.clock.advance(time.Hour * atOnce / time.Duration(hourly))
	}
	must(h.t, h.db.Write(context.Background(), func(tx *db.Tx) error {
		if _, err := tx.Exec(`UPDATE webhook_deliveries SET status = 'success', response = $1`,
			`{"status":200,"headers":{"content-length":"2","content-type":"text/plain; charset=utf-8","date":`+
				`"Sun, 15 Nov 2026 08:30:00 GMT"},"body":"ok","duration_ms":1}`); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE webhook_receipts SET headers = $1`,
			`{"content-length":"450","content-type":"application/json","host":"steward"}`); err != nil {
			return err
		}
		last := bucketOf(stamp.Of(h.clock.now()), 3600)
		_, err := tx.Exec(`WITH RECURSIVE b(bucket) AS (
			SELECT CAST($1 AS BIGINT) UNION ALL SELECT bucket + 1 FROM b WHERE bucket < CAST($2 AS BIGINT))
			INSERT INTO webhook_counts (org_id, unit, bucket, shard, received, delivered, failed)
			SELECT 'org_a', 3600, bucket, 1, bucket % 1000, bucket % 900, bucket % 100 FROM b`, last-9000, last)
		return err
	}))
}
