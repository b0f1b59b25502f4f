package libsql_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/id"
)

func TestExecuteReturnsTypedColumnsAndRows(t *testing.T) {
	d := newDatabase(t)
	created := d.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, name VARCHAR(20), score REAL, data BLOB)")
	if created.AffectedRowCount != 0 || created.LastInsertRowid != nil {
		t.Errorf("CREATE TABLE changed %+v", created)
	}
	inserted := d.exec("INSERT INTO t VALUES (7, ?, ?, ?), (9, NULL, 2, x'')", text("ä\"\n"),
		object{"type": "float", "value": 1.5}, object{"type": "blob", "base64": "AAH/"})
	if inserted.AffectedRowCount != 2 || *inserted.LastInsertRowid != "9" {
		t.Errorf("INSERT changed %+v", inserted)
	}
	got := d.exec("SELECT *, 1 AS one FROM t ORDER BY id")
	want := &result{
		Cols: []column{{"id", new("INTEGER")}, {"name", new("VARCHAR(20)")}, {"score", new("REAL")}, {"data", new("BLOB")}, {"one", nil}},
		Rows: [][]object{
			{number("7"), text("ä\"\n"), {"type": "float", "value": 1.5}, {"type": "blob", "base64": "AAH/"}, number("1")},
			{number("9"), {"type": "null"}, {"type": "float", "value": 2.0}, {"type": "blob", "base64": ""}, number("1")},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	none := d.one(object{"type": "execute", "stmt": object{"sql": "SELECT * FROM t", "want_rows": false}}).result(t)
	if len(none.Rows) != 0 || len(none.Cols) != 4 {
		t.Errorf("without want_rows: %+v", none)
	}
	returned := d.exec("UPDATE t SET name = 'x' RETURNING id")
	if len(returned.Rows) != 2 || returned.AffectedRowCount != 2 {
		t.Errorf("RETURNING: %+v", returned)
	}
}

func TestColumnsWithTheSameNameKeepIt(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE a (id INTEGER, name TEXT)")
	d.exec("CREATE TABLE b (id VARCHAR, name TEXT)")
	for sql, want := range map[string]string{
		"SELECT a.*, b.* FROM a JOIN b":                                 "id:INTEGER name:TEXT id:VARCHAR name:TEXT",
		"SELECT a.id, b.id, a.id FROM a, b -- comment":                  "id:INTEGER id:VARCHAR id:INTEGER",
		"SELECT count(*), count(*) FROM a;":                             "count(*): count(*):",
		`SELECT 1 AS "x:1", 2 AS x, 3 AS "x:1", 4 AS x;`:                "x:1: x: x:1: x:",
		"WITH c AS (SELECT id FROM a) SELECT id, id, 1 AS other FROM c": "id:INTEGER id:INTEGER other:",
	} {
		var got []string
		for _, c := range d.exec(sql).Cols {
			decltype := ""
			if c.Decltype != nil {
				decltype = *c.Decltype
			}
			got = append(got, c.Name+":"+decltype)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", sql, got, want)
		}
	}
}

func TestArguments(t *testing.T) {
	d := newDatabase(t)
	named := func(pairs ...any) []object {
		var args []object
		for i := 0; i < len(pairs); i += 2 {
			args = append(args, object{"name": pairs[i], "value": pairs[i+1]})
		}
		return args
	}
	for _, c := range []struct {
		sql   string
		args  []object
		named []object
		want  any // the value, or the code of the failure
	}{
		{"SELECT ?1 || ?2", []object{text("a"), text("b")}, nil, "ab"},
		{"SELECT ? || ?1", []object{text("a")}, nil, "aa"},
		{"SELECT :a || @b || $c", nil, named("a", text("1"), "@b", text("2"), "c", text("3")), "123"},
		{"SELECT :a || :a", nil, named(":a", text("1")), "11"},
		{"SELECT :a", []object{text("position")}, named("a", text("name")), "name"},
		{"SELECT ?", nil, nil, "ARGS_INVALID"},
		{"SELECT ?", []object{text("a"), text("b")}, nil, "ARGS_INVALID"},
		{"SELECT :a", nil, named("b", text("1")), "ARGS_INVALID"},
		{"SELECT ?", []object{{"type": "date"}}, nil, "ARGS_INVALID"},
		{"SELECT ?", []object{{"type": "integer", "value": "9223372036854775808"}}, nil, "ARGS_INVALID"},
		{"SELECT ?", []object{{"type": "blob", "base64": "%"}}, nil, "ARGS_INVALID"},
	} {
		got := d.one(object{"type": "execute", "stmt": object{"sql": c.sql, "args": c.args, "named_args": c.named}})
		if got.Type == "error" {
			if got.Error.Code != c.want {
				t.Errorf("%s: %+v, want %v", c.sql, got.Error, c.want)
			}
			continue
		}
		if value := got.result(t).only(t); value != c.want {
			t.Errorf("%s: %v, want %v", c.sql, value, c.want)
		}
	}
}

func TestErrorsHaveTheCodesOfSQLite(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE p (id INTEGER PRIMARY KEY)")
	d.exec("CREATE TABLE t (id TEXT PRIMARY KEY, u UNIQUE, n NOT NULL, c CHECK (c > 0), f REFERENCES p)")
	d.exec("INSERT INTO t VALUES ('a', 1, 1, 1, NULL)")
	d.exec("INSERT INTO p VALUES (1)")
	for sql, code := range map[string]string{
		"INSERT INTO t VALUES ('a', 2, 1, 1, NULL)": "SQLITE_CONSTRAINT_PRIMARYKEY",
		"INSERT INTO p VALUES (1)":                  "SQLITE_CONSTRAINT_PRIMARYKEY",
		"INSERT INTO t VALUES ('b', 1, 1, 1, NULL)": "SQLITE_CONSTRAINT_UNIQUE",
		"INSERT INTO t VALUES ('b', 2, NULL, 1, 1)": "SQLITE_CONSTRAINT_NOTNULL",
		"INSERT INTO t VALUES ('b', 2, 1, 0, NULL)": "SQLITE_CONSTRAINT_CHECK",
		"INSERT INTO t VALUES ('b', 2, 1, 1, 99)":   "SQLITE_CONSTRAINT_FOREIGNKEY",
		"SELECT * FROM missing":                     "SQLITE_ERROR",
		"SELEC 1":                                   "SQL_INPUT_ERROR",
		"SELECT abs(-9223372036854775807 - 1)":      "SQLITE_ERROR",
		"":                                          "SQL_NO_STATEMENT",
		" -- nothing\n /* at all */ ;":              "SQL_NO_STATEMENT",
		"SELECT 1; SELECT 2":                        "SQL_MANY_STATEMENTS",
		"SELECT 1\x00":                              "SQL_PARSE_ERROR",
		"COMMIT":                                    "SQLITE_ERROR",
	} {
		d.fails(sql, code, "")
		if got := d.one(execute(sql)).Error; strings.HasPrefix(code, "SQLITE_CONSTRAINT_") != (got.Code == "SQLITE_CONSTRAINT") {
			t.Errorf("%s: the code is %s", sql, got.Code)
		}
	}
	d.fails("INSERT INTO p VALUES (1)", "SQLITE_CONSTRAINT_PRIMARYKEY", "SQLite error: UNIQUE constraint failed: p.id")
	d.fails("SELECT nope", "SQL_INPUT_ERROR", "SQLite input error: no such column: nope (at offset 7)")
	d.exec("SELECT 1; -- one statement\n/* and a comment */ ;")
}

func TestBatchRunsStepsByCondition(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id INTEGER PRIMARY KEY)")
	step := func(sql string, condition any) object {
		return object{"stmt": object{"sql": sql}, "condition": condition}
	}
	ok := func(i int) object { return object{"type": "ok", "step": i} }
	failed := func(i int) object { return object{"type": "error", "step": i} }
	not := func(c object) object { return object{"type": "not", "cond": c} }
	got := d.one(object{"type": "batch", "batch": object{"steps": []object{
		step("BEGIN", nil),
		step("INSERT INTO t VALUES (1)", not(object{"type": "is_autocommit"})),
		step("INSERT INTO t VALUES (1)", ok(1)),
		step("INSERT INTO t VALUES (2)", ok(2)),
		step("INSERT INTO t VALUES (3)", object{"type": "and", "conds": []object{failed(2), not(ok(3)), not(failed(3))}}),
		step("ROLLBACK", object{"type": "or", "conds": []object{ok(2), ok(3)}}),
		step("COMMIT", object{"type": "or", "conds": []object{ok(2), ok(4)}}),
		step("SELECT count(*) FROM t", object{"type": "is_autocommit"}),
	}}}).batch(t)
	var became strings.Builder
	for i := range got.StepResults {
		switch {
		case got.StepErrors[i] != nil:
			became.WriteByte('E')
		case got.StepResults[i] != nil:
			became.WriteByte('R')
		default:
			became.WriteByte('-')
		}
	}
	if became.String() != "RRE-R-RR" {
		t.Errorf("steps became %s", became.String())
	}
	if code := got.StepErrors[2].code(); code != "SQLITE_CONSTRAINT_PRIMARYKEY" {
		t.Errorf("step 2 failed with %s", code)
	}
	if n := got.StepResults[7].only(t); n != "2" {
		t.Errorf("%v rows", n)
	}
	for _, condition := range []object{ok(0), ok(-1), {"type": "not"}, {"type": "maybe"}} {
		d.one(object{"type": "batch", "batch": object{"steps": []object{step("SELECT 1", condition)}}}).
			fails(t, fmt.Sprint(condition), "BATCH_COND_INVALID", "")
	}
}

