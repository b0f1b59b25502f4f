package db_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
)

// queueing runs a test in a bubble, where synctest.Wait returns when all writers are in the queue. A
// first Write blocks the writer until release is called, so that all others are in one batch.
func queueing(t *testing.T, queue int, test func(t *testing.T, d *db.DB, release func())) {
	path := filepath.Join(t.TempDir(), "steward.db")
	synctest.Test(t, func(t *testing.T) {
		d, err := db.Open(t.Context(), db.Options{Path: path, Queue: queue, Log: slog.New(slog.DiscardHandler)})
		must(t, err)
		held := make(chan struct{})
		var group sync.WaitGroup
		group.Go(func() {
			if err := d.Write(t.Context(), func(*db.Tx) error { <-held; return nil }); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		test(t, d, sync.OnceFunc(func() { close(held) }))
		group.Wait()
		must(t, d.Close())
	})
}

// writers starts a Write for each function. wait returns their errors when all have ended.
func writers(ctx context.Context, d *db.DB, fns ...func(*db.Tx) error) (wait func() []error) {
	all := make([]error, len(fns))
	var group sync.WaitGroup
	for i, fn := range fns {
		group.Go(func() {
			defer func() {
				if p := recover(); p != nil {
					all[i] = fmt.Errorf("panic: %v", p)
				}
			}()
			all[i] = errors.New("its goroutine ended")
			all[i] = d.Write(ctx, fn)
		})
	}
	return func() []error { group.Wait(); return all }
}

var errPlanned = errors.New("planned")

func putting(key string) func(*db.Tx) error {
	return func(tx *db.Tx) error { return put(tx, key, "") }
}

func texts(list []error) []string {
	var all []string
	for _, err := range list {
		all = append(all, fmt.Sprint(err))
	}
	return all
}

func TestRequestsOfABatchFailAlone(t *testing.T) {
	queueing(t, 0, func(t *testing.T, d *db.DB, release func()) {
		wait := writers(t.Context(), d,
			putting("a"),
			func(tx *db.Tx) error { must(t, put(tx, "b", "")); return errors.New("no") },
			func(tx *db.Tx) error { must(t, put(tx, "c", "")); panic("ouch") },
			func(tx *db.Tx) error { must(t, put(tx, "d", "")); runtime.Goexit(); return nil },
			putting("e"),
		)
		synctest.Wait()
		release()
		want := []string{"<nil>", "no", "panic: ouch", "its goroutine ended", "<nil>"}
		if diff := cmp.Diff(want, texts(wait())); diff != "" {
			t.Error(diff)
		}
		wantKeys(t, d, "a", "e")
	})
}

func TestFirstRequestOfABatchFailsAlone(t *testing.T) {
	for name, fail := range map[string]func(){"error": func() {}, "panic": func() { panic("no") }, "exit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			d := dbtest.Open(t, db.SQLite)
			wait := writers(t.Context(), d, func(tx *db.Tx) error { must(t, put(tx, "a", "")); fail(); return errors.New("no") })
			if err := wait()[0]; err == nil {
				t.Error("no error")
			}
			must(t, d.Write(t.Context(), putting("b")))
			wantKeys(t, d, "b")
		})
	}
}

func TestContextEndsInTheQueue(t *testing.T) {
	queueing(t, 0, func(t *testing.T, d *db.DB, release func()) {
		ctx, cancel := context.WithCancel(t.Context())
		wait := writers(ctx, d, func(*db.Tx) error { t.Error("it ran"); return nil })
		synctest.Wait()
		cancel()
		if err := wait()[0]; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		release()
		must(t, d.Write(t.Context(), putting("a")))
	})
}

func TestContextEndsWhileTheFunctionRuns(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	ctx, cancel := context.WithCancel(t.Context())
	must(t, d.Write(ctx, func(tx *db.Tx) error { cancel(); return put(tx, "a", "") }))
	wantKeys(t, d, "a")
}

func TestFullQueueRefusesWrites(t *testing.T) {
	queueing(t, 2, func(t *testing.T, d *db.DB, release func()) {
		wait := writers(t.Context(), d, putting("a"), putting("b"))
		synctest.Wait()
		if err := d.Write(t.Context(), putting("c")); errs.KindOf(err) != errs.Unavailable {
			t.Errorf("got %v", err)
		}
		release()
		must(t, errors.Join(wait()...))
		wantKeys(t, d, "a", "b")
	})
}

func TestCloseCommitsTheQueue(t *testing.T) {
	queueing(t, 0, func(t *testing.T, d *db.DB, release func()) {
		wait := writers(t.Context(), d, putting("a"), putting("b"))
		synctest.Wait()
		var group sync.WaitGroup
		group.Go(func() { must(t, d.Close()) })
		synctest.Wait()
		if err := d.Write(t.Context(), putting("c")); errs.KindOf(err) != errs.Unavailable {
			t.Errorf("got %v", err)
		}
		release()
		must(t, errors.Join(wait()...))
		group.Wait()
	})
}

// pragma runs a pragma on the connection that writes.
func pragma(t *testing.T, d *db.DB, text string) {
	t.Helper()
	must(t, d.Write(t.Context(), func(tx *db.Tx) error {
		rows, err := tx.Query("PRAGMA " + text)
		if err == nil {
			rows.Close()
		}
		return err
	}))
}

