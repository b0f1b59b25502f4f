package libsql_test

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"steward/internal/budget"
	"steward/internal/db/dbtest"
	"steward/internal/resource/libsql"
	"steward/internal/waittest"
)

// endless is a statement that never ends.
const endless = "WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"

// TestStatementsEndAfterTheirTime runs statements for ever in every way, also in transactions, which
// are rolled back.
func TestStatementsEndAfterTheirTime(t *testing.T) {
	dir := t.TempDir()
	s := startIn(t, dir, libsql.Limits{Statement: time.Hour})
	unlimited := s.create()
	unlimited.one(sequence(`CREATE TABLE t (a);
		INSERT INTO t VALUES (0);
		CREATE TABLE trap (a);
		CREATE TRIGGER g AFTER INSERT ON trap BEGIN INSERT INTO t ` + endless + `; END;
		CREATE VIEW w AS ` + endless + `;
		CREATE TABLE big (a);
		CREATE VIRTUAL TABLE f USING fts5(x)`))
	s.must(s.Close(t.Context()))
	limited := startIn(t, dir, libsql.Limits{Statement: 100 * time.Millisecond}, unlimited.p)
	d := &database{server: limited, t: t, p: unlimited.p, token: unlimited.token}
	for _, sql := range []string{
		endless,
		"INSERT INTO t " + endless,
		"CREATE TABLE x AS " + endless,
		"CREATE TEMP TABLE x AS " + endless,
		"UPDATE t SET a = (" + endless + ")",
		"DELETE FROM t WHERE a = (" + endless + ")",
		"DELETE FROM t WHERE (" + endless + ") RETURNING a",
		"INSERT INTO trap VALUES (1)",
		"SELECT * FROM w",
		"EXPLAIN QUERY PLAN SELECT 1 UNION ALL SELECT * FROM w; SELECT * FROM w",
		"INSERT INTO f SELECT 'words of a document ' || n FROM (" + strings.Replace(endless, "count(*)", "n", 1) + ")",
		"WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c) SELECT n FROM c ORDER BY random()",
		"WITH RECURSIVE c(n) AS (VALUES (1) UNION SELECT n + 1 FROM c) SELECT n FROM c",
		"SELECT count(*) FROM json_each('[' || (" + endless + ") || ']')",
		"BEGIN IMMEDIATE; INSERT INTO t VALUES (1); " + endless,
		"BEGIN; INSERT INTO t VALUES (1); INSERT INTO t " + endless,
		"SAVEPOINT a; INSERT INTO t VALUES (1); SELECT * FROM w",
	} {
		d.one(sequence(sql)).fails(t, sql, "SQLITE_INTERRUPT", "took too long")
		waittest.True(t, "the lock to be free", func() bool { return d.one(execute("UPDATE t SET a = a")).Type == "ok" })
	}
	r := d.pipeline(nil, execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)"), execute(endless), object{"type": "get_autocommit"})
	if !*r.Results[3].Response.IsAutocommit {
		t.Error("the transaction was not rolled back")
	}
	s.must(limited.Close(t.Context()))
	again := startIn(t, dir, libsql.Limits{Statement: time.Hour}, unlimited.p)
	if n := (&database{server: again, t: t, p: unlimited.p, token: unlimited.token}).count("t"); n != "1" {
		t.Errorf("%v rows", n)
	}
}

// TestVacuumAndPragmasEndAfterTheirTime runs statements whose time depends on the size of the database.
func TestVacuumAndPragmasEndAfterTheirTime(t *testing.T) {
	dir := t.TempDir()
	s := startIn(t, dir, libsql.Limits{Statement: time.Hour})
	d := s.create()
	d.exec("CREATE TABLE t (a)")
	d.exec("INSERT INTO t WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c WHERE n < 20000) SELECT hex(randomblob(500)) FROM c")
	d.exec("CREATE INDEX i ON t (a)")
	s.must(s.Close(t.Context()))
	limited := startIn(t, dir, libsql.Limits{Statement: time.Millisecond}, d.p)
	again := &database{server: limited, t: t, p: d.p, token: d.token}
	for _, sql := range []string{"VACUUM", "PRAGMA integrity_check", "REINDEX", "SELECT * FROM t ORDER BY a DESC, rowid", "PRAGMA foreign_key_check; PRAGMA quick_check"} {
		again.one(sequence(sql)).fails(t, sql, "SQLITE_INTERRUPT", "took too long")
	}
}