func TestSequenceStopsAtTheFirstError(t *testing.T) {
	d := newDatabase(t)
	if r := d.one(sequence("CREATE TABLE t (a); /* ; */ INSERT INTO t VALUES (1), (2); SELECT * FROM t;")); r.Type != "ok" || r.Response.Type != "sequence" {
		t.Errorf("got %+v", r)
	}
	d.one(sequence("INSERT INTO t VALUES (3); INSERT INTO nowhere VALUES (4); INSERT INTO t VALUES (5)")).
		fails(t, "a sequence", "SQLITE_ERROR", "no such table: nowhere")
	if n := d.count("t"); n != "3" {
		t.Errorf("%v rows", n)
	}
}

func TestDescribe(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id INTEGER, v TEXT)")
	for sql, want := range map[string]string{
		"SELECT id, v AS w, 1 FROM t WHERE v = ? AND id = :id": `{"params":[{"name":null},{"name":":id"}],"cols":[{"name":"id","decltype":"INTEGER"},{"name":"w","decltype":null},{"name":"1","decltype":null}],"is_explain":false,"is_readonly":true}`,
		"INSERT INTO t VALUES (?2, 1) RETURNING id":            `{"params":[{"name":null},{"name":"?2"}],"cols":[{"name":"id","decltype":"INTEGER"}],"is_explain":false,"is_readonly":false}`,
		"CREATE TABLE u (a)":                                   `{"params":[],"cols":[],"is_explain":false,"is_readonly":false}`,
		"BEGIN":                                                `{"params":[],"cols":[],"is_explain":false,"is_readonly":true}`,
		"/* */ BEGIN IMMEDIATE":                                `{"params":[],"cols":[],"is_explain":false,"is_readonly":false}`,
	} {
		r := d.one(object{"type": "describe", "sql": sql})
		if r.Type != "ok" || string(r.Response.Result) != want {
			t.Errorf("%s: %s %+v", sql, r.Response.Result, r.Error)
		}
	}
	var explained struct {
		IsExplain bool `json:"is_explain"`
	}
	if err := json.Unmarshal(d.one(object{"type": "describe", "sql": "explain query plan SELECT 1"}).Response.Result, &explained); err != nil || !explained.IsExplain {
		t.Errorf("EXPLAIN is not recognized: %v", err)
	}
	if n := d.exec("SELECT count(*) FROM sqlite_schema WHERE name = 'u'").only(t); n != "0" {
		t.Error("describe has executed the statement")
	}
	d.one(object{"type": "describe", "sql": "SELECT nope"}).fails(t, "describe", "SQL_INPUT_ERROR", "no such column")
}

