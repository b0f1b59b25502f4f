//go:build bench

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/resource"
	"steward/internal/resource/enginetest"
	"steward/internal/resource/libsql"
)

const (
	libsqlClients = 16
	libsqlRows    = 100_000
	libsqlID      = "db_01k9zzzzzzzzzzzzzzzzzzzzzz"
	attackerID    = "db_01k9zzzzzzzzzzzzzzzzzzzzzy" // of another organization
	libsqlToken   = "token"

	createItems = `CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price REAL);
		WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT 100000)
		INSERT INTO items SELECT n, 'item ' || n, n / 100.0 FROM c;`
	readItem   = "SELECT id, name, price FROM items WHERE id = ?"
	insertItem = "INSERT INTO items (name, price) VALUES (?, 1.5)"
)

// newLibSQL returns an engine with a database of each of two organizations.
func newLibSQL() http.Handler {
	rows := []*resource.Provisioned{
		{ID: libsqlID, OrgID: "victim", Password: libsqlToken, State: resource.Active},
		{ID: attackerID, OrgID: "attacker", Password: libsqlToken, State: resource.Active},
	}
	e := &libsql.Engine{
		Dir: os.Getenv("BENCH_DIR"), Log: slog.New(slog.DiscardHandler),
		Rows: enginetest.NewRows(rows...),
	}
	if err := e.Open(); err != nil {
		panic(err)
	}
	for _, p := range rows {
		if err := e.Create(context.Background(), p); err != nil {
			panic(err)
		}
	}
	go e.Run(context.Background())
	return e
}

// TestLibSQL compares point reads and inserts over HTTP with the same statements in process.
func TestLibSQL(t *testing.T) {
	s := startRole(t, "libsql", "BENCH_DIR="+t.TempDir())
	sendPipeline(t, s, map[string]any{"type": "sequence", "sql": createItems})
	in := openInProcess(t)
	for _, c := range []struct {
		what, sql string
		argument  func(n int) any
	}{
		{"point reads", readItem, func(n int) any { return int64(n*7919%libsqlRows + 1) }},
		{"inserts of one row", insertItem, func(n int) any { return fmt.Sprintf("item %d", n) }},
	} {
		next := func(conn, i int) []byte { return statement(c.sql, c.argument(i*libsqlClients+conn)) }
		ratio, ref, got := compare(3,
			func() result { return in.load(t, c.sql, c.argument) },
			func() result { return load(t, s, libsqlClients, span, next) })
		report(fmt.Sprintf("libSQL: %s, %d clients", c.what, libsqlClients), ratio, atLeast(0.3),
			"%.0f/s of %.0f/s in process, CPU %.3f ms", got.rate, ref.rate, got.cpu)
	}
}

// attackers is the number of statements without end that an organization runs.
const attackers = 8

// TestLibSQLUnderAttack compares the point reads of an organization while another one runs statements
// without end with those on a quiet server.
func TestLibSQLUnderAttack(t *testing.T) {
	s := startRole(t, "libsql", "BENCH_DIR="+t.TempDir())
	sendPipeline(t, s, map[string]any{"type": "sequence", "sql": createItems})
	read := func() result {
		return load(t, s, 4, span, func(conn, i int) []byte { return statement(readItem, int64((i*4+conn)*7919%libsqlRows+1)) })
	}
	var ratios []float64
	var quiet, attacked result
	for range 3 {
		quiet = read()
		end := attack(t, s)
		attacked = read()
		end()
		ratios = append(ratios, float64(attacked.quantile(0.99))/float64(quiet.quantile(0.99)))
	}
	report(fmt.Sprintf("libSQL: p99 of point reads while another runs %d SELECTs", attackers), median(ratios), atMost(3),
		"%s of %s, p50 %s of %s", ms(attacked.quantile(0.99)), ms(quiet.quantile(0.99)), ms(attacked.quantile(0.5)), ms(quiet.quantile(0.5)))
}

