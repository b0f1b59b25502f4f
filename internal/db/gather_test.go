package db_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/stamp"
	"steward/internal/waittest"
)

// note is an item of a Gather: a row of the table meta.
type note struct {
	key, value string
	org        string
	size       int // 0 is 100
	most       int // the size of its largest batch
}

func (n *note) Bytes() int  { return cmp.Or(n.size, 100) }
func (n *note) Org() string { return n.org }

func writeNotes(tx *db.Tx, batch []*note) error {
	var rows db.Bulk[note]
	for _, n := range batch {
		rows = append(rows, *n)
	}
	return rows.Send(tx, `INSERT INTO meta (key, value) SELECT v.key, v.value FROM {v}`)
}

func value(t *testing.T, d *db.DB, key string) (text string) {
	t.Helper()
	err := d.Read(t.Context()).Row(`SELECT value FROM meta WHERE key = $1`, key).Scan(&text)
	if errors.Is(err, db.ErrNoRows) {
		return ""
	}
	must(t, err)
	return text
}

// TestGatherSharesTransactions starts many callers while a batch is blocked: they share transactions, and
// a bad item among them fails alone.
func TestGatherSharesTransactions(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var g db.Gather[*note]
		entered, leave := make(chan struct{}, 100), make(chan struct{})
		work := func(tx *db.Tx, batch []*note) error {
			for _, n := range batch {
				n.most = max(n.most, len(batch))
			}
			for _, n := range batch {
				if n.value == "held" {
					entered <- struct{}{}
					<-leave
					return errors.New("not this time")
				}
			}
			return writeNotes(tx, batch)
		}
		var writers sync.WaitGroup
		writers.Go(func() {
			if err := g.Do(t.Context(), d, &note{key: "held", value: "held"}, work); err == nil {
				t.Error("a failed item has no error")
			}
		})
		<-entered
		const n = 100
		notes, failures := make([]*note, n), make([]error, n)
		for i := range n {
			notes[i] = &note{key: fmt.Sprint("k", i), value: fmt.Sprint(i)}
			if i%10 == 3 {
				notes[i].key = "k\x00"
			}
			writers.Go(func() { failures[i] = g.Do(t.Context(), d, notes[i], work) })
		}
		waittest.Until(t, "callers that wait", func() (int, bool) { return g.Waiting(), g.Waiting() == n })
		close(leave)
		writers.Wait()
		shared := false
		for i, one := range notes {
			shared = shared || one.most > 1
			if i%10 == 3 {
				if errs.KindOf(failures[i]) != errs.Invalid {
					t.Errorf("bad item %d: %v", i, failures[i])
				}
				continue
			}
			if stored := value(t, d, one.key); failures[i] != nil || stored != one.value {
				t.Errorf("%s: %v, stored %q", one.key, failures[i], stored)
			}
		}
		if !shared || value(t, d, "held") != "" {
			t.Errorf("shared a transaction: %v; the failed item is stored as %q", shared, value(t, d, "held"))
		}
		must(t, g.Do(t.Context(), d, &note{key: "after", value: "x"}, writeNotes))
	})
}

// TestGatherServesOrganizationsInTurn has callers of several organizations wait while a batch is blocked, and checks
// those that follow.
func TestGatherServesOrganizationsInTurn(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	rapid.Check(t, func(t *rapid.T) {
		var g db.Gather[*note]
		var batches [][]*note
		entered, leave := make(chan struct{}), make(chan struct{})
		work := func(tx *db.Tx, batch []*note) error {
			if batches = append(batches, batch); len(batches) == 1 {
				close(entered)
				<-leave
			}
			return nil
		}
		var writers sync.WaitGroup
		do := func(n *note) {
			writers.Go(func() {
				if err := g.Do(context.Background(), d, n, work); err != nil {
					t.Error(err)
				}
			})
		}
		do(&note{org: "first"})
		<-entered
		sizes := rapid.SampledFrom([]int{100, 64 << 10, 64<<10 + 1, 900_000})
		n := rapid.IntRange(1, 40).Draw(t, "items")
		for range n {
			do(&note{org: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "org"), size: sizes.Draw(t, "size")})
		}
		for g.Waiting() < n {
			runtime.Gosched()
		}
		close(leave)
		writers.Wait()
		written, served := 0, map[string]int{}
		for at, batch := range batches[1:] {
			filled, large := map[string]int{}, false
			for _, n := range batch {
				written++
				if filled[n.org] >= 512<<10 {
					t.Errorf("a batch has more than %d bytes of %s", filled[n.org], n.org)
				}
				filled[n.org] += n.Bytes()
				large = large || n.size > 64<<10
				if _, known := served[n.org]; !known {
					served[n.org] = at
				}
			}
			if large && len(filled) > 1 {
				t.Errorf("a large item shares a batch with other organizations: %v", filled)
			}
		}
		for org, at := range served {
			if at > 2 {
				t.Errorf("%s waits for %d batches of two others", org, at)
			}
		}
		if written != n {
			t.Errorf("%d of %d were written", written, n)
		}
	})
}

