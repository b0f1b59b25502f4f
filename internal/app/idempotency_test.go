package app

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/id"
	"steward/internal/waittest"
	"steward/internal/web"
)

// effectsElsewhere lists the POST routes whose effects, if any, are not in the database.
var effectsElsewhere = []string{
	"POST /resource/{orgId}/{region}/{name}/query", "POST /webhook/destination-test/{webhookId}/{destinationId}",
	"POST /webhook/filter-test/{webhookId}", "POST /alert/{id}/test",
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

// TestEveryResponseIsStoredWithItsEffects walks through all routes, and has the process die between the effects
// of each POST route and its response. The repeat must get the response of the effects that there are.
func TestEveryResponseIsStoredWithItsEffects(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, nil)
		stored := map[string]bool{}
		f.walk(d, "", func(request, path, body string) *httptest.ResponseRecorder {
			method, _, _ := strings.Cut(request, " ")
			r, ok := routeOf(f.routes, method, path)
			if !ok || method != "POST" || stored[r.Pattern()] {
				return f.send("owner", method, path, body)
			}
			again, ok := f.checkStored(d, r, path, body)
			stored[r.Pattern()] = ok
			return again
		})
		for _, r := range f.routes {
			if r.Method == "POST" && !stored[r.Pattern()] {
				t.Errorf("the walk has no successful %s", r.Pattern())
			}
		}
	})
}

// checkStored returns the response to the repeat. It returns false if the route refuses the request, or only tells
// what it would do.
func (f *fixture) checkStored(d *db.DB, route web.Route, path, body string) (again *httptest.ResponseRecorder, ok bool) {
	f.t.Helper()
	api := f.crashing()
	key := id.Secret(10)
	send := func(crash bool) *httptest.ResponseRecorder {
		api.crash = crash
		return f.sendOnce(api, "owner", "POST", path, body, key)
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
	again = send(false)
	got := fmt.Sprint(again.Code, " ", again.Body)
	if !strings.HasPrefix(lost, fmt.Sprint(route.Status, " ")) {
		return again, false
	}
	if slices.Contains(effectsElsewhere, route.Pattern()) {
		if after != before || again.Code >= 300 {
			f.t.Errorf("%s: %d rows are left of the first request; the repeat got %s", route.Pattern(), after-before, got)
		}
	} else if after != before+1 || got != lost {
		f.t.Errorf("%s: %d responses stored; the repeat got %s, want %s", route.Pattern(), after-before, got, lost)
	}
	return again, true
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
