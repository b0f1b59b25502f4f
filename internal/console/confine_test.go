package console

import (
	"net/http"
	"strings"
	"testing"
)

func TestSessionOfAProviderOpensItsOrganizationOnly(t *testing.T) {
	f := newFixture(t)
	f.sessionOrg = "org_2"
	for org, want := range map[string]string{
		"": `"org":"org_2"`, "org_2": `"role":"viewer"`, "org_1": "the provider of another organization",
	} {
		r := f.request(t, "GET", "/console/api/cli/region")
		if org != "" {
			r.Header.Set(orgHeader, org)
		}
		if got := f.send(r).Body.String(); !strings.Contains(got, want) {
			t.Errorf("%q: got %s", org, got)
		}
	}
	for _, f.sessionOrg = range []string{"org_2", "", "org_2"} { // the cache keeps them apart
		r := f.request(t, "GET", "/console/api/cli/region")
		r.Header.Set(orgHeader, "org_2")
		caller, err := f.Caller(http.Header{}, r)
		if err != nil || caller.Confined != (f.sessionOrg != "") {
			t.Errorf("the session of %q has the caller %+v, %v", f.sessionOrg, caller, err)
		}
	}
}
