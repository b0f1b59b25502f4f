//go:build bench

package bench

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// TestWrites measures acknowledged durable writes of one row each through DB.Write, as all writes of
// Steward are made.
func TestWrites(t *testing.T) {
	raw := fsyncTimes(t, span, 300).rate
	fmt.Printf("%-58s %8.0f/s\n", "raw loop: append 300 bytes, fsync", raw)
	sqlite := dbtest.Open(t, db.SQLite)
	one := writeRate(t, sqlite, 1)
	fmt.Printf("%-58s %8.0f/s  (%.2f of the raw loop)\n", "sqlite: 1 writer", one, one/raw)
	for _, writers := range []int{64, 256} {
		many := writeRate(t, sqlite, writers)
		report(fmt.Sprintf("sqlite: %d writers, as multiple of one", writers), many/one, atLeast(5), "%.0f/s", many)
	}

	options := dbtest.Options(t, db.Postgres)
	options.MaxConns = 32
	postgres, err := db.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer postgres.Close()
	fmt.Printf("%-58s %8.0f/s\n", "postgres: 1 writer", writeRate(t, postgres, 1))
	for _, writers := range []int{64, 256} {
		ratio, pgbench, got := compare(3,
			func() result { return result{rate: pgbenchRate(t, options.URL, 64)} },
			func() result { return result{rate: writeRate(t, postgres, writers)} })
		report(fmt.Sprintf("postgres: %d writers, compared with pgbench with 64", writers), ratio, atLeast(0.7),
			"%.0f/s of %.0f/s", got.rate, pgbench.rate)
	}
}

// rows numbers the rows that the tests of this package write.
var rows atomic.Int64

// writeRate returns the rate at which one row after the other is written.
func writeRate(t *testing.T, d *db.DB, writers int) float64 {
	t.Helper()
	return commitRate(t, d, writers, span, bareInsert(t, d))
}

// bareInsert returns the smallest durable write: one row of 300 bytes.
func bareInsert(t *testing.T, d *db.DB) func(tx *db.Tx, writer, i int) error {
	t.Helper()
	err := d.Write(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`CREATE TABLE IF NOT EXISTS bench_rows (id BIGINT PRIMARY KEY, note TEXT NOT NULL)`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	note := fmt.Sprintf("%0300d", 7)
	return func(tx *db.Tx, _, _ int) error {
		return tx.Send(`INSERT INTO bench_rows (id, note) VALUES ($1, $2)`, rows.Add(1), note)
	}
}

// commitRate returns the rate of transactions of some writers at the same time.
func commitRate(t *testing.T, d *db.DB, writers int, duration time.Duration,
	work func(tx *db.Tx, writer, i int) error,
) float64 {
	t.Helper()
	var done atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for w := range writers {
		all.Go(func() {
			for i := 0; time.Since(start) < duration; i++ {
				err := d.Write(context.Background(), func(tx *db.Tx) error { return work(tx, w, i) })
				if err != nil {
					t.Error(err)
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(start).Seconds()
}

// fsyncTimes measures the disk: one writer that appends some bytes and syncs.
func fsyncTimes(t *testing.T, duration time.Duration, bytes int) result {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "raw"))
	if err != nil {
		t.Fatal(err)
	}
	row := make([]byte, bytes)
	var times []time.Duration
	start := time.Now()
	for time.Since(start) < duration {
		began := time.Now()
		if _, err := f.Write(row); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		times = append(times, time.Since(began))
	}
	rate := float64(len(times)) / time.Since(start).Seconds()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(times)
	return result{rate: rate, times: times}
}

var tps = regexp.MustCompile(`tps = ([0-9.]+)`)

// pgbenchRate returns the rate of prepared single-row inserts by pgbench.
func pgbenchRate(t *testing.T, database string, clients int) float64 {
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "insert.sql")
	text := "INSERT INTO bench_pgbench (note) VALUES ('" + fmt.Sprintf("%0300d", 7) + "');\n"
	if err := os.WriteFile(script, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "PGHOST="+u.Query().Get("host"), "PGUSER="+u.User.Username(), "PGDATABASE="+u.Path[1:])
	table := exec.Command("psql", "-qc",
		`CREATE TABLE IF NOT EXISTS bench_pgbench (id BIGSERIAL PRIMARY KEY, note TEXT NOT NULL)`)
	table.Env = env
	if out, err := table.CombinedOutput(); err != nil {
		t.Fatalf("psql: %v: %s", err, out)
	}
	cmd := exec.Command("pgbench", "-n", "-M", "prepared", "-c", strconv.Itoa(clients), "-j", "2", "-T", "2", "-f", script)
	cmd.Env = env
	paths, err := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench") // of Debian, not in PATH
	if err == nil && len(paths) > 0 {
		cmd.Path = paths[len(paths)-1]
		cmd.Err = nil
	}
	out, err := cmd.CombinedOutput()
	found := tps.FindSubmatch(out)
	if err != nil || found == nil {
		t.Fatalf("pgbench: %v: %s", err, out)
	}
	rate, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return rate
}

// compareWrites compares acknowledged durable writes of 64 clients with three references, in turn: a
// bare insert; the same statements on bare tables; the empty handler with a body of the same size. The
// first two go through DB.Write in this process, without network, JSON, authentication and further
// indexes. So no server on these cores can be faster than a bare insert and an empty request, one after
// the other.
func compareWrites(t *testing.T, what string, ref server, d *db.DB,
	same func(tx *db.Tx, writer, i int) error, steward func() result,
) {
	t.Helper()
	const duration = time.Second
	insert := bareInsert(t, d)
	post := always(request("POST", "/", "", newEvent()))
	var toBare, toSame, toBoth []float64
	var bare, like, both float64
	var got result
	for range 3 {
		bare = commitRate(t, d, clients, duration, insert)
		like = commitRate(t, d, clients, duration, same)
		both = 1 / (1/bare + 1/load(t, ref, clients, duration, post).rate)
		got = steward()
		toBare = append(toBare, got.rate/bare)
		toSame = append(toSame, got.rate/like)
		toBoth = append(toBoth, got.rate/both)
	}
	report(fmt.Sprintf("%s: %s, %d clients", d.Dialect(), what, clients), median(toBare), atLeast(0.5),
		"%.0f/s of %.0f/s; %.2f of the same statements alone (%.0f/s), %.2f of insert and empty request (%.0f/s); "+
			"p50 %s, p99 %s, CPU %.3f ms",
		got.rate, bare, median(toSame), like, median(toBoth), both,
		ms(got.quantile(0.5)), ms(got.quantile(0.99)), got.cpu)
}
