package db

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	"zombiezen.com/go/sqlite"
)

// newConnection opens an empty file.
func newConnection(t *testing.T) *connection {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a ?#%41.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return connectTo(t, path)
}

func connectTo(t *testing.T, path string, pragmas ...string) *connection {
	t.Helper()
	conn, err := connect(path, pragmas)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

func (c *connection) mustExec(t *testing.T, text string, args ...any) {
	t.Helper()
	if err := c.exec(text, args); err != nil {
		t.Fatal(err)
	}
}

func (c *connection) mustQuery(t *testing.T, text string, args ...any) *sqliteRows {
	t.Helper()
	rows, err := c.query(text, args, func(err error) error { return err })
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

type (
	name   string
	micros int64
	flag   bool
	raw    []byte
	ratio  float64
)

// allTypes has a field of each type that is bound and scanned.
type allTypes struct {
	Text    string
	Int     int64
	Small   int
	Truth   bool
	Bytes   []byte
	Name    name
	Micros  micros
	Flag    flag
	Raw     raw
	Float   float64
	Ratio   ratio
	MaybeT  *string
	MaybeI  *int64
	MaybeN  *name
	MaybeM  *micros
	Unknown any
}

func (r *allTypes) args() []any {
	return []any{
		r.Text, r.Int, r.Small, r.Truth, r.Bytes, r.Name, r.Micros, r.Flag, r.Raw, r.Float, r.Ratio,
		r.MaybeT, r.MaybeI, r.MaybeN, r.MaybeM, r.Unknown,
	}
}

func (r *allTypes) dest() []any {
	return []any{
		&r.Text, &r.Int, &r.Small, &r.Truth, &r.Bytes, &r.Name, &r.Micros, &r.Flag, &r.Raw, &r.Float, &r.Ratio,
		&r.MaybeT, &r.MaybeI, &r.MaybeN, &r.MaybeM, &r.Unknown,
	}
}

func drawAllTypes(t *rapid.T) allTypes {
	text := rapid.OneOf(rapid.String(), rapid.Just(""), rapid.Just(strings.Repeat("long", 1<<16)))
	bytes := rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Just([]byte(nil)), rapid.Just([]byte{}))
	return allTypes{
		Text:    text.Draw(t, "text"),
		Int:     rapid.Int64().Draw(t, "int"),
		Small:   rapid.Int().Draw(t, "small"),
		Truth:   rapid.Bool().Draw(t, "truth"),
		Bytes:   bytes.Draw(t, "bytes"),
		Name:    name(text.Draw(t, "name")),
		Micros:  micros(rapid.Int64().Draw(t, "micros")),
		Flag:    flag(rapid.Bool().Draw(t, "flag")),
		Raw:     raw(bytes.Draw(t, "raw")),
		Float:   rapid.Float64Range(-1e9, 1e9).Draw(t, "float"),
		Ratio:   ratio(rapid.Float64Range(-1, 1).Draw(t, "ratio")),
		MaybeT:  rapid.Ptr(text, true).Draw(t, "maybe text"),
		MaybeI:  rapid.Ptr(rapid.Int64(), true).Draw(t, "maybe int"),
		MaybeN:  rapid.Ptr(rapid.Map(text, func(s string) name { return name(s) }), true).Draw(t, "maybe name"),
		MaybeM:  rapid.Ptr(rapid.Map(rapid.Int64(), func(n int64) micros { return micros(n) }), true).Draw(t, "maybe micros"),
		Unknown: rapid.SampledFrom([]any{nil, "text", int64(math.MinInt64), 0.5, []byte{0}}).Draw(t, "unknown"),
	}
}

func TestSQLiteReturnsWhatWasWritten(t *testing.T) {
	conn := newConnection(t)
	conn.mustExec(t, "CREATE TABLE t (key INTEGER PRIMARY KEY, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)")
	rapid.Check(t, func(rt *rapid.T) {
		want := drawAllTypes(rt)
		if err := conn.exec("REPLACE INTO t VALUES (1"+strings.Repeat(", ?", 16)+")", want.args()); err != nil {
			rt.Fatal(err)
		}
		var got allTypes
		if err := conn.scanFirst("SELECT a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p FROM t", got.dest()...); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func TestSQLiteParametersAreNumbered(t *testing.T) {
	conn := newConnection(t)
	var got [4]string
	rows := conn.mustQuery(t, "SELECT $2, $1, $3, $1", "one", "two", "three")
	if err := (firstRow{rows}).Scan(&got[0], &got[1], &got[2], &got[3]); err != nil {
		t.Fatal(err)
	}
	if got != [4]string{"two", "one", "three", "one"} {
		t.Error(got)
	}
}

func TestSQLiteRefusesBadStatementsAndArguments(t *testing.T) {
	conn := newConnection(t)
	for _, text := range []string{
		"SELEKT", "", "SELECT 1; SELECT 2", "SELECT :name", "SELECT * FROM missing", `SELECT "text"`,
	} {
		if err := conn.exec(text, nil); err == nil {
			t.Errorf("%q was run", text)
		}
	}
	for _, args := range [][]any{{}, {1, 2}, {struct{}{}}, {uint64(math.MaxUint64)}, {[]int{1}}} {
		if err := conn.exec("SELECT $1", args); err == nil {
			t.Errorf("%v was bound", args)
		}
	}
}

func TestSQLiteScanConvertsNothing(t *testing.T) {
	conn := newConnection(t)
	var text string
	var number int64
	var tiny int8
	var truth bool
	for literal, dest := range map[string]any{
		"NULL": &text, "1": &text, "'1'": &number, "1.5": &number, "300": &tiny, "'true'": &truth, "NULL + 1": &number,
		"2": text, "3": nil, "4": &struct{}{}, "'x'": new(float64), "5": new([]byte), "NULL + 2": new(name),
	} {
		if err := conn.scanFirst("SELECT "+literal, dest); err == nil {
			t.Errorf("%s was scanned into %T", literal, dest)
		}
	}
	if err := conn.scanFirst("SELECT 1, 2", &number); err == nil {
		t.Error("two columns were scanned into one variable")
	}
	if err := conn.scanFirst("SELECT 1", &number, &number); err == nil {
		t.Error("one column was scanned into two variables")
	}
}

func TestSQLiteErrorsHaveExtendedCodes(t *testing.T) {
	conn := newConnection(t)
	conn.mustExec(t, "CREATE TABLE t (k TEXT PRIMARY KEY) STRICT")
	const insert = "INSERT INTO t VALUES ($1)"
	conn.mustExec(t, insert, "a")
	err := conn.exec(insert, []any{"a"})
	if sqliteCode(err) != sqlite.ResultConstraintPrimaryKey || !strings.Contains(err.Error(), "t.k") {
		t.Errorf("got %v", err)
	}
	conn.mustExec(t, insert, "b")
	conn.mustExec(t, "DELETE FROM t")
	if n := conn.Changes(); n != 2 {
		t.Errorf("%d rows were deleted", n)
	}
	_, err = connect(filepath.Join(t.TempDir(), "missing.db"), nil)
	if sqliteCode(err).ToPrimary() != sqlite.ResultCantOpen {
		t.Errorf("got %v", err)
	}
	if IsUnique(errors.New("other")) {
		t.Error("another error has a code of SQLite")
	}
}

const endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "

// TestSQLiteContextInterruptsReads ends the context of a statement that takes long to return its first
// row, and of one between two rows. The connection can be used afterwards. SQLite ignores an interrupt
// that comes just before a statement starts, which then runs to its end.
func TestSQLiteContextInterruptsReads(t *testing.T) {
	d, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "steward.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const long = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000000) SELECT i FROM n WHERE i < 0`
	interrupted := 0
	for range 20 {
		var n int
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		err := d.Read(ctx).Row(long).Scan(&n)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			interrupted++
		} else if !errors.Is(err, ErrNoRows) {
			t.Errorf("got %v", err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		rows, err := d.Read(ctx).Query(endless + "SELECT i FROM n")
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			cancel()
		}
		cancel()
		if err := rows.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if err := d.Read(t.Context()).Row("SELECT 1").Scan(&n); err != nil {
			t.Errorf("after an interrupt: %v", err)
		}
	}
	if interrupted == 0 {
		t.Error("no statement was interrupted")
	}
}

// TestSQLiteRowsCanBeClosedAgain closes rows while their statement serves others.
func TestSQLiteRowsCanBeClosedAgain(t *testing.T) {
	conn := newConnection(t)
	const text = "SELECT $1 UNION ALL SELECT $1"
	old := conn.mustQuery(t, text, "old")
	old.Close()
	rows := conn.mustQuery(t, text, "new")
	defer rows.Close()
	n := 0
	for rows.Next() {
		old.Close()
		var value string
		if err := rows.Scan(&value); err != nil || value != "new" {
			t.Errorf("got %q, %v", value, err)
		}
		n++
	}
	if rows.Err() != nil || n != 2 {
		t.Errorf("%d rows, %v", n, rows.Err())
	}
	if old.Next() || old.Scan(&n) == nil {
		t.Error("closed rows can be read")
	}
}

// TestSQLiteEndedRowsHoldNoLock truncates the write-ahead log after rows were read to their end, or
// closed before.
func TestSQLiteEndedRowsHoldNoLock(t *testing.T) {
	writer := newConnection(t)
	writer.mustExec(t, "PRAGMA journal_mode(WAL)")
	writer.mustExec(t, "CREATE TABLE t (n INTEGER)")
	writer.mustExec(t, "INSERT INTO t VALUES (1), (2)")
	var path string
	if err := writer.scanFirst("SELECT file FROM pragma_database_list", &path); err != nil {
		t.Fatal(err)
	}
	reader := connectTo(t, path)
	for _, read := range []int{1, 3} {
		rows := reader.mustQuery(t, "SELECT n FROM t")
		for range read {
			rows.Next()
		}
		rows.Close()
		writer.mustExec(t, "INSERT INTO t VALUES (3)")
		var busy, log, moved int
		if err := writer.scanFirst("PRAGMA wal_checkpoint(TRUNCATE)", &busy, &log, &moved); err != nil || busy != 0 {
			t.Errorf("after %d rows: busy %d, %v", read, busy, err)
		}
	}
}

func TestSQLiteBoundsPreparedStatements(t *testing.T) {
	conn := newConnection(t)
	for i := range maxStatements + 10 {
		var n int
		if err := conn.scanFirst("SELECT "+strings.Repeat("1 + ", i%500)+"1 -- "+strings.Repeat("x", i/500), &n); err != nil {
			t.Fatal(err)
		}
	}
	if len(conn.statements) != maxStatements {
		t.Errorf("%d statements are kept", len(conn.statements))
	}
}
