package app

import (
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"steward/internal/apikey"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/web"
)

// examplePath returns a path that matches a route's pattern and names nothing that exists.
func examplePath(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		if strings.HasPrefix(p, "{") {
			parts[i] = "none"
		}
	}
	path = strings.Join(parts, "/")
	if strings.HasPrefix(path, "/webhook/tail") {
		path += "?follow=false" // it would not end
	}
	return path
}

// TestEveryRouteChecksPermissions checks on both faces that a missing or wrong key is 401, and a
// caller without the permission 403.
func TestEveryRouteChecksPermissions(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	f := newFixture(t, d, nil)
	wrong := []string{"", "sk_short", apikey.NewValue(), "a-key-that-nobody-has-made-here"}
	for _, route := range f.routes {
		for _, prefix := range []string{"", "/sdk"} {
			path := prefix + examplePath(route.Path)
			for _, key := range wrong {
				got := f.send(key, route.Method, path, "")
				if got.Code != 401 || got.Header().Get("WWW-Authenticate") == "" {
					t.Errorf("%s %s with key %q: %d %s", route.Method, path, key, got.Code, got.Body)
				}
			}
			f.checkPermissions(route, path)
		}
	}
}

// checkPermissions checks that a route returns 403 to exactly those callers who lack its
// permission.
func (f *fixture) checkPermissions(route web.Route, path string) {
	for who := range f.keys {
		may := who == projectKey && route.Permission.Project ||
			who != projectKey && slices.Contains(route.Permission.Roles, auth.Role(who))
		got := f.send(who, route.Method, path, "")
		if may == (got.Code == 403) || got.Code == 401 {
			f.t.Errorf("%s %s as %s: %d, allowed: %v", route.Method, path, who, got.Code, may)
		}
	}
}

// TestBothFacesReturnTheSameErrors checks every route whose example names nothing that exists.
func TestBothFacesReturnTheSameErrors(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
	for _, route := range f.routes {
		path := examplePath(route.Path)
		bare := f.send("owner", route.Method, path, "")
		if bare.Code >= 300 {
			f.sameError(route, bare, f.send("owner", route.Method, "/sdk"+path, ""))
		}
	}
}

func (f *fixture) sameError(route web.Route, bare, sdk *httptest.ResponseRecorder) {
	var problem web.Problem
	var failure struct {
		Success *bool
		Code    string
		Message string
	}
	err := json.Unmarshal(bare.Body.Bytes(), &problem)
	if err != nil || bare.Header().Get("Content-Type") != "application/problem+json" {
		f.t.Errorf("%s: not a problem: %s", route.Pattern(), bare.Body)
	}
	if err := json.Unmarshal(sdk.Body.Bytes(), &failure); err != nil || failure.Success == nil || *failure.Success {
		f.t.Errorf("%s: not a failure: %s", route.Pattern(), sdk.Body)
	}
	if bare.Code != sdk.Code || problem.Status != bare.Code || string(problem.Code) != failure.Code ||
		!strings.HasPrefix(failure.Message, problem.Detail) || problem.RequestID == "" {
		f.t.Errorf("%s: the faces differ:\n%s\n%s", route.Pattern(), bare.Body, sdk.Body)
	}
}

// unversioned lists the routes of single resources without an ETag: what has no row of its own, and
// lists that are not pages.
var unversioned = []string{
	"DELETE /cli/organization/{id}",        // it is read in the list only
	"DELETE /oidc/registration-token/{id}", // it does not change
	"DELETE /oidc/clients/{id}/users/{user_id}", "DELETE /oidc/user/consent/{client_id}",
	"GET /webhook/destination-list/{webhookId}", "GET /webhook/url/{webhookId}",
	"GET /webhook/receipt-payload/{webhookId}/{receiptId}", "GET /webhook/tail/{webhookId}",
	"GET /webhook/receipt-neighbors/{webhookId}/{receiptId}", "GET /webhook/receipt-export/{webhookId}",
	"GET /webhook/replay/{webhookId}/{replayId}", "DELETE /webhook/replay/{webhookId}/{replayId}", "GET /storage/objects/{bucket}", "DELETE /storage/objects/{bucket}",
	"GET /storage/folders/{bucket}", "GET /storage/presign/{bucket}", "GET /storage/stats/{bucket}",
	"GET /resource/{orgId}/{region}", "DELETE /resource/{orgId}/{region}",
}

