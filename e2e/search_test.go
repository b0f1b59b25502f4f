package e2e

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// search returns the types and names that somebody finds.
func (s *steward) search(text string) (found []string) {
	s.t.Helper()
	var results []struct{ Type, ID, Name string }
	s.call("GET", "/search?q="+url.QueryEscape(text), nil).want(200).decode(&results)
	for _, r := range results {
		if r.ID == "" {
			s.t.Errorf("%+v", r)
		}
		found = append(found, r.Type+" "+r.Name)
	}
	return found
}

func TestSearchFindsWhatTheCallerMaySee(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		h := s.hook("Atlas events")
		s.call("POST", "/oidc/clients", object{"name": "Atlas app", "description": "", "homepage_url": "https://a.example"}).want(200)
		s.call("POST", "/cli/apikey", object{"name": "atlas key"}).want(201)
		s.call("POST", "/resource/"+s.orgID+"/local", object{"resources": []object{
			{"type": "s3", "name": "atlas-files"}, {"type": "db", "name": "atlas_db"}, {"type": "kv", "name": "atlas_kv"},
		}}).want(201)
		s.call("PUT", "/thread/atlas", object{"project_id": "atlas-project"}).want(200)
		s.call("PUT", "/thread/atlas-2", object{"project_id": "other"}).want(200)
		s.call("PUT", "/cli/eval/e1", object{"name": "Atlas quality", "agentIdentifier": "a", "projectId": "atlas-project"}).want(200)
		s.call("POST", "/oidc/org/members", object{"email": "atlas@example.com", "role": "viewer"}).want(201)
		all := []string{
			"webhook Atlas events", "webhook Bucket atlas-files", "oauth_client Atlas app", "api_key atlas key", "bucket atlas-files", "database atlas_db", "store atlas_kv",
			"thread atlas", "eval Atlas quality", "project atlas-project", "member atlas@example.com",
		}
		check := func(who *steward, text string, want ...string) {
			t.Helper()
			got := who.search(text)
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
		check(s.keyOf("atlas-project"), "atlas", "thread atlas", "eval Atlas quality", "project atlas-project")
		check(s.keyOf("other"), "atlas-2", "thread atlas-2")
		session := object{"id": "ses-atlas", "orgId": s.orgID, "projectId": "other", "routeId": "r", "environment": "production", "devmode": false, "url": "/", "method": "POST", "trigger": "api"}
		s.call("POST", "/session", session).want(201)
		s.call("POST", "/evalrun", object{"id": "run-atlas", "sessionId": "ses-atlas", "evalId": "e1", "orgId": s.orgID, "projectId": "other"}).want(201)
		check(s, "ses-atlas", "session ses-atlas")
		check(s, "run-atlas", "eval_run run-atlas")
		check(s.keyOf("atlas-project"), "ses-atlas")
		check(s.keyOf("atlas-project"), "run-atlas")
		check(s.keyOf("other"), "atlas")
		webhooks := s.call("POST", "/cli/apikey", object{"name": "scoped", "scopes": []string{"account:read", "webhook:read"}}).want(201)
		check(s.as(webhooks.text("value")), "atlas", "webhook Atlas events", "webhook Bucket atlas-files", "project atlas-project")
		other := s.secondOrganization()
		check(other, "atlas")
		check(other, h.ID)
		sink := newSink(t)
		destination, _ := s.destination(h, sink.URL+"/hook")
		receipt := s.ingest(h, "{}")
		delivery := s.deliveries(h, "")[0].ID
		check(s, destination, "destination Atlas events")
		check(s, receipt, "receipt Atlas events")
		check(s, delivery, "receipt Atlas events")
		for _, part := range []string{destination, receipt, delivery} {
			var found []struct{ ID, Parent string }
			s.call("GET", "/search?q="+part, nil).want(200).decode(&found)
			if len(found) != 1 || found[0].Parent != h.ID || part != delivery && found[0].ID != part || part == delivery && found[0].ID != receipt {
				t.Errorf("%s: %+v", part, found)
			}
			check(other, part)
			check(s.keyOf("other"), part)
		}
		check(s, "whrc_"+strings.Repeat("0", 26))
		for i := range 30 {
			s.call("POST", "/webhook/create", object{"name": "atlas " + strconv.Itoa(i)}).want(201)
		}
		if got := s.search("ATLAS"); len(got) != 20 || !slices.Contains(got, "member atlas@example.com") {
			t.Errorf("%d results: %v", len(got), got)
		}
		sdk := s.call("GET", "/sdk/search?q=quality", nil).want(200)
		if sdk.get("success") != true {
			t.Errorf("SDK face: %s", sdk.body)
		}
	})
}