func TestStoredTextsBelongToTheStream(t *testing.T) {
	d := newDatabase(t)
	by := func(sqlID int) object { return object{"type": "execute", "stmt": object{"sql_id": sqlID}} }
	store := func(sqlID int, sql string) object { return object{"type": "store_sql", "sql_id": sqlID, "sql": sql} }
	first := d.pipeline(nil, store(1, "SELECT 'one'"), by(1), store(1, "SELECT 2"), object{"type": "close_sql", "sql_id": 1},
		object{"type": "close_sql", "sql_id": 1}, by(1), store(1, "SELECT 'two'"))
	var got []string
	for _, r := range first.Results {
		if r.Type == "error" {
			got = append(got, r.Error.Code)
			continue
		}
		got = append(got, r.Response.Type)
	}
	want := "store_sql execute SQL_ID_IN_USE close_sql close_sql SQL_NOT_FOUND store_sql"
	if strings.Join(got, " ") != want {
		t.Errorf("got %v", got)
	}
	second := d.pipeline(first.Baton, by(1), object{"type": "describe", "sql_id": 1}, object{"type": "sequence", "sql_id": 1})
	if v := second.Results[0].result(t).only(t); v != "two" || second.Results[1].Type != "ok" || second.Results[2].Type != "ok" {
		t.Errorf("got %s", second.raw)
	}
	d.one(by(1)).fails(t, "another stream", "SQL_NOT_FOUND", "")
}