// TestNoInterruptionIsLost interrupts statements around their start: SQLite ignores an interruption that
// comes just before.
func TestNoInterruptionIsLost(t *testing.T) {
	for range 20 {
		limit := time.Duration(1 + rand.Int64N(int64(100*time.Microsecond)))
		d := start(t, libsql.Limits{Statement: limit}).create()
		for range 50 {
			d.one(execute(endless)).fails(t, "a statement", "SQLITE_INTERRUPT", "took too long")
		}
	}
}

func TestSizesAreLimited(t *testing.T) {
	d := start(t, libsql.Limits{Value: 10_000, SQL: 20_000, Columns: 10, Depth: 50, FileSize: 1 << 20}).create()
	d.exec("CREATE TABLE t (a)")
	columns := strings.Repeat("1,", 10) + "1"
	for sql, code := range map[string]string{
		"SELECT randomblob(10001)":                                                                       "SQLITE_TOOBIG",
		"SELECT printf('%.*c', 10001, 'x')":                                                              "SQLITE_TOOBIG",
		"SELECT group_concat(hex(randomblob(4000))) FROM (VALUES (1), (2), (3))":                         "SQLITE_TOOBIG",
		"SELECT replace(hex(randomblob(4000)), '0', hex(randomblob(1000)))":                              "SQLITE_TOOBIG",
		"SELECT '" + strings.Repeat("x", 20_000) + "'":                                                   "SQLITE_TOOBIG",
		"SELECT " + columns:                                                                              "SQLITE_ERROR",
		"SELECT " + strings.Repeat("(", 300) + "1" + strings.Repeat(")", 300) + strings.Repeat("+1", 60): "SQLITE_ERROR",
		"SELECT " + strings.Repeat("abs(", 200) + "1" + strings.Repeat(")", 200):                         "SQLITE_ERROR",
		"SELECT 'x' LIKE '" + strings.Repeat("%a", 600) + "'":                                            "SQLITE_ERROR",
	} {
		d.fails(sql, code, "")
	}
	big := d.one(execute("INSERT INTO t VALUES (?)", text(strings.Repeat("x", 10_001))))
	big.fails(t, "an argument", "SQLITE_TOOBIG", "")
	d.exec("INSERT INTO t VALUES (?)", text(strings.Repeat("x", 9_000)))
	d.fails("INSERT INTO t WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT 1000) SELECT randomblob(9000) FROM c", "SQLITE_FULL", "full")
	if n := d.count("t"); n != "1" {
		t.Errorf("%v rows", n)
	}
	d.fails("CREATE TEMP TABLE x AS WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT 1000) SELECT randomblob(9000) FROM c", "SQLITE_FULL", "full")
}

func TestDeepNestingIsRefused(t *testing.T) {
	d := newDatabase(t)
	for _, sql := range []string{
		"SELECT " + strings.Repeat("(", 100_000) + "1" + strings.Repeat(")", 100_000),
		"SELECT " + strings.Repeat("-", 100_000) + "1",
		"SELECT " + strings.Repeat("NOT ", 100_000) + "1",
		"SELECT 1" + strings.Repeat(" UNION SELECT 1", 10_000),
		"SELECT * FROM " + strings.Repeat("(SELECT * FROM ", 10_000) + "t" + strings.Repeat(")", 10_000),
		"SELECT " + strings.Repeat("CASE WHEN 1 THEN ", 10_000) + "1" + strings.Repeat(" END", 10_000),
	} {
		if r := d.one(execute(sql)); r.Type != "error" {
			t.Errorf("%.40s… succeeds", sql)
		}
	}
	deep := strings.Repeat(`{"type":"not","cond":`, 9_000) + `{"type":"is_autocommit"}` + strings.Repeat("}", 9_000)
	r, err := http.NewRequest(http.MethodPost, d.url+"/db/"+d.p.ID+"/v3/pipeline", strings.NewReader(
		`{"requests":[{"type":"batch","batch":{"steps":[{"stmt":{"sql":"SELECT 1"},"condition":`+deep+`}]}},{"type":"close"}]}`))
	d.must(err)
	r.Header.Set("Authorization", "Bearer "+d.token)
	got, err := http.DefaultClient.Do(r)
	d.must(err)
	d.must(got.Body.Close())
	if got.StatusCode != http.StatusOK {
		t.Errorf("status %d", got.StatusCode)
	}
}

