package eventlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/id"
	"steward/internal/stamp"
	"steward/internal/waittest"
)

// history is what writers have committed.
type history struct {
	mu        sync.Mutex
	committed map[string]bool
	commits   int
	writing   int
}

func (h *history) count() (commits, writing int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.commits, h.writing
}

// TestReadersSeeEachEventOnceInTheSameOrder commits events on two connections to the database, in
// transactions some of which are rolled back and, on PostgreSQL, some stay open while others commit.
// Readers, who disconnect at random and go on with the other connection, must all see the same.
func TestReadersSeeEachEventOnceInTheSameOrder(t *testing.T) {
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			o := dbtest.Options(t, dialect)
			replicas := []*db.DB{open(t, o)}
			if dialect == db.Postgres {
				replicas = append(replicas, open(t, o))
			}
			h := &history{committed: map[string]bool{}}
			hooks := []string{id.Blob(start), id.Blob(start), id.Blob(start)}
			const writers, transactions, readers = 8, 60, 6
			h.writing = writers
			var group sync.WaitGroup
			for w := range writers {
				group.Go(func() { h.write(t, replicas[w%len(replicas)], hooks, transactions, dialect == db.Postgres) })
			}
			seen := make([][]string, readers)
			for r := range readers {
				group.Go(func() { seen[r] = h.follow(t, replicas) })
			}
			group.Wait()
			for r, keys := range seen {
				if !slices.Equal(keys, seen[0]) {
					t.Errorf("reader %d saw another order: %s", r, difference(keys, seen[0]))
				}
			}
			h.check(t, seen[0])
		})
	}
}

func open(t *testing.T, o db.Options) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { must(t, d.Close()) })
	return d
}

// write commits events. A slow transaction stays open until others have committed, unless all
// writers wait so.
func (h *history) write(t *testing.T, d *db.DB, hooks []string, transactions int, slow bool) {
	defer func() {
		h.mu.Lock()
		h.writing--
		h.mu.Unlock()
	}()
	for range transactions {
		var keys []string
		for _, hook := range hooks[:1+rand.N(len(hooks))] {
			keys = append(keys, newKeys(hook, 1+rand.N(4))...)
		}
		undo := rand.N(5) == 0
		err := d.Write(t.Context(), func(tx *db.Tx) error {
			if err := Append(tx, Batch{"org_a", Receipt, stamp.Of(time.Now()), keys}); err != nil {
				return err
			}
			var one int
			if err := tx.Row(`SELECT 1`).Scan(&one); err != nil { // what was sent is executed
				return err
			}
			if slow && rand.N(4) == 0 {
				h.stayOpen()
			}
			if undo {
				return errRollback
			}
			return nil
		})
		if undo && errors.Is(err, errRollback) {
			continue
		}
		if err != nil {
			t.Error(err)
			return
		}
		h.mu.Lock()
		h.commits++
		for _, key := range keys {
			h.committed[key] = true
		}
		h.mu.Unlock()
	}
}

// stayOpen waits for up to five commits of others.
func (h *history) stayOpen() {
	before, _ := h.count()
	for deadline := time.Now().Add(100 * time.Millisecond); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if commits, writing := h.count(); commits >= before+5 || writing <= 1 {
			return
		}
	}
}

// follow reads the log until the writers are done and nothing is left.
func (h *history) follow(t *testing.T, replicas []*db.DB) (seen []string) {
	d := replicas[0]
	at := Position{}
	waittest.Until(t, "the end of the log", func() (int, bool) {
		_, writing := h.count()
		page, err := After(d.Read(t.Context()), "org_a", "", at)
		if err != nil {
			t.Error(err)
			return 0, true
		}
		events := page.Events
		if rand.N(3) == 0 { // it is cut off in the middle, and goes on elsewhere
			events = events[:rand.N(len(events)+1)]
			d = replicas[rand.N(len(replicas))]
		}
		for _, e := range events {
			seen = append(seen, e.Key)
			at = e.Position
		}
		if len(events) < len(page.Events) && len(seen) > 0 {
			if at, err = ParsePosition("", at.String()); err == nil {
				at, _, err = Resume(d.Read(t.Context()), "org_a", at)
			}
			if err != nil {
				t.Error(err)
				return 0, true
			}
			return len(seen), false
		}
		h.mu.Lock()
		all := len(h.committed)
		h.mu.Unlock()
		return len(seen), writing == 0 && len(seen) >= all
	})
	return seen
}

// check compares what readers saw with what was committed.
func (h *history) check(t *testing.T, seen []string) {
	once := map[string]bool{}
	for _, key := range seen {
		if once[key] {
			t.Errorf("%s was shown twice", key)
		}
		once[key] = true
		if !h.committed[key] {
			t.Errorf("%s was shown and not committed", key)
		}
	}
	if len(once) != len(h.committed) {
		t.Errorf("%d events were shown, %d committed", len(once), len(h.committed))
	}
}

func difference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("event %d of %d and %d", i, len(a), len(b))
		}
	}
	return fmt.Sprintf("%d and %d events", len(a), len(b))
}
