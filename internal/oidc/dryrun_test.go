package oidc

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/auth"
	"steward/internal/page"
)

// TestDryRunAnswersAsTheRealRequest sends each request first as a dry run, which stores nothing.
func TestDryRunAnswersAsTheRealRequest(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		owner := f.caller
		taken := f.client(Settings{Audience: page.Some("https://api.example")}).Client
		public := f.client(Settings{ClientType: page.Some(Public)}).Client
		f.consent(public.ID, owner.UserID, "openid")
		before := f.stored()
		api := f.api()
		for _, test := range []struct {
			route, body string
			header      []string
			role        auth.Role
			status      int
		}{
			{"POST /oidc/clients", `{"name": "", "description": "", "homepage_url": "x", "redirect_uris": ["http://a.example", "https://a.example#"]}`, nil, auth.Owner, 422},
			{"POST /oidc/clients", `{"name": "N"`, nil, auth.Owner, 400},
			{"POST /oidc/clients", `{"name": "N", "description": "", "homepage_url": "https://n.example", "audience": "https://api.example"}`, nil, auth.Owner, 409},
			{"POST /oidc/clients", `{"name": "N", "description": "", "homepage_url": "https://n.example", "audience": "https://steward.example"}`, nil, auth.Owner, 409},
			{"POST /oidc/clients", `{"name": "N", "description": "", "homepage_url": "https://n.example", "project_id": "no project"}`, nil, auth.Owner, 422},
			{"POST /oidc/clients", `{"name": "N", "description": "", "homepage_url": "https://n.example", "scopes": ["openid", "org:admin"]}`, nil, auth.Member, 422},
			{"PUT /oidc/clients/cli_none", `{"name": "N"}`, nil, auth.Owner, 404},
			{"PUT /oidc/clients/" + taken.ID, `{"redirect_uris": ["http://a.example"]}`, nil, auth.Owner, 422},
			{"PUT /oidc/clients/" + public.ID, `{"client_type": "confidential", "audience": "https://api.example"}`, nil, auth.Owner, 409},
			{"PUT /oidc/clients/" + taken.ID, `{"name": "N"}`, []string{"If-Match", `"other"`}, auth.Owner, 412},
		} {
			f.caller = f.member(owner.OrgID, test.role)
			status, tried, _ := f.call(api, test.route+"?dry_run=true", test.body, test.header...)
			realStatus, answered, _ := f.call(api, test.route, test.body, test.header...)
			for _, value := range []any{tried, answered} {
				delete(value.(map[string]any), "request_id")
				delete(value.(map[string]any), "instance")
			}
			if status != test.status || realStatus != test.status {
				t.Errorf("%s %s: %d, and %d without dry_run; want %d: %v", test.route, test.body, status, realStatus, test.status, tried)
			}
			if diff := cmp.Diff(answered, tried); diff != "" {
				t.Errorf("%s %s: %s", test.route, test.body, diff)
			}
		}
		f.caller = owner
		if diff := cmp.Diff(before, f.stored()); diff != "" {
			t.Fatal(diff)
		}

		tried := f.ok(api, "POST /oidc/clients?dry_run=true", minimal).(map[string]any)
		if tried["client_secret"] != "" || tried["client"].(map[string]any)["id"] != "" {
			t.Error(tried)
		}
		changed := f.ok(api, "PUT /oidc/clients/"+public.ID+"?dry_run=true", `{"client_type": "confidential", "name": "Renamed"}`).(map[string]any)
		if client := changed["client"].(map[string]any); len(changed) != 1 || client["name"] != "Renamed" || client["client_type"] != "confidential" {
			t.Error(changed)
		}
		if diff := cmp.Diff(before, f.stored()); diff != "" {
			t.Error(diff)
		}
		made := f.ok(api, "POST /oidc/clients", minimal).(map[string]any)["client"].(map[string]any)
		wanted := maps.Clone(made)
		wanted["id"] = ""
		if diff := cmp.Diff(wanted, tried["client"]); diff != "" {
			t.Error(diff)
		}
	})
}

// stored returns the clients of the organization and the audit entries.
func (f *fixture) stored() string {
	f.t.Helper()
	clients, err := f.List(f.ctx, f.caller.OrgID, whole)
	must(f.t, err)
	text, err := json.Marshal(clients.Items)
	must(f.t, err)
	return fmt.Sprintf("%s %d %d %s", text, f.rows("oidc_clients"), f.rows("oidc_client_states"), f.audits())
}
