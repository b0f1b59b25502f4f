package libsql_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/resource/libsql"
)

type object = map[string]any

// server is an engine behind an HTTP server, with its databases in a map in place of rows.
type server struct {
	*libsql.Engine
	t   testing.TB
	url string

	mu   sync.Mutex
	rows map[string]*resource.Provisioned
	// failures is how many lookups fail from now on.
	failures int
}

// start starts a server in a new directory.
func start(t testing.TB, limits libsql.Limits) *server { return startIn(t, t.TempDir(), limits) }

// startIn starts a server in a directory, with rows for the databases that it has.
func startIn(t testing.TB, dir string, limits libsql.Limits, rows ...*resource.Provisioned) *server {
	return startEngine(t, &libsql.Engine{Dir: dir, Limits: limits}, rows...)
}

// startEngine starts a server with an engine, with rows for the databases that it has.
func startEngine(t testing.TB, e *libsql.Engine, rows ...*resource.Provisioned) *server {
	t.Helper()
	s := &server{Engine: e, t: t, rows: map[string]*resource.Provisioned{}}
	for _, p := range rows {
		s.set(p)
	}
	e.Node = "local"
	e.Rows = s
	if e.Log == nil {
		e.Log = slog.New(slog.DiscardHandler)
	}
	s.must(s.Open())
	listener := httptest.NewServer(s.Engine)
	s.url = listener.URL
	s.BaseURL = listener.URL
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	t.Cleanup(func() {
		s.must(s.Close(context.Background()))
		listener.Close()
		stop()
		running.Wait()
	})
	return s
}

func (s *server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) ByID(_ context.Context, databaseID string) (*resource.Provisioned, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failures > 0 {
		s.failures--
		return nil, errs.New(errs.Unavailable, "the rows cannot be read")
	}
	if p := s.rows[databaseID]; p != nil {
		return p, nil
	}
	return nil, errs.Missing("database", databaseID)
}

func (s *server) ByPassword(context.Context, []byte) (*resource.Provisioned, error) {
	panic("databases have usernames")
}

func (s *server) set(p *resource.Provisioned) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[p.ID] = p
}

// failLookups has the next lookups fail.
func (s *server) failLookups(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures = n
}

func (s *server) remove(databaseID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rows, databaseID)
}

// database is a database with a client of its own.
type database struct {
	*server
	t     testing.TB
	p     *resource.Provisioned
	token string
}

// create creates a database.
func (s *server) create() *database {
	s.t.Helper()
	return s.createOf("org")
}

// createOf creates a database of an organization.
func (s *server) createOf(org string) *database {
	s.t.Helper()
	p := &resource.Provisioned{
		ID: id.New(id.Database), Type: resource.DB, OrgID: org, Node: "local", State: resource.Active, Password: id.Secret(43),
	}
	s.must(s.Create(s.t.Context(), p))
	s.set(p)
	return &database{server: s, t: s.t, p: p, token: p.Password}
}

// newDatabase returns a database of a new server with default limits.
func newDatabase(t testing.TB) *database { return start(t, libsql.Limits{}).create() }

type failure struct {
	Message      string
	Code         string
	ExtendedCode string `json:"extended_code"`
}

type column struct {
	Name     string
	Decltype *string
}

type result struct {
	Cols             []column
	Rows             [][]object
	AffectedRowCount int     `json:"affected_row_count"`
	LastInsertRowid  *string `json:"last_insert_rowid"`
}

type batchResult struct {
	StepResults []*result  `json:"step_results"`
	StepErrors  []*failure `json:"step_errors"`
}

type streamResult struct {
	Type     string
	Error    *failure
	Response struct {
		Type         string
		Result       json.RawMessage
		IsAutocommit *bool `json:"is_autocommit"`
	}
}

type response struct {
	t       testing.TB
	status  int
	header  http.Header
	raw     []byte
	Baton   *string
	BaseURL *string `json:"base_url"`
	Results []streamResult
	failure
}

// send sends a request to an endpoint.
func (d *database) send(ctx context.Context, endpoint string, body any) (*response, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+"/db/"+d.p.ID+"/"+endpoint, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+d.token)
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = got.Body.Close() }()
	out := &response{t: d.t, status: got.StatusCode, header: got.Header}
	if out.raw, err = io.ReadAll(got.Body); err != nil {
		return nil, err
	}
	if got.Header.Get("Content-Type") == "application/json" {
		err = json.Unmarshal(out.raw, out)
	}
	return out, err
}

// pipeline sends requests on a stream, or on a new one if baton is nil.
func (d *database) pipeline(baton *string, requests ...object) *response {
	d.t.Helper()
	out, err := d.send(d.t.Context(), "v3/pipeline", object{"baton": baton, "requests": requests})
	if err != nil {
		d.t.Fatal(err)
	}
	return out
}

// one sends one request on a stream that is closed at once.
func (d *database) one(request object) streamResult {
	d.t.Helper()
	out := d.pipeline(nil, request, object{"type": "close"})
	if out.status != http.StatusOK || len(out.Results) != 2 || out.Baton != nil {
		d.t.Fatalf("status %d: %s", out.status, out.raw)
	}
	return out.Results[0]
}

// exec executes a statement, which must succeed.
func (d *database) exec(sql string, args ...object) *result {
	d.t.Helper()
	return d.one(execute(sql, args...)).result(d.t)
}

// fails executes a statement, which must fail with a code and a part of a message.
func (d *database) fails(sql, code, message string) {
	d.t.Helper()
	d.one(execute(sql)).fails(d.t, sql, code, message)
}

func execute(sql string, args ...object) object {
	if args == nil {
		args = []object{}
	}
	return object{"type": "execute", "stmt": object{"sql": sql, "args": args, "want_rows": true}}
}

func sequence(sql string) object { return object{"type": "sequence", "sql": sql} }

func (r streamResult) result(t testing.TB) *result {
	t.Helper()
	if r.Type != "ok" {
		t.Fatalf("failed: %+v", r.Error)
	}
	var out result
	if err := json.Unmarshal(r.Response.Result, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

func (r streamResult) batch(t testing.TB) batchResult {
	t.Helper()
	if r.Type != "ok" {
		t.Fatalf("failed: %+v", r.Error)
	}
	var out batchResult
	if err := json.Unmarshal(r.Response.Result, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func (r streamResult) fails(t testing.TB, what, code, message string) {
	t.Helper()
	if r.Type != "error" || r.Error.code() != code || !strings.Contains(r.Error.Message, message) {
		t.Errorf("%s: got %s %+v, want %s %q", what, r.Type, r.Error, code, message)
	}
}

// code returns the extended code, if there is one.
func (f *failure) code() string { return cmp.Or(f.ExtendedCode, f.Code) }

// number returns an integer argument.
func number(n string) object  { return object{"type": "integer", "value": n} }
func text(text string) object { return object{"type": "text", "value": text} }

// only returns the only value of a result.
func (r *result) only(t testing.TB) any {
	t.Helper()
	if len(r.Rows) != 1 || len(r.Rows[0]) != 1 {
		t.Fatalf("got %v, want one value", r.Rows)
	}
	return r.Rows[0][0]["value"]
}

// count returns the number of rows of a table.
func (d *database) count(table string) any {
	d.t.Helper()
	return d.exec("SELECT count(*) FROM " + table).only(d.t)
}
