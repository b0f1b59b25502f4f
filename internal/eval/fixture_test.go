package eval

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/account"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/web"
)

// fixture serves the routes of this package over a real database. The Authorization header of a
// request names its caller.
type fixture struct {
	rapid.TB
	store    *Store
	accounts *account.Store
	handler  http.Handler
	now      time.Time
	// org replaces org_a if it is set, for an empty organization on the same database.
	org string
}

// callers are the owners of two organizations, and keys of the first that are confined to a project.
var callers = map[string]*auth.Caller{
	"ada":   {UserID: "usr_ada", OrgID: "org_a", Role: auth.Owner},
	"bob":   {UserID: "usr_bob", OrgID: "org_b", Role: auth.Owner},
	"red":   {UserID: "usr_ada", OrgID: "org_a", Role: auth.Owner, ProjectID: "red"},
	"green": {UserID: "usr_ada", OrgID: "org_a", Role: auth.Owner, ProjectID: "green"},
}

func newFixture(t testing.TB, d *db.DB) *fixture {
	f := &fixture{TB: t, now: time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return f.now }
	lines := &audit.Store{DB: d, Now: clock}
	f.accounts = &account.Store{DB: d, Now: clock, Audit: lines}
	f.store = &Store{DB: d, Now: clock, Audit: lines, Accounts: f.accounts, Decoding: web.NewDecoding()}
	f.accounts.ProjectGone = []func(*db.Tx, string, string) error{f.store.DeleteOfProject}
	e := &Handler{Store: f.store}
	api := web.NewAPI([]web.Route{
		web.On("GET /cli/eval", "", auth.ReadEvals, 200, "", e.List),
		web.On("GET /cli/eval/{id}", "", auth.ReadEvals, 200, "", e.Get),
		web.On("PUT /cli/eval/{id}", "", auth.WriteEvals, 200, "", e.Put),
		web.On("POST /cli/devmode/eval", "", auth.WriteEvals, 200, "", e.Sync),
		web.On("GET /cli/eval-run", "", auth.ReadEvals, 200, "", e.Runs),
		web.On("GET /cli/eval-run/stats", "", auth.ReadEvals, 200, "", e.Stats),
		web.On("GET /cli/eval-run/{id}", "", auth.ReadEvals, 200, "", e.Run),
		web.On("POST /evalrun", "", auth.WriteEvals, 201, "", e.Start),
		web.On("PUT /evalrun", "", auth.WriteEvals, 200, "", e.Complete).WithMaxBody(MaxBody),
	}, func(_ web.Route, _ http.ResponseWriter, r *http.Request) *http.Request {
		caller := *callers[r.Header.Get("Authorization")]
		if f.org != "" && caller.OrgID == "org_a" {
			caller.OrgID = f.org
		}
		return r.WithContext(auth.With(r.Context(), &caller))
	}, nil)
	f.handler = web.Observe(slog.New(slog.NewTextHandler(io.Discard, nil)), nil, api)
	return f
}

// each runs a test over a fresh database of each engine.
func each(t *testing.T, test func(t *testing.T, f *fixture)) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(t, newFixture(t, d)) })
}

// send sends a request. A body that is not a string is encoded as JSON.
func (f *fixture) send(who, method, path string, body any, headers ...string) *httptest.ResponseRecorder {
	text, isText := body.(string)
	if !isText && body != nil {
		b, err := json.Marshal(body)
		f.must(err)
		text = string(b)
	}
	req := httptest.NewRequest(method, path, strings.NewReader(text))
	req.Header.Set("Authorization", who)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	f.handler.ServeHTTP(rec, req)
	return rec
}

// want is like send, and fails if the response has another status.
func (f *fixture) want(status int, who, method, path string, body any, headers ...string) *httptest.ResponseRecorder {
	f.Helper()
	rec := f.send(who, method, path, body, headers...)
	if rec.Code != status {
		f.Fatalf("%s %s %s: got %d, want %d: %.300s", who, method, path, rec.Code, status, rec.Body)
	}
	return rec
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// list returns the ids of a list and its total.
func (f *fixture) list(who, path string) (ids []string, total string) {
	f.Helper()
	rec := f.want(200, who, "GET", path, nil)
	for _, one := range read[[]struct{ ID string }](f, rec) {
		ids = append(ids, one.ID)
	}
	return ids, rec.Header().Get("X-Total-Count")
}

func read[T any](f *fixture, rec *httptest.ResponseRecorder) (v T) {
	f.Helper()
	f.must(json.Unmarshal(rec.Body.Bytes(), &v))
	return v
}

type object = map[string]any

// start returns the body of POST /evalrun in the first organization.
func start(runID, sessionID, evalID, projectID string) object {
	return object{
		"id": runID, "sessionId": sessionID, "evalId": evalID, "evalIdentifier": "stable", "orgId": "org_a",
		"projectId": projectID, "devmode": false,
	}
}

// define returns the body of PUT /cli/eval/{id}.
func define(name, agent, projectID string) object {
	return object{"name": name, "agentIdentifier": agent, "projectId": projectID}
}
