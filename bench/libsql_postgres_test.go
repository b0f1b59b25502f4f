//go:build bench

package bench

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"steward/internal/db/dbtest"
)

// TestLibSQLBesidePostgres compares inserts of single rows into an embedded database with those into a
// PostgreSQL server with its default settings, as the two engines of databases serve them.
func TestLibSQLBesidePostgres(t *testing.T) {
	s := startRole(t, "libsql", "BENCH_DIR="+t.TempDir())
	sendPipeline(t, s, map[string]any{"type": "sequence", "sql": createItems})
	conns := connectPostgres(t, dbtest.NewServer(t).URL)
	for _, clients := range []int{1, libsqlClients, len(conns)} {
		next := func(conn, i int) []byte { return statement(insertItem, fmt.Sprintf("item %d", i*clients+conn)) }
		ratio, ref, got := compare(3,
			func() result { return insertPostgres(t, conns[:clients]) },
			func() result { return load(t, s, clients, span, next) })
		goal := goal{}
		if clients == libsqlClients {
			goal = atLeast(0.8)
		}
		report(fmt.Sprintf("libSQL: inserts of one row, %d clients, to PostgreSQL", clients), ratio, goal,
			"%.0f/s of %.0f/s, p99 %s of %s", got.rate, ref.rate, ms(got.quantile(0.99)), ms(ref.quantile(0.99)))
	}
}

// connectPostgres creates the table of items on a server, and returns connections to it.
func connectPostgres(t *testing.T, url string) []*pgx.Conn {
	t.Helper()
	conns := make([]*pgx.Conn, 4*libsqlClients)
	for i := range conns {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close(t.Context()) })
		conns[i] = conn
	}
	_, err := conns[0].Exec(t.Context(), "CREATE TABLE items (id BIGSERIAL PRIMARY KEY, name TEXT NOT NULL, price DOUBLE PRECISION)")
	if err != nil {
		t.Fatal(err)
	}
	return conns
}

// insertPostgres inserts rows on all connections for a time.
func insertPostgres(t *testing.T, conns []*pgx.Conn) result {
	t.Helper()
	return measure(t, server{pid: os.Getpid()}, len(conns), func(c int, start time.Time) (times []time.Duration, err error) {
		for i := 0; time.Since(start) < span; i++ {
			began := time.Now()
			_, err := conns[c].Exec(t.Context(), "INSERT INTO items (name, price) VALUES ($1, 1.5)", fmt.Sprintf("item %d", i*len(conns)+c))
			if err != nil {
				return nil, err
			}
			times = append(times, time.Since(began))
		}
		return times, nil
	})
}
