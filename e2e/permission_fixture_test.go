package e2e

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"

	"steward/e2e/installation"
	"steward/internal/apikey"
	"steward/internal/auth"
	"steward/internal/db"
)

// newMatrix fills an installation.
func newMatrix(s *installation.Steward) *matrix {
	s.T.Helper()
	m := &matrix{s: s, ids: map[string]string{}}
	keys := m.memberKeys()
	other := s.SecondOrganization()
	m.create()
	with, without := scopeLists()

	owner := m.userTokens(with, without)
	client := m.clientTokens(with, without)
	refused := func(challenge string) func(right) (int, string) {
		return func(right) (int, string) { return 401, challenge }
	}
	m.presenters = []presenter{
		{name: "nobody", authorization: constant(""), want: refused("Bearer")},
		{name: "wrong key", authorization: constant("Bearer " + apikey.NewValue()), want: refused("Bearer")},
		{name: "expired key", authorization: constant("Bearer " + keys["expired"]), want: refused("Bearer")},
		{name: "key as DPoP", authorization: constant("DPoP " + s.Key), want: refused(`DPoP error="invalid_token"`)},
		{name: "owner", authorization: constant("Bearer " + s.Key), want: kind{role: "owner"}.want, exact: true},
		{name: "admin", authorization: constant("Bearer " + keys["admin"]), want: kind{role: "admin"}.want},
		{name: "member", authorization: constant("Bearer " + keys["member"]), want: kind{role: "member"}.want},
		{name: "viewer", authorization: constant("Bearer " + keys["viewer"]), want: kind{role: "viewer"}.want},
		{
			name: "project key", authorization: constant("Bearer " + s.KeyOf(matrixProject).Key),
			want: kind{role: "owner", confined: true}.want, exact: true,
		},
		{name: "key with the scope", authorization: byScope("Bearer ", scopedKeys(s, with)), want: kind{role: "owner"}.want, exact: true},
		{
			name: "key without the scope", authorization: byScope("Bearer ", scopedKeys(s, without)),
			want: kind{role: "owner", without: true}.want,
		},
		{name: "other organization", authorization: constant("Bearer " + other.Key), want: kind{role: "owner"}.want, other: true},
		{
			name: "key of another organization with the scope", authorization: byScope("Bearer ", scopedKeys(other, with)),
			want: kind{role: "owner"}.want, other: true,
		},
		{
			name: "key for members", want: kind{role: "owner"}.only("member"),
			authorization: constant("Bearer " + scopedKey(s, "member:read", "member:write").Key),
		},
		{
			name: "key for clients", want: kind{role: "owner"}.only("oauth"),
			authorization: constant("Bearer " + scopedKey(s, "oauth:read", "oauth:write").Key),
		},
		{
			name: "key for members of an admin", want: kind{role: "admin"}.only("member"),
			authorization: constant("Bearer " + scopedKey(s.As(keys["admin"]), "member:read", "member:write").Key),
		},
		{name: "token with the scope", authorization: byScope("Bearer ", owner.with), want: kind{role: "owner"}.want, exact: true},
		{
			name: "token without the scope", authorization: byScope("Bearer ", owner.without),
			want: kind{role: "owner", without: true}.want,
		},
		{
			name: "token with openid alone", authorization: constant("Bearer " + owner.openid),
			want: kind{role: "owner", without: true}.want,
		},
		{
			name: "DPoP token with its proof", authorization: byScope("DPoP ", owner.bound), proof: owner.prover,
			want: kind{role: "owner"}.want, exact: true,
		},
		{name: "DPoP token as Bearer", authorization: byScope("Bearer ", owner.bound), want: refused(`DPoP error="invalid_token"`)},
		{name: "token as DPoP", authorization: byScope("DPoP ", owner.with), proof: owner.prover, want: refused("Bearer error=")},
		{
			name: "client with the scope", authorization: byScope("Bearer ", client.with),
			want: kind{role: "member", client: true}.want,
		},
		{
			name: "client without the scope", authorization: byScope("Bearer ", client.without),
			want: kind{role: "member", client: true, without: true}.want,
		},
		{
			name: "client of a project", authorization: byScope("Bearer ", client.confined),
			want: kind{role: "member", client: true, confined: true}.want,
		},
		{
			name: "DPoP token of a client", authorization: byScope("DPoP ", client.bound), proof: client.prover,
			want: kind{role: "member", client: true}.want,
		},
	}
	return m
}

