//go:build bench

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
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

const span = 2 * time.Second

// TestRequests measures plain management requests against the reference handler.
func TestRequests(t *testing.T) {
	ref := startReference(t)
	onEach(t, func(t *testing.T, database string, _ db.Dialect) {
		s, ours := startSteward(t, database)
		id := rootKeyID(t, s.URL, s.Key)
		for _, path := range []string{"/cli/region", "/cli/apikey/" + id} {
			name := regexp.MustCompile(`key_.*`).ReplaceAllString(path, "{id}")
			for _, conns := range []int{8, 64} {
				get := always(request("GET", path, s.Key, nil))
				ratio, empty, got := versus(3,
					func() result { return load(t, ref, conns, span, get) },
					func() result { return load(t, ours, conns, span, get) })
				report(t, fmt.Sprintf("%s: GET %s, %d connections", database, name, conns), ratio, 0.6, true,
					"%.0f/s of %.0f/s, CPU %.3f ms (empty %.3f)", got.rate, empty.rate, got.cpu, empty.cpu)
			}
		}
	})
}

func always(b []byte) func(int, int) []byte { return func(int, int) []byte { return b } }

func rootKeyID(t *testing.T, base, key string) string {
	req, _ := http.NewRequest("GET", base+"/cli/apikey", nil)
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var keys []struct{ ID string }
	if err := json.NewDecoder(res.Body).Decode(&keys); err != nil || len(keys) == 0 {
		t.Fatalf("no root key: %v", err)
	}
	return keys[0].ID
}

// TestWrites measures acknowledged durable writes: the door that every write of Steward goes through, with one insert in each.
func TestWrites(t *testing.T) {
	raw := fsyncRate(t)
	fmt.Printf("%-58s %8.0f/s\n", "raw loop: append 300 bytes, fsync", raw)
	lite := dbtest.Open(t, db.SQLite)
	one := writeRate(t, lite, 1)
	fmt.Printf("%-58s %8.0f/s  (%.2f of the raw loop)\n", "sqlite: 1 writer", one, one/raw)
	for _, writers := range []int{64, 256} {
		many := writeRate(t, lite, writers)
		report(t, fmt.Sprintf("sqlite: %d writers, as multiple of one", writers), many/one, 5, true, "%.0f/s", many)
	}

	options := dbtest.Options(t, db.Postgres)
	options.MaxConns = 32
	pg, err := db.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer pg.Close()
	fmt.Printf("%-58s %8.0f/s\n", "postgres: 1 writer", writeRate(t, pg, 1))
	for _, writers := range []int{64, 256} {
		var ratios []float64
		var ours, theirs float64
		for range 3 {
			theirs, ours = pgbenchRate(t, options.URL, 64), writeRate(t, pg, writers)
			ratios = append(ratios, ours/theirs)
		}
		slices.Sort(ratios)
		report(t, fmt.Sprintf("postgres: %d writers, against pgbench with 64", writers), ratios[1], 0.7, true, "%.0f/s of %.0f/s", ours, theirs)
	}
}

var rows atomic.Int64

// writeRate counts writes of one row that came back from DB.Write within a span.
func writeRate(t *testing.T, d *db.DB, writers int) float64 {
	t.Helper()
	return commitRate(t, d, writers, span, bareInsert(t, d))
}

// bareInsert is the least that a durable write can be: one row of 300 bytes, under a key of its own.
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

// commitRate counts transactions that came back from DB.Write; each writer does its i-th after the one before.
func commitRate(t *testing.T, d *db.DB, writers int, lasts time.Duration, work func(tx *db.Tx, writer, i int) error) float64 {
	t.Helper()
	var done atomic.Int64
	var all sync.WaitGroup
	start := time.Now()
	for w := range writers {
		all.Go(func() {
			for i := 0; time.Since(start) < lasts; i++ {
				if err := d.Write(context.Background(), func(tx *db.Tx) error { return work(tx, w, i) }); err != nil {
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

// fsyncRate is what the disk gives: one writer that appends and syncs.
func fsyncRate(t *testing.T) float64 {
	f, err := os.Create(filepath.Join(t.TempDir(), "raw"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	row := make([]byte, 300)
	start, n := time.Now(), 0
	for ; time.Since(start) < span; n++ {
		if _, err := f.Write(row); err != nil {
			t.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
	}
	return float64(n) / time.Since(start).Seconds()
}

var tps = regexp.MustCompile(`tps = ([0-9.]+)`)

// pgbenchRate runs PostgreSQL's own load generator with prepared single-row inserts.
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
	table := exec.Command("psql", "-qc", `CREATE TABLE IF NOT EXISTS bench_pgbench (id BIGSERIAL PRIMARY KEY, note TEXT NOT NULL)`)
	table.Env = env
	if out, err := table.CombinedOutput(); err != nil {
		t.Fatalf("psql: %v: %s", err, out)
	}
	cmd := exec.Command("pgbench", "-n", "-M", "prepared", "-c", strconv.Itoa(clients), "-j", "2", "-T", "2", "-f", script)
	cmd.Env = env
	if path, err := filepath.Glob("/usr/lib/postgresql/*/bin/pgbench"); err == nil && len(path) > 0 {
		cmd.Path, cmd.Err = path[len(path)-1], nil
	}
	out, err := cmd.CombinedOutput()
	found := tps.FindSubmatch(out)
	if err != nil || found == nil {
		t.Fatalf("pgbench: %v: %s", err, out)
	}
	rate, _ := strconv.ParseFloat(string(found[1]), 64)
	return rate
}
