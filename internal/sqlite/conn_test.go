package sqlite

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	driver "zombiezen.com/go/sqlite"
)

// newConnection opens an empty file.
func newConnection(t *testing.T) *Conn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a ?#%41.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return connectTo(t, path)
}

func connectTo(t *testing.T, path string, pragmas ...string) *Conn {
	t.Helper()
	conn, err := Open(path, pragmas)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return conn
}

func (c *Conn) mustExec(t *testing.T, text string, args ...any) {
	t.Helper()
	if err := c.Exec(text, args...); err != nil {
		t.Fatal(err)
	}
}

func (c *Conn) mustQuery(t *testing.T, text string, args ...any) *Rows {
	t.Helper()
	rows, err := c.Query(text, args, unchanged)
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

func TestReturnsWhatWasWritten(t *testing.T) {
	conn := newConnection(t)
	conn.mustExec(t, "CREATE TABLE t (key INTEGER PRIMARY KEY, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)")
	rapid.Check(t, func(rt *rapid.T) {
		want := drawAllTypes(rt)
		if err := conn.Exec("REPLACE INTO t VALUES (1"+strings.Repeat(", ?", 16)+")", want.args()...); err != nil {
			rt.Fatal(err)
		}
		var got allTypes
		if err := conn.ScanFirst("SELECT a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p FROM t", got.dest()...); err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func TestParametersAreNumbered(t *testing.T) {
	conn := newConnection(t)
	var got [4]string
	rows := conn.mustQuery(t, "SELECT $2, $1, $3, $1", "one", "two", "three")
	defer rows.Close()
	rows.Next()
	if err := rows.Scan(&got[0], &got[1], &got[2], &got[3]); err != nil {
		t.Fatal(err)
	}
	if got != [4]string{"two", "one", "three", "one"} {
		t.Error(got)
	}
}

func TestRefusesBadStatementsAndArguments(t *testing.T) {
	conn := newConnection(t)
	for _, text := range []string{
		"SELEKT", "", "SELECT 1; SELECT 2", "SELECT :name", "SELECT * FROM missing", `SELECT "text"`,
	} {
		if err := conn.Exec(text); err == nil {
			t.Errorf("%q was run", text)
		}
	}
	for _, args := range [][]any{{}, {1, 2}, {struct{}{}}, {uint64(math.MaxUint64)}, {[]int{1}}} {
		if err := conn.Exec("SELECT $1", args...); err == nil {
			t.Errorf("%v was bound", args)
		}
	}
}

func TestScanConvertsNothing(t *testing.T) {
	conn := newConnection(t)
	var text string
	var number int64
	var tiny int8
	var truth bool
	for literal, dest := range map[string]any{
		"NULL": &text, "1": &text, "'1'": &number, "1.5": &number, "300": &tiny, "'true'": &truth, "NULL + 1": &number,
		"2": text, "3": nil, "4": &struct{}{}, "'x'": new(float64), "5": new([]byte), "NULL + 2": new(name),
	} {
		if err := conn.ScanFirst("SELECT "+literal, dest); err == nil {
			t.Errorf("%s was scanned into %T", literal, dest)
		}
	}
	if err := conn.ScanFirst("SELECT 1, 2", &number); err == nil {
		t.Error("two columns were scanned into one variable")
	}
	if err := conn.ScanFirst("SELECT 1", &number, &number); err == nil {
		t.Error("one column was scanned into two variables")
	}
}

func TestErrorsHaveExtendedCodes(t *testing.T) {
	conn := newConnection(t)
	conn.mustExec(t, "CREATE TABLE t (k TEXT PRIMARY KEY) STRICT")
	const insert = "INSERT INTO t VALUES ($1)"
	conn.mustExec(t, insert, "a")
	err := conn.Exec(insert, "a")
	if driver.ErrCode(err) != driver.ResultConstraintPrimaryKey || !strings.Contains(err.Error(), "t.k") {
		t.Errorf("got %v", err)
	}
	conn.mustExec(t, insert, "b")
	conn.mustExec(t, "DELETE FROM t")
	if n := conn.Changes(); n != 2 {
		t.Errorf("%d rows were deleted", n)
	}
	_, err = Open(filepath.Join(t.TempDir(), "missing.db"), nil)
	if driver.ErrCode(err).ToPrimary() != driver.ResultCantOpen {
		t.Errorf("got %v", err)
	}
}

// TestRowsCanBeClosedAgain closes rows while their statement serves others.
func TestRowsCanBeClosedAgain(t *testing.T) {
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

// TestEndedRowsHoldNoLock truncates the write-ahead log after rows were read to their end, or
// closed before.
func TestEndedRowsHoldNoLock(t *testing.T) {
	writer := newConnection(t)
	writer.mustExec(t, "PRAGMA journal_mode(WAL)")
	writer.mustExec(t, "CREATE TABLE t (n INTEGER)")
	writer.mustExec(t, "INSERT INTO t VALUES (1), (2)")
	var path string
	if err := writer.ScanFirst("SELECT file FROM pragma_database_list", &path); err != nil {
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
		if err := writer.ScanFirst("PRAGMA wal_checkpoint(TRUNCATE)", &busy, &log, &moved); err != nil || busy != 0 {
			t.Errorf("after %d rows: busy %d, %v", read, busy, err)
		}
	}
}

func TestBoundsPreparedStatements(t *testing.T) {
	conn := newConnection(t)
	for i := range maxStatements + 10 {
		var n int
		if err := conn.ScanFirst("SELECT "+strings.Repeat("1 + ", i%500)+"1 -- "+strings.Repeat("x", i/500), &n); err != nil {
			t.Fatal(err)
		}
	}
	if len(conn.statements.byText) != maxStatements {
		t.Errorf("%d statements are kept", len(conn.statements.byText))
	}
}
