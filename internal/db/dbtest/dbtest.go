// Package dbtest provides tests with real databases: a SQLite file in a temporary directory, and
// PostgreSQL on a private server. Of Steward it imports db, porttest and waittest.
//
// The server is started when a test first needs it, once per test process, and ends with that process,
// however that ends (server.go). STEWARD_TEST_POSTGRES names a server to use instead.
// STEWARD_TEST_POOLER=transaction has tests reach it through PgBouncer with that pool mode.
// STEWARD_TEST_FSYNC=1 makes the private one durable, and as slow as a real one, for benchmarks. No test
// is skipped if there is no server: it fails and says what to install.
package dbtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/db"
)

// Dialects are the engines on which every test of a store runs.
var Dialects = []db.Dialect{db.SQLite, db.Postgres}

// Each runs a test on a new database of each engine.
func Each(t *testing.T, test func(t *testing.T, d *db.DB)) {
	t.Helper()
	for _, dialect := range Dialects {
		t.Run(dialect.String(), func(t *testing.T) { test(t, Open(t, dialect)) })
	}
}

// Open opens a new database with the current schema. It is closed when the test ends.
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

// Options returns the options of a new, empty database, for tests that open it themselves.
func Options(t testing.TB, dialect db.Dialect) db.Options {
	t.Helper()
	o := db.Options{Log: slog.New(slog.DiscardHandler)}
	if dialect == db.Postgres {
		o.URL = Postgres(t)
		if mode := os.Getenv(poolerVariable); mode != "" {
			o.URL = PgBouncer(t, o.URL, mode)
			o.Pooler = mode
		}
	} else {
		o.Path = filepath.Join(t.TempDir(), "steward.db")
	}
	return o
}

// poolerVariable is the environment variable with the pool mode of PgBouncer.
const poolerVariable = "STEWARD_TEST_POOLER"

var databases atomic.Int64

// Postgres returns the URL of a new, empty database, which is dropped when the test ends.
func Postgres(t testing.TB) string {
	t.Helper()
	server := os.Getenv("STEWARD_TEST_POSTGRES")
	if server == "" {
		own, err := private()
		if err != nil {
			t.Fatalf("PostgreSQL for tests: %v", err)
		}
		server = own.url
	}
	name := fmt.Sprintf("steward_test_%d_%d", os.Getpid(), databases.Add(1))
	command(t, server, "CREATE DATABASE "+name)
	t.Cleanup(func() { command(t, server, "DROP DATABASE "+name+" WITH (FORCE)") })
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func command(t testing.TB, server, sql string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		t.Fatalf("PostgreSQL for tests: %v", err)
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, sql)
	for isInUse(err) { // the server waits for connections to end, but only for five seconds
		_, err = conn.Exec(ctx, sql)
	}
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func isInUse(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == "55006"
}
