package move_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/db/move"
	"steward/internal/db/tablecopy"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eachDirection runs a test with a source and a target of each kind.
func eachDirection(t *testing.T, test func(t *testing.T, from, to *db.DB)) {
	between(t, db.SQLite, db.Postgres, test)
	between(t, db.Postgres, db.SQLite, test)
}

func between(t *testing.T, from, to db.Dialect, test func(t *testing.T, from, to *db.DB)) {
	t.Run(fmt.Sprintf("%s to %s", from, to), func(t *testing.T) { test(t, dbtest.Open(t, from), dbtest.Open(t, to)) })
}

// fill writes users with addresses, more than two pages of them, and rows whose key is bytes.
func fill(t *testing.T, d *db.DB) {
	t.Helper()
	must(t, d.Write(t.Context(), func(tx *db.Tx) error {
		const numbers = `WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 4999) `
		if _, err := tx.Exec(numbers + `INSERT INTO users (id, email, version, created_at, updated_at)
			SELECT 'u' || i, i || '@example.com', 1, 2, 3 FROM n`); err != nil {
			return err
		}
		for i := 0; i < 5000; i += 500 {
			rows := make([]string, 500)
			args := make([]any, 500)
			for j := range rows {
				rows[j] = fmt.Sprintf("($%d, %d)", j+1, i+j)
				args[j] = proof(i + j)
			}
			if _, err := tx.Exec(`INSERT INTO oidc_proofs (proof_hash, expires_at) VALUES `+strings.Join(rows, ", "), args...); err != nil {
				return err
			}
		}
		_, err := tx.Exec(`INSERT INTO members (org_id, user_id, role, disabled, version, created_at, updated_at) VALUES ('o', 'u1', 'owner', TRUE, 1, 1, 1)`)
		return err
	}))
}

// proof is a key that is bytes.
func proof(i int) []byte { return []byte{0, byte(i), byte(i >> 8)} }

func insertUser(tx *db.Tx, i int) error {
	_, err := tx.Exec(`INSERT INTO users (id, email, version, created_at, updated_at) VALUES ($1, $2, 1, 2, 3) ON CONFLICT DO NOTHING`,
		fmt.Sprint("u", i), fmt.Sprintf("%d@example.com", i))
	return err
}

// maxWrites bounds what a writer writes, so that a slow mover keeps up at last.
const maxWrites = 3_000

// writer changes rows until ctx ends: addresses go from one user to another, users come and go.
func writer(ctx context.Context, t *testing.T, d *db.DB) {
	for i := 0; i < maxWrites && ctx.Err() == nil; i++ {
		a, b := rand.IntN(5500), rand.IntN(5500)
		err := d.Write(context.WithoutCancel(ctx), func(tx *db.Tx) error {
			switch rand.IntN(4) {
			case 0:
				return insertUser(tx, a)
			case 1:
				_, err := tx.Exec(`DELETE FROM users WHERE id = $1`, fmt.Sprint("u", a))
				return err
			case 2:
				_, err := tx.Exec(`UPDATE oidc_proofs SET expires_at = expires_at + 1 WHERE proof_hash = $1`, proof(a))
				return err
			}
			return swap(tx, fmt.Sprint("u", min(a, b)), fmt.Sprint("u", max(a, b)))
		})
		if err != nil && !db.IsUnique(err) {
			t.Error(err)
			return
		}
	}
}