func constant(header string) func(string) string { return func(string) string { return header } }

func byScope(scheme string, values map[string]string) func(string) string {
	return func(scope string) string { return scheme + values[scope] }
}

// kind is what decides whether a caller may use a route.
type kind struct {
	role                      string
	confined, without, client bool
}

// want returns 403 and what the error must name, or 0 if the caller may use the route.
func (k kind) want(r right) (int, string) {
	switch {
	case k.client && r.user:
		return 403, "a user is required to "
	case k.confined && !r.project:
		return 403, "of a project cannot be used to "
	case !slices.Contains(r.roles, k.role):
		return 403, "the role " + english.WordSeries(r.roles, "or") + " is required to "
	case k.without:
		return 403, "the scope " + r.scope + " is required to "
	}
	return 0, ""
}

// only returns want for a caller that has the two scopes of one area.
func (k kind) only(area string) func(right) (int, string) {
	return func(r right) (int, string) {
		k := k
		k.without = !strings.HasPrefix(r.scope, area+":")
		return k.want(r)
	}
}

// scopedKeys creates a key for each list of scopes.
func scopedKeys(s *installation.Steward, lists map[string][]string) map[string]string {
	s.T.Helper()
	values := map[string]string{}
	for scope, list := range lists {
		values[scope] = scopedKey(s, list...).Key
	}
	return values
}

// scopeLists returns for each scope of rights a list with that scope alone, and one with all others.
func scopeLists() (with, without map[string][]string) {
	with, without = map[string][]string{}, map[string][]string{}
	for _, r := range rights {
		with[r.scope] = []string{r.scope}
	}
	for scope := range with {
		for other := range with {
			if other != scope {
				without[scope] = append(without[scope], other)
			}
		}
	}
	return with, without
}

