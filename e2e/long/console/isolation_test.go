package console

import (
	"os"
	"strings"
	"testing"

	"steward/e2e/installation"
)

// TestConsoleRefusesIdsOfOtherOrganizations opens the page of everything that another organization
// has, by its address: nothing of it is shown.
func TestConsoleRefusesIdsOfOtherOrganizations(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	other := s.SecondOrganization()
	const name, secret = "theirs", "confidential-text" // the name is in addresses, which a page may repeat
	h := other.NewHook(secret)
	receipt := other.Ingest(h, `{"text": "`+secret+`"}`)
	b := other.NewBucket(name)
	b.Put("a.txt", secret)
	b.Put(secret, secret)
	other.NewDatabase(name).Exec(`CREATE TABLE "` + secret + `" (a)`)
	s.Must(other.NewKVStore(name).Client().Set(t.Context(), secret, secret, 0).Err())
	a := other.NewApplication(object{})
	other.Call("PUT", "/oidc/clients/"+a.ID, object{"name": secret}).Want(200)
	other.Call("PUT", "/thread/t1", object{"project_id": "p1", "user_data": `"` + secret + `"`}).Want(200)
	session := installation.SessionRequest(other, "s1", "t1", "p1")
	session["url"] = "/" + secret
	other.Call("POST", "/session", session).Want(201)
	other.Call("PUT", "/cli/eval/e1", object{"name": secret, "projectId": "p1", "agentIdentifier": "a"}).Want(200)
	other.Call("POST", "/evalrun", installation.EvalRun{ID: "r1", SessionID: "s1", EvalID: "e1", ProjectID: "p1"}.Body(other.OrgID, 0)).Want(201)

	pages := map[string][]string{
		"/webhooks/:id":                     {"/webhooks/" + h.ID, "?tab=deliveries", "?tab=destinations", "?tab=replay", "?tab=settings"},
		"/webhooks/:id/receipts/:receiptId": {"/webhooks/" + h.ID + "/receipts/" + receipt},
		"/storage/:bucket":                  {"/storage/" + name, "?key=a.txt", "?tab=config", "?tab=connection"},
		"/databases/:region/:name":          {"/databases/local/" + name, "?table=" + name, "?tab=connection"},
		"/key-value/:region/:name":          {"/key-value/local/" + name, "?tab=connection"},
		"/threads/:id":                      {"/threads/t1"},
		"/sessions/:id":                     {"/sessions/s1"},
		"/evaluations/runs/:id":             {"/evaluations/runs/r1"},
		"/oauth/clients/:id":                {"/oauth/clients/" + a.ID, "?tab=users", "?tab=connect", "?tab=settings"},
	}
	source, err := os.ReadFile("../../../console/src/routes.ts")
	s.Must(err)
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
			c.Wait("the refusal of "+address, `/not found|there is no/i.test(document.getElementById('content').innerText)`)
			if shown := c.Text("#content"); strings.Contains(shown, secret) {
				t.Errorf("%s shows %s", address, shown)
			}
		}
		c.Clean()
	}
	c.visit("/webhooks/" + s.NewHook("ours").ID + "/receipts/" + receipt)
	c.Wait("the refusal of a receipt of others", `document.querySelector('.failure')`)
	c.keys("ctrl+k")
	c.keys(secret)
	c.Wait("the search", requested("/search?q="+secret))
	c.See("Nothing has this name or id.")
}
