package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/id"
	"steward/internal/waittest"
	"steward/internal/web"
)

// onceCase is a request of a POST route that is successful.
type onceCase struct {
	path, body string
	// elsewhere is true if its effects, if any, are not in the database.
	elsewhere bool
}

// must sends a request of the owner and returns the text of a field of its response.
func (f *fixture) must(method, path, body, name string) string {
	f.t.Helper()
	got := f.send("owner", method, path, body)
	if got.Code >= 300 {
		f.t.Fatalf("%s %s: %d %s", method, path, got.Code, got.Body)
	}
	return field(got, name)
}

// failedDelivery returns a webhook, a destination of it, and a delivery that failed.
func (f *fixture) failedDelivery(d *db.DB) (webhookID, destinationID, deliveryID string) {
	f.t.Helper()
	hook := f.send("owner", "POST", "/webhook/create", `{"name":"orders"}`)
	webhookID = field(hook, "id")
	destinationID = f.must("POST", "/webhook/destination-create/"+webhookID, `{"type":"url","config":{"url":"http://127.0.0.1:1/"}}`, "id")
	f.must("POST", strings.TrimPrefix(field(hook, "url"), "http://steward.test"), `{}`, "")
	list := f.send("owner", "GET", "/webhook/delivery-list/"+webhookID, "").Body.String()
	_, deliveryID, _ = strings.Cut(list, `"id":"`)
	deliveryID, _, _ = strings.Cut(deliveryID, `"`)
	err := d.Write(context.Background(), func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE webhook_deliveries SET status = 'failed', failed = true`)
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return webhookID, destinationID, deliveryID
}

// newMember adds a user to the organization.
func (f *fixture) newMember(d *db.DB, email string) (userID string) {
	userID = id.New(id.User)
	err := d.Write(context.Background(), func(tx *db.Tx) error {
		if _, err := tx.Exec(`INSERT INTO users (id, email, version, created_at, updated_at) VALUES ($1, $2, 1, 1, 1)`,
			userID, email); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO members (org_id, user_id, role, version, created_at, updated_at)
			VALUES ($1, $2, 'member', 1, 1, 1)`, f.orgID, userID)
		return err
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return userID
}

// onceCases returns a request of every POST route, by its pattern.
func (f *fixture) onceCases(d *db.DB) map[string]onceCase {
	webhookID, destinationID, deliveryID := f.failedDelivery(d)
	invited := f.must("POST", "/oidc/org/members", `{"email":"bob@example.com","role":"member"}`, "id")
	userID := f.newMember(d, "ann@example.com")
	const newClient = `{"name":"app","description":"d","homepage_url":"https://a.example","client_type":"confidential",
		"redirect_uris":["https://a.example/cb"]}`
	client := f.send("owner", "POST", "/oidc/clients", newClient).Body.String()
	_, clientID, _ := strings.Cut(client, `"id":"`)
	clientID, _, _ = strings.Cut(clientID, `"`)
	region := "/resource/" + f.orgID + "/local"
	f.must("POST", region, `{"resources":[{"type":"db","name":"one"}]}`, "")
	return map[string]onceCase{
		"POST /cli/project":                                                   {path: "/cli/project", body: `{"name":"a"}`},
		"POST /cli/organization":                                              {path: "/cli/organization", body: `{"name":"a"}`},
		"POST /cli/organization/{id}/restore":                                 {path: "/cli/organization/" + f.orgID + "/restore"},
		"POST /oidc/org/members":                                              {path: "/oidc/org/members", body: `{"email":"eve@example.com","role":"viewer"}`},
		"POST /oidc/org/members/{id}/invite":                                  {path: "/oidc/org/members/" + invited + "/invite"},
		"POST /oidc/org/members/{id}/reset-password":                          {path: "/oidc/org/members/" + userID + "/reset-password"},
		"POST /oidc/clients":                                                  {path: "/oidc/clients", body: newClient},
		"POST /oidc/clients/{id}/rotate-secret":                               {path: "/oidc/clients/" + clientID + "/rotate-secret"},
		"POST /oidc/keys/rotate":                                              {path: "/oidc/keys/rotate"},
		"POST /oidc/upstream":                                                 {path: "/oidc/upstream", body: `{"name":"a","issuer":"https://a.example","client_id":"c"}`},
		"POST /oidc/registration-token":                                       {path: "/oidc/registration-token", body: `{"name":"a"}`},
		"POST /cli/apikey":                                                    {path: "/cli/apikey", body: `{"name":"a"}`},
		"POST /cli/devmode/eval":                                              {path: "/cli/devmode/eval", body: `{"create":[{"id":"e1","name":"a","agentIdentifier":"a","projectId":"p"}]}`},
		"POST /evalrun":                                                       {path: "/evalrun", body: `{"id":"r1","sessionId":"s1","evalId":"e1","projectId":"p","orgId":"` + f.orgID + `"}`},
		"POST /resource/{orgId}/{region}":                                     {path: region, body: `{"resources":[{"type":"db"},{"type":"s3"}]}`},
		"POST /resource/{orgId}/{region}/{name}/query":                        {path: region + "/one/query", body: `{"query":"SELECT 1"}`, elsewhere: true},
		"POST /resource/{orgId}/{region}/{name}/rotate":                       {path: region + "/one/rotate"},
		"POST /session":                                                       {path: "/session", body: startSession(f.orgID, "")},
		"POST /webhook/create":                                                {path: "/webhook/create", body: `{"name":"a"}`},
		"POST /webhook/rotate-url/{webhookId}":                                {path: "/webhook/rotate-url/" + webhookID},
		"POST /webhook/destination-create/{webhookId}":                        {path: "/webhook/destination-create/" + webhookID, body: `{"type":"url","config":{"url":"http://127.0.0.1:1/"}}`},
		"POST /webhook/destination-test/{webhookId}/{destinationId}":          {path: "/webhook/destination-test/" + webhookID + "/" + destinationID, elsewhere: true},
		"POST /webhook/destination-recover/{webhookId}/{destinationId}":       {path: "/webhook/destination-recover/" + webhookID + "/" + destinationID, body: `{"rate": 5}`},
		"POST /webhook/destination-rotate-secret/{webhookId}/{destinationId}": {path: "/webhook/destination-rotate-secret/" + webhookID + "/" + destinationID},
		"POST /webhook/filter-test/{webhookId}":                               {path: "/webhook/filter-test/" + webhookID, body: `{"filter":{}}`, elsewhere: true},
		"POST /webhook/delivery-retry/{webhookId}/{deliveryId}":               {path: "/webhook/delivery-retry/" + webhookID + "/" + deliveryID, body: `{}`},
		"POST /webhook/replay/{webhookId}":                                    {path: "/webhook/replay/" + webhookID, body: `{"since":"2020-01-01T00:00:00Z"}`},
	}
}

