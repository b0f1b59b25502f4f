package libsql_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"steward/internal/resource/libsql"
	"steward/internal/waittest"
)

// holdLock takes the write lock of a database. Statements that share a commit then wait, until release
// is called, and run together.
func (d *database) holdLock() (release func()) {
	d.t.Helper()
	held := d.pipeline(nil, execute("BEGIN IMMEDIATE"))
	return func() {
		d.t.Helper()
		d.pipeline(held.Baton, execute("COMMIT"), object{"type": "close"}).Results[0].result(d.t)
	}
}

// together has statements share a commit, in their order, and returns their results. Those of alone run
// at the same time, each by itself.
func (d *database) together(statements []object, alone ...object) []streamResult {
	d.t.Helper()
	release := d.holdLock()
	all := make([]streamResult, len(statements)+len(alone))
	var group sync.WaitGroup
	for i, request := range append(statements, alone...) {
		group.Go(func() {
			out, err := d.send(d.t.Context(), "v3/pipeline", object{"requests": []object{request, {"type": "close"}}})
			if err != nil || len(out.Results) != 2 {
				d.t.Errorf("%v: %+v", err, out)
				return
			}
			all[i] = out.Results[0]
		})
		if i < len(statements) {
			waittest.True(d.t, "the statement in the queue", func() bool { return d.Sharing(d.p.ID) == i+1 })
		}
		waittest.True(d.t, "the request", func() bool { return d.Sessions(d.p.ID) == i+1 })
	}
	release()
	group.Wait()
	return all
}

func executes(texts ...string) []object {
	var all []object
	for _, text := range texts {
		all = append(all, execute(text))
	}
	return all
}

// codesOf returns the codes of failures, "" for statements that succeeded.
func codesOf(all []streamResult) []string {
	var codes []string
	for _, r := range all {
		code := ""
		if r.Error != nil {
			code = r.Error.code()
		}
		codes = append(codes, code)
	}
	return codes
}

func (d *database) wantCodes(got []streamResult, want ...string) {
	d.t.Helper()
	if diff := cmp.Diff(want, codesOf(got)); diff != "" {
		d.t.Errorf("-want +got:\n%s", diff)
	}
}

// wantKeys compares the column k of table t.
func (d *database) wantKeys(want string) {
	d.t.Helper()
	if got := d.exec("SELECT group_concat(k, ' ') FROM (SELECT k FROM t ORDER BY k)").only(d.t); got != want {
		d.t.Errorf("got %v, want %s", got, want)
	}
}

func TestSharedStatementsHaveTheirOwnResults(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, k TEXT UNIQUE)")
	got := d.together([]object{
		execute("INSERT INTO t (k) VALUES (?)", text("a")),
		execute("INSERT INTO t (k) VALUES (?), (?) RETURNING id", text("b"), text("c")),
		execute("INSERT INTO t (k) VALUES (?)", text("a")),
		execute("INSERT OR IGNORE INTO t (k) VALUES (?)", text("a")),
		execute("INSERT INTO t (k) VALUES (?)"),
		execute("INSERT INTO missing VALUES (1)"),
		execute("UPDATE t SET k = upper(k)"),
	})
	d.wantCodes(got, "", "", "SQLITE_CONSTRAINT_UNIQUE", "", "ARGS_INVALID", "SQLITE_ERROR", "")
	type counts struct{ Affected, RowID, Rows string }
	var results []counts
	for _, i := range []int{0, 1, 3, 6} {
		r := got[i].result(t)
		rowID := "null"
		if r.LastInsertRowid != nil {
			rowID = *r.LastInsertRowid
		}
		results = append(results, counts{fmt.Sprint(r.AffectedRowCount), rowID, fmt.Sprint(r.Rows)})
	}
	want := []counts{
		{"1", "1", "[]"}, {"2", "3", "[[map[type:integer value:2]] [map[type:integer value:3]]]"}, {"0", "0", "[]"}, {"3", "null", "[]"},
	}
	if diff := cmp.Diff(want, results); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	d.wantKeys("A B C")
}

