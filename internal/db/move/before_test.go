package move_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"steward/internal/db"
	"steward/internal/db/move"
	"steward/internal/db/tablecopy"
)

// insertBlobs inserts rows of blobs.
func insertBlobs(t *testing.T, d *db.DB, ids ...string) {
	t.Helper()
	must(t, d.Write(t.Context(), func(tx *db.Tx) error {
		return db.Bulk[string](ids).Send(tx, `INSERT INTO blobs (id) SELECT v.value FROM {v}`)
	}))
}

// receiver keeps the rows of blobs that a mover gives it.
type receiver struct {
	target *db.DB
	ids    []string
	// fail is returned, if it is set.
	fail error
}

func (r *receiver) before(ctx context.Context, t tablecopy.Table, rows []tablecopy.Row) error {
	if t.Name != "blobs" || len(rows) == 0 {
		return nil
	}
	if r.fail != nil {
		return r.fail
	}
	for _, row := range rows {
		blobID, _ := row[slices.Index(t.Names(), "id")].(string)
		var n int
		if err := r.target.Read(ctx).Row(`SELECT count(*) FROM blobs WHERE id = $1`, blobID).Scan(&n); err != nil || n != 0 {
			return errors.Join(err, fmt.Errorf("%s is in the target already", blobID))
		}
		r.ids = append(r.ids, blobID)
	}
	return nil
}

// take returns what was received.
func (r *receiver) take() string {
	text := strings.Join(slices.Sorted(slices.Values(r.ids)), " ")
	r.ids = nil
	return text
}

// TestRowsAreReceivedBeforeTheyAreInTheTarget fails while rows are copied and when the move ends, and goes on
// with the same rows.
func TestRowsAreReceivedBeforeTheyAreInTheTarget(t *testing.T) {
	eachDirection(t, func(t *testing.T, from, to *db.DB) {
		insertBlobs(t, from, "b1", "b2")
		down := errors.New("down")
		r := &receiver{target: to, fail: down}
		m := &move.Mover{Source: from, Target: to, Before: r.before}
		must(t, m.Begin(t.Context(), "m1"))
		if err := m.Copy(t.Context()); !errors.Is(err, down) {
			t.Fatalf("got %v", err)
		}
		r.fail = nil
		must(t, m.Copy(t.Context()))
		if got := r.take(); got != "b1 b2" {
			t.Errorf("%q was copied", got)
		}
		insertBlobs(t, from, "b3")
		must(t, m.Follow(t.Context()))
		must(t, m.Verify(t.Context()))
		insertBlobs(t, from, "b4")
		r.fail = down
		if err := m.Finish(t.Context(), "elsewhere"); !errors.Is(err, down) {
			t.Fatalf("got %v", err)
		}
		if where, err := move.Moved(from.Read(t.Context())); err != nil || where != "" {
			t.Errorf("the source is marked %q, %v", where, err)
		}
		insertBlobs(t, from, "b5")
		r.fail = nil
		must(t, m.Finish(t.Context(), "elsewhere"))
		if got := r.take(); got != "b3 b4 b5" {
			t.Errorf("%q was followed", got)
		}
	})
}

// TestMoveGoesOnWithTheSameStore refuses to go on with a move that copies bytes to another store, or to none.
func TestMoveGoesOnWithTheSameStore(t *testing.T) {
	eachDirection(t, func(t *testing.T, from, to *db.DB) {
		begin := func(store string) error {
			return (&move.Mover{Source: from, Target: to, Store: store}).Begin(t.Context(), "m1")
		}
		must(t, begin("s3://a"))
		for _, other := range []string{"", "s3://b"} {
			if err := begin(other); err == nil || !strings.Contains(err.Error(), "s3://a") {
				t.Errorf("%q: got %v", other, err)
			}
		}
		must(t, begin("s3://a"))
		m := &move.Mover{Source: from, Target: to, Store: "s3://a"}
		must(t, m.Begin(t.Context(), "m1"))
		for _, step := range []func(context.Context) error{m.Copy, m.Follow, m.Verify} {
			must(t, step(t.Context()))
		}
		must(t, m.Finish(t.Context(), "elsewhere"))
		if store, err := move.Store(to.Read(t.Context())); err != nil || store != "s3://a" {
			t.Errorf("the target names %q, %v", store, err)
		}
		must(t, move.ForgetStore(t.Context(), to))
		if store, err := move.Store(to.Read(t.Context())); err != nil || store != "" {
			t.Errorf("the target names %q, %v", store, err)
		}
	})
}

// TestMoveBegunWithoutBytesGoesOnWithoutThem refuses a store where the first rows came without bytes.
func TestMoveBegunWithoutBytesGoesOnWithoutThem(t *testing.T) {
	eachDirection(t, func(t *testing.T, from, to *db.DB) {
		must(t, (&move.Mover{Source: from, Target: to}).Begin(t.Context(), "m1"))
		err := (&move.Mover{Source: from, Target: to, Store: "s3://a"}).Begin(t.Context(), "m1")
		if err == nil || !strings.Contains(err.Error(), "without --blob-url") {
			t.Errorf("got %v", err)
		}
		must(t, (&move.Mover{Source: from, Target: to}).Begin(t.Context(), "m1"))
	})
}

// TestChangesAreFollowedWhileRowsAreCopied follows after each page, while rows change.
func TestChangesAreFollowedWhileRowsAreCopied(t *testing.T) {
	eachDirection(t, func(t *testing.T, from, to *db.DB) {
		fill(t, from)
		writing, stop := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		for range 2 {
			writers.Go(func() { writer(writing, t, from) })
		}
		defer writers.Wait()
		defer stop()
		var m *move.Mover
		var pages int
		m = &move.Mover{Source: from, Target: to, Report: func(p move.Progress) {
			if p.Stage == "copy" && p.Rows > 0 {
				pages++
				if err := m.Follow(t.Context()); err != nil {
					t.Error(err)
				}
			}
		}}
		must(t, m.Begin(t.Context(), "m1"))
		must(t, m.Copy(t.Context()))
		must(t, m.Verify(t.Context()))
		stop()
		writers.Wait()
		must(t, m.Finish(t.Context(), "elsewhere"))
		want, got := sums(t, from), sums(t, to)
		for _, name := range []string{"users", "oidc_proofs"} {
			if got[name] != want[name] || want[name].Rows < 1000 || pages < 5 {
				t.Errorf("%s after %d pages: %+v, want %+v", name, pages, got[name], want[name])
			}
		}
	})
}