func TestUnknownRequests(t *testing.T) {
	d := newDatabase(t)
	for _, r := range []object{{}, {"type": "dance"}, {"type": "execute"}, {"type": "store_sql"}, {"type": "close_sql"}, {"type": "execute", "stmt": 5}} {
		d.one(r).fails(t, fmt.Sprint(r), "HRANA_PROTO_ERROR", "")
	}
	for _, body := range []string{"", "{", "[]", `{"requests":5}`} {
		r, err := http.NewRequest(http.MethodPost, d.url+"/db/"+d.p.ID+"/v2/pipeline", strings.NewReader(body))
		d.must(err)
		r.Header.Set("Authorization", "Bearer "+d.token)
		got, err := http.DefaultClient.Do(r)
		d.must(err)
		d.must(got.Body.Close())
		if got.StatusCode != http.StatusBadRequest {
			t.Errorf("%q: status %d", body, got.StatusCode)
		}
	}
	if empty := d.pipeline(nil); empty.status != http.StatusOK || empty.Baton == nil {
		t.Errorf("an empty pipeline: %s", empty.raw)
	}
}

func TestVersionsAreAnsweredWithoutCredentials(t *testing.T) {
	d := newDatabase(t)
	for endpoint, status := range map[string]int{"v2": 200, "v3": 200, "v3-protobuf": 404, "v1": 404, "": 404, "v2/": 404} {
		for _, databaseID := range []string{d.p.ID, id.New(id.Database), "nothing"} {
			got, err := http.Get(d.url + "/db/" + databaseID + "/" + endpoint)
			d.must(err)
			d.must(got.Body.Close())
			if got.StatusCode != status {
				t.Errorf("%s: status %d", endpoint, got.StatusCode)
			}
		}
	}
	got, err := http.Get(d.url + "/db/" + d.p.ID + "/v2/pipeline")
	d.must(err)
	d.must(got.Body.Close())
	if got.StatusCode != http.StatusMethodNotAllowed || got.Header.Get("Allow") != http.MethodPost {
		t.Errorf("GET of a pipeline: %d %s", got.StatusCode, got.Header.Get("Allow"))
	}
}

func TestAURLWithoutItsLastSlashIsExplained(t *testing.T) {
	d := newDatabase(t)
	base, err := url.Parse(d.url + "/db/" + d.p.ID) // as clients resolve their endpoints
	d.must(err)
	for _, endpoint := range []string{"v2/pipeline", "v3/pipeline", "v3/cursor"} {
		got, err := http.Post(base.JoinPath("..", endpoint).String(), "application/json", strings.NewReader("{}"))
		d.must(err)
		body, err := io.ReadAll(got.Body)
		d.must(errors.Join(err, got.Body.Close()))
		if got.StatusCode != http.StatusNotFound || !strings.Contains(string(body), "ends with a slash") {
			t.Errorf("%s: %d %s", endpoint, got.StatusCode, body)
		}
	}
}

