package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/server"
	"steward/internal/web"
)

// callers are the callers of API keys and access tokens.
var callers = map[string]*auth.Caller{
	"viewer":  {OrgID: "org_1", UserID: "usr_1", KeyID: "key_1", Role: auth.Viewer},
	"project": {OrgID: "org_1", UserID: "usr_1", KeyID: "key_2", Role: auth.Owner, ProjectID: "prj_1"},
	"scoped":  {OrgID: "org_1", UserID: "usr_1", KeyID: "key_3", Role: auth.Owner, Scopes: []string{"oauth:read"}},
	"eyJclient.a.b": {
		OrgID: "org_1", ClientID: "oac_2", Role: auth.Member,
		Scopes: []string{"account:read", "oauth:read", "oauth:write"},
	},
	"eyJconfined.a.b": {OrgID: "org_1", ClientID: "oac_3", Role: auth.Member, ProjectID: "prj_1", Scopes: []string{"oauth:read"}},
	"eyJtoken.a.b":    {OrgID: "org_1", UserID: "usr_1", ClientID: "oac_1", Role: auth.Owner, Scopes: []string{"oauth:read"}},
}

// keys knows the API keys and access tokens of callers. It refuses a bound token as the provider does if it
// has no proof or is not bound.
type keys struct{}

func (keys) Authenticate(_ context.Context, value string) (*auth.Caller, error) {
	caller, ok := callers[value]
	if !ok {
		return nil, errs.New(errs.Unauthorized, "unknown")
	}
	return caller, nil
}

func (k keys) Caller(ctx context.Context, token string) (*auth.Caller, error) {
	return k.Authenticate(ctx, token)
}

func (keys) BoundCaller(h http.Header, _ *http.Request, value string) (*auth.Caller, error) {
	h.Set("DPoP-Nonce", "n")
	if value != "bound" {
		return nil, &errs.Error{Kind: errs.Unauthorized, Message: "not bound", Challenge: `DPoP error="invalid_token"`}
	}
	return callers["eyJtoken.a.b"], nil
}

func TestGuard(t *testing.T) {
	for name, test := range map[string]struct {
		permission         auth.Permission
		authorization, org string
		status             int
		detail             string
	}{
		"key":                    {auth.ReadKeys, "Bearer viewer", "", 200, ""},
		"lower-case scheme":      {auth.ReadKeys, "bearer viewer", "org_1", 200, ""},
		"key with the scope":     {auth.ReadClients, "Bearer scoped", "", 200, ""},
		"client with the scope":  {auth.ReadClients, "Bearer eyJclient.a.b", "", 200, ""},
		"bound token":            {auth.ReadClients, "DPoP bound", "", 200, ""},
		"key as DPoP":            {auth.ReadKeys, "DPoP viewer", "", 401, "not bound"},
		"key without the scope":  {auth.ReadKeys, "Bearer scoped", "", 403, "the scope apikey:read is required to read API keys"},
		"client, own account":    {auth.Self, "Bearer eyJclient.a.b", "", 403, "a user is required to read one's own account"},
		"client, not its role":   {auth.WriteClients, "Bearer eyJclient.a.b", "", 403, "the role owner or admin is required to manage OAuth clients"},
		"client, other scope":    {auth.ReadThreads, "Bearer eyJclient.a.b", "", 403, "the scope thread:read is required to read threads"},
		"client of a project":    {auth.ReadClients, "Bearer eyJconfined.a.b", "", 403, "a client of a project cannot be used to read OAuth clients"},
		"token":                  {auth.ReadClients, "Bearer eyJtoken.a.b", "", 200, ""},
		"other scheme":           {auth.ReadKeys, "Basic viewer", "", 401, "authentication required"},
		"no scheme":              {auth.ReadKeys, "viewer", "", 401, "authentication required"},
		"no header":              {auth.ReadKeys, "", "", 401, "authentication required"},
		"unknown key":            {auth.ReadKeys, "Bearer other", "", 401, "unknown"},
		"missing role":           {auth.WriteKeys, "Bearer viewer", "", 403, "the role owner, admin or member is required to manage API keys"},
		"missing scope":          {auth.WriteClients, "Bearer eyJtoken.a.b", "", 403, "the scope oauth:write is required to manage OAuth clients"},
		"project key":            {auth.ReadKeys, "Bearer project", "", 403, "a key of a project cannot be used to read API keys"},
		"organization of others": {auth.ReadKeys, "Bearer viewer", "org_2", 403, "not a member of"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &server.Authenticator{Keys: keys{}, Tokens: keys{}}
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Authorization", test.authorization)
			r.Header.Set("X-Agentuity-Orgid", test.org)
			rec := httptest.NewRecorder()
			got := a.Guard(web.Route{Permission: test.permission}, rec, r)
			if (got != nil) != (test.status == 200) || rec.Code != test.status || !strings.Contains(rec.Body.String(), test.detail) {
				t.Errorf("status %d %s, want %d with %q", rec.Code, rec.Body, test.status, test.detail)
			}
		})
	}
}

