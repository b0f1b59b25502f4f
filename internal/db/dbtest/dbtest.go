// Package dbtest provides tests with real databases: a SQLite file in a temporary directory, and
// PostgreSQL on a private server.
//
// A test process migrates the schema once for each engine, and copies the result for each test
// (template.go), in memory if there is room (memory.go).
package dbtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"

	"steward/internal/db"
)

// Dialects lists the engines on which every store's tests run.
var Dialects = []db.Dialect{db.SQLite, db.Postgres}

// Each runs a test on a new database for each engine.
func Each(t *testing.T, test func(t *testing.T, d *db.DB)) {
	t.Helper()
	for _, dialect := range Dialects {
		t.Run(dialect.String(), func(t *testing.T) { test(t, Open(t, dialect)) })
	}
}

// Check draws histories as rapid.Check does: as many as -rapid.checks says on SQLite, and a fifth on
// PostgreSQL, where each takes ten times as long. No other test in the process may draw meanwhile.
func Check(t *testing.T, dialect db.Dialect, property func(*rapid.T)) {
	t.Helper()
	if dialect == db.Postgres {
		checks := flag.Lookup("rapid.checks").Value
		all := checks.(flag.Getter).Get().(int)
		setChecks(t, checks, max(1, all/5))
		defer setChecks(t, checks, all)
	}
	rapid.Check(t, property)
}

func setChecks(t *testing.T, checks flag.Value, n int) {
	t.Helper()
	if err := checks.Set(strconv.Itoa(n)); err != nil {
		t.Fatal(err)
	}
}

// Long leaves a test to `make test-long`.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
}

// Fill calls insert with ranges of up to 2,000 of n rows, each in its own transaction, since a busy machine
// would not insert all rows within a transaction's time limit.
func Fill(t testing.TB, d *db.DB, n int, insert func(tx *db.Tx, first, last int) error) {
	t.Helper()
	const most = 2000
	for first := 0; first < n; first += most {
		if err := d.Write(t.Context(), func(tx *db.Tx) error { return insert(tx, first, min(first+most, n)-1) }); err != nil {
			t.Fatalf("insert rows: %v", err)
		}
	}
}

// EachInBubble runs a test on a new database for each engine, in a synctest bubble. The bubble's
// time stands still while anybody works, also while a statement runs on PostgreSQL, and waiting for
// a timer costs no time. So nothing may wait for a lock on PostgreSQL until a timer ends.
func EachInBubble(t *testing.T, test func(t *testing.T, d *db.DB)) {
	t.Helper()
	for _, dialect := range Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			o := Options(t, dialect) // outside, because its cleanup must not be in the bubble
			synctest.Test(t, func(t *testing.T) {
				d, err := db.Open(t.Context(), o)
				if err != nil {
					t.Fatalf("open %s: %v", dialect, err)
				}
				defer func() {
					if err := d.Close(); err != nil {
						t.Errorf("close %s: %v", dialect, err)
					}
				}()
				test(t, d)
			})
		})
	}
}

// Open opens a new database with the current schema, and closes it when the test ends.
func Open(t testing.TB, dialect db.Dialect) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), Options(t, dialect))
	if err != nil {
		t.Fatalf("open %s: %v", dialect, err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Errorf("close %s: %v", dialect, err)
		}
	})
	return d
}

// Options returns the options for a new database with the current schema, for tests that open it
// themselves.
func Options(t testing.TB, dialect db.Dialect) db.Options {
	t.Helper()
	if dialect == db.Postgres {
		return postgresOptions(t, Postgres(t))
	}
	o := Empty(t, dialect)
	WriteSQLite(t, o.Path)
	return o
}

