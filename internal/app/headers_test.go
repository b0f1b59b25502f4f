package app

import (
	"net/http/httptest"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// checkHeaders checks the headers that keep browsers and caches from misusing a response.
func checkHeaders(t *testing.T, what string, got *httptest.ResponseRecorder, isStored bool) {
	t.Helper()
	if h := got.Header()["X-Content-Type-Options"]; len(h) != 1 || h[0] != "nosniff" {
		t.Errorf("%s: %d with X-Content-Type-Options %q", what, got.Code, h)
	}
	if h := got.Header()["Cache-Control"]; !isStored && (len(h) != 1 || h[0] != "no-store") {
		t.Errorf("%s: %d with Cache-Control %q", what, got.Code, h)
	}
}

// TestNoResponseOfARouteIsStored walks the route table on all faces: successes, which may have
// credentials, and errors.
func TestNoResponseOfARouteIsStored(t *testing.T) {
	for _, prefix := range []string{"", "/sdk"} {
		d := dbtest.Open(t, db.SQLite)
		f := newFixture(t, d, nil)
		for _, a := range f.answers(d, prefix, false) {
			checkHeaders(t, prefix+" "+a.step, a.ResponseRecorder, false)
		}
		for _, route := range f.routes {
			path := prefix + examplePath(route.Path)
			for _, who := range []string{"", "viewer", "owner"} {
				checkHeaders(t, who+" "+route.Method+" "+path, f.send(who, route.Method, path, ""), false)
			}
		}
	}
}

// TestRepeatedResponsesAreNotStored repeats a request that has an Idempotency-Key, and gets the
// credential again.
func TestRepeatedResponsesAreNotStored(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
	first := f.sendOnce(f.handler, "owner", "POST", "/cli/apikey", `{"name":"k"}`, "once")
	again := f.sendOnce(f.handler, "owner", "POST", "/cli/apikey", `{"name":"k"}`, "once")
	if field(first, "value") == "" || field(again, "value") != field(first, "value") {
		t.Fatalf("%s, then %s", first.Body, again.Body)
	}
	checkHeaders(t, "first", first, false)
	checkHeaders(t, "again", again, false)
}

// TestNoResponseIsSniffed has those outside of the route table: protocols, pages, files, errors.
func TestNoResponseIsSniffed(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite), nil)
	for _, path := range []string{
		"/healthz", "/readyz", "/openapi.json", "/docs", "/none", "/sdk/none", "/in/wh_x/y", "/db/x/v2", "/thread/ws", "//", "/%00",
		"/.well-known/openid-configuration", "/jwks", "/authorize", "/userinfo", "/device", "/account", "/invite/x", "/reset/x", "/end_session",
		"/console", "/console/", "/console/assets/none.js", "/console/sign-in", "/console/api/none", "/console/api/cli/region",
	} {
		checkHeaders(t, path, f.send("", "GET", path, ""), true)
	}
	for _, path := range []string{"/oauth/token", "/par", "/introspect", "/revoke", "/device_authorization"} {
		checkHeaders(t, path, f.send("", "POST", path, ""), true)
	}
}
