package sqlite_test

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
	sqlite3 "modernc.org/sqlite/lib"
	"pgregory.net/rapid"

	"steward/internal/db/sqlite"
)

func open(t *testing.T, pragmas ...string) *sqlite.Conn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a ?#%41.db")
	must(t, os.WriteFile(path, nil, 0o600))
	conn, err := sqlite.Open(path, pragmas...)
	must(t, err)
	t.Cleanup(func() { must(t, conn.Close()) })
	return conn
}

func must(t interface {
	Helper()
	Fatal(...any)
}, err error,
) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func prepare(t *testing.T, conn *sqlite.Conn, text string) *sqlite.Stmt {
	t.Helper()
	st, err := conn.Prepare(text)
	must(t, err)
	t.Cleanup(st.Close)
	return st
}

func exec(t *testing.T, conn *sqlite.Conn, text string, args ...any) int64 {
	t.Helper()
	n, err := prepare(t, conn, text).Exec(args...)
	must(t, err)
	return n
}

// first scans the first row of a statement.
func first(t *testing.T, st *sqlite.Stmt, args, dest []any) error {
	t.Helper()
	rows, err := st.Query(t.Context(), args...)
	must(t, err)
	defer rows.Close()
	if !rows.Next() {
		t.Fatal("no row", rows.Err())
	}
	return rows.Scan(dest...)
}

type (
	name   string
	micros int64
	flag   bool
	raw    []byte
	ratio  float64
)

