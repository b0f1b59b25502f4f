package console

import (
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
}
