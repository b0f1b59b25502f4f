package console

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/oidc/provider/session"
	"steward/internal/seal"
	"steward/internal/stamp"
	"steward/internal/web"
)

// fixture is a console with one session, whose user is a member of two organizations.
type fixture struct {
	*Console
	mux   *http.ServeMux
	ended map[string]bool
	stale bool
	roles map[string]auth.Role // by organization
	// sessionOrg is the only organization that the session opens, or "".
	sessionOrg string
}

func newFixture(t testing.TB) *fixture {
	ring, err := seal.NewRing(make([]byte, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{
		mux: http.NewServeMux(), ended: map[string]bool{},
		roles: map[string]auth.Role{"org_1": auth.Owner, "org_2": auth.Viewer},
	}
	f.Console = &Console{
		Ring: ring, BaseURL: "https://steward.test", S3URL: "https://s3.steward.test:9000",
		Now: time.Now, Provider: f, Accounts: f, SessionMax: time.Hour,
	}
	f.Mount(f.mux.Handle, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := f.Caller(w.Header(), r)
		if err != nil {
			web.Fail(w, r, err)
			return
		}
		web.Write(w, r, 200, map[string]string{"path": r.URL.Path, "org": caller.OrgID, "role": string(caller.Role)})
	}))
	return f
}

// RequireSignIn implements Provider.
func (f *fixture) RequireSignIn(next func(http.ResponseWriter, *http.Request, string)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next(w, r, "ses_1") })
}

// Session implements Provider.
func (f *fixture) Session(_ context.Context, sessionID string) (*session.Session, error) {
	if sessionID != "ses_1" || f.ended[sessionID] {
		return nil, nil
	}
	s := &session.Session{UserID: "usr_1", OrgID: f.sessionOrg}
	if !f.stale {
		s.AuthTime = stamp.Of(time.Now())
	}
	return s, nil
}

// SignOut implements Provider.
func (f *fixture) SignOut(_ http.ResponseWriter, _ *http.Request, sessionID string) error {
	f.ended[sessionID] = true
	return nil
}

// OrgsOfUser implements Accounts.
func (f *fixture) OrgsOfUser(context.Context, string) ([]account.Org, error) {
	return []account.Org{{ID: "org_1"}, {ID: "org_2"}}, nil
}

// Role implements Accounts.
func (f *fixture) Role(_ context.Context, orgID, userID string) (auth.Role, error) {
	role, ok := f.roles[orgID]
	if !ok {
		return "", errs.Missing("member", userID)
	}
	return role, nil
}

func TestStaleSignInIsThatOfTheSession(t *testing.T) {
	f := newFixture(t)
	r := f.request(t, "GET", "/console/api/x")
	for _, stale := range []bool{false, true, false} {
		f.stale = stale
		caller, err := f.Caller(http.Header{}, r)
		if err != nil || caller.Stale != stale {
			t.Errorf("got %+v, %v, want %t", caller, err, stale)
		}
	}
}

func (f *fixture) send(r *http.Request) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	f.mux.ServeHTTP(rec, r)
	return rec
}

func (f *fixture) get(path string) *httptest.ResponseRecorder {
	return f.send(httptest.NewRequest("GET", path, nil))
}

// request returns a request of the console with the cookie of the session.
func (f *fixture) request(t testing.TB, method, path string) *http.Request {
	cookies := f.get("/console/sign-in").Result().Cookies()
	if len(cookies) != 1 {
		t.Fatalf("got the cookies %v", cookies)
	}
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("X-Steward-Console", "1")
	r.AddCookie(cookies[0])
	return r
}

func TestCookie(t *testing.T) {
	f := newFixture(t)
	cookie := f.get("/console/sign-in").Result().Cookies()[0]
	if !cookie.HttpOnly || !cookie.Secure || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/console/" ||
		cookie.Name != "steward_console" || cookie.MaxAge <= 0 {
		t.Errorf("got %+v", cookie)
	}
	if strings.Contains(cookie.Value, "ses_1") {
		t.Errorf("the cookie shows the session: %s", cookie.Value)
	}
	f.BaseURL = "http://127.0.0.1:8080"
	if plain := f.get("/console/sign-in").Result().Cookies()[0]; plain.Secure {
		t.Error("the cookie is for HTTPS only, on plain HTTP")
	}
}