func TestCredentialsAreChecked(t *testing.T) {
	s := newDatabase(t)
	other := s.create()
	var bodies [][]byte
	for _, c := range []struct{ databaseID, authorization string }{
		{s.p.ID, ""},
		{s.p.ID, "Bearer "},
		{s.p.ID, "Bearer wrong"},
		{s.p.ID, "Basic " + s.token},
		{s.p.ID, "Bearer " + other.token},
		{id.New(id.Database), "Bearer " + s.token},
		{"..%2f" + s.p.ID, "Bearer " + s.token},
		{"%2e%2e", "Bearer " + s.token},
		{s.p.ID + "%00", "Bearer " + s.token},
		{strings.ToUpper(s.p.ID), "Bearer " + s.token},
	} {
		r, err := http.NewRequest(http.MethodPost, s.url+"/db/"+c.databaseID+"/v2/pipeline", strings.NewReader(`{"requests":[]}`))
		s.must(err)
		r.Header.Set("Authorization", c.authorization)
		got, err := http.DefaultClient.Do(r)
		s.must(err)
		var body bytes.Buffer
		_, err = body.ReadFrom(got.Body)
		s.must(err)
		s.must(got.Body.Close())
		bodies = append(bodies, body.Bytes())
		if got.StatusCode != http.StatusUnauthorized && got.StatusCode != http.StatusNotFound || got.Header.Get("WWW-Authenticate") != "Bearer" && got.StatusCode == 401 {
			t.Errorf("%+v: status %d", c, got.StatusCode)
		}
		if got.StatusCode == http.StatusUnauthorized && !bytes.Equal(body.Bytes(), bodies[0]) {
			t.Errorf("%+v: %s", c, body.Bytes())
		}
	}
}

func TestCursorStreamsEntries(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (id INTEGER PRIMARY KEY)")
	steps := []object{
		{"stmt": object{"sql": "INSERT INTO t VALUES (1), (2)"}},
		{"stmt": object{"sql": "SELECT id FROM t ORDER BY id"}, "condition": object{"type": "ok", "step": 0}},
		{"stmt": object{"sql": "INSERT INTO t VALUES (1)"}},
		{"stmt": object{"sql": "SELECT 1"}, "condition": object{"type": "ok", "step": 2}},
		{"stmt": object{"sql": "BEGIN"}},
	}
	got, err := d.send(t.Context(), "v3/cursor", object{"batch": object{"steps": steps}})
	d.must(err)
	lines := strings.Split(strings.TrimSuffix(string(got.raw), "\n"), "\n")
	var head response
	d.must(json.Unmarshal([]byte(lines[0]), &head))
	want := []string{
		`{"type":"step_begin","step":0,"cols":[]}`,
		`{"type":"step_end","affected_row_count":2,"last_insert_rowid":"2"}`,
		`{"type":"step_begin","step":1,"cols":[{"name":"id","decltype":"INTEGER"}]}`,
		`{"type":"row","row":[{"type":"integer","value":"1"}]}`,
		`{"type":"row","row":[{"type":"integer","value":"2"}]}`,
		`{"type":"step_end","affected_row_count":0,"last_insert_rowid":null}`,
		`{"type":"step_begin","step":2,"cols":[]}`,
		`{"type":"step_error","step":2,"error":{"message":"SQLite error: UNIQUE constraint failed: t.id","code":"SQLITE_CONSTRAINT","extended_code":"SQLITE_CONSTRAINT_PRIMARYKEY"}}`,
		`{"type":"step_begin","step":4,"cols":[]}`,
		`{"type":"step_end","affected_row_count":0,"last_insert_rowid":null}`,
	}
	if diff := cmp.Diff(want, lines[1:]); diff != "" {
		t.Error(diff)
	}
	next := d.pipeline(head.Baton, object{"type": "get_autocommit"}, object{"type": "close"})
	if next.status != http.StatusOK || *next.Results[0].Response.IsAutocommit {
		t.Errorf("the stream of the cursor: %s", next.raw)
	}
	invalid, err := d.send(t.Context(), "v3/cursor", object{"batch": object{"steps": []any{5}}})
	d.must(err)
	if !strings.Contains(string(invalid.raw), `{"type":"error","error":`) {
		t.Errorf("an invalid batch: %s", invalid.raw)
	}
}
