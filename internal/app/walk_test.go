package app

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"steward/internal/apikey"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/id"
	"steward/internal/seal"
	"steward/internal/server"
	"steward/internal/stamp"
	"steward/internal/web"
)

// house is the whole table, served for one organization with a key for each role and one that is confined to a project.
type house struct {
	t       testing.TB
	handler http.Handler
	routes  []web.Route
	keys    map[string]string
}

const confined = "project key"

// newTestServer wires the table over an open database as Serve does, without listeners and loops.
func newTestServer(t testing.TB, d *db.DB) *server.Server {
	ring, err := seal.NewRing(make([]byte, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := Load(map[string]string{"data": t.TempDir()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	return wire(cfg, &opened{db: d, ring: ring}, "http://steward.test", nil, log, time.Now).server
}

func build(t testing.TB, d *db.DB, done func(web.Served)) *house {
	s := newTestServer(t, d)
	s.Done = done
	handler, err := s.Handler()
	if err != nil {
		t.Fatal(err)
	}
	h := &house{t: t, handler: handler, routes: s.Routes(), keys: map[string]string{}}
	orgID := id.New(id.Org)
	err = d.Write(context.Background(), func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO orgs (id, name, created_at) VALUES ($1, 'walk', 0)`, orgID)
		for _, role := range auth.Roles {
			if err == nil {
				h.keys[string(role)], err = member(tx, s, orgID, role)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	made := h.send("owner", "POST", "/cli/apikey", `{"name":"confined","projectId":"prj_walk"}`)
	h.keys[confined] = field(made, "value")
	return h
}

// member adds a user with a role and gives a key of theirs.
func member(tx *db.Tx, s *server.Server, orgID string, role auth.Role) (string, error) {
	userID, now := id.New(id.User), stamp.Of(time.Now())
	if _, err := tx.Exec(`INSERT INTO users (id, version, created_at, updated_at) VALUES ($1, 1, $2, $2)`, userID, now); err != nil {
		return "", err
	}
	if _, err := tx.Exec(`INSERT INTO members (org_id, user_id, role, version, created_at, updated_at) VALUES ($1, $2, $3, 1, $4, $4)`,
		orgID, userID, role, now); err != nil {
		return "", err
	}
	value := apikey.NewValue()
	return value, s.Key.Store.MakeRoot(tx, orgID, userID, value)
}

func (h *house) send(who, method, path, body string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	if key, ok := h.keys[who]; ok {
		req.Header.Set("Authorization", "Bearer "+key)
	} else if who != "" {
		req.Header.Set("Authorization", "Bearer "+who)
	}
	rec := httptest.NewRecorder()
	h.handler.ServeHTTP(rec, req)
	return rec
}

func field(rec *httptest.ResponseRecorder, name string) string {
	var m map[string]any
	json.Unmarshal(rec.Body.Bytes(), &m)
	s, _ := m[name].(string)
	return s
}

// concrete gives a path that a route's pattern matches and nothing is at.
func concrete(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if strings.HasPrefix(p, "{") {
			parts[i] = "none"
		}
	}
	return strings.Join(parts, "/")
}

// TestEveryRouteRefuses walks the table: no key and wrong keys are 401, and callers without the permission are 403, on both faces.
func TestEveryRouteRefuses(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := build(t, d, nil)
		wrong := []string{"", "sk_short", apikey.NewValue(), "a-key-that-nobody-has-made-here"}
		for _, route := range h.routes {
			for _, prefix := range []string{"", "/sdk"} {
				path := prefix + concrete(route.Path)
				for _, key := range wrong {
					if got := h.send(key, route.Method, path, ""); got.Code != 401 || got.Header().Get("WWW-Authenticate") == "" {
						t.Errorf("%s %s with key %q: %d %s", route.Method, path, key, got.Code, got.Body)
					}
				}
				h.refuses(route, path)
			}
		}
	})
}

// refuses checks one route against the table of permissions: 403 for those who may not, and not 401 or 403 for those who may.
func (h *house) refuses(route web.Route, path string) {
	for who := range h.keys {
		may := who == confined && route.Permission.Project ||
			who != confined && slices.Contains(route.Permission.Roles, auth.Role(who))
		got := h.send(who, route.Method, path, "")
		if may == (got.Code == 403) || got.Code == 401 {
			h.t.Errorf("%s %s as %s: %d, allowed: %v", route.Method, path, who, got.Code, may)
		}
	}
}

// TestFacesAgree walks the table: what is data on the one face is the same data on the other, and so are errors.
func TestFacesAgree(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := build(t, d, nil)
		for _, route := range h.routes {
			path := concrete(route.Path)
			bare, sdk := h.send("owner", route.Method, path, ""), h.send("owner", route.Method, "/sdk"+path, "")
			if bare.Code >= 300 {
				h.sameError(route, bare, sdk)
			} else if route.Method == http.MethodGet {
				h.sameData(route, bare, sdk)
			}
		}
	})
}

func (h *house) sameError(route web.Route, bare, sdk *httptest.ResponseRecorder) {
	var p web.Problem
	var f struct {
		Success *bool
		Code    string
		Message string
	}
	if err := json.Unmarshal(bare.Body.Bytes(), &p); err != nil || bare.Header().Get("Content-Type") != "application/problem+json" {
		h.t.Errorf("%s: not a problem: %s", route.Pattern(), bare.Body)
	}
	if err := json.Unmarshal(sdk.Body.Bytes(), &f); err != nil || f.Success == nil || *f.Success {
		h.t.Errorf("%s: not a failure: %s", route.Pattern(), sdk.Body)
	}
	if bare.Code != sdk.Code || p.Status != bare.Code || string(p.Code) != f.Code || p.Detail != f.Message || p.RequestID == "" {
		h.t.Errorf("%s: the faces disagree:\n%s\n%s", route.Pattern(), bare.Body, sdk.Body)
	}
}

func (h *house) sameData(route web.Route, bare, sdk *httptest.ResponseRecorder) {
	var data any
	var envelope struct {
		Success bool
		Data    any
	}
	if err := json.Unmarshal(bare.Body.Bytes(), &data); err != nil {
		h.t.Errorf("%s: %v", route.Pattern(), err)
	}
	if err := json.Unmarshal(sdk.Body.Bytes(), &envelope); err != nil || !envelope.Success {
		h.t.Errorf("%s: not an envelope: %s", route.Pattern(), sdk.Body)
	}
	if data == nil || !reflect.DeepEqual(data, unwrapped(route, envelope.Data)) {
		h.t.Errorf("%s: the faces disagree:\n%s\n%s", route.Pattern(), bare.Body, sdk.Body)
	}
}

// unwrapped takes off the second envelope that SDKs expect around webhook analytics.
func unwrapped(route web.Route, data any) any {
	if m, ok := data.(map[string]any); ok && strings.HasPrefix(route.Path, "/webhook/analytics") && len(m) == 1 {
		for _, inner := range m {
			return inner
		}
	}
	return data
}

// TestUnknownPathsAndMethods shows that no plain text leaves the API.
func TestUnknownPathsAndMethods(t *testing.T) {
	h := build(t, dbtest.Open(t, db.SQLite), nil)
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/", 404, ""},
		{"GET", "/nothing/here", 404, ""},
		{"GET", "/sdk/nothing", 404, ""},
		{"PATCH", "/cli/apikey", 405, "GET, HEAD, POST"},
		{"POST", "/cli/apikey/x", 405, "GET, HEAD, DELETE"},
		{"DELETE", "/sdk/cli/region", 405, "GET, HEAD"},
		{"GET", "/cli/apikey/%00", 400, ""},
	} {
		got := h.send("owner", c.method, c.path, "")
		if got.Code != c.status || got.Header().Get("Allow") != c.allow || !json.Valid(got.Body.Bytes()) || got.Header().Get("X-Request-Id") == "" {
			t.Errorf("%s %s: %d %v %s", c.method, c.path, got.Code, got.Header(), got.Body)
		}
	}
}

// TestBodies walks the rules about bodies.
func TestBodies(t *testing.T) {
	h := build(t, dbtest.Open(t, db.SQLite), nil)
	for _, c := range []struct {
		name, body, contentType string
		status                  int
		code, says              string
	}{
		{"good", `{"name":"a"}`, "application/json", 201, "", ""},
		{"no content type", `{"name":"a"}`, "", 201, "", ""},
		{"charset", `{"name":"a"}`, "application/json; charset=utf-8", 201, "", ""},
		{"nulls", `{"name":"a","expiresAt":null,"projectId":null,"orgId":null}`, "application/json", 201, "", ""},
		{"unknown and read-only fields", `{"name":"a","id":"key_x","colour":1}`, "application/json", 201, "", ""},
		{"last of two wins", `{"name":"","name":"a"}`, "application/json", 201, "", ""},
		{"form", `name=a`, "application/x-www-form-urlencoded", 415, "unsupported_media_type", ""},
		{"broken", `{"name":`, "application/json", 400, "malformed", "byte 8"},
		{"two values", `{"name":"a"}{}`, "application/json", 400, "malformed", ""},
		{"not UTF-8", "{\"name\":\"\xff\"}", "application/json", 400, "malformed", "UTF-8"},
		{"empty", ``, "application/json", 400, "malformed", "needs a JSON body"},
		{"not an object", `[]`, "application/json", 422, "invalid", ""},
		{"NUL", `{"name":"a\u0000"}`, "application/json", 422, "invalid", "U+0000"},
		{"escaped backslash", `{"name":"a\\u0000"}`, "application/json", 201, "", ""},
		{"every fault at once", `{"name":" ","expiresAt":"soon-secret"}`, "application/json", 422, "invalid", "expiresAt"},
		{"as large as may be", `{"name":"a","note":"` + strings.Repeat("x", 1<<20-22) + `"}`, "application/json", 201, "", ""},
		{"too large", `{"name":"` + strings.Repeat("x", 1<<20) + `"}`, "application/json", 413, "too_large", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			req := httptest.NewRequest("POST", "/cli/apikey", strings.NewReader(c.body))
			req.Header.Set("Authorization", "Bearer "+h.keys["owner"])
			if c.contentType != "" {
				req.Header.Set("Content-Type", c.contentType)
			}
			rec := httptest.NewRecorder()
			h.handler.ServeHTTP(rec, req)
			if rec.Code != c.status || c.code != "" && field(rec, "code") != c.code || !strings.Contains(rec.Body.String(), c.says) {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
			if bytes.Contains(rec.Body.Bytes(), []byte("soon-secret")) {
				t.Errorf("the answer echoes a value: %s", rec.Body)
			}
		})
	}
}