// row has every type that may be an argument and a variable.
type row struct {
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

func (r *row) args() []any {
	return []any{
		r.Text, r.Int, r.Small, r.Truth, r.Bytes, r.Name, r.Micros, r.Flag, r.Raw, r.Float, r.Ratio, r.MaybeT, r.MaybeI, r.MaybeN, r.MaybeM, r.Unknown,
	}
}

func (r *row) dest() []any {
	return []any{
		&r.Text, &r.Int, &r.Small, &r.Truth, &r.Bytes, &r.Name, &r.Micros, &r.Flag, &r.Raw, &r.Float, &r.Ratio, &r.MaybeT, &r.MaybeI, &r.MaybeN,
		&r.MaybeM, &r.Unknown,
	}
}

// TestRoundTrip stores values of all types and reads the same ones, through one statement each that is used again and again.
func TestRoundTrip(t *testing.T) {
	conn := open(t)
	const columns = 16
	exec(t, conn, "CREATE TABLE t (key INTEGER PRIMARY KEY, "+columnNames(columns)+")")
	insert := prepare(t, conn, "REPLACE INTO t VALUES (1"+strings.Repeat(", ?", columns)+")")
	read := prepare(t, conn, "SELECT "+columnNames(columns)+" FROM t")
	text := rapid.OneOf(rapid.String(), rapid.Just(""), rapid.Just(strings.Repeat("long", 1<<16)))
	bytes := rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Just([]byte(nil)), rapid.Just([]byte{}))
	rapid.Check(t, func(rt *rapid.T) {
		want := row{
			Text: text.Draw(rt, "text"), Int: rapid.Int64().Draw(rt, "int"), Small: rapid.Int().Draw(rt, "small"), Truth: rapid.Bool().Draw(rt, "truth"),
			Bytes: bytes.Draw(rt, "bytes"), Name: name(text.Draw(rt, "name")), Micros: micros(rapid.Int64().Draw(rt, "micros")),
			Flag: flag(rapid.Bool().Draw(rt, "flag")), Raw: raw(bytes.Draw(rt, "raw")), Float: rapid.Float64Range(-1e9, 1e9).Draw(rt, "float"),
			Ratio:  ratio(rapid.Float64Range(-1, 1).Draw(rt, "ratio")),
			MaybeT: rapid.Ptr(text, true).Draw(rt, "maybe text"), MaybeI: rapid.Ptr(rapid.Int64(), true).Draw(rt, "maybe int"),
			MaybeN:  rapid.Ptr(rapid.Map(text, func(s string) name { return name(s) }), true).Draw(rt, "maybe name"),
			MaybeM:  rapid.Ptr(rapid.Map(rapid.Int64(), func(n int64) micros { return micros(n) }), true).Draw(rt, "maybe micros"),
			Unknown: rapid.SampledFrom([]any{nil, "text", int64(math.MinInt64), 0.5, []byte{0}}).Draw(rt, "unknown"),
		}
		_, err := insert.Exec(want.args()...)
		must(rt, err)
		var got row
		if err := first(t, read, nil, got.dest()); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func columnNames(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = string(rune('a' + i))
	}
	return strings.Join(names, ", ")
}

func TestParametersByNumber(t *testing.T) {
	conn := open(t)
	var got [4]string
	err := first(t, prepare(t, conn, "SELECT $2, $1, $3, $1"), []any{"one", "two", "three"}, []any{&got[0], &got[1], &got[2], &got[3]})
	must(t, err)
	if got != [4]string{"two", "one", "three", "one"} {
		t.Error(got)
	}
}

func TestWhatIsRefused(t *testing.T) {
	conn := open(t)
	for _, text := range []string{"SELEKT", "", "SELECT 1; SELECT 2", "SELECT :name", "SELECT * FROM missing"} {
		if _, err := conn.Prepare(text); err == nil {
			t.Errorf("%q was prepared", text)
		}
	}
	for _, args := range [][]any{{}, {1, 2}, {struct{}{}}, {uint64(math.MaxUint64)}, {[]int{1}}} {
		if _, err := prepare(t, conn, "SELECT $1").Exec(args...); err == nil {
			t.Errorf("%v was bound", args)
		}
	}
	var text string
	var number int64
	var tiny int8
	var truth bool
	for literal, dest := range map[string]any{
		"NULL": &text, "1": &text, "'1'": &number, "1.5": &number, "300": &tiny, "'true'": &truth, "2": text, "3": nil, "4": &struct{}{}, "'x'": new(float64),
	} {
		if err := first(t, prepare(t, conn, "SELECT "+literal), nil, []any{dest}); err == nil {
			t.Errorf("%s was scanned into %T", literal, dest)
		}
	}
	if err := first(t, prepare(t, conn, "SELECT 1, 2"), nil, []any{&number}); err == nil {
		t.Error("two columns were scanned into one variable")
	}
}

func TestErrorsAndWhatComesAfter(t *testing.T) {
	conn := open(t)
	exec(t, conn, "CREATE TABLE t (k TEXT PRIMARY KEY) STRICT")
	insert := prepare(t, conn, "INSERT INTO t VALUES ($1)")
	_, err := insert.Exec("a")
	must(t, err)
	_, err = insert.Exec("a")
	if sqlite.Code(err) != sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY || !strings.Contains(err.Error(), "t.k") {
		t.Errorf("got %v", err)
	}
	if n, err := insert.Exec("b"); n != 1 || err != nil {
		t.Errorf("got %d, %v after an error", n, err)
	}
	if n := exec(t, conn, "DELETE FROM t"); n != 2 {
		t.Errorf("%d rows are gone", n)
	}
	if _, err := sqlite.Open(filepath.Join(t.TempDir(), "missing.db")); sqlite.Code(err)&0xff != sqlite3.SQLITE_CANTOPEN {
		t.Errorf("got %v", err)
	}
	if sqlite.Code(errors.New("other")) != 0 {
		t.Error("an error of others has a code")
	}
}

const endless = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "

// TestContextEnds cuts short a statement that would never give its first row, and one between two rows; the connection works on.
func TestContextEnds(t *testing.T) {
	conn := open(t)
	silent := prepare(t, conn, endless+"SELECT i FROM n WHERE i < 0")
	talking := prepare(t, conn, endless+"SELECT i FROM n")
	one := prepare(t, conn, "SELECT 1")
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if _, err := silent.Query(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		cancel()
		ctx, cancel = context.WithCancel(t.Context())
		rows, err := talking.Query(ctx)
		must(t, err)
		for rows.Next() {
			cancel()
		}
		cancel()
		if err := rows.Err(); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		var n int
		must(t, first(t, one, nil, []any{&n}))
	}
}

// TestClosedRows has rows that are closed again after their statement serves others.
func TestClosedRows(t *testing.T) {
	conn := open(t)
	st := prepare(t, conn, "SELECT $1 UNION ALL SELECT $1")
	old, err := st.Query(t.Context(), "old")
	must(t, err)
	old.Close()
	rows, err := st.Query(t.Context(), "new")
	must(t, err)
	defer rows.Close()
	n := 0
	for rows.Next() {
		old.Close()
		var text string
		if must(t, rows.Scan(&text)); text != "new" {
			t.Errorf("got %q", text)
		}
		n++
	}
	if must(t, rows.Err()); n != 2 {
		t.Errorf("%d rows", n)
	}
	if old.Next() || old.Scan(&n) == nil {
		t.Error("closed rows go on")
	}
}

// TestEndedRowsHoldNoLock lets a writer empty the log while an earlier reader has read to its end, or was closed in between.
func TestEndedRowsHoldNoLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.db")
	must(t, os.WriteFile(path, nil, 0o600))
	writer, err := sqlite.Open(path, "journal_mode(WAL)")
	must(t, err)
	t.Cleanup(func() { must(t, writer.Close()) })
	exec(t, writer, "CREATE TABLE t (n INTEGER)")
	exec(t, writer, "INSERT INTO t VALUES (1), (2)")
	reader, err := sqlite.Open(path)
	must(t, err)
	t.Cleanup(func() { must(t, reader.Close()) })
	read := prepare(t, reader, "SELECT n FROM t")
	checkpoint := prepare(t, writer, "PRAGMA wal_checkpoint(TRUNCATE)")
	for _, take := range []int{1, 3} {
		rows, err := read.Query(t.Context())
		must(t, err)
		for range take {
			rows.Next()
		}
		rows.Close()
		exec(t, writer, "INSERT INTO t VALUES (3)")
		var busy, log, moved int
		if must(t, first(t, checkpoint, nil, []any{&busy, &log, &moved})); busy != 0 {
			t.Errorf("the log is held after %d rows", take)
		}
	}
}