// attack runs statements without end until the function that it returns is called.
func attack(t *testing.T, s server) (end func()) {
	t.Helper()
	const endless = "WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c"
	body := pipelineBody(map[string]any{"type": "execute", "stmt": map[string]any{"sql": endless}})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range attackers {
		running.Go(func() {
			for ctx.Err() == nil {
				r, err := http.NewRequestWithContext(ctx, "POST", "http://"+s.address+"/db/"+attackerID+"/v2/pipeline", bytes.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("Authorization", "Bearer "+libsqlToken)
				if res, err := client.Do(r); err == nil { // fails when the attack ends
					_ = res.Body.Close()
				}
			}
		})
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// statement returns the bytes of a request with a statement that has one argument.
func statement(sql string, argument any) []byte {
	return request("POST", "/db/"+libsqlID+"/v2/pipeline", libsqlToken, pipelineBody(map[string]any{
		"type": "execute", "stmt": map[string]any{"sql": sql, "args": []any{hranaValue(argument)}},
	}))
}

func pipelineBody(r map[string]any) []byte {
	body, err := json.Marshal(map[string]any{"requests": []any{r, map[string]any{"type": "close"}}})
	if err != nil {
		panic(err)
	}
	return body
}

func hranaValue(v any) map[string]any {
	if n, ok := v.(int64); ok {
		return map[string]any{"type": "integer", "value": fmt.Sprint(n)}
	}
	return map[string]any{"type": "text", "value": v}
}

// sendPipeline sends a request that must succeed.
func sendPipeline(t *testing.T, s server, r map[string]any) {
	t.Helper()
	out, err := http.NewRequest("POST", "http://"+s.address+"/db/"+libsqlID+"/v2/pipeline", bytes.NewReader(pipelineBody(r)))
	if err != nil {
		t.Fatal(err)
	}
	out.Header.Set("Authorization", "Bearer "+libsqlToken)
	res, err := client.Do(out)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var body bytes.Buffer
	if _, err := body.ReadFrom(res.Body); err != nil || res.StatusCode != http.StatusOK || bytes.Contains(body.Bytes(), []byte(`"error"`)) {
		t.Fatalf("%v %d %s", err, res.StatusCode, body.Bytes())
	}
}

// inProcess is a database as a Go program would use it: a pool of connections that read and one that
// writes, with prepared statements.
type inProcess struct {
	pool   *sqlitex.Pool
	writer chan *sqlite.Conn
}

func openInProcess(t *testing.T) *inProcess {
	t.Helper()
	pool, err := sqlitex.NewPool(filepath.Join(t.TempDir(), "data.db"), sqlitex.PoolOptions{
		PoolSize:    9,
		PrepareConn: func(conn *sqlite.Conn) error { return sqlitex.ExecuteTransient(conn, "PRAGMA synchronous = FULL", nil) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pool.Close() })
	conn, err := pool.Take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := sqlitex.ExecuteScript(conn, createItems, nil); err != nil {
		t.Fatal(err)
	}
	in := &inProcess{pool: pool, writer: make(chan *sqlite.Conn, 1)}
	in.writer <- conn
	t.Cleanup(func() { pool.Put(<-in.writer) })
	return in
}

// load runs a statement by all clients for a time.
func (in *inProcess) load(t *testing.T, sql string, argument func(n int) any) result {
	t.Helper()
	return measure(t, server{pid: os.Getpid()}, libsqlClients, func(c int, start time.Time) (times []time.Duration, err error) {
		for i := 0; time.Since(start) < span; i++ {
			began := time.Now()
			if err := in.run(t.Context(), sql, argument(i*libsqlClients+c)); err != nil {
				return nil, err
			}
			times = append(times, time.Since(began))
		}
		return times, nil
	})
}

func (in *inProcess) run(ctx context.Context, sql string, argument any) error {
	if sql == insertItem {
		conn := <-in.writer
		defer func() { in.writer <- conn }()
		return execute(conn, sql, argument)
	}
	conn, err := in.pool.Take(ctx)
	if err != nil {
		return err
	}
	defer in.pool.Put(conn)
	return execute(conn, sql, argument)
}

func execute(conn *sqlite.Conn, sql string, argument any) error {
	return sqlitex.Execute(conn, sql, &sqlitex.ExecOptions{Args: []any{argument}, ResultFunc: func(stmt *sqlite.Stmt) error {
		_, _, _ = stmt.ColumnInt64(0), stmt.ColumnText(1), stmt.ColumnFloat(2)
		return nil
	}})
}