func TestFullDiskFailsTheBatch(t *testing.T) {
	queueing(t, 0, func(t *testing.T, d *db.DB, release func()) {
		big := func(tx *db.Tx) error {
			tx.OnCommit(func() { t.Error("OnCommit ran") })
			_, err := tx.Exec("INSERT INTO meta (key, value) VALUES ('big', $1)", string(slices.Repeat([]byte("x"), 1<<20)))
			_ = put(tx, "sneaked", "") // must not commit by itself, though SQLite has rolled back the transaction
			return err
		}
		release()
		pragma(t, d, "max_page_count = 100")
		for range 2 {
			if err := d.Write(t.Context(), big); errs.KindOf(err) != errs.Unavailable {
				t.Errorf("got %v", err)
			}
		}
		must(t, d.Write(t.Context(), putting("small")))
		pragma(t, d, "max_page_count = 1000000")
		must(t, d.Write(t.Context(), putting("after")))
		wantKeys(t, d, "after", "small")
	})
}

// TestFailedCommitFailsTheBatch has COMMIT fail by a deferred foreign key.
func TestFailedCommitFailsTheBatch(t *testing.T) {
	queueing(t, 0, func(t *testing.T, d *db.DB, release func()) {
		release()
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec("CREATE TABLE child (k TEXT REFERENCES meta (key) DEFERRABLE INITIALLY DEFERRED) STRICT")
			return err
		}))
		held := make(chan struct{})
		hold := writers(t.Context(), d, func(*db.Tx) error { <-held; return nil })
		synctest.Wait()
		wait := writers(t.Context(), d, putting("a"), func(tx *db.Tx) error {
			_, err := tx.Exec("INSERT INTO child (k) VALUES ('nobody')")
			return err
		}, putting("b"))
		synctest.Wait()
		close(held)
		for _, err := range append(wait(), hold()...) {
			if errs.KindOf(err) != errs.Unavailable {
				t.Errorf("got %v", err)
			}
		}
		wantKeys(t, d)
		must(t, d.Write(t.Context(), putting("c")))
		wantKeys(t, d, "c")
	})
}

func TestConcurrentWritersFailAlone(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var fns []func(*db.Tx) error
		var want []string
		for i := range 60 {
			key := fmt.Sprintf("k%03d", i)
			switch i % 5 {
			case 3:
				fns = append(fns, func(tx *db.Tx) error { return errors.Join(put(tx, key, ""), put(tx, key, "")) })
			case 4:
				fns = append(fns, func(tx *db.Tx) error { _ = put(tx, key, ""); panic("no") })
			default:
				fns, want = append(fns, putting(key)), append(want, key)
			}
		}
		for i, err := range writers(t.Context(), d, fns...)() {
			if (err == nil) != (i%5 < 3) {
				t.Errorf("%d: %v", i, err)
			}
		}
		wantKeys(t, d, want...)
	})
}

// TestAcknowledgedWritesAreStored verifies that exactly the acknowledged writes are stored.
func TestAcknowledgedWritesAreStored(t *testing.T) {
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			d := dbtest.Open(t, dialect)
			dbtest.Check(t, dialect, func(t *rapid.T) { acknowledged(t, d) })
		})
	}
}

// plan is what a writer does: the rows that it and its joined Write insert, and how each of them ends.
type plan struct {
	rows, joined      []int
	fail, innerFail   bool
	panics, cancelled bool
}

var plans = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) plan {
	key := rapid.SliceOfN(rapid.IntRange(0, 30), 0, 3)
	odds := rapid.IntRange(0, 5)
	return plan{
		rows:      key.Draw(t, "rows"),
		joined:    key.Draw(t, "joined"),
		fail:      odds.Draw(t, "fail") == 0,
		innerFail: odds.Draw(t, "inner") == 0,
		panics:    odds.Draw(t, "panics") == 0,
		cancelled: odds.Draw(t, "cancelled") == 0,
	}
}), 1, 20)

func acknowledged(t *rapid.T, d *db.DB) {
	ctx := context.Background()
	if err := d.Write(ctx, func(tx *db.Tx) error { _, err := tx.Exec("DELETE FROM meta"); return err }); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	want := map[string]string{}
	var group sync.WaitGroup
	for i, p := range plans.Draw(t, "plans") {
		group.Go(func() {
			defer func() { _ = recover() }()
			mine, err := p.write(ctx, d, fmt.Sprint(i))
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				for _, k := range mine {
					want[k] = fmt.Sprint(i)
				}
			}
		})
	}
	group.Wait()
	got := map[string]string{}
	_, err := db.Collect(d.Read(ctx), func(r db.Row) (bool, error) {
		var k, v string
		err := r.Scan(&k, &v)
		got[k] = v
		return true, err
	}, "SELECT key, value FROM meta")
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Fatalf("-acknowledged +stored:\n%s %v", diff, err)
	}
}

// write executes the plan and returns the keys that it inserted.
func (p plan) write(ctx context.Context, d *db.DB, owner string) (mine []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if p.cancelled {
		go cancel()
	}
	err = d.Write(ctx, func(tx *db.Tx) error {
		mine = nil // it may be a second try
		keys, err := putAll(tx, p.rows, owner, p.fail)
		if err != nil {
			return err
		}
		mine = append(mine, keys...)
		joined := d.Write(tx.Context(), func(tx *db.Tx) error { keys, err = putAll(tx, p.joined, owner, p.innerFail); return err })
		if joined == nil {
			mine = append(mine, keys...)
		}
		if p.panics {
			panic("planned")
		}
		return nil
	})
	return mine, err
}

func putAll(tx *db.Tx, rows []int, owner string, fail bool) (keys []string, err error) {
	for _, k := range rows {
		keys = append(keys, fmt.Sprint(k))
		if err := put(tx, fmt.Sprint(k), owner); err != nil {
			return nil, err // another writer, or an earlier row, has the key
		}
	}
	if fail {
		return nil, errPlanned
	}
	return keys, nil
}