// memberKeys invites a member of each role and creates a key for each, and one that has expired.
func (m *matrix) memberKeys() map[string]string {
	s := m.s
	s.T.Helper()
	users := map[string]string{}
	for _, role := range everybody[1:] {
		_, users[role] = s.Invite(role+"@example.com", role)
	}
	m.ids["/oidc/org/members"] = users["viewer"]
	users["expired"] = users["admin"]
	keys := map[string]string{}
	s.Offline(func(ctx context.Context, d *db.DB) {
		past := time.Now().Add(-2 * time.Hour)
		store := &apikey.Store{
			DB: d, Now: func() time.Time { return past }, Audit: func(*db.Tx, string, string) error { return nil },
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
	return keys
}

const matrixProject = "prj_matrix"

// create creates something of each kind.
func (m *matrix) create() {
	s := m.s
	s.T.Helper()
	m.ids["/cli/project"] = s.Call("POST", "/cli/project", object{"name": "p"}).Want(201).Text("id")
	m.ids["/cli/organization"] = s.OrgID
	m.ids["/cli/apikey"] = s.Call("POST", "/cli/apikey", object{"name": "k"}).Want(201).Text("id")
	m.ids["/oidc/clients"] = s.NewApplication(object{}).ID
	anUpstream := object{"name": "u", "issuer": "https://u.example", "client_id": "c"}
	m.ids["/oidc/upstream"] = s.Call("POST", "/oidc/upstream", anUpstream).Want(201).Text("id")
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
	m.ids["{user_id}"] = s.Call("GET", "/cli/auth/user", nil).Want(200).Text("id")
	m.ids["/cli/eval"], m.ids["/cli/eval-run"], m.ids["/thread"], m.ids["/session"] = "e1", "r1", "t1", "s1"
	s.Call("PUT", "/cli/eval/e1", object{"name": "e", "agentIdentifier": "a", "projectId": matrixProject}).Want(200)
	run := installation.EvalRun{ID: "r1", SessionID: "s1", EvalID: "e1", ProjectID: matrixProject}
	s.Call("POST", "/evalrun", run.Body(s.OrgID, 0)).Want(201)
	s.Call("PUT", "/thread/t1", object{"project_id": matrixProject}).Want(200)
	s.Call("POST", "/session", object{
		"id": "s1", "threadId": "t1", "orgId": s.OrgID, "projectId": matrixProject, "routeId": "r", "environment": "e",
		"devmode": false, "url": "https://example.com", "method": "GET", "trigger": "api",
	}).Want(201)
	hook := s.Call("POST", "/webhook/create", object{"name": "w"}).Want(201)
	m.ids["{webhookId}"] = hook.Text("id")
	ingest := strings.TrimPrefix(hook.Text("url"), s.URL)
	m.ids["{receiptId}"] = s.As("").Call("POST", ingest, object{}).Want(200).Text("id")
	m.ids["{destinationId}"] = s.Call("POST", "/webhook/destination-create/"+m.ids["{webhookId}"], aHook).Want(201).Text("id")
	m.ids["{deliveryId}"] = "none"
	m.ids["{replayId}"] = s.Call("POST", "/webhook/replay/"+m.ids["{webhookId}"], aReplay).Want(201).Text("id")
}

// issued are access tokens by scope.
type issued struct {
	with, without, bound, confined map[string]string
	openid                         string
	prover                         *installation.Prover
}

// userTokens signs the owner in at a client with all scopes, and gets tokens with some of them.
func (m *matrix) userTokens(with, without map[string][]string) issued {
	s := m.s
	s.T.Helper()
	scopes := []string{"openid", "offline_access"}
	for scope := range with {
		scopes = append(scopes, scope)
	}
	a := s.NewApplication(object{"scopes": scopes})
	token, _ := s.NewRelyingParty(a, scopes...).SignIn(s.NewBrowser())
	refresh := token.RefreshToken
	get := func(p *installation.Prover, list ...string) string {
		form := url.Values{
			"grant_type": {"refresh_token"}, "refresh_token": {refresh}, "scope": {strings.Join(list, " ")},
		}
		body := s.RequestToken(a, form, p, "")
		refresh = body.Text("refresh_token")
		return body.Text("access_token")
	}
	i := issued{prover: s.NewProver(), openid: get(nil, "openid")}
	i.with = collect(with, func(list []string) string { return get(nil, list...) })
	i.without = collect(without, func(list []string) string { return get(nil, append(list, "openid")...) })
	i.bound = collect(with, func(list []string) string { return get(i.prover, list...) })
	return i
}

// clientTokens gets tokens of clients that act as themselves, with some of their scopes.
func (m *matrix) clientTokens(with, without map[string][]string) issued {
	s := m.s
	s.T.Helper()
	var scopes []string
	for scope := range with {
		scopes = append(scopes, scope)
	}
	settings := object{"scopes": scopes, "grant_types": []string{"client_credentials"}}
	a := s.NewApplication(settings)
	settings["project_id"] = matrixProject
	confined := s.NewApplication(settings)
	get := func(a installation.Application, p *installation.Prover, list []string) string {
		form := url.Values{"grant_type": {"client_credentials"}, "scope": {strings.Join(list, " ")}}
		return s.RequestToken(a, form, p, "").Text("access_token")
	}
	i := issued{prover: s.NewProver()}
	i.with = collect(with, func(list []string) string { return get(a, nil, list) })
	i.without = collect(without, func(list []string) string { return get(a, nil, list) })
	i.confined = collect(with, func(list []string) string { return get(confined, nil, list) })
	i.bound = collect(with, func(list []string) string { return get(a, i.prover, list) })
	return i
}

func collect(lists map[string][]string, get func([]string) string) map[string]string {
	tokens := map[string]string{}
	for scope, list := range lists {
		tokens[scope] = get(list)
	}
	return tokens
}