// WriteSQLite makes a SQLite file with the current schema, unless there is one.
func WriteSQLite(t testing.TB, path string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return
	}
	if err == nil {
		_, err = file.Write(sqliteTemplate(t))
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Empty returns the options for a new database without a schema, for tests of migrations.
func Empty(t testing.TB, dialect db.Dialect) db.Options {
	t.Helper()
	if dialect == db.Postgres {
		return postgresOptions(t, EmptyPostgres(t))
	}
	return db.Options{Path: filepath.Join(tempDir(t), "steward.db"), Log: quiet, Observer: observer(t, db.SQLite)}
}

func postgresOptions(t testing.TB, url string) db.Options {
	t.Helper()
	o := db.Options{URL: url, Log: quiet, Observer: observer(t, db.Postgres)}
	if mode := os.Getenv("STEWARD_TEST_POOLER"); mode != "" {
		o.URL = PgBouncer(t, url, mode)
		o.Pooler = mode
	}
	return o
}

var quiet = slog.New(slog.DiscardHandler)

// Postgres creates a database with the current schema and returns its URL. It is dropped when the
// test ends.
func Postgres(t testing.TB) string {
	t.Helper()
	server := serverURL(t)
	// PostgreSQL's other strategy writes the whole template to its log.
	return create(t, server, "STRATEGY file_copy TEMPLATE "+postgresTemplate(t, server))
}

// EmptyPostgres creates a database without a schema and returns its URL. It is dropped when the test
// ends.
func EmptyPostgres(t testing.TB) string {
	t.Helper()
	return create(t, serverURL(t), "")
}

// OwnServer gives this test process its own server. TestMain calls it in packages whose tests see
// other tests' transactions: no event is read until every older transaction on the server has ended.
func OwnServer() {
	for _, name := range []string{"STEWARD_TEST_POSTGRES", "STEWARD_TEST_TEMPLATE"} {
		if err := os.Unsetenv(name); err != nil {
			panic(err) // the name is valid
		}
	}
}

// serverURL returns the shared server's URL.
func serverURL(t testing.TB) string {
	t.Helper()
	if server := os.Getenv("STEWARD_TEST_POSTGRES"); server != "" {
		return server
	}
	own, err := private()
	if err != nil {
		t.Fatalf("PostgreSQL for tests: %v", err)
	}
	return own.URL
}

var databases atomic.Int64

func create(t testing.TB, server, clause string) string {
	t.Helper()
	name := fmt.Sprintf("steward_test_%d_%d", os.Getpid(), databases.Add(1))
	command(t, server, "CREATE DATABASE "+name+" "+clause)
	t.Cleanup(func() { command(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	return withDatabase(server, name)
}

// withDatabase returns another database's URL on the same server.
func withDatabase(server, name string) string {
	u, err := url.Parse(server)
	if err != nil {
		panic(err) // we connected with it
	}
	u.Path = "/" + name
	return u.String()
}

// admin is this process's connection for creating and dropping databases. A new one for each would take
// the server a fifth of the CPU time.
var admin struct {
	sync.Mutex
	server string
	conn   *pgx.Conn
}

func command(t testing.TB, server, sql string) {
	t.Helper()
	admin.Lock()
	defer admin.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if admin.conn == nil || admin.conn.IsClosed() || admin.server != server {
		conn, err := pgx.Connect(ctx, server)
		if err != nil {
			t.Fatalf("PostgreSQL for tests: %v", err)
		}
		admin.server, admin.conn = server, conn
	}
	_, err := admin.conn.Exec(ctx, sql)
	for isInUse(err) { // the server waits only five seconds for connections to end
		_, err = admin.conn.Exec(ctx, sql)
	}
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func isInUse(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "55006"
}

// OpenTransaction opens a writing transaction on PostgreSQL, as another application would. It ends
// with its connection, when you call end or the test ends.
func OpenTransaction(t testing.TB, url string) (end func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	end = func() { _ = conn.Close(context.Background()) }
	t.Cleanup(end)
	if _, err := conn.Exec(t.Context(), "BEGIN; SELECT pg_current_xact_id()"); err != nil {
		t.Fatal(err)
	}
	return end
}