func TestReturnAfterSignInStaysInTheConsole(t *testing.T) {
	f := newFixture(t)
	for to, want := range map[string]string{
		"":                                      "/console/",
		"/console/webhooks/wh_1?tab=receipts":   "/console/webhooks/wh_1?tab=receipts",
		"/console/storage/b/a%20b?prefix=x%2F":  "/console/storage/b/a%20b?prefix=x%2F",
		"https://evil.test/console/":            "/console/",
		"https:/evil.test/console/":             "/console/",
		"https:evil.test":                       "/console/",
		"data:text/html,<script>x</script>":     "/console/",
		"%2f%2fevil.test":                       "/console/",
		"/%2fevil.test":                         "/console/",
		"/%5cevil.test":                         "/console/",
		"/console/%2f%2fevil.test":              "/console/",
		"/console/%5c%5cevil.test":              "/console/",
		"/console/%2e%2e%2f%2fevil.test":        "/console/",
		"/\t/evil.test/console/":                "/console/",
		"/console/\tx":                          "/console/",
		"///evil.test/console/":                 "/console/",
		"//evil.test@127.0.0.1/console/":        "/console/",
		"/console/@evil.test":                   "/console/@evil.test",
		"/console/?next=//evil.test":            "/console/?next=//evil.test",
		"//evil.test/console/":                  "/console/",
		`/\evil.test/console/`:                  "/console/",
		`/console/\evil.test`:                   "/console/",
		"/console/../account":                   "/console/",
		"/console/%2e%2e/account":               "/console/",
		"/console//evil.test":                   "/console/",
		"/account":                              "/console/",
		"/consolex":                             "/console/",
		"/console/sign-in?return=x":             "/console/",
		"/console/sign-out":                     "/console/",
		"/console/api/webhook/list":             "/console/",
		"javascript:alert(1)":                   "/console/",
		"/console/\r\nSet-Cookie: a=b":          "/console/",
		"/console/" + strings.Repeat("a", 3000): "/console/",
	} {
		r := httptest.NewRequest("GET", "/console/sign-in", nil)
		query := r.URL.Query()
		query.Set("return", to)
		r.URL.RawQuery = query.Encode()
		if rec := f.send(r); rec.Code != 303 || rec.Header().Get("Location") != want {
			t.Errorf("%q leads to %d %q, want %q", to, rec.Code, rec.Header().Get("Location"), want)
		}
	}
}

func TestCallerOfTheConsole(t *testing.T) {
	for name, test := range map[string]struct {
		change func(r *http.Request)
		status int
		text   string
	}{
		"the first organization":   {func(*http.Request) {}, 200, `"org":"org_1"`},
		"the path of the API":      {func(*http.Request) {}, 200, `"path":"/cli/region"`},
		"another organization":     {func(r *http.Request) { r.Header.Set("X-Steward-Organization", "org_2") }, 200, `"role":"viewer"`},
		"organization of others":   {func(r *http.Request) { r.Header.Set("X-Steward-Organization", "org_3") }, 403, "not a member of"},
		"own origin":               {func(r *http.Request) { r.Header.Set("Origin", "https://steward.test") }, 200, ""},
		"host of the request":      {func(r *http.Request) { r.Header.Set("Origin", "http://example.com") }, 200, ""},
		"same origin":              {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }, 200, ""},
		"no header":                {func(r *http.Request) { r.Header.Del("X-Steward-Console") }, 403, "X-Steward-Console: 1"},
		"another value":            {func(r *http.Request) { r.Header.Set("X-Steward-Console", "true") }, 403, "X-Steward-Console: 1"},
		"another site":             {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403, "another site"},
		"another subdomain":        {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }, 403, "another site"},
		"typed into the browser":   {func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "none") }, 403, "another site"},
		"another origin":           {func(r *http.Request) { r.Header.Set("Origin", "https://evil.test") }, 403, "another site"},
		"a null origin":            {func(r *http.Request) { r.Header.Set("Origin", "null") }, 403, "another site"},
		"an origin with the host":  {func(r *http.Request) { r.Header.Set("Origin", "https://example.com.evil.test") }, 403, "another site"},
		"an API key":               {func(r *http.Request) { r.Header.Set("Authorization", "Bearer sk_1") }, 401, "not accepted here"},
		"an API key and no cookie": {func(r *http.Request) { r.Header.Del("Cookie"); r.Header.Set("Authorization", "Bearer sk_1") }, 401, "not accepted here"},
		"no cookie":                {func(r *http.Request) { r.Header.Del("Cookie") }, 401, "sign-in required"},
		"a forged cookie":          {func(r *http.Request) { r.Header.Set("Cookie", "steward_console=ses_1") }, 401, "sign-in required"},
		"a planted second cookie":  {func(r *http.Request) { r.Header.Set("Cookie", r.Header.Get("Cookie")+"; "+r.Header.Get("Cookie")) }, 401, "sign-in required"},
		"a broken cookie":          {func(r *http.Request) { r.Header.Set("Cookie", "steward_console=%%") }, 401, "sign-in required"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			r := f.request(t, "GET", "/console/api/cli/region")
			test.change(r)
			rec := f.send(r)
			if rec.Code != test.status || !strings.Contains(rec.Body.String(), test.text) {
				t.Errorf("got %d %s, want %d with %q", rec.Code, rec.Body, test.status, test.text)
			}
			if rec.Header().Get("Cache-Control") != "no-store" || rec.Header().Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("got the headers %v", rec.Header())
			}
		})
	}
}