// sharedStatements share commits and have a number from 0 to 4 as their argument; aloneStatements run
// alone.
var (
	sharedStatements = []string{
		"INSERT INTO t (k, n) VALUES ('k%[1]d', %[1]d)",
		"INSERT INTO t (k, n) VALUES ('k%[1]d', %[1]d) RETURNING id, k",
		"INSERT OR REPLACE INTO t (k, n) VALUES ('k%[1]d', 0)",
		"INSERT OR IGNORE INTO t (k, n) VALUES ('k%[1]d', 0)",
		"REPLACE INTO t (k, n) VALUES ('x%[1]d', 0), ('k%[1]d', 0)",
		"INSERT INTO t (k, n) VALUES ('k%[1]d', 1) ON CONFLICT (k) DO UPDATE SET n = n + 1 RETURNING n",
		"INSERT INTO child (t) VALUES (%[1]d)",
		"INSERT INTO trap VALUES (%[1]d)",
		"INSERT INTO words VALUES ('some words %[1]d')",
		"UPDATE t SET n = n + 1 WHERE id > %[1]d",
		"DELETE FROM t WHERE id = %[1]d RETURNING k",
		"DELETE FROM missing WHERE id = %[1]d",
	}
	aloneStatements = []string{
		"INSERT OR ROLLBACK INTO t (k, n) VALUES ('k%[1]d', 0)",
		"INSERT OR FAIL INTO t (k, n) VALUES ('y%[1]d', 0), ('k1', 0)",
		"PRAGMA user_version = %[1]d",
		"CREATE TABLE IF NOT EXISTS more%[1]d (a)",
		"VACUUM -- %[1]d",
		"INSERT INTO t (n) VALUES (last_insert_rowid() + %[1]d)",
		"WITH c (n) AS (VALUES (%[1]d)) INSERT INTO t (n) SELECT n FROM c",
	}
)

const shareSchema = `
	CREATE TABLE t (id INTEGER PRIMARY KEY, k TEXT UNIQUE, n INTEGER CHECK (n < 4));
	CREATE TABLE child (id INTEGER PRIMARY KEY, t INTEGER REFERENCES t (id) ON DELETE CASCADE);
	CREATE TABLE log (line TEXT);
	CREATE TABLE trap (n INTEGER);
	CREATE VIRTUAL TABLE words USING fts5 (x);
	CREATE TRIGGER logged AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.k); END;
	CREATE TRIGGER trapped AFTER INSERT ON trap BEGIN
		SELECT RAISE(ABORT, 'mine') WHERE new.n = 2;
		SELECT RAISE(IGNORE) WHERE new.n = 3;
	END`

const dumpShared = `SELECT 't', id, k, n FROM t UNION ALL SELECT 'child', id, t, 0 FROM child UNION ALL SELECT 'log', rowid, line, 0 FROM log
	UNION ALL SELECT 'trap', rowid, n, 0 FROM trap UNION ALL SELECT 'words', rowid, x, 0 FROM words ORDER BY 1, 2`

// TestSharedStatementsEqualSingleOnes compares the responses to statements that share commits, and what
// they have written, with those to the same statements one by one.
func TestSharedStatementsEqualSingleOnes(t *testing.T) {
	draw := func(from []string) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf(rapid.SampledFrom(from).Draw(t, "statement"), rapid.IntRange(0, 4).Draw(t, "n"))
		})
	}
	shares := draw(sharedStatements)
	alone := draw(aloneStatements)
	s := start(t, libsql.Limits{})
	rapid.Check(t, func(rt *rapid.T) {
		single, shared := s.create(), s.create()
		for _, d := range []*database{single, shared} {
			d.one(sequence(shareSchema))
		}
		for range rapid.IntRange(1, 3).Draw(rt, "batches") {
			texts := rapid.SliceOfN(shares, 1, 10).Draw(rt, "shared")
			last := alone.Draw(rt, "alone")
			var want []streamResult
			for _, text := range append(texts, last) {
				want = append(want, single.one(execute(text)))
			}
			got := shared.together(executes(texts...), execute(last))
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatalf("-single +shared:\n%s", diff)
			}
		}
		if diff := cmp.Diff(single.exec(dumpShared).Rows, shared.exec(dumpShared).Rows); diff != "" {
			rt.Fatalf("-single +shared:\n%s", diff)
		}
		for _, d := range []*database{single, shared} {
			s.must(s.Delete(t.Context(), d.p))
		}
	})
}

