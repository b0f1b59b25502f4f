package e2e

import (
	"os"
	"strings"
	"testing"
)

// TestConsoleRefusesIdsOfOtherOrganizations opens the page of everything that another organization
// has, by its address: nothing of it is shown.
func TestConsoleRefusesIdsOfOtherOrganizations(t *testing.T) {
	t.Parallel()
	s := startWithOwner(t, "sqlite")
	other := s.secondOrganization()
	const name, secret = "theirs", "confidential-text" // the name is in addresses, which a page may repeat
	h := other.hook(secret)
	receipt := other.ingest(h, `{"text": "`+secret+`"}`)
	b := other.bucket(name)
	b.put("a.txt", secret)
	b.put(secret, secret)
	other.database(name).exec(`CREATE TABLE "` + secret + `" (a)`)
	s.must(other.kvStore(name).client().Set(t.Context(), secret, secret, 0).Err())
	a := other.application(object{})
	other.call("PUT", "/oidc/clients/"+a.id, object{"name": secret}).want(200)
	other.call("PUT", "/thread/t1", object{"project_id": "p1", "user_data": `"` + secret + `"`}).want(200)
	session := newSession(other, "s1", "t1", "p1")
	session["url"] = "/" + secret
	other.call("POST", "/session", session).want(201)
	other.call("PUT", "/cli/eval/e1", object{"name": secret, "projectId": "p1", "agentIdentifier": "a"}).want(200)
	other.call("POST", "/evalrun", evalRun{ID: "r1", SessionID: "s1", EvalID: "e1", ProjectID: "p1"}.body(other.orgID, 0)).want(201)

	pages := map[string][]string{
		"/webhooks/:id":                     {"/webhooks/" + h.ID, "?tab=deliveries", "?tab=destinations", "?tab=replay", "?tab=settings"},
		"/webhooks/:id/receipts/:receiptId": {"/webhooks/" + h.ID + "/receipts/" + receipt},
		"/storage/:bucket":                  {"/storage/" + name, "?key=a.txt", "?tab=config", "?tab=connection"},
		"/databases/:region/:name":          {"/databases/local/" + name, "?table=" + name, "?tab=connection"},
		"/key-value/:region/:name":          {"/key-value/local/" + name, "?tab=connection"},
		"/threads/:id":                      {"/threads/t1"},
		"/sessions/:id":                     {"/sessions/s1"},
		"/evaluations/runs/:id":             {"/evaluations/runs/r1"},
		"/oauth/clients/:id":                {"/oauth/clients/" + a.id, "?tab=users", "?tab=connect", "?tab=settings"},
	}
	source, err := os.ReadFile("../console/src/routes.ts")
	s.must(err)
	c := signedIn(t, s)
	for _, route := range patterns.FindAllStringSubmatch(string(source), -1) {
		if strings.Contains(route[1], ":") && len(pages[route[1]]) == 0 {
			t.Errorf("the route %s is not checked", route[1])
		}
		for i, address := range pages[route[1]] {
			if i > 0 {
				address = pages[route[1]][0] + address
			}
			c.visit(address)
			c.settle()
			c.wait("the refusal of "+address, `/not found|there is no/i.test(document.getElementById('content').innerText)`)
			if shown := c.text("#content"); strings.Contains(shown, secret) {
				t.Errorf("%s shows %s", address, shown)
			}
		}
		c.clean()
	}
	c.visit("/webhooks/" + s.hook("ours").ID + "/receipts/" + receipt)
	c.wait("the refusal of a receipt of others", `document.querySelector('.failure')`)
	c.keys("ctrl+k")
	c.keys(secret)
	c.wait("the search", requested("/search?q="+secret))
	c.see("Nothing has this name or id.")
}