// TestGatherServesNewOrganizationsFirst has an organization with many callers, and a caller of another one that comes
// while the first one's batch is written.
func TestGatherServesNewOrganizationsFirst(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	var g db.Gather[*note]
	var order []string
	entered, leave := make(chan struct{}), make(chan struct{})
	work := func(tx *db.Tx, batch []*note) error {
		order = append(order, batch[0].org)
		entered <- struct{}{}
		<-leave
		return nil
	}
	var writers sync.WaitGroup
	do := func(org string, size int) {
		writers.Go(func() {
			if err := g.Do(t.Context(), d, &note{org: org, size: size}, work); err != nil {
				t.Error(err)
			}
		})
	}
	waiting := func(n int) {
		waittest.True(t, "callers to wait", func() bool { return g.Waiting() == n })
	}
	for range 4 {
		do("greedy", 900_000)
	}
	<-entered
	waiting(3)
	for _, n := range []int{4, 3} {
		do("other", 0)
		waiting(n)
		for range 2 { // the other one's batch, and one of the greedy one
			leave <- struct{}{}
			<-entered
		}
	}
	leave <- struct{}{}
	<-entered
	leave <- struct{}{}
	writers.Wait()
	if want := []string{"greedy", "other", "greedy", "other", "greedy", "greedy"}; !slices.Equal(order, want) {
		t.Errorf("batches of %s, want %s", order, want)
	}
}

func TestGatherJoinsATransaction(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var g db.Gather[*note]
		undone := errors.New("undone")
		err := d.Write(t.Context(), func(tx *db.Tx) error {
			if err := g.Do(tx.Context(), d, &note{key: "joined", value: "x"}, writeNotes); err != nil {
				return err
			}
			return undone
		})
		if !errors.Is(err, undone) || value(t, d, "joined") != "" {
			t.Errorf("got %v, %q is there", err, value(t, d, "joined"))
		}
	})
}

func TestGatherServesCallersAfterAPanic(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var g db.Gather[*note]
		for range 3 {
			func() {
				defer func() {
					if recover() == nil {
						t.Error("the panic was lost")
					}
				}()
				_ = g.Do(t.Context(), d, &note{key: "p"}, func(*db.Tx, []*note) error { panic("oops") })
			}()
		}
		must(t, g.Do(t.Context(), d, &note{key: "q", value: "x"}, writeNotes))
	})
}

