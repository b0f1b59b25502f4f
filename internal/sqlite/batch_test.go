package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	driver "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/waittest"
)

// batched is a file that a Batch writes to.
type batched struct {
	Batch[*Conn]
	conn *Conn
	// group are the writers that run.
	group sync.WaitGroup
}

func newBatched(t *testing.T, setup ...string) *batched {
	t.Helper()
	b := &batched{conn: newConnection(t)}
	for _, text := range append([]string{"PRAGMA journal_mode(WAL)", "PRAGMA synchronous(OFF)", "PRAGMA foreign_keys(ON)"}, setup...) {
		b.conn.mustExec(t, text)
	}
	b.Batch = Batch[*Conn]{
		Acquire: func() (*Conn, error) { return b.conn, nil },
		Release: func(*Conn, bool) {},
		Queue:   100,
	}
	b.Start()
	t.Cleanup(b.Close)
	return b
}

// outcome is what a writer gets.
type outcome struct {
	Code    driver.ResultCode
	Changes int
	RowID   int64
	Values  []any
}

// run runs a statement and returns what it returned.
func run(conn *Conn, text string) (outcome, error) {
	rows, err := conn.Query(text, nil, unchanged)
	if err != nil {
		return outcome{}, err
	}
	var o outcome
	for rows.Next() {
		o.Values = append(o.Values, Value(rows.stmt, 0))
	}
	o.Changes = conn.Changes()
	if strings.HasPrefix(text, "INSERT") && !strings.Contains(text, "DO UPDATE") && o.Changes > 0 {
		o.RowID = conn.LastInsertRowID()
	}
	return o, rows.Err()
}

// always has a write repeated whatever its result was.
func always(error) bool { return true }

// together runs statements in one batch, in their order, and returns their outcomes.
func (b *batched) together(t *testing.T, texts ...string) []outcome {
	t.Helper()
	held := make(chan struct{})
	started := make(chan struct{})
	b.group.Go(func() {
		_ = b.Write(t.Context(), func(*Conn) error { close(started); <-held; return nil }, func(err error) bool { return err != nil })
	})
	<-started
	all := make([]outcome, len(texts))
	for i, text := range texts {
		b.group.Go(func() {
			err := b.Write(t.Context(), func(conn *Conn) (err error) { all[i], err = run(conn, text); return err }, always)
			if err != nil {
				all[i] = outcome{Code: driver.ErrCode(err)}
			}
		})
		waittest.True(t, "the write in the queue", func() bool { return b.Waiting() == i+1 })
	}
	close(held)
	b.group.Wait()
	return all
}

const modelSchema = `
	CREATE TABLE t (id INTEGER PRIMARY KEY, k TEXT UNIQUE, n INTEGER CHECK (n < 4));
	CREATE TABLE hard (id INTEGER PRIMARY KEY, k TEXT UNIQUE ON CONFLICT ROLLBACK);
	CREATE TABLE child (id INTEGER PRIMARY KEY, t INTEGER REFERENCES t (id) ON DELETE CASCADE);
	CREATE TABLE log (line TEXT);
	CREATE TABLE trap (n INTEGER);
	CREATE TRIGGER logged AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.k); END;
	CREATE TRIGGER trapped AFTER INSERT ON trap BEGIN
		SELECT RAISE(ROLLBACK, 'all') WHERE new.n = 1;
		SELECT RAISE(ABORT, 'mine') WHERE new.n = 2;
		SELECT RAISE(IGNORE) WHERE new.n = 3;
	END`

