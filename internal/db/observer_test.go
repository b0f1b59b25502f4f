package db_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/waittest"
)

type commit struct {
	Writes int
	Wait   time.Duration
}

// TestObserverSeesBatches holds the writer for a second while others queue.
func TestObserverSeesBatches(t *testing.T) {
	o := dbtest.Options(t, db.SQLite)
	synctest.Test(t, func(t *testing.T) {
		var seen []commit
		o.Observer.Commit = func(writes int, wait time.Duration) { seen = append(seen, commit{writes, wait}) }
		d, err := db.Open(t.Context(), o)
		must(t, err)
		var group sync.WaitGroup
		group.Go(func() {
			must(t, d.Write(t.Context(), func(*db.Tx) error {
				time.Sleep(time.Second)
				return nil
			}))
		})
		synctest.Wait()
		for _, key := range []string{"a", "b", "c"} {
			group.Go(func() { must(t, d.Write(t.Context(), putting(key))) })
		}
		group.Wait()
		must(t, d.Close())
		if diff := cmp.Diff([]commit{{4, time.Second}}, seen); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// item is written by a Gather.
type item struct{}

func (item) Bytes() int  { return 1 }
func (item) Org() string { return "" }

// TestObserverSeesSlowWrites has writes hold the writer for longer and for less long than is reported.
func TestObserverSeesSlowWrites(t *testing.T) {
	o := dbtest.Options(t, db.SQLite)
	synctest.Test(t, func(t *testing.T) {
		type name struct{}
		seen := map[any]time.Duration{}
		o.Observer.SlowWrite = func(ctx context.Context, held time.Duration) { seen[ctx.Value(name{})] = held }
		d, err := db.Open(t.Context(), o)
		must(t, err)
		hold := func(took time.Duration, err error) func(*db.Tx) error {
			return func(*db.Tx) error {
				time.Sleep(took)
				return err
			}
		}
		named := func(text string) context.Context { return context.WithValue(t.Context(), name{}, text) }
		must(t, d.Write(named("quick"), hold(db.SlowWrite, nil)))
		must(t, d.Write(named("slow"), hold(time.Second, nil)))
		if err := d.Write(named("failed"), hold(2*time.Second, errPlanned)); err == nil {
			t.Error("no error")
		}
		var g db.Gather[item]
		must(t, g.Do(named("gathered"), d, item{}, func(tx *db.Tx, _ []item) error { return hold(3*time.Second, nil)(tx) }))
		must(t, d.Close())
		want := map[any]time.Duration{"slow": time.Second, "failed": 2 * time.Second, "gathered": 3 * time.Second}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

func TestObserverSeesCommits(t *testing.T) {
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			seen := make(chan commit, 10)
			o := dbtest.Options(t, dialect)
			o.Observer.Commit = func(writes int, wait time.Duration) { seen <- commit{writes, wait} }
			d := open(t, o)
			if err := d.Write(t.Context(), func(*db.Tx) error { return errPlanned }); err == nil {
				t.Error("no error")
			}
			must(t, d.Write(t.Context(), putting("a")))
			if got := waittest.Receive(t, "the commit", seen); got.Writes != 1 || got.Wait <= 0 {
				t.Errorf("got %+v", got)
			}
			if len(seen) != 0 {
				t.Errorf("a rollback was reported as %+v", <-seen)
			}
		})
	}
}

func TestObserverSeesChangesOfOtherReplicas(t *testing.T) {
	lags := make(chan time.Duration, 10)
	o := dbtest.Options(t, db.Postgres)
	other := open(t, o)
	o.Observer.Invalidated = func(lag time.Duration) { lags <- lag }
	d := open(t, o)
	own := watched(d, "own")
	runWatch(t, d)
	waittest.Receive(t, "the call at the start", own)
	invalidate(t, d, "own")
	waittest.Receive(t, "the call by Invalidate", own)
	waittest.Receive(t, "the call by the poll", own)
	if len(lags) != 0 {
		t.Error("a change of this replica was reported")
	}
	invalidate(t, other, "others")
	if lag := waittest.Receive(t, "the report", lags); lag <= 0 {
		t.Errorf("a lag of %v", lag)
	}
}

// TestObserverSeesEachOperationOnce counts operations that begin and end, and looks at how they end.
func TestObserverSeesEachOperationOnce(t *testing.T) {
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			var mu sync.Mutex
			var seen []string
			o := dbtest.Options(t, dialect)
			type traced struct{}
			o.Observer.Begin = func(ctx context.Context, operation string) func(error) {
				if ctx.Value(traced{}) == nil {
					return nil
				}
				return func(err error) {
					mu.Lock()
					defer mu.Unlock()
					if err != nil {
						operation += " failed"
					}
					seen = append(seen, operation)
				}
			}
			d := open(t, o)
			ctx := context.WithValue(t.Context(), traced{}, true)
			must(t, d.Write(t.Context(), putting("untraced")))
			must(t, d.Write(ctx, func(tx *db.Tx) error {
				if err := putting("a")(tx); err != nil {
					return err
				}
				return d.Write(tx.Context(), putting("b")) // joins
			}))
			if err := d.Write(ctx, func(*db.Tx) error { return errPlanned }); err == nil {
				t.Error("no error")
			}
			var g db.Gather[item]
			must(t, g.Do(ctx, d, item{}, func(tx *db.Tx, _ []item) error { return putting("c")(tx) }))
			var n int
			must(t, d.Read(ctx).Row(`SELECT 1`).Scan(&n))
			rows, err := d.Read(ctx).Query(`SELECT 1`)
			must(t, err)
			for rows.Next() {
				must(t, rows.Scan(&n))
			}
			rows.Close()
			if err := d.Read(ctx).Row(`SELECT nothing FROM nowhere`).Scan(&n); err == nil {
				t.Error("no error")
			}
			must(t, d.Snapshot(ctx, func(q db.Querier) error { return q.Row(`SELECT 1`).Scan(&n) }))
			want := []string{"write", "write failed", "write", "read", "read", "read failed", "snapshot"}
			if diff := cmp.Diff(want, seen); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if c := d.Connections(); c.Used != 0 || c.Limit <= 0 {
				t.Errorf("connections %+v", c)
			}
		})
	}
}
