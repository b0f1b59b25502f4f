package e2e

import (
	"context"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/internal/apikey"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
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

// newMatrix fills an installation whose first organization has an owner.
func newMatrix(s *installation.Steward, rights map[string]right) *matrix {
	s.T.Helper()
	m := &matrix{s: s.Organization("Acme"), ids: map[string]string{}, with: map[string][]string{}, without: map[string][]string{}}
	for _, r := range rights {
		m.with[r.scope] = []string{r.scope}
	}
	all := slices.Sorted(maps.Keys(m.with))
	var reading []string
	for _, scope := range all {
		m.without[scope] = slices.DeleteFunc(slices.Clone(all), func(other string) bool { return other == scope })
		if strings.HasSuffix(scope, ":read") {
			reading = append(reading, scope)
		}
	}
	keys, owner, stale := m.members()
	m.create()
	other := s.SecondOrganization()
	own := map[string]string{
		"{orgId}": other.OrgID, "{client_id}": other.NewApplication(object{}).ID,
		"{webhookId}": other.Call("POST", "/webhook/create", object{"name": "w"}).Want(201).Text("id"),
	}
	m.callers = []caller{
		{name: "nobody", column: "none", authorization: constant("")},
		{name: "wrong key", column: "none", authorization: constant("Bearer " + apikey.NewValue())},
		{name: "expired key", column: "none", authorization: constant("Bearer " + keys["expired"])},
		{name: "key as DPoP", column: "none", authorization: constant("DPoP " + m.s.Key)},
		{name: "first organization", column: "fown", authorization: constant("Bearer " + s.Key)},
		{name: "other organization", column: "othr", authorization: constant("Bearer " + other.Key)},
		{name: "other organization with its own and another's ids", column: "othr", authorization: constant("Bearer " + other.Key), own: own},
		{name: "viewer", column: "view", authorization: constant("Bearer " + keys["viewer"])},
		{name: "member", column: "memb", authorization: constant("Bearer " + keys["member"])},
		{name: "admin", column: "admn", authorization: constant("Bearer " + keys["admin"])},
		{name: "owner", column: "ownr", authorization: constant("Bearer " + keys["owner"])},
		{name: "root key", column: "ownr", authorization: constant("Bearer " + m.s.Key)},
		{name: "project key", column: "proj", authorization: constant("Bearer " + m.s.KeyOf(matrixProject).Key)},
		{name: "key that reads", column: "read", authorization: constant("Bearer " + scopedKey(m.s, reading...).Key)},
		{name: "key with the scope", column: "ownr", authorization: m.each("Bearer ", m.with, m.key)},
		{name: "key without the scope", without: true, authorization: m.each("Bearer ", m.without, m.key)},
		{name: "console", column: "cook", browser: stale},
	}
	m.addTokens(owner, all)
	m.addClients(all)
	return m
}

func constant(header string) func(string) string { return func(string) string { return header } }

// each returns the Authorization header for each list of scopes.
func (m *matrix) each(scheme string, lists map[string][]string, get func([]string) string) func(string) string {
	values := map[string]string{}
	for scope, list := range lists {
		values[scope] = scheme + get(list)
	}
	return func(scope string) string { return values[scope] }
}

func (m *matrix) key(scopes []string) string { return scopedKey(m.s, scopes...).Key }

// members invites a member of each role and creates a key for each, and one that has expired. It returns a browser of
// the owner without a session, and one that has signed in to the console an hour ago.
func (m *matrix) members() (keys map[string]string, owner, stale *installation.Browser) {
	s := m.s
	s.T.Helper()
	users := map[string]string{}
	for _, role := range auth.Roles {
		name := string(role)
		browser, id := s.Invite(name+"@matrix.example", name)
		users[name] = id
		if role == auth.Owner {
			stale = browser.EnterConsole()
			owner = s.BrowserOf(browser.Email, browser.Password)
		}
	}
	m.ids["/oidc/org/members"], m.ids["{user_id}"] = users["viewer"], users["owner"]
	users["expired"] = users["admin"]
	keys = map[string]string{}
	s.Offline(func(ctx context.Context, d *db.DB) {
		_, err := d.Exec(ctx, `UPDATE oidc_sessions SET auth_time = auth_time - 3600000000`)
		s.Must(err)
		past := time.Now().Add(-2 * time.Hour)
		store := &apikey.Store{
			DB: d, Now: func() time.Time { return past }, Audit: &audit.Store{Now: time.Now},
		}
		for name, userID := range users {
			body := apikey.NewKey{Name: name}
			if name == "expired" {
				body.ExpiresAt = new(past.Add(time.Hour).Format(time.RFC3339))
			}
			caller := auth.With(ctx, &auth.Caller{OrgID: s.OrgID, UserID: userID})
			made, err := (&apikey.Handler{Store: store}).Create(caller, &struct{ Body apikey.NewKey }{body})
			s.Must(err)
			keys[name] = made.Value
		}
	})
	return keys, owner, stale
}

const matrixProject = "prj_matrix"

// create creates something of each kind, and the bodies that name some of it.
func (m *matrix) create() {
	s := m.s
	s.T.Helper()
	m.ids["/cli/project"] = s.Call("POST", "/cli/project", object{"name": "p"}).Want(201).Text("id")
	m.ids["/cli/organization"] = s.OrgID
	m.ids["/cli/apikey"] = s.Call("POST", "/cli/apikey", object{"name": "k"}).Want(201).Text("id")
	m.ids["/oidc/clients"] = s.NewApplication(object{}).ID
	anUpstream := object{"name": "u", "issuer": "https://u.example", "client_id": "c"}
	m.ids["/oidc/upstream"] = s.Call("POST", "/oidc/upstream", anUpstream).Want(201).Text("id")
	anAlert := object{"name": "a", "kind": "destination_failing", "target": object{"type": "slack", "url": "https://a.example"}}
	m.ids["/alert"] = s.Call("POST", "/alert", anAlert).Want(201).Text("id")
	m.ids["/oidc/registration-token"] = s.Call("POST", "/oidc/registration-token", object{}).Want(201).Text("id")
	resources := object{"resources": []object{
		{"type": "s3", "name": "matrix-bucket"}, {"type": "db", "name": "matrix"}, {"type": "kv", "name": "matrix"},
	}}
	s.Call("POST", "/resource/"+s.OrgID+"/local", resources).Want(201)
	value := object{"type": "string", "item": object{"value": "v"}}
	s.Call("PUT", "/resource/"+s.OrgID+"/local/matrix/value?key=k", value).Want(200)
	m.ids["{bucket}"] = "matrix-bucket"
	m.ids["{orgId}"] = s.OrgID
	m.ids["{region}"] = "local"
	m.ids["{name}"] = "matrix"
	m.ids["{client_id}"] = m.ids["/oidc/clients"]
	m.ids["/cli/eval"], m.ids["/cli/eval-run"], m.ids["/thread"], m.ids["/session"] = "matrix-e", "matrix-r", "matrix-t", "matrix-s"
	anEval := object{"name": "e", "agentIdentifier": "a", "projectId": matrixProject, "orgId": s.OrgID}
	s.Call("PUT", "/cli/eval/matrix-e", anEval).Want(200)
	run := installation.EvalRun{ID: "matrix-r", SessionID: "matrix-s", EvalID: "matrix-e", ProjectID: matrixProject}
	s.Call("POST", "/evalrun", run.Body(s.OrgID, 0)).Want(201)
	s.Call("PUT", "/thread/matrix-t", object{"project_id": matrixProject}).Want(200)
	session := object{
		"id": "matrix-s", "threadId": "matrix-t", "orgId": s.OrgID, "projectId": matrixProject, "routeId": "r",
		"environment": "e", "devmode": false, "url": "https://example.com", "method": "GET", "trigger": "api",
	}
	s.Call("POST", "/session", session).Want(201)
	hook := s.Call("POST", "/webhook/create", object{"name": "w"}).Want(201)
	m.ids["{webhookId}"] = hook.Text("id")
	ingest := strings.TrimPrefix(hook.Text("url"), s.URL)
	m.ids["{receiptId}"] = s.As("").Call("POST", ingest, object{}).Want(200).Text("id")
	m.ids["{destinationId}"] = s.Call("POST", "/webhook/destination-create/"+m.ids["{webhookId}"], aHook).Want(201).Text("id")
	m.ids["{deliveryId}"] = "none"
	m.ids["{replayId}"] = s.Call("POST", "/webhook/replay/"+m.ids["{webhookId}"], aReplay).Want(201).Text("id")
	aBucket := object{"resources": []object{{"type": "s3", "name": "none"}}}
	m.bodies = map[string]any{
		"POST /cli/organization":                      object{"name": "Another"},
		"POST /oidc/registration-token":               object{"uses": 0}, // invalid
		"POST /resource/{orgId}/{region}":             aBucket,
		"DELETE /resource/{orgId}/{region}":           aBucket,
		"PUT /resource/{orgId}/{region}/{name}/value": object{"ttl_ms": 0},
		"PUT /cli/eval/{id}":                          anEval,
		"POST /evalrun":                               run.Body(s.OrgID, 0),
		"PUT /evalrun":                                object{"id": "matrix-r"},
		"POST /session":                               session,
		"PUT /session":                                object{"id": "late", "threadId": "late", "statusCode": 200},
	}
}

// addTokens signs the owner in at a client with all scopes, and gets tokens with some of them.
func (m *matrix) addTokens(owner *installation.Browser, all []string) {
	s := m.s
	s.T.Helper()
	scopes := append([]string{"openid", "offline_access"}, all...)
	a := s.NewApplication(object{"scopes": scopes})
	token, _ := s.NewRelyingParty(a, scopes...).SignIn(owner)
	refresh := token.RefreshToken
	get := func(p *installation.Prover) func([]string) string {
		return func(list []string) string {
			form := url.Values{
				"grant_type": {"refresh_token"}, "refresh_token": {refresh}, "scope": {"openid " + strings.Join(list, " ")},
			}
			body := s.RequestToken(a, form, p, "")
			refresh = body.Text("refresh_token")
			return body.Text("access_token")
		}
	}
	prover := s.NewProver()
	with := m.each("Bearer ", m.with, get(nil))
	bound := m.each("", m.with, get(prover))
	m.callers = append(
		m.callers,
		caller{name: "token with all scopes", column: "ownr", authorization: constant("Bearer " + get(nil)(all))},
		caller{name: "token with the scope", column: "ownr", authorization: with},
		caller{name: "token without the scope", without: true, authorization: m.each("Bearer ", m.without, get(nil))},
		caller{name: "token with openid alone", without: true, authorization: constant("Bearer " + get(nil)(nil))},
		caller{name: "DPoP token", column: "ownr", authorization: func(scope string) string { return "DPoP " + bound(scope) }, proof: prover},
		caller{name: "DPoP token as Bearer", column: "none", authorization: func(scope string) string { return "Bearer " + bound(scope) }},
		caller{name: "token as DPoP", column: "none", proof: prover, authorization: func(scope string) string {
			return strings.Replace(with(scope), "Bearer", "DPoP", 1)
		}},
	)
}

// addClients gets tokens of clients that act as themselves, with some of their scopes.
func (m *matrix) addClients(all []string) {
	s := m.s
	s.T.Helper()
	settings := object{"scopes": all, "grant_types": []string{"client_credentials"}}
	a := s.NewApplication(settings)
	settings["project_id"] = matrixProject
	confined := s.NewApplication(settings)
	get := func(a installation.Application, p *installation.Prover) func([]string) string {
		return func(list []string) string {
			form := url.Values{"grant_type": {"client_credentials"}, "scope": {strings.Join(list, " ")}}
			return s.RequestToken(a, form, p, "").Text("access_token")
		}
	}
	prover := s.NewProver()
	m.callers = append(
		m.callers,
		caller{name: "client", column: "clnt", authorization: constant("Bearer " + get(a, nil)(all))},
		caller{name: "client with the scope", column: "clnt", authorization: m.each("Bearer ", m.with, get(a, nil))},
		caller{name: "client without the scope", without: true, authorization: m.each("Bearer ", m.without, get(a, nil))},
		caller{name: "client of a project", column: "clpr", authorization: m.each("Bearer ", m.with, get(confined, nil))},
		caller{name: "DPoP token of a client", column: "clnt", authorization: m.each("DPoP ", m.with, get(a, prover)), proof: prover},
	)
}
