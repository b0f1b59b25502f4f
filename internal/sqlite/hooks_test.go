package sqlite

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	driver "zombiezen.com/go/sqlite"
)

// calls counts the calls of hooks. Progress and Busy return what its fields say.
type calls struct {
	progress, busy, commit int
	interrupt              bool
}

func (c *calls) hooks() *Hooks {
	return &Hooks{
		Progress: func() bool {
			c.progress++
			return !c.interrupt
		},
		Busy: func(count int) bool {
			c.busy++
			return count < 2
		},
		Commit: func() { c.commit++ },
	}
}

// connectWithHooks opens a file, and counts the calls of its hooks.
func connectWithHooks(t *testing.T, path string) (*Conn, *calls) {
	t.Helper()
	var c calls
	conn, err := OpenWithHooks(path, []string{"journal_mode(WAL)"}, c.hooks())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn, &c
}

// emptyFile creates a file whose name has characters with a meaning in URIs.
func emptyFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a ?#%41&b=c.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const thousandRows = "WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT 1000) SELECT count(*) FROM c"

func TestProgressIsCalledAndInterrupts(t *testing.T) {
	conn, got := connectWithHooks(t, emptyFile(t))
	conn.mustExec(t, thousandRows)
	if got.progress < 50 {
		t.Errorf("progress was called %d times", got.progress)
	}
	got.interrupt = true
	if err := conn.Exec(thousandRows); driver.ErrCode(err) != driver.ResultInterrupt {
		t.Errorf("the statement was not interrupted: %v", err)
	}
	got.interrupt = false
	conn.mustExec(t, thousandRows)
}

func TestBusyIsCalledWhileAnotherConnectionHasTheLock(t *testing.T) {
	path := emptyFile(t)
	conn, got := connectWithHooks(t, path)
	other := connectTo(t, path)
	other.mustExec(t, "BEGIN IMMEDIATE")
	if err := conn.Exec("BEGIN IMMEDIATE"); driver.ErrCode(err) != driver.ResultBusy || got.busy != 3 {
		t.Errorf("%v after %d calls", err, got.busy)
	}
}

func TestCommitIsCalledBeforeTransactionsAreWritten(t *testing.T) {
	conn, got := connectWithHooks(t, emptyFile(t))
	conn.mustExec(t, "CREATE TABLE t (a)")
	conn.mustExec(t, "BEGIN")
	conn.mustExec(t, "INSERT INTO t VALUES (1)")
	if got.commit != 1 {
		t.Errorf("%d calls before the commit", got.commit)
	}
	conn.mustExec(t, "COMMIT")
	conn.mustExec(t, "SELECT * FROM t")
	if got.commit != 2 {
		t.Errorf("%d calls after the commit", got.commit)
	}
}

func TestRowIDIsCleared(t *testing.T) {
	conn, _ := connectWithHooks(t, emptyFile(t))
	conn.mustExec(t, "CREATE TABLE t (a)")
	conn.mustExec(t, "INSERT INTO t VALUES (1)")
	conn.ClearRowID()
	var inSQL int64
	if err := conn.ScanFirst("SELECT last_insert_rowid()", &inSQL); err != nil || inSQL != 0 || conn.LastInsertRowID() != 0 {
		t.Errorf("%v: %d in SQL, %d in Go", err, inSQL, conn.LastInsertRowID())
	}
}

// TestHooksAreThoseOfTheirConnection opens many connections at a time, to one file and without hooks
// too, and has only some of them interrupt.
func TestDefensive(t *testing.T) {
	c, _ := connectWithHooks(t, emptyFile(t))
	if err := c.SetDefensive(true); err != nil {
		t.Fatal(err)
	}
	if err := c.Exec("CREATE TABLE t (a)"); err != nil {
		t.Fatal(err)
	}
	if err := c.Exec("PRAGMA writable_schema = ON"); err != nil {
		t.Fatal(err)
	}
	if err := c.Exec("DELETE FROM sqlite_schema"); err == nil {
		t.Error("the schema was changed by DELETE")
	}
}

func TestHooksAreThoseOfTheirConnection(t *testing.T) {
	path := emptyFile(t)
	connectTo(t, path, "journal_mode(WAL)")
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			got := calls{interrupt: i%2 == 0}
			h := got.hooks()
			h.Busy = func(int) bool { return true } // others open the file at the same time
			conn, err := OpenWithHooks(path, nil, h)
			if err != nil {
				t.Error(err)
				return
			}
			if err := conn.Exec(thousandRows); (err != nil) != got.interrupt || got.progress == 0 {
				t.Errorf("%d calls, %v", got.progress, err)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		})
		group.Go(func() {
			conn, err := Open(path, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if err := conn.Exec(thousandRows); err != nil {
				t.Error(err)
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for name, m := range map[string]*sync.Map{"handle": &handles, "hook": &hooks} {
		m.Range(func(key, _ any) bool {
			t.Errorf("a %s is left: %v", name, key)
			return true
		})
	}
}

func TestMissingFileIsNotCreated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing.db")
	if _, err := OpenWithHooks(path, nil, new(calls).hooks()); err == nil {
		t.Error("a missing file was opened")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a missing file was created")
	}
}
