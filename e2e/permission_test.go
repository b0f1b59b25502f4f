package e2e

import (
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"steward/e2e/installation"
)

var (
	aHook   = object{"type": "url", "config": object{"url": "https://example.com"}}
	aReplay = object{"since": "2026-01-01T00:00:00Z"}
)

// right is a line of testdata/permissions.txt: the scope of routes, and what each kind of caller gets.
type right struct {
	scope string
	want  map[string]string
}

// readRights reads testdata/permissions.txt.
func readRights(t *testing.T) map[string]right {
	t.Helper()
	text, err := os.ReadFile("testdata/permissions.txt")
	if err != nil {
		t.Fatal(err)
	}
	rights := map[string]right{}
	var columns []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) > 1 && fields[0] == "#" && fields[1] == "scope" && fields[2] == "none" {
			columns = fields[2:]
		}
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if len(fields) != 3+len(columns) {
			t.Fatalf("expected %d columns: %s", 3+len(columns), line)
		}
		r := right{scope: fields[2], want: map[string]string{}}
		for i, column := range columns {
			r.want[column] = fields[3+i]
		}
		rights[fields[0]+" "+fields[1]] = r
	}
	return rights
}

// rightOf returns the line for a route, and its key: the line with the route, or else that with the longest beginning of
// its path.
func rightOf(rights map[string]right, route string) (key string, r right, ok bool) {
	if r, ok := rights[route]; ok {
		return route, r, true
	}
	family, path, _ := strings.Cut(route, " ")
	if family != "GET" {
		family = "write"
	}
	ending := "*"
	if strings.Contains(path, "{") {
		ending = "*{}"
	}
	for n := len(path); n > 0; n-- {
		key := family + " " + path[:n] + ending
		if r, ok := rights[key]; ok {
			return key, r, true
		}
	}
	return "", right{}, false
}

// caller presents a credential in one way.
type caller struct {
	name string
	// column is the kind of caller. without says that a scope is missing: then all is 403.
	column  string
	without bool
	// authorization returns the Authorization header for a route that needs a scope.
	authorization func(scope string) string
	// proof makes the DPoP proof of a request; it is nil for none.
	proof *installation.Prover
	// own has ids of the caller's organization, by the beginning of a path, which what follows in the path is not of.
	own map[string]string
	// browser is in the console; it is nil for other callers.
	browser *installation.Browser
}

// foreign reports whether nothing of the matrix is of the caller's organization.
func (c *caller) foreign() bool { return c.column == "fown" || c.column == "othr" }

// matrix is an organization with something of each kind, beside the first one and another one, and everybody who
// may want to use it.
type matrix struct {
	s      *installation.Steward
	ids    map[string]string // by the end of a path, or by the name of a parameter
	bodies map[string]any    // by route; others are {}, or the example in the document
	// with has for each scope a list of it alone, and without one of all others.
	with, without map[string][]string
	callers       []caller
	calls, wrong  atomic.Int64
}

// TestEveryRouteChecksEveryCaller sends a request of each operation of the API as everybody, and compares with
// testdata/permissions.txt.
func TestEveryRouteChecksEveryCaller(t *testing.T) {
	t.Parallel()
	rights := readRights(t)
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		var doc struct {
			Paths map[string]map[string]struct {
				RequestBody *struct {
					Content map[string]struct{ Example any }
				}
			}
		}
		s.Call("GET", "/openapi.json", nil).Want(200).Decode(&doc)
		m := newMatrix(s, rights)
		of, used := map[string]right{}, map[string]bool{} // the lines by their routes, and those that have one
		for path, operations := range doc.Paths {
			for method, operation := range operations {
				route := strings.ToUpper(method) + " " + path
				key, r, known := rightOf(rights, route)
				if !known {
					t.Errorf("testdata/permissions.txt lacks %s", route)
				}
				of[route], used[key] = r, true
				switch body := operation.RequestBody; {
				case m.bodies[route] != nil || body == nil:
				case method == "post" && strings.Contains(path, "{"): // valid, or we would not learn whether the thing is hidden
					m.bodies[route] = body.Content["application/json"].Example
				default:
					m.bodies[route] = object{}
				}
			}
		}
		for key := range rights {
			if !used[key] {
				t.Errorf("testdata/permissions.txt has %s, of which there is no route", key)
			}
		}
		routes := slices.Collect(maps.Keys(of))
		var group sync.WaitGroup
		for part := range slices.Chunk(routes, (len(routes)+7)/8) {
			group.Go(func() {
				for _, route := range part {
					m.check(route, of[route])
				}
			})
		}
		group.Wait()
		m.checkForeign(s.Organization("Third"))
		t.Logf("%d routes, %d callers, %d calls, wrong: %d", len(routes), len(m.callers), m.calls.Load(), m.wrong.Load())
	})
}

// check uses a route as everybody.
func (m *matrix) check(route string, r right) {
	method, pattern, _ := strings.Cut(route, " ")
	for _, c := range m.callers {
		path := m.path(pattern, method == "GET" || c.foreign())
		for id, own := range c.own {
			path = strings.Replace(path, m.ids[id], own, 1)
		}
		if c.own != nil && (path == m.path(pattern, true) || strings.Count(pattern, "{")-strings.Count(pattern, "{region}") < 2) {
			continue
		}
		want, detail := r.want[c.column], ""
		switch {
		case c.without:
			want = "403"
			if r.want["clnt"] == "ok" { // nothing but the scope is missing
				detail = "the scope " + r.scope + " is required to "
			}
		case want == "403" && r.want["ownr"] == "ok" && slices.Contains([]string{"view", "memb", "admn"}, c.column):
			detail = "the role "
		}
		got, err := m.send(&c, method, path, r.scope, m.bodies[route])
		m.calls.Add(1)
		if err != nil {
			m.s.T.Errorf("%s as %s: %v", route, c.name, err)
			continue
		}
		if !accepts(want, method, got) || !strings.Contains(string(got.Body), detail) || c.foreign() && got.Status == 200 && m.shown(string(got.Body)) {
			m.wrong.Add(1)
			m.s.T.Errorf("%s as %s: got %d %s %s, want %s %s",
				route, c.name, got.Status, got.Header.Get("WWW-Authenticate"), got.Body, want, detail)
		}
	}
}

