package e2e

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"steward/e2e/installation"
	"steward/internal/apikey"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
)

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
