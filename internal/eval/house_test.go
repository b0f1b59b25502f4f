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

// house serves the routes of this package over a real database; the bearer of a request names its caller.
type house struct {
	rapid.TB
	store    *Store
	accounts *account.Store
	handler  http.Handler
	now      time.Time
	// org stands for org_a when it is set: a clean slate on the same database.
	org string
}

// The callers: two organizations, and keys of the first that are confined to a project.
var callers = map[string]*auth.Caller{
	"ada":   {UserID: "usr_ada", OrgID: "org_a", Role: auth.Owner},
	"bob":   {UserID: "usr_bob", OrgID: "org_b", Role: auth.Owner},
	"red":   {UserID: "usr_ada", OrgID: "org_a", Role: auth.Owner, ProjectID: "red"},
	"green": {UserID: "usr_ada", OrgID: "org_a", Role: auth.Owner, ProjectID: "green"},
}

func newHouse(t testing.TB, d *db.DB) *house {
	h := &house{TB: t, now: time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return h.now }
	lines := &audit.Store{DB: d, Now: clock}
	h.accounts = &account.Store{DB: d, Now: clock, Audit: lines.Record}
	h.store = &Store{DB: d, Now: clock, Audit: lines.Record, Project: h.accounts.Require}
	h.accounts.ProjectGone = []func(*db.Tx, string, string) error{h.store.DeleteOfProject}
	e := &Handler{Store: h.store}
	api := web.NewAPI([]web.Route{
		web.On("GET /cli/eval", auth.ReadEvals, 200, "", e.List),
		web.On("GET /cli/eval/{id}", auth.ReadEvals, 200, "", e.Get),
		web.On("PUT /cli/eval/{id}", auth.WriteEvals, 200, "", e.Put),
		web.On("POST /cli/devmode/eval", auth.WriteEvals, 200, "", e.Sync),
		web.On("GET /cli/eval-run", auth.ReadEvals, 200, "", e.Runs),
		web.On("GET /cli/eval-run/{id}", auth.ReadEvals, 200, "", e.Run),
		web.On("POST /evalrun", auth.WriteEvals, 201, "", e.Start),
		web.On("PUT /evalrun", auth.WriteEvals, 200, "", e.Complete).WithMaxBody(MaxBody),
	}, func(_ web.Route, _ http.ResponseWriter, r *http.Request) *http.Request {
		caller := *callers[r.Header.Get("Authorization")]
		if h.org != "" && caller.OrgID == "org_a" {
			caller.OrgID = h.org
		}
		return r.WithContext(auth.With(r.Context(), &caller))
	}, nil)
	h.handler = web.Observe(slog.New(slog.NewTextHandler(io.Discard, nil)), nil, api)
	return h
}

// each runs a test over a fresh database of either engine.
func each(t *testing.T, test func(t *testing.T, h *house)) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(t, newHouse(t, d)) })
}

// send makes a request; a body that is not text is sent as JSON.
func (h *house) send(who, method, path string, body any, headers ...string) *httptest.ResponseRecorder {
	text, isText := body.(string)
	if !isText && body != nil {
		b, err := json.Marshal(body)
		h.must(err)
		text = string(b)
	}
	req := httptest.NewRequest(method, path, strings.NewReader(text))
	req.Header.Set("Authorization", who)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	rec := httptest.NewRecorder()
	h.handler.ServeHTTP(rec, req)
	return rec
}

// want is send for an answer that must have a status.
func (h *house) want(status int, who, method, path string, body any, headers ...string) *httptest.ResponseRecorder {
	h.Helper()
	rec := h.send(who, method, path, body, headers...)
	if rec.Code != status {
		h.Fatalf("%s %s %s: got %d, want %d: %.300s", who, method, path, rec.Code, status, rec.Body)
	}
	return rec
}

func (h *house) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// list gives the ids of a list, and its total.
func (h *house) list(who, path string) (ids []string, total string) {
	h.Helper()
	rec := h.want(200, who, "GET", path, nil)
	for _, one := range read[[]struct{ ID string }](h, rec) {
		ids = append(ids, one.ID)
	}
	return ids, rec.Header().Get("X-Total-Count")
}

func read[T any](h *house, rec *httptest.ResponseRecorder) (v T) {
	h.Helper()
	h.must(json.Unmarshal(rec.Body.Bytes(), &v))
	return v
}

type object = map[string]any

// start is the body of a run's start in the first organization.
func start(runID, sessionID, evalID, projectID string) object {
	return object{
		"id": runID, "sessionId": sessionID, "evalId": evalID, "evalIdentifier": "stable", "orgId": "org_a",
		"projectId": projectID, "devmode": false,
	}
}

// define is the body of an eval.
func define(name, agent, projectID string) object {
	return object{"name": name, "agentIdentifier": agent, "projectId": projectID}
}