// TestOpenAPIDocumentsEveryRoute checks that the document has every route, with its
// Idempotency-Key, If-Match and ETag.
func TestOpenAPIDocumentsEveryRoute(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name string }
			Responses  map[string]struct {
				Headers map[string]any
				Content map[string]any
			}
		}
	}
	if err := json.Unmarshal(f.send("", "GET", "/openapi.json", "").Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	for _, r := range f.routes {
		op, ok := doc.Paths[r.Path][strings.ToLower(r.Method)]
		if !ok {
			t.Errorf("%s is not in the document", r.Pattern())
		}
		documents := func(name string) bool {
			return slices.ContainsFunc(op.Parameters, func(p struct{ Name string }) bool { return p.Name == name })
		}
		var versioned, list bool
		for _, response := range op.Responses {
			versioned = versioned || response.Headers["ETag"] != nil
			list = list || response.Headers["Link"] != nil
		}
		one := strings.HasSuffix(r.Path, "}") && !list && !slices.Contains(unversioned, r.Pattern())
		switch r.Method {
		case "POST":
			if !documents("Idempotency-Key") {
				t.Errorf("%s does not document Idempotency-Key", r.Pattern())
			}
		case "PUT", "DELETE":
			if one && !documents("If-Match") {
				t.Errorf("%s does not document If-Match", r.Pattern())
			}
		case "GET":
			if one && !versioned {
				t.Errorf("%s does not document ETag", r.Pattern())
			}
		}
	}
}

// TestLinksStayOnTheirFace checks that links do not lead from one face to the other.
func TestLinksStayOnTheirFace(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
	for prefix, want := range map[string]string{"": "</cli/apikey?", "/sdk": "</sdk/cli/apikey?"} {
		links := f.send("owner", "GET", prefix+"/cli/apikey?limit=2", "").Header().Get("Link")
		for link := range strings.SplitSeq(links, ", ") {
			if !strings.HasPrefix(link, want) {
				t.Errorf("%s/cli/apikey links to %s", prefix, link)
			}
		}
		if strings.Count(links, want) != 3 {
			t.Errorf("links to %s, want first, next and last", links)
		}
	}
	got := f.send("owner", "GET", "/sdk/sdk/cli/region", "")
	if got.Code != 404 || !strings.HasPrefix(got.Body.String(), `{"success":false`) {
		t.Errorf("GET /sdk/sdk/…: %d %s", got.Code, got.Body)
	}
}

// TestUnknownPathsAndMethodsReturnJSON checks that the API returns no plain text, as ServeMux
// would.
func TestUnknownPathsAndMethodsReturnJSON(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/", 200, ""},
		{"POST", "/", 405, "GET, HEAD"},
		{"GET", "/nothing/here", 404, ""},
		{"GET", "/sdk/nothing", 404, ""},
		{"PATCH", "/cli/apikey", 405, "GET, HEAD, POST"},
		{"POST", "/cli/apikey/x", 405, "GET, HEAD, DELETE"},
		{"DELETE", "/sdk/cli/region", 405, "GET, HEAD"},
		{"GET", "/cli/apikey/%00", 400, ""},
	} {
		got := f.send("owner", c.method, c.path, "")
		if got.Code != c.status || got.Header().Get("Allow") != c.allow ||
			!json.Valid(got.Body.Bytes()) || got.Header().Get("X-Request-Id") == "" {
			t.Errorf("%s %s: %d %v %s", c.method, c.path, got.Code, got.Header(), got.Body)
		}
	}
}
