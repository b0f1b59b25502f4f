package e2e

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/sink"
)

// searchNames returns the types and names that somebody finds.
func searchNames(s *installation.Steward, text string) (found []string) {
	s.T.Helper()
	var results []struct{ Type, ID, Name string }
	s.Call("GET", "/search?q="+url.QueryEscape(text), nil).Want(200).Decode(&results)
	for _, r := range results {
		if r.ID == "" {
			s.T.Errorf("%+v", r)
		}
		found = append(found, r.Type+" "+r.Name)
	}
	return found
}

func TestSearchFindsWhatTheCallerMaySee(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		h := s.NewHook("Atlas events")
		s.Call("POST", "/oidc/clients", object{"name": "Atlas app", "description": "", "homepage_url": "https://a.example"}).Want(200)
		s.Call("POST", "/cli/apikey", object{"name": "atlas key"}).Want(201)
		s.Call("POST", "/resource/"+s.OrgID+"/local", object{"resources": []object{
			{"type": "s3", "name": "atlas-files"}, {"type": "db", "name": "atlas_db"}, {"type": "kv", "name": "atlas_kv"},
		}}).Want(201)
		s.Call("PUT", "/thread/atlas", object{"project_id": "atlas-project"}).Want(200)
		s.Call("PUT", "/thread/atlas-2", object{"project_id": "other"}).Want(200)
		s.Call("PUT", "/cli/eval/e1", object{"name": "Atlas quality", "agentIdentifier": "a", "projectId": "atlas-project"}).Want(200)
		s.Call("POST", "/oidc/org/members", object{"email": "atlas@example.com", "role": "viewer"}).Want(201)
		all := []string{
			"webhook Atlas events", "webhook Bucket atlas-files", "oauth_client Atlas app", "api_key atlas key", "bucket atlas-files", "database atlas_db", "store atlas_kv",
			"thread atlas", "eval Atlas quality", "project atlas-project", "member atlas@example.com",
		}
		check := func(who *installation.Steward, text string, want ...string) {
			t.Helper()
			got := searchNames(who, text)
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("%q: %v, want %v", text, got, want)
			}
		}
		check(s, "atlas", all...)
		check(s, h.ID, "webhook Atlas events")
		check(s, "quality", "eval Atlas quality")
		check(s, "files", "bucket atlas-files", "webhook Bucket atlas-files")
		check(s, "KV atl", "store atlas_kv")
		check(s, "tlas")
		check(s, "")
		check(s.KeyOf("atlas-project"), "atlas", "thread atlas", "eval Atlas quality", "project atlas-project")
		check(s.KeyOf("other"), "atlas-2", "thread atlas-2")
		session := object{"id": "ses-atlas", "orgId": s.OrgID, "projectId": "other", "routeId": "r", "environment": "production", "devmode": false, "url": "/", "method": "POST", "trigger": "api"}
		s.Call("POST", "/session", session).Want(201)
		s.Call("POST", "/evalrun", object{"id": "run-atlas", "sessionId": "ses-atlas", "evalId": "e1", "orgId": s.OrgID, "projectId": "other"}).Want(201)
		check(s, "ses-atlas", "session ses-atlas")
		check(s, "run-atlas", "eval_run run-atlas")
		check(s.KeyOf("atlas-project"), "ses-atlas")
		check(s.KeyOf("atlas-project"), "run-atlas")
		check(s.KeyOf("other"), "atlas")
		webhooks := s.Call("POST", "/cli/apikey", object{"name": "scoped", "scopes": []string{"account:read", "webhook:read"}}).Want(201)
		check(s.As(webhooks.Text("value")), "atlas", "webhook Atlas events", "webhook Bucket atlas-files", "project atlas-project")
		other := s.SecondOrganization()
		check(other, "atlas")
		check(other, h.ID)
		sink := sink.New(t)
		destination, _ := s.NewDestination(h, sink.URL+"/hook")
		receipt := s.Ingest(h, "{}")
		delivery := s.ListDeliveries(h, "")[0].ID
		check(s, destination, "destination Atlas events")
		check(s, receipt, "receipt Atlas events")
		check(s, delivery, "receipt Atlas events")
		for _, part := range []string{destination, receipt, delivery} {
			var found []struct{ ID, Parent string }
			s.Call("GET", "/search?q="+part, nil).Want(200).Decode(&found)
			if len(found) != 1 || found[0].Parent != h.ID || part != delivery && found[0].ID != part || part == delivery && found[0].ID != receipt {
				t.Errorf("%s: %+v", part, found)
			}
			check(other, part)
			check(s.KeyOf("other"), part)
		}
		check(s, "whrc_"+strings.Repeat("0", 26))
		for i := range 30 {
			s.Call("POST", "/webhook/create", object{"name": "atlas " + strconv.Itoa(i)}).Want(201)
		}
		if got := searchNames(s, "ATLAS"); len(got) != 20 || !slices.Contains(got, "member atlas@example.com") {
			t.Errorf("%d results: %v", len(got), got)
		}
		sdk := s.Call("GET", "/sdk/search?q=quality", nil).Want(200)
		if sdk.Get("success") != true {
			t.Errorf("SDK face: %s", sdk.Body)
		}
	})
}
