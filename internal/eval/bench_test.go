package eval

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// BenchmarkRun measures starts and completions of runs by 64 clients, through everything but the
// network and authentication, beside a reference: one row in a transaction of its own. Set
// STEWARD_TEST_FSYNC=1, or PostgreSQL does not fsync.
func BenchmarkRun(b *testing.B) {
	for _, dialect := range dbtest.Dialects {
		f := newFixture(b, dbtest.Open(b, dialect))
		f.want(200, "ada", "PUT", "/cli/eval/e", define("n", "a", "red"))
		var round int
		b.Run(dialect.String()+"/reference", func(b *testing.B) {
			round++
			parallel(b, func(i int) {
				f.must(f.store.DB.Write(b.Context(), func(tx *db.Tx) error {
					return tx.Send(`INSERT INTO meta (key, value) VALUES ($1, 'a name of usual length')`, fmt.Sprintf("k%d-%d", round, i))
				}))
			})
		})
		b.Run(dialect.String()+"/start", func(b *testing.B) {
			round++
			parallel(b, func(i int) {
				f.want(201, "ada", "POST", "/evalrun", start(fmt.Sprintf("r%d-%d", round, i), fmt.Sprintf("s%d", i/10), "e", "red"))
			})
		})
		b.Run(dialect.String()+"/complete", func(b *testing.B) {
			round++
			parallel(b, func(i int) {
				f.want(201, "ada", "POST", "/evalrun", start(fmt.Sprintf("r%d-%d", round, i), fmt.Sprintf("s%d", i/10), "e", "red"))
			})
			b.ResetTimer()
			parallel(b, func(i int) {
				result := object{"score": 0.5, "success": true}
				f.want(200, "ada", "PUT", "/evalrun", object{"id": fmt.Sprintf("r%d-%d", round, i), "result": result})
			})
		})
	}
}

// parallel does b.N calls from 64 goroutines and reports calls per second.
func parallel(b *testing.B, call func(i int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range 64 {
		group.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				call(int(i))
			}
		})
	}
	group.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// discard is a ResponseWriter that drops the body.
type discard struct{ header http.Header }

func (n discard) Header() http.Header       { return n.header }
func (discard) WriteHeader(int)             {}
func (discard) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkPage reads a page of 1,000 runs, the default limit.
func BenchmarkPage(b *testing.B) {
	for _, dialect := range dbtest.Dialects {
		b.Run(dialect.String(), func(b *testing.B) {
			f := newFixture(b, dbtest.Open(b, dialect))
			f.want(200, "ada", "PUT", "/cli/eval/e", define("n", "a", "red"))
			for i := range 1000 {
				runID := fmt.Sprintf("r%d", i)
				f.want(201, "ada", "POST", "/evalrun", start(runID, fmt.Sprintf("s%d", i/10), "e", "red"))
				f.want(200, "ada", "PUT", "/evalrun", object{"id": runID, "result": object{"score": 0.5, "success": true}})
			}
			req := httptest.NewRequest("GET", "/cli/eval-run", nil)
			req.Header.Set("Authorization", "ada")
			b.ReportAllocs()
			for b.Loop() {
				f.handler.ServeHTTP(discard{http.Header{}}, req)
			}
		})
	}
}
