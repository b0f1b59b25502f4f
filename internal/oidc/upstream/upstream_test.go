package upstream

import (
	"testing"

	"steward/internal/auth"
)

func TestIssuersAreSecureURLs(t *testing.T) {
	for issuer, want := range map[string]bool{
		"https://login.example.com": true, "https://login.example.com/tenant/": true, "http://127.0.0.1:1": true,
		"http://localhost": true, "http://[::1]:1": true,
		"http://login.example.com": false, "https://": false, "https://a.example?x=y": false, "https://a.example#x": false,
		"https://u:p@a.example": false, "ftp://a.example": false, "": false, "https://a b.example": false, "javascript:1": false,
	} {
		if got := validIssuer(issuer); got != want {
			t.Errorf("%q: %v", issuer, got)
		}
	}
}

func TestDomainsAreHostNames(t *testing.T) {
	for domain, want := range map[string]bool{
		"example.com": true, "a-b.example.co": true, "xn--bcher-kva.example": true,
		"com": false, "": false, "Example.com": false, ".com": false, "a..b": false, "-a.b": false, "a.b-": false, "127.0.0.1": false,
		"a@b.c": false, "*.example.com": false, "a.b/c": false,
	} {
		if got := ValidDomain(domain); got != want {
			t.Errorf("%q: %v", domain, got)
		}
	}
	for email, want := range map[string]string{"a@B.example": "b.example", "a@b@c.d": "c.d", "none": "none", "": ""} {
		if got := DomainOf(email); got != want {
			t.Errorf("%q: %q", email, got)
		}
	}
}

func TestMostPowerfulGroupCounts(t *testing.T) {
	u := Upstream{GroupRoles: []GroupRole{
		{Group: "a", Role: auth.Viewer}, {Group: "b", Role: auth.Admin}, {Group: "c", Role: auth.Member},
	}}
	for want, groups := range map[auth.Role][]string{
		"": {"x"}, auth.Viewer: {"x", "a"}, auth.Member: {"a", "c"}, auth.Admin: {"a", "b", "c"},
	} {
		if got := u.Role(groups); got != want {
			t.Errorf("%v: %q", groups, got)
		}
	}
}