// swap gives the address of one user to another.
func swap(tx *db.Tx, from, to string) error {
	var email *string
	err := tx.Row(`SELECT email FROM users WHERE id = $1`, from).Scan(&email)
	if errors.Is(err, db.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := tx.Exec(`UPDATE users SET email = NULL WHERE id = $1`, from); err != nil {
		return err
	}
	_, err = tx.Exec(`UPDATE users SET email = $2, version = version + 1 WHERE id = $1`, to, email)
	return err
}

// sums returns the checksum of each table, without what meta says about a move.
func sums(t *testing.T, d *db.DB) map[string]tablecopy.Sum {
	t.Helper()
	all := map[string]tablecopy.Sum{}
	for _, name := range tablecopy.Tables() {
		table, err := tablecopy.Open(d.Read(t.Context()), name)
		must(t, err)
		var sum tablecopy.Sum
		must(t, table.Read(d.Read(t.Context()), func(line []byte) error {
			if !strings.HasPrefix(string(line), `["mov`) {
				sum.Add(line)
			}
			return nil
		}))
		all[name] = sum
	}
	return all
}

// TestRowsThatChangeMeanwhileAreMoved moves rows while they change, and is interrupted while it copies.
func TestRowsThatChangeMeanwhileAreMoved(t *testing.T) {
	moves := func(t *testing.T, from, to *db.DB) {
		fill(t, from)
		writing, stop := context.WithCancel(t.Context())
		var writers sync.WaitGroup
		for range 3 {
			writers.Go(func() { writer(writing, t, from) })
		}
		defer writers.Wait()
		defer stop()

		ctx, interrupt := context.WithCancel(t.Context())
		first := &move.Mover{Source: from, Target: to, Report: func(p move.Progress) {
			if p.Stage == "copy" && p.Table == "users" { // a slow mover follows changes before it gets there
				interrupt()
			}
		}}
		must(t, first.Begin(ctx, "m1"))
		if err := first.Copy(ctx); err == nil {
			t.Fatal("the copy was not interrupted")
		}
		if other := (&move.Mover{Source: from, Target: to}); other.Begin(t.Context(), "m2") == nil {
			t.Error("another move has begun")
		}

		var copied int64
		m := &move.Mover{Source: from, Target: to, Report: func(p move.Progress) {
			if p.Stage == "copy" && p.Table == "users" && copied == 0 {
				copied = p.Rows
			}
		}}
		must(t, m.Begin(t.Context(), "m1"))
		must(t, m.Copy(t.Context()))
		if copied <= 200 {
			t.Errorf("the copy went on with row %d", copied)
		}
		must(t, m.Follow(t.Context()))
		must(t, m.Verify(t.Context()))
		must(t, m.Follow(t.Context()))
		stop()
		writers.Wait()
		must(t, m.Finish(t.Context(), "elsewhere"))

		want, got := sums(t, from), sums(t, to)
		var total int64
		for name, sum := range want {
			total += sum.Rows
			if got[name] != sum {
				t.Errorf("%s: %+v, want %+v", name, got[name], sum)
			}
		}
		if n, err := m.Count(t.Context()); err != nil || n != total || want["users"].Rows < 1000 {
			t.Errorf("%d rows were moved, %v, want %d", n, err, total)
		}
		for _, d := range []*db.DB{from, to} {
			tables, err := db.Tables(d.Read(t.Context()))
			must(t, err)
			for _, name := range tables {
				if strings.HasPrefix(name, "move_") {
					t.Errorf("%s is left", name)
				}
			}
		}
		if where, err := move.Moved(from.Read(t.Context())); err != nil || where != "elsewhere" {
			t.Errorf("the source is marked %q, %v", where, err)
		}
		late := func() error {
			return from.Write(t.Context(), func(tx *db.Tx) error { return insertUser(tx, 9999) })
		}
		if err := late(); (err != nil) != (from.Dialect() == db.Postgres) {
			t.Errorf("a process that knows nothing of the move: %v", err)
		}
		if err := move.Revive(t.Context(), from, false); err == nil {
			t.Error("a source whose rows were moved accepts changes again")
		}
		must(t, move.Revive(t.Context(), from, true))
		must(t, late()) // no trigger is left
	}
	eachDirection(t, moves)
	between(t, db.Postgres, db.Postgres, moves)
}

// TestAddressThatGoesBackAndForthIsFollowed follows two users who give each other an address all the time.
func TestAddressThatGoesBackAndForthIsFollowed(t *testing.T) {
	eachDirection(t, func(t *testing.T, from, to *db.DB) {
		must(t, from.Write(t.Context(), func(tx *db.Tx) error { return errors.Join(insertUser(tx, 1), insertUser(tx, 2)) }))
		m := &move.Mover{Source: from, Target: to}
		must(t, m.Begin(t.Context(), "m1"))
		must(t, m.Copy(t.Context()))
		var swaps sync.WaitGroup
		swaps.Go(func() {
			users := []string{"u1", "u2"}
			for i := range 500 {
				if err := from.Write(t.Context(), func(tx *db.Tx) error { return swap(tx, users[i%2], users[1-i%2]) }); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for range 50 {
			if err := m.Follow(t.Context()); err != nil {
				t.Error(err)
				break
			}
		}
		swaps.Wait()
		must(t, m.Finish(t.Context(), "elsewhere"))
	})
}

// TestFollowEndsAlthoughOthersWriteAsFast writes as many changes as were just copied.
func TestFollowEndsAlthoughOthersWriteAsFast(t *testing.T) {
	dbtest.Long(t)
	from, to := dbtest.Open(t, db.SQLite), dbtest.Open(t, db.SQLite)
	fill(t, from)
	change := func() {
		_, err := from.Exec(t.Context(), `UPDATE users SET version = version + 1`)
		must(t, err)
	}
	var round int64
	m := &move.Mover{Source: from, Target: to, Report: func(p move.Progress) {
		if p.Stage != "follow" || p.Table != "users" || p.Round == round {
			return
		}
		if round = p.Round; round > 10 {
			t.Fatal("it goes on following")
		}
		change()
	}}
	must(t, m.Begin(t.Context(), "m1"))
	must(t, m.Copy(t.Context()))
	change()
	must(t, m.Follow(t.Context()))
	m.Report = nil
	must(t, m.Finish(t.Context(), "elsewhere"))
	if want, got := sums(t, from)["users"], sums(t, to)["users"]; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestRowThatDiffersIsFound changes a row of the target behind the back of a move.
func TestRowThatDiffersIsFound(t *testing.T) {
	for what, change := range map[string]string{
		"changed": `UPDATE users SET version = 7 WHERE id = 'u7'`, "missing": `DELETE FROM users WHERE id = 'u7'`,
		"too many": `INSERT INTO users (id, version, created_at, updated_at) VALUES ('x', 1, 1, 1)`,
	} {
		t.Run(what, func(t *testing.T) {
			from, to := dbtest.Open(t, db.SQLite), dbtest.Open(t, db.SQLite)
			fill(t, from)
			m := &move.Mover{Source: from, Target: to}
			must(t, m.Begin(t.Context(), "m1"))
			must(t, m.Copy(t.Context()))
			_, err := to.Exec(t.Context(), change)
			must(t, err)
			must(t, m.Verify(t.Context()))
			if err := m.Finish(t.Context(), "elsewhere"); !errors.Is(err, move.ErrChanged) {
				t.Errorf("got %v", err)
			}
			if where, err := move.Moved(from.Read(t.Context())); err != nil || where != "" {
				t.Errorf("the source is marked %q, %v", where, err)
			}
		})
	}
}

// TestTargetMustBeEmpty refuses a target with rows.
func TestTargetMustBeEmpty(t *testing.T) {
	from, to := dbtest.Open(t, db.SQLite), dbtest.Open(t, db.SQLite)
	must(t, to.Write(t.Context(), func(tx *db.Tx) error { return insertUser(tx, 1) }))
	m := &move.Mover{Source: from, Target: to}
	if err := m.Begin(t.Context(), "m1"); err == nil || !strings.Contains(err.Error(), "rows in users") {
		t.Errorf("got %v", err)
	}
}

// TestAbortedMoveLeavesNothing aborts a move.
func TestAbortedMoveLeavesNothing(t *testing.T) {
	eachDirection(t, func(t *testing.T, from, to *db.DB) {
		m := &move.Mover{Source: from, Target: to}
		must(t, m.Begin(t.Context(), "m1"))
		if id, err := move.Moving(from.Read(t.Context())); err != nil || id != "m1" {
			t.Errorf("%q, %v", id, err)
		}
		must(t, move.Abort(t.Context(), from))
		must(t, from.Write(t.Context(), func(tx *db.Tx) error { return insertUser(tx, 1) }))
		if id, err := move.Moving(from.Read(t.Context())); err != nil || id != "" {
			t.Errorf("%q, %v", id, err)
		}
	})
}

// moveAll moves all rows while nobody writes.
func moveAll(t *testing.T, m *move.Mover, id string) error {
	t.Helper()
	if err := m.Begin(t.Context(), id); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{m.Copy, m.Follow, m.Verify} {
		if err := step(t.Context()); err != nil {
			return err
		}
	}
	return m.Finish(t.Context(), "elsewhere")
}

// TestRowsAreMovedOnce tries to move rows again that were moved, to another target and to the same.
func TestRowsAreMovedOnce(t *testing.T) {
	eachDirection(t, func(t *testing.T, from, to *db.DB) {
		must(t, from.Write(t.Context(), func(tx *db.Tx) error { return insertUser(tx, 1) }))
		must(t, moveAll(t, &move.Mover{Source: from, Target: to}, "m1"))
		for what, target := range map[string]*db.DB{"another target": dbtest.Open(t, db.SQLite), "the same target": to} {
			err := moveAll(t, &move.Mover{Source: from, Target: target}, "m2")
			if err == nil || !strings.Contains(err.Error(), "were moved to elsewhere") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if err := move.Abort(t.Context(), from); err == nil || !strings.Contains(err.Error(), "were moved to elsewhere") {
			t.Errorf("abort: %v", err)
		}
	})
}

// TestMoveThatIsMarkedGoesOnWithItsTarget interrupts a move when the source is marked and the target is not open.
func TestMoveThatIsMarkedGoesOnWithItsTarget(t *testing.T) {
	eachDirection(t, func(t *testing.T, from, to *db.DB) {
		must(t, from.Write(t.Context(), func(tx *db.Tx) error { return insertUser(tx, 1) }))
		m := &move.Mover{Source: from, Target: to}
		must(t, m.Begin(t.Context(), "m1"))
		_, err := from.Exec(t.Context(), `INSERT INTO meta (key, value) VALUES ('moved', 'elsewhere')`)
		must(t, err)
		err = moveAll(t, &move.Mover{Source: from, Target: dbtest.Open(t, db.SQLite)}, "m1")
		if err == nil || !strings.Contains(err.Error(), "were moved to elsewhere") {
			t.Errorf("another target: %v", err)
		}
		must(t, moveAll(t, &move.Mover{Source: from, Target: to}, "m1"))
	})
}

// TestMoverThatWasReplacedChangesNothing has a mover that was frozen go on after another one has finished its
// move.
func TestMoverThatWasReplacedChangesNothing(t *testing.T) {
	eachDirection(t, func(t *testing.T, from, to *db.DB) {
		must(t, from.Write(t.Context(), func(tx *db.Tx) error { return insertUser(tx, 1) }))
		frozen := &move.Mover{Source: from, Target: to}
		must(t, frozen.Begin(t.Context(), "m1"))
		next := &move.Mover{Source: from, Target: to}
		must(t, next.Begin(t.Context(), "m1"))
		if err := frozen.Copy(t.Context()); err == nil {
			t.Error("it copies rows although another one moves them")
		}
		must(t, next.Copy(t.Context()))
		must(t, next.Verify(t.Context()))
		must(t, next.Finish(t.Context(), "elsewhere"))
		for what, step := range map[string]func(context.Context) error{
			"copy": frozen.Copy, "finish": func(ctx context.Context) error { return frozen.Finish(ctx, "nowhere") },
		} {
			if err := step(t.Context()); err == nil {
				t.Errorf("%s: it goes on although the rows were moved", what)
			}
		}
		if where, err := move.Moved(from.Read(t.Context())); err != nil || where != "elsewhere" {
			t.Errorf("the source is marked %q, %v", where, err)
		}
		err := from.Write(t.Context(), func(tx *db.Tx) error { return insertUser(tx, 2) })
		if (err != nil) != (from.Dialect() == db.Postgres) {
			t.Errorf("a write to the source: %v", err)
		}
	})
}

// TestProcessThatStartsMeanwhileEndsTheMove has a process start, which writes, when the source refuses changes
// already.
func TestProcessThatStartsMeanwhileEndsTheMove(t *testing.T) {
	from, to := dbtest.Open(t, db.Postgres), dbtest.Open(t, db.SQLite)
	write := func(i int) error {
		return from.Write(t.Context(), func(tx *db.Tx) error { return insertUser(tx, i) })
	}
	must(t, write(1))
	started := false
	m := &move.Mover{Source: from, Target: to}
	m.Report = func(p move.Progress) {
		if p.Stage == "follow" && write(9) != nil { // the fence is there
			started = true
			must(t, move.Revive(t.Context(), from, false))
			must(t, write(3))
		}
	}
	must(t, m.Begin(t.Context(), "m1"))
	must(t, m.Copy(t.Context()))
	must(t, m.Verify(t.Context()))
	must(t, write(2))
	err := m.Finish(t.Context(), "elsewhere")
	if !started || err == nil || !strings.Contains(err.Error(), "has started") {
		t.Errorf("%t, %v", started, err)
	}
	must(t, write(4))
}

// TestMoveWaitsForFrozenTransactions begins a move while a process that was frozen has a row of a table locked,
// until the server ends its transaction.
func TestMoveWaitsForFrozenTransactions(t *testing.T) {
	from, to := dbtest.Open(t, db.Postgres), dbtest.Open(t, db.SQLite)
	locked, thaw := make(chan struct{}), make(chan struct{})
	var frozen sync.WaitGroup
	frozen.Go(func() {
		err := from.Write(t.Context(), func(tx *db.Tx) error {
			if err := insertUser(tx, 1); err != nil {
				return err
			}
			close(locked)
			<-thaw
			return nil
		})
		if err == nil {
			t.Error("the transaction was committed")
		}
	})
	<-locked
	err := (&move.Mover{Source: from, Target: to}).Begin(t.Context(), "m1")
	close(thaw)
	frozen.Wait()
	must(t, err)
}
