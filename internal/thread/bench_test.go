package thread

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/web"
)

// benchRows is how many threads the lists are read from; STEWARD_BENCH_ROWS sets it.
func benchRows(b *testing.B) int {
	text := os.Getenv("STEWARD_BENCH_ROWS")
	if text == "" {
		return 20_000
	}
	n, err := strconv.Atoi(text)
	must(b, err)
	return n
}

// seed writes threads past the store, many in one statement: a value shared by all, one by half, one by a hundredth, a rare one, and ten
// projects.
func seed(b testing.TB, s *Store, n int) {
	now := stamp.Of(s.Now())
	for first := 0; first < n; first += 1000 {
		must(b, s.DB.Write(b.Context(), func(tx *db.Tx) error {
			if err := seedSome(tx, first, first+1000, now, n); err != nil {
				return err
			}
			return s.count(tx, org, "", countThreads, 1000)
		}))
	}
}

func seedSome(tx *db.Tx, from, to int, now stamp.Time, n int) error {
	threads, p := newThreads(), newPosting(tx.Dialect())
	for i := from; i < to; i++ {
		object := map[string]any{"all": "x", "half": strconv.Itoa(i % 2), "hundredth": strconv.Itoa(i * 7919 % 100), "rare": strconv.Itoa(i / 10)}
		text, err := encodeJSON(object)
		if err != nil {
			return err
		}
		r := row{Thread: Thread{
			ID: fmt.Sprintf("thrd_%026d", i), OrgID: org, ProjectID: fmt.Sprintf("prj_%d", i*31%10), version: 1,
			CreatedAt: now + stamp.Time(i), UpdatedAt: now + stamp.Time(i*7919%n),
		}, metadata: &indexed{text, facetsOf(object)}, data: &sealedText{}}
		r.facets = withProject(r.ProjectID, r.metadata.facets)
		r.addNew(threads)
		p.follow(&r)
	}
	return errors.Join(insertThreads(tx, threads), p.send(tx))
}

// BenchmarkList measures a page of ten with each filter.
func BenchmarkList(b *testing.B) {
	for _, dialect := range dbtest.Dialects {
		b.Run(dialect.String(), func(b *testing.B) {
			s := newStore(b, dbtest.Open(b, dialect))
			rows := benchRows(b)
			began := time.Now()
			seed(b, s, rows)
			b.Logf("%d threads in %v", rows, time.Since(began))
			for _, c := range []struct{ name, project, metadata string }{
				{"all", "", ""},
				{"project", "prj_3", ""},
				{"shared by all", "", `{"all":"x"}`},
				{"shared by half", "", `{"half":"1"}`},
				{"hundredth", "", `{"hundredth":"7"}`},
				{"rare", "", `{"rare":"77"}`},
				{"shared and rare", "", `{"all":"x","rare":"77"}`},
				{"half and hundredth", "", `{"half":"1","hundredth":"7"}`},
				{"project and shared", "prj_3", `{"all":"x"}`},
				{"project and hundredth", "prj_3", `{"hundredth":"7"}`},
				{"none", "", `{"all":"y"}`},
			} {
				keys, err := parseFilter(c.metadata)
				must(b, err)
				for _, updated := range []bool{false, true} {
					f := Filter{ProjectID: c.project, Keys: keys, Updated: updated}
					b.Run(strings.ReplaceAll(c.name, " ", "_")+"/by_"+f.column(), func(b *testing.B) { s.benchPages(b, f) })
				}
			}
		})
	}
}

func (s *Store) benchPages(b *testing.B, f Filter) {
	var took []time.Duration
	p := page.Paging{Limit: 10}
	for b.Loop() {
		began := time.Now()
		result, err := s.List(b.Context(), whole, f, p)
		must(b, err)
		took = append(took, time.Since(began))
		p.Cursor = result.Next
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "µs-p99")
}

// BenchmarkPage reads and writes a page of 1,000 threads as the bench has them: a state of 300 bytes and two keys.
func BenchmarkPage(b *testing.B) {
	for _, dialect := range dbtest.Dialects {
		b.Run(dialect.String(), func(b *testing.B) {
			s := newStore(b, dbtest.Open(b, dialect))
			state := `{"state":{"text":"` + strings.Repeat("x", 280) + `"}}`
			for i := range 1000 {
				put := Put{ProjectID: fmt.Sprint("p", i%10), UserData: &state, Metadata: Metadata(fmt.Sprintf(`{"channel":"web","user":"u%d"}`, i))}
				_, err := s.Put(b.Context(), whole, fmt.Sprint("thrd_", 100000000+i), page.IfMatch{}, put)
				must(b, err)
			}
			req := httptest.NewRequest("GET", "/thread", nil)
			b.ReportAllocs()
			for b.Loop() {
				result, err := s.List(b.Context(), whole, Filter{}, page.Paging{Limit: 1000})
				must(b, err)
				web.Write(nowhere{}, req, http.StatusOK, result)
			}
		})
	}
}

// nowhere takes an answer as a connection would, and keeps nothing of it.
type nowhere struct{}

func (nowhere) Header() http.Header         { return http.Header{} }
func (nowhere) WriteHeader(int)             {}
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkSave measures acknowledged durable saves of many writers, each to threads of its own: new ones, or some again and again.
func BenchmarkSave(b *testing.B) {
	for _, dialect := range dbtest.Dialects {
		for _, c := range []struct {
			name    string
			writers int
			keys    int
			again   int
		}{{"new", 1024, 0, 1 << 30}, {"again", 64, 0, 10}, {"again", 1024, 0, 2}, {"again_3_keys", 1024, 3, 2}} {
			b.Run(fmt.Sprintf("%s/%s/writers=%d", dialect, c.name, c.writers), func(b *testing.B) {
				benchSaves(b, newStore(b, dbtest.Open(b, dialect)), c.writers, c.keys, c.again)
			})
		}
	}
}

func benchSaves(b *testing.B, s *Store, writers, keys, again int) {
	must(b, s.DB.Write(b.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO projects (org_id, id, name, created_at, version) VALUES ($1, 'p1', 'p1', 0, 1)`, org)
		return err
	}))
	object := map[string]any{}
	for k := range keys {
		object[fmt.Sprint("key", k)] = "value"
	}
	metadata, err := encodeJSON(object)
	must(b, err)
	state := `{"state":{"text":"` + strings.Repeat("x", 280) + `"}}`
	var left atomic.Int64
	left.Store(int64(b.N))
	var all sync.WaitGroup
	b.ResetTimer()
	for w := range writers {
		all.Go(func() {
			for i := 0; left.Add(-1) >= 0; i++ {
				d := frameData{ThreadID: fmt.Sprintf("thrd_%d_%d", w, i%again), UserData: page.Some(state)}
				if keys > 0 {
					d.Metadata = page.Some(Metadata(metadata))
				}
				if _, err := s.save(b.Context(), confined("p1"), d); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "saves/s")
}