// modelStatements have a number from 0 to 4 as their argument.
var modelStatements = []string{
	"INSERT INTO t (k, n) VALUES ('k%[1]d', %[1]d)",
	"INSERT INTO t (k, n) VALUES ('k%[1]d', %[1]d) RETURNING id",
	"INSERT OR REPLACE INTO t (k, n) VALUES ('k%[1]d', 0)",
	"INSERT OR IGNORE INTO t (k, n) VALUES ('k%[1]d', 0)",
	"INSERT OR ROLLBACK INTO t (k, n) VALUES ('k%[1]d', 0)",
	"INSERT INTO t (k, n) VALUES ('x%[1]d', 0), ('k%[1]d', 0)",
	"INSERT INTO t (k, n) VALUES ('k%[1]d', 1) ON CONFLICT (k) DO UPDATE SET n = n + 1 RETURNING n",
	"INSERT INTO hard (k) VALUES ('k%[1]d')",
	"INSERT INTO child (t) VALUES (%[1]d)",
	"INSERT INTO trap VALUES (%[1]d)",
	"UPDATE t SET n = n + 1 WHERE id > %[1]d",
	"UPDATE OR ROLLBACK t SET n = n + 1 WHERE id > %[1]d RETURNING n",
	"DELETE FROM t WHERE id = %[1]d RETURNING k",
	"DELETE FROM hard WHERE id = %[1]d",
	"INSERT INTO missing VALUES (%[1]d)",
}

// TestBatchesEqualSingleStatements compares the results of statements that share transactions, and what
// they have written, with those of the same statements one by one.
func TestBatchesEqualSingleStatements(t *testing.T) {
	statement := rapid.Custom(func(t *rapid.T) string {
		return fmt.Sprintf(rapid.SampledFrom(modelStatements).Draw(t, "statement")+" -- %[1]d", rapid.IntRange(0, 4).Draw(t, "n"))
	})
	batches := rapid.SliceOfN(rapid.SliceOfN(statement, 1, 12), 1, 4)
	rapid.Check(t, func(rt *rapid.T) {
		plan := batches.Draw(rt, "batches")
		shared := newBatched(t)
		single := newConnection(t)
		single.mustExec(t, "PRAGMA synchronous(OFF)")
		single.mustExec(t, "PRAGMA foreign_keys(ON)")
		for _, conn := range []*Conn{shared.conn, single} {
			must(t, sqlitex.ExecuteScript(conn.Conn, modelSchema, nil))
		}
		for _, texts := range plan {
			var want []outcome
			for _, text := range texts {
				o, err := run(single, text)
				if err != nil {
					o = outcome{Code: driver.ErrCode(err)}
				}
				want = append(want, o)
			}
			if diff := cmp.Diff(want, shared.together(t, texts...)); diff != "" {
				rt.Fatalf("-single +shared:\n%s", diff)
			}
		}
		if diff := cmp.Diff(dump(t, single), dump(t, shared.conn)); diff != "" {
			rt.Fatalf("-single +shared:\n%s", diff)
		}
	})
}