func TestResponsesAreLimited(t *testing.T) {
	d := start(t, libsql.Limits{Response: 100_000}).create()
	d.exec("CREATE TABLE t (a)")
	const rows = "WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT 10000) SELECT n FROM c"
	d.fails(rows, "RESPONSE_TOO_LARGE", "fewer rows")
	d.fails("INSERT INTO t "+rows+" RETURNING a", "RESPONSE_TOO_LARGE", "")
	if n := d.count("t"); n != "0" {
		t.Errorf("%v rows of a statement that failed", n)
	}
	r := d.pipeline(nil, execute("BEGIN"), execute("INSERT INTO t VALUES (1)"), execute("INSERT INTO t "+rows+" RETURNING a"), execute("COMMIT"), object{"type": "close"})
	r.Results[2].fails(t, "in a transaction", "RESPONSE_TOO_LARGE", "")
	if n := d.count("t"); n != "1" {
		t.Errorf("%v rows after a transaction", n)
	}
	got, err := d.send(t.Context(), "v3/cursor", object{"batch": object{"steps": []object{{"stmt": object{"sql": rows}}}}})
	d.must(err)
	if n := strings.Count(string(got.raw), `"type":"row"`); n != 10_000 {
		t.Errorf("a cursor has %d rows", n)
	}
}

func TestRequestsAreLimited(t *testing.T) {
	d := start(t, libsql.Limits{Body: 10_000}).create()
	got := d.pipeline(nil, execute("SELECT ?", text(strings.Repeat("x", 10_000))))
	if got.status != http.StatusRequestEntityTooLarge || got.Code != "REQUEST_TOO_LARGE" {
		t.Errorf("status %d: %s", got.status, got.raw)
	}
}