func TestGatherDoesNotWriteForACallerThatLeft(t *testing.T) {
	d := dbtest.Open(t, db.Postgres)
	var g db.Gather[*note]
	entered, leave := make(chan struct{}), make(chan struct{})
	var held sync.WaitGroup
	held.Go(func() {
		err := g.Do(t.Context(), d, &note{key: "slow", value: "x"}, func(tx *db.Tx, batch []*note) error {
			close(entered)
			<-leave
			return writeNotes(tx, batch)
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	held.Go(func() {
		if err := g.Do(ctx, d, &note{key: "late", value: "x"}, writeNotes); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	waittest.True(t, "the caller to wait", func() bool { return g.Waiting() == 1 })
	cancel()
	waittest.True(t, "the caller to leave", func() bool { return g.Waiting() == 0 })
	close(leave)
	held.Wait()
	if value(t, d, "late") != "" || value(t, d, "slow") != "x" {
		t.Error("the wrong items were written")
	}
}

// TestBulkWritesEveryKind writes and reads values of every kind and NULL, in more rows than one statement
// has on SQLite.
func TestBulkWritesEveryKind(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		const rows = 150
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			if _, err := tx.Exec(`CREATE TABLE bulk_rows (n BIGINT PRIMARY KEY, s TEXT, then_at BIGINT, b ` + map[db.Dialect]string{
				db.SQLite: "BLOB, ok INTEGER", db.Postgres: "BYTEA, ok BOOLEAN",
			}[d.Dialect()] + `)`); err != nil {
				return err
			}
			type row struct {
				Number int32
				Text   *string
				Bytes  []byte
				IsEven bool
				Then   *stamp.Time
			}
			var all db.Bulk[row]
			for i := range rows {
				var s *string
				var b []byte
				if i%3 > 0 {
					text := fmt.Sprint("é", i)
					s, b = &text, []byte{byte(i), 0}
				}
				all = append(all, row{Number: int32(i), Text: s, Bytes: b, IsEven: i%2 == 0, Then: db.Null(stamp.Time(i % 3))})
			}
			n, err := all.Exec(tx, `INSERT INTO bulk_rows (n, s, b, ok, then_at) SELECT v.number, v.text, v.bytes, v.is_even, v.then FROM {v}`)
			if err == nil && n != rows {
				err = fmt.Errorf("%d rows were written", n)
			}
			return err
		}))
		var count, nulls, oks int
		must(t, d.Read(t.Context()).Row(`SELECT count(*), COALESCE(SUM(CASE WHEN s IS NULL AND b IS NULL AND then_at IS NULL THEN 1 ELSE 0 END), 0),
			COALESCE(SUM(CASE WHEN ok THEN 1 ELSE 0 END), 0) FROM bulk_rows`).Scan(&count, &nulls, &oks))
		if count != rows || nulls != 50 || oks != 75 {
			t.Errorf("%d rows, %d of them null, %d true", count, nulls, oks)
		}
		var text string
		var bytes []byte
		must(t, d.Read(t.Context()).Row(`SELECT s, b FROM bulk_rows WHERE n = 149`).Scan(&text, &bytes))
		if text != "é149" || string(bytes) != "\x95\x00" {
			t.Errorf("%q %v", text, bytes)
		}
	})
}

// TestBulkUpdatesAndDeletes has values that match no row.
func TestBulkUpdatesAndDeletes(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var all db.Bulk[note]
		for i := range 20 {
			all = append(all, note{key: fmt.Sprint("key", i), value: fmt.Sprint("value", i)})
		}
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			err := tx.Send(`INSERT INTO meta (key, value) VALUES ('key3', 'old'), ('key11', 'old'), ('key12', 'other')`)
			if err != nil {
				return err
			}
			rows, err := all.Changed(tx, `UPDATE meta SET value = v.value {FROM v} WHERE meta.key = v.key AND value = 'old'`)
			if err == nil && !slices.Equal(rows, []int{3, 11}) {
				err = fmt.Errorf("rows %d were changed", rows)
			}
			if err != nil {
				return err
			}
			gone, err := db.CollectBulk(tx, all, db.Value[string],
				`DELETE FROM meta AS m {USING v} WHERE m.key = v.key AND m.value = v.value RETURNING key`)
			slices.Sort(gone)
			if err == nil && !slices.Equal(gone, []string{"key11", "key3"}) {
				err = fmt.Errorf("%s are gone", gone)
			}
			return err
		}))
		if value(t, d, "key12") != "other" || value(t, d, "key3") != "" {
			t.Error("the wrong ones are gone")
		}
		some := db.Bulk[string]{"key12", "key13"}
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			n, err := some.Exec(tx, `DELETE FROM meta WHERE key {IN v} AND value = 'other'`)
			if err == nil && n != 1 {
				err = fmt.Errorf("%d are gone", n)
			}
			return err
		}))
		if value(t, d, "key12") != "" {
			t.Error("key12 is still there")
		}
	})
}