// TestStatementsThatRollBackRunAlone has statements roll back transactions in every way, beside others.
func TestStatementsThatRollBackRunAlone(t *testing.T) {
	const plain = "CREATE TABLE t (k TEXT PRIMARY KEY)"
	for name, c := range map[string]struct{ schema, text, code string }{
		"statement": {plain, "INSERT OR ROLLBACK INTO t VALUES ('x'), ('x')", "SQLITE_CONSTRAINT_PRIMARYKEY"},
		"column":    {"CREATE TABLE t (k TEXT PRIMARY KEY ON CONFLICT ROLLBACK)", "INSERT INTO t VALUES ('x'), ('x')", "SQLITE_CONSTRAINT_PRIMARYKEY"},
		"trigger": {
			plain + "; CREATE TRIGGER g BEFORE INSERT ON t WHEN new.k = 'x' BEGIN SELECT RAISE(ROLLBACK, 'no'); END",
			"INSERT INTO t VALUES ('x')", "SQLITE_CONSTRAINT_TRIGGER",
		},
		"deferred key": {
			plain + "; CREATE TABLE child (k TEXT REFERENCES t (k) DEFERRABLE INITIALLY DEFERRED)",
			"INSERT INTO child VALUES ('nobody')", "SQLITE_CONSTRAINT_FOREIGNKEY",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDatabase(t)
			d.one(sequence(c.schema))
			got := d.together(nil, executes("INSERT INTO t VALUES ('a')", c.text, "INSERT INTO t VALUES ('b')", c.text+"--", "INSERT INTO t VALUES ('c')")...)
			d.wantCodes(got, "", c.code, "", c.code, "")
			d.wantKeys("a b c")
		})
	}
}

// TestStatementThatFailsKeepsWhatItWrote has a statement keep the rows before a conflict, as SQLite does.
func TestStatementThatFailsKeepsWhatItWrote(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (k TEXT PRIMARY KEY)")
	d.fails("INSERT OR FAIL INTO t VALUES ('a'), ('a')", "SQLITE_CONSTRAINT_PRIMARYKEY", "")
	d.wantKeys("a")
}

// TestSharedStatementEndsAfterItsTime interrupts a statement, which has SQLite roll back the transaction
// that it shares.
func TestSharedStatementEndsAfterItsTime(t *testing.T) {
	want := []string{"", "SQLITE_CONSTRAINT_PRIMARYKEY", "SQLITE_INTERRUPT", ""}
	for limit := 250 * time.Millisecond; ; limit *= 2 { // until it is enough for the others, on a busy machine
		d := start(t, libsql.Limits{Statement: limit}).create()
		if created := d.one(execute("CREATE TABLE t (k TEXT PRIMARY KEY)")); created.Type != "ok" && limit < time.Minute {
			continue
		}
		got := d.together(executes("INSERT INTO t VALUES ('a')", "INSERT INTO t VALUES ('a') --",
			"INSERT INTO t "+endless, "INSERT INTO t VALUES ('b')"))
		if !slices.Equal(codesOf(got), want) && limit < time.Minute {
			continue
		}
		d.wantCodes(got, want...)
		d.wantKeys("a b")
		return
	}
}

// TestSlowStatementRunsAlone has a statement take longer than others wait for it.
func TestSlowStatementRunsAlone(t *testing.T) {
	d := start(t, libsql.Limits{Statement: time.Hour}).create()
	d.exec("CREATE TABLE t (k TEXT PRIMARY KEY)")
	slow := "INSERT INTO t SELECT 'slow ' || max(n) FROM (" + strings.Replace(endless, "count(*) FROM c", "n FROM c LIMIT 1000000", 1) + ")"
	d.wantCodes(d.together(executes("INSERT INTO t VALUES ('a')", slow, "INSERT INTO t VALUES ('b')")), "", "", "")
	d.wantKeys("a b slow 1000000")
}