func startSession(orgID, metadata string) string {
	if metadata == "" {
		metadata = "{}"
	}
	return fmt.Sprintf(`{"id":"s1","orgId":%q,"projectId":"p","routeId":"r","environment":"e","devmode":false,
		"url":"/","method":"GET","trigger":"api","metadata":%s}`, orgID, metadata)
}

// crashing is an API whose process dies when a handler has returned, if crash is true. What the handler
// returned is lost, except for this test.
type crashing struct {
	http.Handler
	crash bool
	lost  string
}

func (f *fixture) crashing() *crashing {
	c := &crashing{}
	api := web.NewAPI(f.routes, f.server.Auth.Guard,
		func(w http.ResponseWriter, r *http.Request, k web.Keyed) {
			next := k.Next
			k.Next = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !c.crash {
					next.ServeHTTP(w, r)
					return
				}
				rec := httptest.NewRecorder()
				next.ServeHTTP(rec, r)
				c.lost = fmt.Sprint(rec.Code, " ", rec.Body)
				panic("the process dies")
			})
			f.server.Idempotency.Serve(w, r, k)
		})
	c.Handler = web.Observe(slog.New(slog.DiscardHandler), nil, api)
	return c
}

// TestEveryResponseIsStoredWithItsEffects has the process die between the effects of each POST route and
// its response. The repeat must get the response of the effects that there are.
func TestEveryResponseIsStoredWithItsEffects(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, nil)
		cases := f.onceCases(d)
		for _, route := range f.routes {
			if c, ok := cases[route.Pattern()]; ok {
				f.checkStored(d, route, c)
			} else if route.Method == "POST" {
				t.Errorf("%s has no case", route.Pattern())
			}
		}
	})
}

func (f *fixture) checkStored(d *db.DB, route web.Route, c onceCase) {
	f.t.Helper()
	api := f.crashing()
	send := func(crash bool) *httptest.ResponseRecorder {
		api.crash = crash
		return f.sendOnce(api, "owner", "POST", c.path, c.body, "k")
	}
	var before, after int
	for i, n := range []*int{&before, &after} {
		if i == 1 {
			send(true)
		}
		row := d.Read(context.Background()).Row(`SELECT count(*) FROM idempotency`)
		if err := row.Scan(n); err != nil {
			f.t.Fatal(err)
		}
	}
	lost := api.lost
	if !strings.HasPrefix(lost, "2") {
		f.t.Errorf("%s: %s", route.Pattern(), lost)
		return
	}
	again := send(false)
	got := fmt.Sprint(again.Code, " ", again.Body)
	if c.elsewhere {
		if after != before || again.Code >= 300 {
			f.t.Errorf("%s: %d rows are left of the first request; the repeat got %s", route.Pattern(), after-before, got)
		}
		return
	}
	if after != before+1 || got != lost {
		f.t.Errorf("%s: %d responses stored; the repeat got %s, want %s", route.Pattern(), after-before, got, lost)
	}
}

// hold holds the only writer of SQLite until the test ends.
func hold(t *testing.T, d *db.DB) {
	t.Helper()
	held := make(chan struct{})
	release := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = d.Write(context.Background(), func(*db.Tx) error {
			close(held)
			<-release
			return nil
		})
	}()
	<-held
	t.Cleanup(func() {
		close(release)
		<-done
	})
}

// TestInvalidRequestsDoNotNeedTheWriter sends bodies that take long to check, with an Idempotency-Key,
// while the only writer of SQLite is held. Requests that are refused must not wait for it, and so not
// hold it while they are checked.
func TestInvalidRequestsDoNotNeedTheWriter(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	f := newFixture(t, d, nil)
	junk := `{"metadata":{` + strings.Repeat(`"a":[[[{}]]],`, 6<<20/13) + `"b":0}}`
	cases := map[string]string{
		"/session":             junk,
		"/session?x=%zz":       startSession(f.orgID, ""),
		"/cli/apikey":          `{"name":"a","expiresAt":"2001-01-01T00:00:00Z"}`,
		"/webhook/create":      `{"name":`,
		"/webhook/replay/none": `{"since":"2020-01-01T00:00:00Z","dry_run":true}`,
	}
	hold(t, d)
	for path, body := range cases {
		answered := make(chan *httptest.ResponseRecorder, 1)
		go func() { answered <- f.sendOnce(f.handler, "owner", "POST", path, body, id.Secret(10)) }()
		if got := waittest.Receive(t, path+", which needs no writer", answered); got.Code < 400 || got.Code >= 500 {
			t.Errorf("%s: %d %s", path, got.Code, got.Body)
		}
	}
}