func TestCookieIsSealedForTheConsoleOnly(t *testing.T) {
	f := newFixture(t)
	r := f.request(t, "GET", "/console/api/cli/region")
	other := f.Ring.Seal("oidc.flow", []byte("ses_1"))
	r.Header.Set("Cookie", "steward_console="+encode(other))
	if rec := f.send(r); rec.Code != 401 {
		t.Errorf("a value that was sealed for another purpose: %d %s", rec.Code, rec.Body)
	}
}

// TestCookieSurvivesANewMasterKey has a browser come back before the old key is removed, and after it.
func TestCookieSurvivesANewMasterKey(t *testing.T) {
	f := newFixture(t)
	r := f.request(t, "GET", "/console/api/x")
	if set := f.send(r).Result().Cookies(); len(set) != 0 {
		t.Errorf("the cookie is replaced by %v", set)
	}
	oldKey, newKey := make([]byte, seal.KeySize), make([]byte, seal.KeySize)
	newKey[0] = 1
	var err error
	if f.Ring, err = seal.NewRing(newKey, oldKey); err != nil {
		t.Fatal(err)
	}
	set := f.send(r).Result().Cookies()
	if len(set) != 1 || set[0].Path != Prefix || !set[0].HttpOnly || !set[0].Secure {
		t.Fatalf("with a new key, the cookies are %v", set)
	}
	if f.Ring, err = seal.NewRing(newKey); err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Cookie", "steward_console="+set[0].Value)
	f.opened.Forget()
	if rec := f.send(r); rec.Code != 200 {
		t.Errorf("without the old key: %d %s", rec.Code, rec.Body)
	}
}

func TestChangedRoleTakesEffectWhenCallersAreForgotten(t *testing.T) {
	f := newFixture(t)
	role := func() string { return f.send(f.request(t, "GET", "/console/api/x")).Body.String() }
	if got := role(); !strings.Contains(got, "owner") {
		t.Fatal(got)
	}
	f.roles["org_1"] = auth.Viewer
	f.Forget()
	if got := role(); !strings.Contains(got, "viewer") {
		t.Errorf("got %s", got)
	}
	delete(f.roles, "org_1")
	f.Forget()
	if got := role(); !strings.Contains(got, "forbidden") {
		t.Errorf("got %s", got)
	}
}

func TestSignOutEndsTheSession(t *testing.T) {
	f := newFixture(t)
	forged := f.request(t, "POST", "/console/sign-out")
	forged.Header.Del("X-Steward-Console")
	if rec := f.send(forged); rec.Code != 403 || f.ended["ses_1"] {
		t.Fatalf("a form of another site: %d %s", rec.Code, rec.Body)
	}
	r := f.request(t, "POST", "/console/sign-out")
	rec := f.send(r)
	if rec.Code != 204 || !strings.Contains(rec.Header().Get("Set-Cookie"), "steward_console=; Path=/console/; Max-Age=0") {
		t.Errorf("got %d %v", rec.Code, rec.Header())
	}
	again := f.request(t, "GET", "/console/api/x")
	if rec := f.send(again); rec.Code != 401 {
		t.Errorf("after the sign-out: %d %s", rec.Code, rec.Body)
	}
}