func TestFullDatabaseFailsOneSharedStatement(t *testing.T) {
	d := start(t, libsql.Limits{FileSize: 1 << 20}).create()
	d.exec("CREATE TABLE t (k TEXT PRIMARY KEY, v BLOB)")
	got := d.together(executes("INSERT INTO t (k) VALUES ('a')", "INSERT INTO t VALUES ('big', zeroblob(2000000))", "INSERT INTO t (k) VALUES ('b')"))
	d.wantCodes(got, "", "SQLITE_FULL", "")
	d.wantKeys("a b")
}

// TestSharedResponseIsLimited has a statement return more than a response can have, which undoes it.
func TestSharedResponseIsLimited(t *testing.T) {
	d := start(t, libsql.Limits{Response: 10_000}).create()
	d.exec("CREATE TABLE t (k TEXT PRIMARY KEY, v BLOB)")
	got := d.together(executes("INSERT INTO t (k) VALUES ('a')", "INSERT INTO t VALUES ('big', zeroblob(20000)) RETURNING v", "INSERT INTO t (k) VALUES ('b')"))
	d.wantCodes(got, "", "RESPONSE_TOO_LARGE", "")
	d.wantKeys("a b")
}

func TestSharedStatementsWaitForALimitedTime(t *testing.T) {
	d := start(t, libsql.Limits{Wait: 50 * time.Millisecond}).create()
	d.exec("CREATE TABLE t (k TEXT PRIMARY KEY)")
	release := d.holdLock()
	d.fails("INSERT INTO t VALUES ('a')", "SQLITE_BUSY", "database is locked")
	release()
	waittest.True(t, "the lock", func() bool { return d.one(execute("INSERT INTO t VALUES ('b')")).Type == "ok" })
	d.wantKeys("b")
}

// TestClientGoesWhileItsStatementWaits cancels a request before its turn.
func TestClientGoesWhileItsStatementWaits(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (k TEXT PRIMARY KEY)")
	release := d.holdLock()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for i, c := range []context.Context{t.Context(), ctx, t.Context()} {
		group.Go(func() {
			_, err := d.send(c, "v3/pipeline", object{"requests": []object{execute("INSERT INTO t VALUES (?)", text(fmt.Sprint(i))), {"type": "close"}}})
			if (err != nil) != (c == ctx) {
				t.Error(err)
			}
		})
		waittest.True(t, "the statement in the queue", func() bool { return d.Sharing(d.p.ID) == i+1 })
	}
	cancel()
	waittest.True(t, "the end of the request", func() bool { return d.Sharing(d.p.ID) == 2 })
	release()
	group.Wait()
	d.wantKeys("0 2")
}

// TestDeletionEndsWaitingStatements deletes a database whose lock is held.
func TestDeletionEndsWaitingStatements(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (k TEXT PRIMARY KEY)")
	d.holdLock()
	var group sync.WaitGroup
	for i := range 3 {
		group.Go(func() {
			out, err := d.send(t.Context(), "v3/pipeline", object{"requests": []object{execute("INSERT INTO t VALUES (?)", text(fmt.Sprint(i))), {"type": "close"}}})
			if err != nil || out.status == http.StatusOK && out.Results[0].Error == nil {
				t.Errorf("%v %+v", err, out)
			}
		})
	}
	waittest.True(t, "statements in the queue", func() bool { return d.Sharing(d.p.ID) == 3 })
	d.remove(d.p.ID)
	d.must(d.Delete(t.Context(), d.p))
	group.Wait()
}

// TestReadsDoNotWaitForSharedCommits reads while the write lock is held.
func TestReadsDoNotWaitForSharedCommits(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (k TEXT PRIMARY KEY)")
	release := d.holdLock()
	d.wantReads()
	release()
}

func (d *database) wantReads() {
	d.t.Helper()
	for _, sql := range []string{"SELECT count(*) FROM t", "WITH c AS (SELECT 1) SELECT * FROM c", "VALUES (1)"} {
		if _, err := json.Marshal(d.exec(sql)); err != nil {
			d.t.Error(err)
		}
	}
}