// checkForeign has the owner of another organization name what is in the matrix in bodies and queries.
func (m *matrix) checkForeign(other *installation.Steward) {
	t := m.s.T
	at := "/resource/" + other.OrgID + "/local"
	named := func(kind, name string) object { return object{"resources": []object{{"type": kind, "name": name}}} }
	client := object{"name": "c", "description": "", "homepage_url": "https://a.example.com"}
	audience := maps.Clone(client)
	audience["audience"] = "https://matrix.example"
	m.s.Call("POST", "/oidc/clients", audience).Want(200)
	for _, call := range []struct {
		method, path string
		body         any
		want         int
	}{
		{"DELETE", at, named("s3", "matrix-bucket"), 404},
		{"DELETE", at, named("db", "matrix"), 404},
		{"DELETE", at, named("kv", "matrix"), 404},
		{"POST", at, named("s3", "matrix-bucket"), 409}, // names of buckets are those of the installation
		{"POST", "/oidc/clients", audience, 409},
		{"POST", "/cli/devmode/eval", object{"delete": []string{"matrix-e"}}, 200},
		{"GET", "/thread?orgId=" + m.s.OrgID, nil, 200},
		{"GET", "/thread?projectId=" + matrixProject, nil, 200},
		{"GET", "/session?orgId=" + m.s.OrgID, nil, 200},
		{"GET", "/session?threadId=matrix-t", nil, 200},
		{"GET", "/cli/eval?orgId=" + m.s.OrgID, nil, 200},
		{"GET", "/cli/eval-run?orgId=" + m.s.OrgID, nil, 200},
		{"GET", "/cli/eval-run?evalId=matrix-e", nil, 200},
		{"GET", "/audit?actor=" + m.ids["{user_id}"], nil, 200},
		{"GET", "/search?q=" + m.ids["{receiptId}"], nil, 200},
	} {
		got := other.Call(call.method, call.path, call.body)
		m.calls.Add(1)
		if got.Status != call.want || got.Status == 200 && m.shown(string(got.Body)) {
			m.wrong.Add(1)
			t.Errorf("%s %s as another organization: got %d %s, want %d", call.method, call.path, got.Status, got.Body, call.want)
		}
	}
	// A project of the same id is another one.
	other.KeyOf(matrixProject).Call("GET", "/thread/matrix-t", nil).Want(404)
	for _, path := range []string{"/cli/eval/matrix-e", "/bucket/config/matrix-bucket", "/resource/" + m.s.OrgID + "/local/matrix/tables"} {
		m.s.Call("GET", path, nil).Want(200)
	}
}

// accepts reports whether a response is as it must be.
func accepts(want, method string, got *installation.Response) bool {
	stale := strings.Contains(string(got.Body), "reauthentication_required")
	switch {
	case want == "401":
		return got.Status == 401 && got.Header.Get("WWW-Authenticate") != ""
	case want == "403":
		return got.Status == 403 && !stale
	case want == "404":
		return got.Status == 404
	case want == "old":
		return got.Status == 403 && stale
	case method == "GET":
		return got.Status == 200
	}
	return got.Status != 401 && got.Status != 403 && got.Status < 500
}

// shown reports whether the text has anything of the matrix.
func (m *matrix) shown(text string) bool {
	for at, id := range m.ids {
		if at != "{region}" && id != "none" && strings.Contains(text, id) {
			return true
		}
	}
	return false
}

func (m *matrix) send(c *caller, method, path, scope string, body any) (*installation.Response, error) {
	if c.browser != nil {
		headers := []string{"X-Steward-Console", "1"}
		at, err := url.Parse(m.s.URL + "/console/api" + path)
		m.s.Must(err)
		for _, cookie := range c.browser.HTTP.Jar.Cookies(at) {
			headers = append(headers, "Cookie", cookie.String())
		}
		return m.s.As("").Try(method, "/console/api"+path, body, headers...)
	}
	authorization := c.authorization(scope)
	var headers []string
	if authorization != "" {
		headers = append(headers, "Authorization", authorization)
	}
	if c.proof != nil {
		_, token, _ := strings.Cut(authorization, " ")
		headers = append(headers, "DPoP", c.proof.Proof(method, m.s.URL+path, token, ""))
	}
	return m.s.As("").Try(method, path, body, headers...)
}

// path returns a path with ids that exist, or with ids that do not, so that nothing is changed.
func (m *matrix) path(pattern string, existing bool) string {
	parts := strings.Split(pattern, "/")
	for i, part := range parts {
		if !strings.HasPrefix(part, "{") {
			continue
		}
		id := m.ids[part]
		if part == "{id}" {
			id = m.ids[strings.Join(parts[:i], "/")]
		}
		if !existing {
			id = "none"
		}
		parts[i] = id
	}
	path := strings.Join(parts, "/")
	switch {
	case pattern == "/storage/presign/{bucket}" || strings.HasSuffix(pattern, "/{name}/value"):
		path += "?key=k"
	case strings.HasPrefix(pattern, "/webhook/tail"):
		path += "?follow=false"
	case pattern == "/search":
		path += "?q=matrix"
	}
	return path
}
