package thread

import (
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
	"steward/internal/encode"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/thread/term"
	"steward/internal/web"
)

// benchRows returns the number of threads that the lists are read from. STEWARD_BENCH_ROWS sets it.
func benchRows(b *testing.B) int {
	text := os.Getenv("STEWARD_BENCH_ROWS")
	if text == "" {
		return 20_000
	}
	n, err := strconv.Atoi(text)
	must(b, err)
	return n
}

// seed writes n threads in large transactions: a value shared by all, one by half, one by a tenth,
// one by a hundredth, a rare one, and ten projects.
func seed(t testing.TB, s *Store, n int) {
	now := stamp.Of(s.Now())
	for first := 0; first < n; first += 1000 {
		must(t, s.DB.Write(t.Context(), func(tx *db.Tx) error {
			rows := map[scopedID]*row{}
			for i := first; i < first+1000; i++ {
				r, err := seededRow(i, now, n)
				if err != nil {
					return err
				}
				rows[scopedID{org, r.ID}] = r
			}
			return s.flush(tx, rows)
		}))
	}
}

func seededRow(i int, now stamp.Time, n int) (*row, error) {
	object := map[string]any{
		"all": "x", "half": strconv.Itoa(i % 2), "tenth": strconv.Itoa(i * 7919 % 10), "hundredth": strconv.Itoa(i * 7919 % 100),
		"rare": strconv.Itoa(i / 10),
	}
	text, err := encode.Value(nil, object)
	if err != nil {
		return nil, err
	}
	r := &row{metadata: &indexedMetadata{text, term.OfKeys(object)}, userData: &sealedText{}}
	r.Thread = Thread{
		ID: fmt.Sprintf("thrd_%026d", i), OrgID: org, ProjectID: fmt.Sprintf("prj_%d", i*31%10), version: 1,
		CreatedAt: now + stamp.Time(i), UpdatedAt: now + stamp.Time(i*7919%n),
	}
	r.terms = term.All(r.ProjectID, r.metadata.keys)
	return r, nil
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
				{"half and tenth", "", `{"half":"1","tenth":"7"}`},
				{"half and tenth never meet", "", `{"half":"0","tenth":"7"}`},
				{"project and shared", "prj_3", `{"all":"x"}`},
				{"project and hundredth", "prj_3", `{"hundredth":"7"}`},
				{"none", "", `{"all":"y"}`},
			} {
				keys, err := parseFilter(c.metadata)
				must(b, err)
				for _, updated := range []bool{false, true} {
					f := Filter{ProjectID: c.project, Keys: keys, Updated: updated}
					b.Run(strings.ReplaceAll(c.name, " ", "_")+"/by_"+f.column(), func(b *testing.B) { benchPages(b, s, f) })
				}
			}
		})
	}
}

func benchPages(b *testing.B, s *Store, f Filter) {
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

// BenchmarkPage reads and encodes a page of 1,000 threads with a state of 300 bytes and two keys.
func BenchmarkPage(b *testing.B) {
	for _, dialect := range dbtest.Dialects {
		b.Run(dialect.String(), func(b *testing.B) {
			s := newStore(b, dbtest.Open(b, dialect))
			state := `{"state":{"text":"` + strings.Repeat("x", 280) + `"}}`
			for i := range 1000 {
				metadata := fmt.Appendf(nil, `{"channel":"web","user":"u%d"}`, i)
				put := Put{ProjectID: fmt.Sprint("p", i%10), UserData: &state, Metadata: metadata}
				_, err := s.Put(b.Context(), whole, fmt.Sprint("thrd_", 100000000+i), page.IfMatch{}, put)
				must(b, err)
			}
			req := httptest.NewRequest("GET", "/thread", nil)
			b.ReportAllocs()
			for b.Loop() {
				result, err := s.List(b.Context(), whole, Filter{}, page.Paging{Limit: 1000})
				must(b, err)
				web.Write(discard{}, req, http.StatusOK, result)
			}
		})
	}
}

// discard is a ResponseWriter that drops the response.
type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) WriteHeader(int)             {}
func (discard) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkSave measures durable saves of concurrent writers, each to threads of its own: new ones,
// or the same ones repeatedly.
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
	metadata, err := encode.Value(nil, object)
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