func TestChallengeOfABoundToken(t *testing.T) {
	a := &server.Authenticator{Tokens: keys{}}
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "DPoP other")
	rec := httptest.NewRecorder()
	a.Guard(web.Route{Permission: auth.ReadKeys}, rec, r)
	if rec.Header().Get("WWW-Authenticate") != `DPoP error="invalid_token"` || rec.Header().Get("DPoP-Nonce") != "n" {
		t.Errorf("got %v", rec.Header())
	}
}

func TestChallengeNamesTheResourceMetadata(t *testing.T) {
	a := &server.Authenticator{
		Keys: keys{}, Tokens: keys{}, ResourceMetadata: "https://a.example/metadata",
	}
	for authorization, want := range map[string]string{
		"":             `Bearer resource_metadata="https://a.example/metadata"`,
		"Bearer other": `Bearer resource_metadata="https://a.example/metadata"`,
		"DPoP other":   `DPoP error="invalid_token", resource_metadata="https://a.example/metadata"`,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", authorization)
		rec := httptest.NewRecorder()
		a.Guard(web.Route{Permission: auth.ReadKeys}, rec, r)
		if got := rec.Header().Get("WWW-Authenticate"); rec.Code != 401 || got != want {
			t.Errorf("%q: %d %s", authorization, rec.Code, got)
		}
	}
}

// TestEveryRouteNamesAScopeOfTheCatalogue checks that clients can request what routes require.
func TestEveryRouteNamesAScopeOfTheCatalogue(t *testing.T) {
	for _, route := range (&server.Server{}).Routes() {
		if _, known := oidc.ScopeNamed(route.Permission.Scope); !known || !auth.IsScope(route.Permission.Scope) {
			t.Errorf("%s: no scope %q in the catalogue", route.Pattern(), route.Permission.Scope)
		}
	}
}

func TestRateLimitIsForEachCaller(t *testing.T) {
	a := &server.Authenticator{Keys: keys{}, Tokens: keys{}, PerSecond: 0.01}
	for _, who := range []string{"viewer", "scoped", "eyJclient.a.b", "eyJconfined.a.b", "eyJtoken.a.b"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", "Bearer "+who)
		rec := httptest.NewRecorder()
		a.Guard(web.Route{Permission: auth.ReadOrgs}, rec, r)
		if rec.Code == 429 {
			t.Errorf("%s shares its limit with another caller", who)
		}
	}
}

func TestRateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &server.Authenticator{Keys: keys{}, PerSecond: 0.01} // one now, the next in 100 s
		get := func() *httptest.ResponseRecorder {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Authorization", "Bearer viewer")
			rec := httptest.NewRecorder()
			a.Guard(web.Route{Permission: auth.ReadKeys}, rec, r)
			return rec
		}
		if rec := get(); rec.Code != 200 {
			t.Fatalf("the first request: %d %s", rec.Code, rec.Body)
		}
		rec := get()
		if rec.Code != 429 || rec.Header().Get("RateLimit-Remaining") != "0" || rec.Header().Get("Retry-After") != "100" {
			t.Fatalf("the second request: %d %v", rec.Code, rec.Header())
		}
	})
}
