package postgres_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/resource"
	"steward/internal/waittest"
)

func queryReturnsTypedValues(t *testing.T, server *dbtest.Server) {
	e := open(t, server.URL)
	p := create(t, e)
	rows, err := e.Query(t.Context(), p, `
		SELECT NULL::int AS n, true AS b, 9007199254740993::int8 AS i, 1.50::numeric AS d, 0.1::float8 AS f, 'NaN'::float8 AS nan,
		       'é''"' AS text, '\x00ff'::bytea AS bytes, '{"a": 1}'::jsonb AS j, ARRAY[1, 2] AS a, '2026-01-02 03:04:05+00'::timestamptz AT TIME ZONE 'UTC' AS at,
		       1e300::numeric = 10::numeric ^ 300 AS big`, nil, 10)
	must(t, err)
	got, err := json.Marshal(rows)
	must(t, err)
	want := `{"columns":["n","b","i","d","f","nan","text","bytes","j","a","at","big"],"rows":[[null,true,9007199254740993,1.50,0.1,"NaN",` +
		`"é'\"",{"base64":"AP8="},"{\"a\": 1}","{1,2}","2026-01-02 03:04:05",true]],"truncated":false}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func queryTakesJSONArguments(t *testing.T, server *dbtest.Server) {
	e := open(t, server.URL)
	p := create(t, e)
	_, err := e.Query(t.Context(), p, "CREATE TABLE t (i int, n numeric, b bool, s text, j jsonb, x bytea, z text)", nil, 10)
	must(t, err)
	var args []any
	must(t, json.Unmarshal([]byte(`[1000000, 0.25, true, "a'b", {"k": [1]}, {"base64": "AP8="}, null]`), &args))
	rows, err := e.Query(t.Context(), p, "INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING *", args, 10)
	must(t, err)
	got, err := json.Marshal(rows.Rows)
	must(t, err)
	if want := `[[1000000,0.25,true,"a'b","{\"k\": [1]}",{"base64":"AP8="},null]]`; string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
	rows, err = e.Query(t.Context(), p, "SELECT i FROM t WHERE i = $1", []any{json.Number("1000000")}, 10)
	must(t, err)
	if len(rows.Rows) != 1 {
		t.Errorf("%v", rows)
	}
}

func queryTellsTheRowsAffected(t *testing.T, server *dbtest.Server) {
	e := open(t, server.URL)
	p := create(t, e)
	none := int64(-1)
	for _, c := range []struct {
		sql  string
		want int64
	}{
		{"CREATE TABLE t (a int)", 0},
		{"INSERT INTO t VALUES (1), (2), (3)", 3},
		{"UPDATE t SET a = a + 1 WHERE a > 1", 2},
		{"DELETE FROM t WHERE a = 7", 0},
		{"SELECT a FROM t", none},
		{"DELETE FROM t RETURNING a", none},
	} {
		rows, err := e.Query(t.Context(), p, c.sql, nil, 10)
		must(t, err)
		got := none
		if rows.RowsAffected != nil {
			got = *rows.RowsAffected
		}
		if got != c.want {
			t.Errorf("%s: %d rows affected, want %d", c.sql, got, c.want)
		}
	}
}

func queryOfAnEmptyResult(t *testing.T, server *dbtest.Server) {
	e := open(t, server.URL)
	p := create(t, e)
	for _, sql := range []string{"SELECT 1 AS a WHERE false", "CREATE TABLE t (a int)", "", "BEGIN", "-- nothing", "LISTEN x"} {
		rows, err := e.Query(t.Context(), p, sql, nil, 10)
		must(t, err)
		if rows.Columns == nil || rows.Rows == nil || len(rows.Rows) > 0 || rows.Truncated {
			t.Errorf("%q: %+v", sql, rows)
		}
	}
}

func queryStopsAtTheLimit(t *testing.T, server *dbtest.Server) {
	e := open(t, server.URL)
	p := create(t, e)
	_, err := e.Query(t.Context(), p, "CREATE TABLE t (a int)", nil, 10)
	must(t, err)
	for sql, want := range map[string]int{
		"SELECT generate_series(1, 9)":                            9,
		"SELECT generate_series(1, 10)":                           10,
		"SELECT generate_series(1, 2000000000)":                   11,
		"INSERT INTO t SELECT generate_series(1, 25) RETURNING a": 11,
	} {
		rows, err := e.Query(t.Context(), p, sql, nil, 10)
		must(t, err)
		if len(rows.Rows) != min(want, 10) || rows.Truncated != (want > 10) {
			t.Errorf("%s: %d rows, truncated %v", sql, len(rows.Rows), rows.Truncated)
		}
	}
	rows, err := e.Query(t.Context(), p, "SELECT count(*) FROM t", nil, 10)
	must(t, err)
	if rows.Rows[0][0] != json.Number("25") {
		t.Errorf("an INSERT of 25 rows has left %v", rows.Rows[0][0])
	}
}

func queryStopsAtEightMebibytes(t *testing.T, server *dbtest.Server) {
	e := open(t, server.URL)
	p := create(t, e)
	rows, err := e.Query(t.Context(), p, "SELECT repeat('x', 1000000) FROM generate_series(1, 100)", nil, 1000)
	must(t, err)
	if len(rows.Rows) != 8 || !rows.Truncated {
		t.Errorf("%d rows, truncated %v", len(rows.Rows), rows.Truncated)
	}
	_, err = e.Query(t.Context(), p, "SELECT repeat('x', 100000000)", nil, 1000)
	if errs.KindOf(err) != errs.Invalid || !strings.Contains(err.Error(), "larger") {
		t.Errorf("a row of 100 MB: %v", err)
	}
}

func queryErrorsAreInvalid(t *testing.T, server *dbtest.Server) {
	e := open(t, server.URL)
	p := create(t, e)
	for sql, want := range map[string]string{
		"SELECT * FROM missing":                         `relation "missing" does not exist (SQLSTATE 42P01)`,
		"SELEC 1":                                       "syntax error",
		"SELECT 1; SELECT 2":                            "cannot insert multiple commands",
		"SELECT 1/0":                                    "division by zero",
		"SELECT $1::int":                                "parameters",
		"SELECT 1\x00":                                  "NUL",
		"COPY (SELECT 1) TO STDOUT":                     "COPY",
		"COPY pg_class FROM STDIN":                      "permission denied",
		"SELECT pg_read_file('x')":                      "permission denied",
		"DO $$ BEGIN RAISE 'é%', 1; END $$":             "é1",
		"SELECT pg_terminate_backend(pg_backend_pid())": "",
	} {
		_, err := e.Query(t.Context(), p, sql, nil, 10)
		if want == "" {
			if errs.KindOf(err) != errs.Unavailable {
				t.Errorf("%s: %v", sql, err)
			}
			continue
		}
		if errs.KindOf(err) != errs.Invalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", sql, err, want)
		}
	}
	for _, args := range [][]any{{map[string]any{"base64": "?"}}, make([]any, 70000)} {
		if _, err := e.Query(t.Context(), p, "SELECT $1", args, 10); errs.KindOf(err) != errs.Invalid {
			t.Errorf("%d arguments: %v", len(args), err)
		}
	}
	_, err := e.Query(t.Context(), p, "SELECT $1::int", []any{"x"}, 10)
	if errs.KindOf(err) != errs.Invalid {
		t.Errorf("text as a number: %v", err)
	}
}

func queryFromTheClientIsNotAwaited(t *testing.T, server *dbtest.Server) {
	e := open(t, server.URL)
	p := create(t, e)
	_, err := e.Query(t.Context(), p, "CREATE TABLE t (a int)", nil, 10)
	must(t, err)
	if _, err := e.Query(t.Context(), p, "COPY t FROM STDIN", nil, 10); errs.KindOf(err) != errs.Invalid {
		t.Errorf("COPY FROM STDIN: %v", err)
	}
}

// queryHasATimeout asks the server for the timeout, which it enforces, and for one that a role or
// database has set instead.
func queryHasATimeout(t *testing.T, server *dbtest.Server) {
	e := open(t, server.URL)
	p := create(t, e)
	conn := dial(t, e.Connection(p).URL)
	exec1(t, conn, "ALTER ROLE "+p.ID+" SET statement_timeout = 0")
	exec1(t, conn, "ALTER DATABASE "+p.ID+" SET statement_timeout = 0")
	rows, err := e.Query(t.Context(), p, "SELECT current_setting('statement_timeout'), current_user, session_user = current_user", nil, 1)
	must(t, err)
	if diff := cmp.Diff([]any{"30s", p.ID, true}, rows.Rows[0]); diff != "" {
		t.Error(diff)
	}
}

// cancelledQueryEndsOnTheServer cancels a statement that would insert a row at its end.
func cancelledQueryEndsOnTheServer(t *testing.T, server *dbtest.Server) {
	e := open(t, server.URL)
	p := create(t, e)
	super := dial(t, server.URL)
	own := dial(t, e.Connection(p).URL)
	exec1(t, own, "CREATE TABLE ended (a int)")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := e.Query(ctx, p, "INSERT INTO ended SELECT 1 FROM pg_sleep(20)", nil, 1)
		ended <- err
	}()
	const running = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'INSERT INTO ended%' AND state = 'active' AND datname = $1"
	waittest.True(t, "the statement to run", func() bool { return ask[int](t, super, running, p.ID) == 1 })
	cancel()
	if err := <-ended; err == nil {
		t.Error("the query succeeded")
	}
	waittest.True(t, "the statement to end", func() bool { return ask[int](t, super, running, p.ID) == 0 })
	if ask[int](t, own, "SELECT count(*) FROM ended") != 0 {
		t.Error("the statement was completed")
	}
}

func tables(t *testing.T, server *dbtest.Server) {
	e := open(t, server.URL)
	p := create(t, e)
	none, err := e.Tables(t.Context(), p)
	must(t, err)
	if none == nil || len(none) != 0 {
		t.Errorf("tables of an empty database: %v", none)
	}
	exec1(t, dial(t, e.Connection(p).URL), `
		CREATE SCHEMA "S p";
		CREATE TABLE "S p"."T ""1" (b varchar(10) NOT NULL, a int, gone int, PRIMARY KEY (a, b));
		ALTER TABLE "S p"."T ""1" DROP COLUMN gone;
		CREATE TABLE t (id int8 GENERATED ALWAYS AS IDENTITY PRIMARY KEY, note text, tags text[]);
		CREATE VIEW v AS SELECT id FROM t;
		CREATE TABLE nothing ();
		CREATE TEMP TABLE hidden (a int);
		ALTER DATABASE `+p.ID+` SET search_path = "S p"`)
	tables, err := e.Tables(t.Context(), p)
	must(t, err)
	want := []resource.Table{
		{Schema: "S p", Name: `T "1`, Type: "table", Columns: []resource.Column{
			{Name: "b", Type: "character varying(10)", PrimaryKey: true}, {Name: "a", Type: "integer", PrimaryKey: true},
		}},
		{Schema: "public", Name: "nothing", Type: "table", Columns: []resource.Column{}},
		{Schema: "public", Name: "t", Type: "table", Columns: []resource.Column{
			{Name: "id", Type: "bigint", PrimaryKey: true}, {Name: "note", Type: "text", Nullable: true}, {Name: "tags", Type: "text[]", Nullable: true},
		}},
		{Schema: "public", Name: "v", Type: "view", Columns: []resource.Column{{Name: "id", Type: "bigint", Nullable: true}}},
	}
	if diff := cmp.Diff(want, tables); diff != "" {
		t.Error(diff)
	}
}

func changedPasswordIsSaid(t *testing.T, server *dbtest.Server) {
	e := open(t, server.URL)
	p := create(t, e)
	exec1(t, dial(t, e.Connection(p).URL), "ALTER ROLE "+p.ID+" PASSWORD 'mine'")
	_, err := e.Query(t.Context(), p, "SELECT 1", nil, 1)
	if errs.KindOf(err) != errs.Invalid || !strings.Contains(err.Error(), "rotate") {
		t.Errorf("query: %v", err)
	}
	must(t, e.Rotate(t.Context(), p))
	_, err = e.Query(t.Context(), p, "SELECT 1", nil, 1)
	must(t, err)
}