// dump returns all rows of the tables as text.
func dump(t *testing.T, conn *Conn) []any {
	t.Helper()
	var all []any
	for _, text := range []string{
		"SELECT 't ' || id || ' ' || k || ' ' || n FROM t ORDER BY id", "SELECT 'hard ' || id || ' ' || k FROM hard ORDER BY id",
		"SELECT 'child ' || id || ' ' || t FROM child ORDER BY id", "SELECT 'log ' || line FROM log ORDER BY rowid",
		"SELECT 'trap ' || n FROM trap ORDER BY rowid",
	} {
		o, err := run(conn, text)
		must(t, err)
		all = append(all, o.Values...)
	}
	return all
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func codes(all []outcome) []driver.ResultCode {
	var list []driver.ResultCode
	for _, o := range all {
		list = append(list, o.Code)
	}
	return list
}

// TestFailedCommitIsRepeatedOneByOne has COMMIT fail because of one write of a batch.
func TestFailedCommitIsRepeatedOneByOne(t *testing.T) {
	b := newBatched(t, "CREATE TABLE t (k TEXT PRIMARY KEY)",
		"CREATE TABLE child (k TEXT REFERENCES t (k) DEFERRABLE INITIALLY DEFERRED)")
	got := b.together(t, "INSERT INTO t VALUES ('a')", "INSERT INTO child VALUES ('nobody')", "INSERT INTO t VALUES ('a') -- again",
		"INSERT INTO child VALUES ('a')", "INSERT INTO t VALUES ('b')")
	want := []driver.ResultCode{0, driver.ResultConstraintForeignKey, driver.ResultConstraintPrimaryKey, 0, 0}
	if diff := cmp.Diff(want, codes(got)); diff != "" {
		t.Error(diff)
	}
}

// TestFullFileFailsOneWrite has one write of a batch need more room than there is.
func TestFullFileFailsOneWrite(t *testing.T) {
	b := newBatched(t, "CREATE TABLE t (k TEXT PRIMARY KEY, v BLOB)", "PRAGMA max_page_count = 50")
	for range 3 {
		got := b.together(t, "INSERT OR REPLACE INTO t VALUES ('a', 1)", "INSERT INTO t VALUES ('big', zeroblob(1000000))",
			"INSERT OR REPLACE INTO t VALUES ('b', 1)")
		if diff := cmp.Diff([]driver.ResultCode{0, driver.ResultFull, 0}, codes(got)); diff != "" {
			t.Error(diff)
		}
	}
}

// TestInterruptedWriteFailsAlone interrupts one write of a batch, which has SQLite roll back all.
func TestInterruptedWriteFailsAlone(t *testing.T) {
	b := newBatched(t, "CREATE TABLE t (k INTEGER)")
	held := make(chan struct{})
	started := make(chan struct{})
	results := make([]error, 3)
	runs := make([]int, 3)
	insert := func(i int) {
		results[i] = b.Write(t.Context(), func(conn *Conn) error {
			if runs[i]++; runs[i] == 1 && i == 0 {
				close(started)
				<-held
			}
			return conn.Exec("INSERT INTO t VALUES ($1)", i)
		}, always)
	}
	b.group.Go(func() { insert(0) })
	<-started
	b.group.Go(func() {
		results[1] = b.Write(t.Context(), func(conn *Conn) error {
			runs[1]++
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			conn.SetInterrupt(ctx.Done())
			defer conn.SetInterrupt(nil)
			must(t, conn.CreateFunction("cancelled", &driver.FunctionImpl{
				Scalar: func(driver.Context, []driver.Value) (driver.Value, error) {
					cancel()
					return driver.IntegerValue(1), nil
				},
			}))
			return conn.Exec(endless + "INSERT INTO t SELECT cancelled() FROM n")
		}, func(err error) bool { return driver.ErrCode(err) != driver.ResultInterrupt })
	})
	waittest.True(t, "the second write in the queue", func() bool { return b.Waiting() == 1 })
	b.group.Go(func() { insert(2) })
	waittest.True(t, "the third write in the queue", func() bool { return b.Waiting() == 2 })
	close(held)
	b.group.Wait()
	if results[0] != nil || driver.ErrCode(results[1]) != driver.ResultInterrupt || results[2] != nil {
		t.Error(results)
	}
	if diff := cmp.Diff([]int{2, 1, 1}, runs); diff != "" {
		t.Errorf("-want +got runs:\n%s", diff)
	}
	o, err := run(b.conn, "SELECT k FROM t ORDER BY k")
	if diff := cmp.Diff([]any{int64(0), int64(2)}, o.Values); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

const endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "

// TestPanicOfAWriteIsNotRepeated has a write roll back the transaction and panic.
func TestPanicOfAWriteIsNotRepeated(t *testing.T) {
	b := newBatched(t, "CREATE TABLE t (k INTEGER)")
	func() {
		defer func() { _ = recover() }()
		_ = b.Write(t.Context(), func(conn *Conn) error { _ = conn.Exec("ROLLBACK"); panic("no") }, always)
	}()
	must(t, b.Write(t.Context(), func(conn *Conn) error { return conn.Exec("INSERT INTO t VALUES (1)") }, nil))
}

// TestEndedContextOfARepeatedWrite ends the context of a write between its two runs.
func TestEndedContextOfARepeatedWrite(t *testing.T) {
	b := newBatched(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := b.Write(ctx, func(conn *Conn) error { cancel(); return conn.Exec("ROLLBACK") }, always)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestClosedBatchRefusesWrites(t *testing.T) {
	b := newBatched(t)
	b.Close()
	if err := b.Write(t.Context(), func(*Conn) error { return nil }, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}
