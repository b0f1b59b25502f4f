package pages_test

import (
	"strings"
	"testing"

	"steward/internal/oidc/provider/providertest"
)

func TestPagesCannotBeFramedOrCached(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := f.NewApp(providertest.Confidential)
	b := f.Browser()
	consent := b.SignIn(b.Get(a.AuthorizeURL()))
	for name, r := range map[string]*providertest.Response{
		"sign-in": f.Browser().Get(a.AuthorizeURL()), "consent": consent, "error": b.Get(f.URL + "/authorize"),
		"device": b.Get(f.URL + "/device"), "sign-out": b.Get(f.URL + "/end_session"),
		"account": b.Get(f.URL + "/account"), "invitation": b.Get(f.URL + "/invite/none"),
	} {
		policy := r.Header.Get("Content-Security-Policy")
		if !strings.Contains(policy, "frame-ancestors 'none'") || !strings.Contains(policy, "default-src 'none'") ||
			strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", name, policy)
		}
		if r.Header.Get("X-Frame-Options") != "DENY" || r.Header.Get("Referrer-Policy") != "same-origin" ||
			r.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: headers %v", name, r.Header)
		}
		if !strings.HasPrefix(r.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s is %s", name, r.Header.Get("Content-Type"))
		}
	}
}
