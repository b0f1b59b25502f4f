package server_test

import (
	"context"
	"net/http/httptest"
	"testing"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/server"
	"steward/internal/web"
)

func oneKey(_ context.Context, value string) (*auth.Caller, error) {
	if value != "the-key" {
		return nil, errs.New(errs.Unauthorized, "unknown")
	}
	return &auth.Caller{OrgID: "org_1", UserID: "usr_1", KeyID: "key_1", Role: auth.Viewer}, nil
}

func TestGuard(t *testing.T) {
	read := web.Route{Permission: auth.ReadKeys}
	for name, c := range map[string]struct {
		route       web.Route
		bearer, org string
		status      int
	}{
		"good":              {read, "Bearer the-key", "", 200},
		"own organization":  {read, "bearer the-key", "org_1", 200},
		"other scheme":      {read, "Basic the-key", "", 401},
		"no scheme":         {read, "the-key", "", 401},
		"nothing":           {read, "", "", 401},
		"wrong key":         {read, "Bearer other", "", 401},
		"no permission":     {web.Route{Permission: auth.WriteKeys}, "Bearer the-key", "", 403},
		"foreign in header": {read, "Bearer the-key", "org_2", 403},
	} {
		t.Run(name, func(t *testing.T) {
			a := &server.Authenticator{Key: oneKey}
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Authorization", c.bearer)
			r.Header.Set("X-Agentuity-Orgid", c.org)
			rec := httptest.NewRecorder()
			if got := a.Guard(c.route, rec, r); (got != nil) != (c.status == 200) || rec.Code != c.status {
				t.Errorf("%d %s", rec.Code, rec.Body)
			}
		})
	}
}

func TestRateLimit(t *testing.T) {
	a := &server.Authenticator{Key: oneKey, PerSecond: 0.01} // one now, the next in 100 s
	var codes []int
	var last *httptest.ResponseRecorder
	for range 2 {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", "Bearer the-key")
		last = httptest.NewRecorder()
		a.Guard(web.Route{Permission: auth.ReadKeys}, last, r)
		codes = append(codes, last.Code)
	}
	if codes[0] != 200 || codes[1] != 429 || last.Header().Get("RateLimit-Remaining") != "0" || last.Header().Get("Retry-After") != "100" {
		t.Fatalf("%v %v", codes, last.Header())
	}
}
