package libsql_test

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/resource/libsql"
)

func (d *database) wantNoFiles() {
	d.t.Helper()
	if _, err := os.Stat(filepath.Join(d.Dir, d.p.ID)); !os.IsNotExist(err) {
		d.t.Errorf("the files are there: %v", err)
	}
}

func TestConnection(t *testing.T) {
	e := &libsql.Engine{BaseURL: "https://example.com"}
	got := e.Connection(&resource.Provisioned{ID: "db_1", Password: "secret"})
	want := resource.Connection{URL: "https://example.com/db/db_1/", Env: map[string]string{
		"DATABASE_URL": "https://example.com/db/db_1/", "DATABASE_AUTH_TOKEN": "secret",
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if e.Name() != "libsql" || !e.Local() {
		t.Error("name or place")
	}
}

func TestFilesArePrivateAndCreatedOnce(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (a)")
	d.must(d.Create(t.Context(), d.p)) // again, as after a crash
	d.exec("SELECT * FROM t")
	files, err := filepath.Glob(filepath.Join(d.Dir, d.p.ID, "*"))
	d.must(err)
	for _, path := range append(files, filepath.Dir(files[0])) {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
	if err := d.Create(t.Context(), &resource.Provisioned{ID: "../../etc", Node: "local"}); errs.KindOf(err) != errs.NotFound {
		t.Errorf("an id that is a path: %v", err)
	}
	if mode := d.exec("PRAGMA journal_mode").only(t); mode != "wal" {
		t.Errorf("journal_mode is %v", mode)
	}
	if level := d.exec("PRAGMA synchronous").only(t); level != "2" {
		t.Errorf("synchronous is %v", level)
	}
}

func TestDatabasesOfOtherNodesAreUnavailable(t *testing.T) {
	s := start(t, libsql.Limits{})
	d := s.create()
	elsewhere := *d.p
	elsewhere.Node = "node_other"
	s.set(&elsewhere)
	s.Forget()
	if got := d.pipeline(nil, execute("SELECT 1")); got.status != 503 || !strings.Contains(got.Message, "another node") {
		t.Errorf("status %d: %s", got.status, got.raw)
	}
	if _, err := s.Query(t.Context(), &elsewhere, "SELECT 1", nil, 10); errs.KindOf(err) != errs.Unavailable {
		t.Errorf("query: %v", err)
	}
	if err := s.Create(t.Context(), &elsewhere); errs.KindOf(err) != errs.Unavailable {
		t.Errorf("create: %v", err)
	}
	s.must(s.Delete(t.Context(), &elsewhere))
	if _, err := os.Stat(filepath.Join(s.Dir, d.p.ID, "data.db")); err != nil {
		t.Errorf("deleting on another node removed the files: %v", err)
	}
}

func TestQueryAndTables(t *testing.T) {
	d := newDatabase(t)
	ctx := t.Context()
	d.exec("CREATE TABLE invoices (id INTEGER PRIMARY KEY, total REAL NOT NULL, note TEXT)")
	d.exec("CREATE VIEW large AS SELECT id FROM invoices WHERE total > 10")
	tables, err := d.Tables(ctx, d.p)
	d.must(err)
	want := []resource.Table{
		{Schema: "main", Name: "invoices", Type: "table", Columns: []resource.Column{
			{Name: "id", Type: "INTEGER", PrimaryKey: true}, {Name: "total", Type: "REAL"}, {Name: "note", Type: "TEXT", Nullable: true},
		}},
		{Schema: "main", Name: "large", Type: "view", Columns: []resource.Column{{Name: "id", Type: "INTEGER", Nullable: true}}},
	}
	if diff := cmp.Diff(want, tables); diff != "" {
		t.Error(diff)
	}
	rows, err := d.Query(ctx, d.p, "INSERT INTO invoices VALUES (?, ?, ?), (2, 3, NULL) RETURNING id, total, note, x'00ff'", []any{1.0, 1.5, true}, 10)
	d.must(err)
	blob := map[string]string{"base64": "AP8="}
	if diff := cmp.Diff(resource.Rows{Columns: []string{"id", "total", "note", "x'00ff'"}, Rows: [][]any{{int64(1), 1.5, "1", blob}, {int64(2), 3.0, nil, blob}}}, rows); diff != "" {
		t.Error(diff)
	}
	rows, err = d.Query(ctx, d.p, "SELECT id FROM invoices", nil, 1)
	d.must(err)
	if len(rows.Rows) != 1 || !rows.Truncated {
		t.Errorf("got %+v", rows)
	}
	rows, err = d.Query(ctx, d.p, "INSERT INTO invoices VALUES (3, 1, ''), (4, 1, '') RETURNING id", nil, 1)
	d.must(err)
	if n := d.count("invoices"); n != "4" || !rows.Truncated {
		t.Errorf("a truncated result wrote %v rows", n)
	}
	for _, query := range []string{"SELECT nope", "ATTACH 'x' AS y", "", "SELECT 1; SELECT 2"} {
		if _, err := d.Query(ctx, d.p, query, nil, 10); errs.KindOf(err) != errs.Invalid {
			t.Errorf("%q: %v", query, err)
		}
	}
	if _, err := d.Query(ctx, d.p, "SELECT ?", []any{[]any{}}, 10); errs.KindOf(err) != errs.Invalid {
		t.Errorf("an array as argument: %v", err)
	}
	d.must(d.Delete(ctx, d.p))
	if _, err := d.Query(ctx, d.p, "SELECT 1", nil, 10); errs.KindOf(err) != errs.Unavailable && errs.KindOf(err) != errs.NotFound {
		t.Errorf("after deletion: %v", err)
	}
}

// TestQueryTellsTheRowsAffected runs statements that return no columns, and some that do.
func TestQueryTellsTheRowsAffected(t *testing.T) {
	d := newDatabase(t)
	none := int64(-1)
	for _, c := range []struct {
		sql  string
		want int64
	}{
		{"CREATE TABLE t (a INTEGER)", 0},
		{"INSERT INTO t VALUES (1), (2), (3)", 3},
		{"CREATE INDEX by_a ON t (a)", 0}, // not the three of before
		{"UPDATE t SET a = a + 1 WHERE a > 1", 2},
		{"DELETE FROM t WHERE a = 7", 0},
		{"SELECT a FROM t", none},
		{"DELETE FROM t RETURNING a", none},
	} {
		rows, err := d.Query(t.Context(), d.p, c.sql, nil, 10)
		d.must(err)
		got := none
		if rows.RowsAffected != nil {
			got = *rows.RowsAffected
		}
		if got != c.want {
			t.Errorf("%s: %d rows affected, want %d", c.sql, got, c.want)
		}
	}
}

// TestValuesRoundTrip binds any value, stores it and reads it back.
func TestValuesRoundTrip(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, v)")
	rapid.Check(t, func(r *rapid.T) {
		value := rapid.OneOf(
			rapid.Just(object{"type": "null"}),
			rapid.Map(rapid.Int64(), func(n int64) object { return number(strconv.FormatInt(n, 10)) }),
			rapid.Map(rapid.Float64().Filter(func(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }),
				func(f float64) object { return object{"type": "float", "value": f} }),
			rapid.Map(rapid.String(), text),
			rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) object {
				return object{"type": "blob", "base64": strings.TrimRight(base64.StdEncoding.EncodeToString(b), "=")}
			}),
		).Draw(r, "value")
		got := d.exec("INSERT OR REPLACE INTO t VALUES (1, ?) RETURNING v", value).Rows[0][0]
		again := d.exec("SELECT v FROM t WHERE v IS ?", value)
		if f, ok := value["value"].(float64); ok && f == 0 {
			value["value"] = 0.0 // SQLite has no negative zero
			got["value"] = got["value"].(float64) + 0
		}
		if diff := cmp.Diff(value, got); diff != "" || len(again.Rows) != 1 {
			r.Fatalf("%d rows, %s", len(again.Rows), diff)
		}
	})
	if v := string(d.pipeline(nil, execute("SELECT 9e999, -9e999"), object{"type": "close"}).raw); !strings.Contains(v, "1e999") || !strings.Contains(v, "-1e999") {
		t.Errorf("infinity is %s", v)
	}
}