func TestSlowRequestsAreCut(t *testing.T) {
	s := start(t, libsql.Limits{Pace: budget.Pace{Grace: 100 * time.Millisecond, Rate: 1 << 20}})
	d := s.create()
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	s.must(err)
	defer func() { _ = conn.Close() }()
	s.must(conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = fmt.Fprintf(conn, "POST /db/%s/v2/pipeline HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n{", d.p.ID, d.token)
	s.must(err)
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	s.must(err)
	s.must(got.Body.Close())
	if got.StatusCode != http.StatusRequestTimeout || s.MemoryUsed() != 0 {
		t.Errorf("status %d, %d bytes are reserved", got.StatusCode, s.MemoryUsed())
	}
}

// TestMemoryOfRequestsIsLimited has requests whose responses are many times as large as they are.
func TestMemoryOfRequestsIsLimited(t *testing.T) {
	s := startEngine(t, &libsql.Engine{Dir: t.TempDir(), Memory: budget.NewPool(8<<20, 1<<20)})
	d := s.create()
	many := json.RawMessage("[" + strings.Repeat("{},", 100_000) + "{}]")
	got, err := d.send(t.Context(), "v3/pipeline", object{"requests": many})
	s.must(err)
	if got.status != http.StatusServiceUnavailable || got.Code != "SERVER_BUSY" {
		t.Errorf("a pipeline: status %d: %.200s", got.status, got.raw)
	}
	d.one(object{"type": "batch", "batch": object{"steps": many}}).fails(t, "a batch", "SERVER_BUSY", "")
	if got := d.pipeline(nil, execute("SELECT ?", text(strings.Repeat("x", 1<<20)))); got.status != http.StatusRequestEntityTooLarge {
		t.Errorf("a request of more than a sixteenth: status %d: %.200s", got.status, got.raw)
	}
	d.fails("WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT 100000) SELECT n FROM c", "RESPONSE_TOO_LARGE", "")
	d.exec("SELECT 1")
	waittest.True(t, "all memory to be released", func() bool { return s.MemoryUsed() == 0 })
}

// TestLargestValuesFit stores and reads a value of the largest size, as text that has to be escaped and
// as a blob.
func TestLargestValuesFit(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (a)")
	const size = 4<<20 - 100
	for _, v := range []object{
		text(strings.Repeat("\"", size/2)),
		{"type": "blob", "base64": base64.RawStdEncoding.EncodeToString(make([]byte, size))},
	} {
		d.exec("INSERT INTO t VALUES (?)", v)
		if got := d.exec("DELETE FROM t RETURNING a").Rows[0][0]; got["value"] != v["value"] || got["base64"] != v["base64"] {
			t.Errorf("a value of type %s has changed", v["type"])
		}
	}
	waittest.True(t, "all memory to be released", func() bool { return d.MemoryUsed() == 0 })
}

func TestStoredTextsAreLimited(t *testing.T) {
	d := start(t, libsql.Limits{SQL: 1000}).create()
	d.one(object{"type": "store_sql", "sql_id": 1, "sql": strings.Repeat(" ", 1000)}).fails(t, "a long text", "SQL_STORE_FULL", "")
}

// TestIdleFilesAreClosed also checks that nothing is lost by it.
func TestIdleFilesAreClosed(t *testing.T) {
	s := start(t, libsql.Limits{FileIdle: 50 * time.Millisecond})
	d := s.create()
	d.exec("CREATE TABLE t (a)")
	waittest.True(t, "the file to be closed", func() bool { return s.Opened() == 0 })
	if files, err := filepath.Glob(filepath.Join(s.Dir, d.p.ID, "*")); err != nil || len(files) != 1 {
		t.Errorf("the files are %v (%v)", files, err)
	}
	d.exec("INSERT INTO t VALUES (1)")
}

// TestFullDiskIsLeftInTime fills a small file system, by rows and by temporary files. The reserve stays
// free as far as a statement can be stopped in time, and everything works again when there is space.
func TestFullDiskIsLeftInTime(t *testing.T) {
	dbtest.Long(t)
	dir := t.TempDir()
	mount(t, dir, 96<<20)
	s := startIn(t, filepath.Join(dir, "databases"), libsql.Limits{Reserve: 32 << 20, Statement: time.Hour})
	d := s.create()
	d.exec("CREATE TABLE t (a)")
	const endlessRows = "WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c) SELECT randomblob(2000) AS b FROM c"
	for _, sql := range []string{
		"INSERT INTO t " + endlessRows,
		"SELECT * FROM (" + endlessRows + ") ORDER BY b",
		"CREATE TEMP TABLE x AS " + endlessRows,
	} {
		d.one(sequence(sql)).fails(t, sql, "SQLITE_FULL", "disk is almost full")
		waittest.True(t, "the space to be free", func() bool { return d.one(execute("INSERT INTO t VALUES (1)")).Type == "ok" })
	}
	ballast := filepath.Join(dir, "ballast")
	s.must(os.WriteFile(ballast, make([]byte, 70<<20), 0o600))
	waittest.True(t, "the full disk to be noticed", func() bool { return d.one(execute("INSERT INTO t VALUES (1)")).Type == "error" })
	d.fails("INSERT INTO t VALUES (1)", "SQLITE_FULL", "disk is almost full")
	d.exec("SELECT count(*) FROM t")
	s.must(os.Remove(ballast))
	waittest.True(t, "the free disk to be noticed", func() bool { return d.one(execute("INSERT INTO t VALUES (1)")).Type == "ok" })
	if d.exec("PRAGMA integrity_check").only(t) != "ok" {
		t.Error("the database is damaged")
	}
}

// mount mounts a file system of a size, which needs root.
func mount(t *testing.T, dir string, size int) {
	t.Helper()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d", size), "tmpfs", dir).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
}