// crashDir tells the test binary to be the process that is killed.
const crashDir = "LIBSQL_CRASH_DIR"

// TestAcknowledgedRowsSurviveKill kills a process that writes, again and again, and counts what it has
// acknowledged.
func TestAcknowledgedRowsSurviveKill(t *testing.T) {
	if dir := os.Getenv(crashDir); dir != "" {
		writeUntilKilled(t, dir)
		return
	}
	dir := t.TempDir()
	p := &resource.Provisioned{ID: id.New(id.Database), Node: "local", Password: id.Secret(43)}
	acknowledged := 0
	for range 4 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestAcknowledgedRowsSurviveKill$")
		cmd.Env = append(os.Environ(), crashDir+"="+dir, "LIBSQL_CRASH_ID="+p.ID)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for until := acknowledged + 40; acknowledged < until && lines.Scan(); {
			n, err := strconv.Atoi(lines.Text())
			if err != nil {
				t.Fatal(lines.Text())
			}
			acknowledged = n
		}
		_ = cmd.Process.Kill()
		for lines.Scan() { // what it has acknowledged before it died
			if n, err := strconv.Atoi(lines.Text()); err == nil {
				acknowledged = n
			}
		}
		_ = cmd.Wait() // killed
	}
	s := startIn(t, dir, libsql.Limits{}, p)
	d := &database{server: s, t: t, p: p, token: p.Password}
	n, err := strconv.Atoi(d.count("t").(string))
	if err != nil || n < acknowledged || n > acknowledged+1 || acknowledged < 160 {
		t.Errorf("%d rows, %d acknowledged (%v)", n, acknowledged, err)
	}
	if d.exec("PRAGMA integrity_check").only(t) != "ok" {
		t.Error("the database is damaged")
	}
}

// writeUntilKilled inserts rows and prints the number of those that are acknowledged.
func writeUntilKilled(t *testing.T, dir string) {
	p := &resource.Provisioned{ID: os.Getenv("LIBSQL_CRASH_ID"), Node: "local", Password: "x"}
	s := startIn(t, dir, libsql.Limits{}, p)
	s.must(s.Create(t.Context(), p))
	d := &database{server: s, t: t, p: p, token: "x"}
	d.exec("CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, v)")
	for {
		r := d.exec("INSERT INTO t (v) VALUES (randomblob(100))")
		fmt.Println(*r.LastInsertRowid)
	}
}
