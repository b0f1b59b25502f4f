package oidc

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/idempotency"
	"steward/internal/seal"
	"steward/internal/web"
)

// api serves the routes to the fixture's caller.
func (f *fixture) api() http.Handler {
	h := f.h
	ring, err := seal.NewRing(make([]byte, seal.KeySize))
	must(f.t, err)
	return web.NewAPI([]web.Route{
		web.On("GET /oidc/clients", "", auth.ReadClients, 200, "", h.List),
		web.On("POST /oidc/clients", "", auth.WriteClients, 200, "", h.Create),
		web.On("GET /oidc/clients/activity", "", auth.ReadClients, 200, "", h.AllActivity),
		web.On("GET /oidc/clients/{id}", "", auth.ReadClients, 200, "", h.Get),
		web.On("PUT /oidc/clients/{id}", "", auth.WriteClients, 200, "", h.Update),
		web.On("DELETE /oidc/clients/{id}", "", auth.WriteClients, 200, "", h.Delete),
		web.On("POST /oidc/clients/{id}/rotate-secret", "", auth.WriteClients, 200, "", h.RotateSecret),
		web.On("GET /oidc/clients/{id}/activity", "", auth.ReadClients, 200, "", h.Activity),
		web.On("GET /oidc/clients/{id}/users", "", auth.WriteClients, 200, "", h.Users),
		web.On("DELETE /oidc/clients/{id}/users", "", auth.WriteClients, 200, "", h.RevokeAll),
		web.On("DELETE /oidc/clients/{id}/users/{user_id}", "", auth.WriteClients, 200, "", h.RevokeUser),
		web.On("GET /oidc/user/consent", "", auth.ReadConsents, 200, "", h.Own),
		web.On("DELETE /oidc/user/consent/{client_id}", "", auth.WriteConsents, 200, "", h.RevokeOwn),
		web.On("GET /oidc/scopes", "", auth.ReadClients, 200, "", h.Catalogue),
		web.On("GET /oidc/keys", "", auth.ReadSigning, 200, "", h.SigningKeys),
		web.On("POST /oidc/keys/rotate", "", auth.RotateKeys, 200, "", h.RotateKeys),
	}, func(_ web.Route, _ http.ResponseWriter, r *http.Request) *http.Request {
		return r.WithContext(auth.With(r.Context(), f.caller))
	}, (&idempotency.Store{DB: f.DB, Ring: ring, Now: f.now}).Serve)
}

// call sends a request and returns the JSON of the response.
func (f *fixture) call(api http.Handler, route, body string, header ...string) (status int, value any, h http.Header) {
	f.t.Helper()
	method, path, _ := strings.Cut(route, " ")
	r := httptest.NewRequestWithContext(f.t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	api.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &value); err != nil {
		f.t.Errorf("%s: %d %q", route, w.Code, w.Body)
	}
	return w.Code, value, w.Header()
}

func (f *fixture) ok(api http.Handler, route, body string, header ...string) any {
	f.t.Helper()
	status, value, _ := f.call(api, route, body, header...)
	if status != 200 {
		f.t.Errorf("%s: %d %v", route, status, value)
	}
	return value
}

const minimal = `{"name": "Notes", "description": "Keeps notes", "homepage_url": "https://notes.example"}`

// TestRoutes calls every route and checks the form of its response.
func TestRoutes(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		api := f.api()
		made := f.ok(api, "POST /oidc/clients", minimal).(map[string]any)
		client := made["client"].(map[string]any)
		clientID := client["id"].(string)
		if len(made["client_secret"].(string)) != 43 || client["user_count"] != nil || client["link"] != nil ||
			client["icon"] != nil {
			t.Error(made)
		}
		f.advance(time.Second)
		f.consent(clientID, f.caller.UserID, "openid")
		f.consent(clientID, "usr_2", "openid")
		activity := &Activity{Store: f.Store}
		activity.Note(clientID, f.caller.UserID)
		must(t, activity.Flush(f.ctx))

		got := f.ok(api, "GET /oidc/clients/"+clientID, "").(map[string]any)
		list := f.ok(api, "GET /oidc/clients", "").([]any)
		if diff := cmp.Diff([]any{got}, list); diff != "" {
			t.Error(diff)
		}
		if got["user_count"] != 2.0 || got["last_activity"] != "2026-11-15T08:30:03.000Z" ||
			got["link"] != "https://steward.example/console/oauth/clients/"+clientID {
			t.Error(got)
		}
		for _, extra := range []string{"user_count", "last_activity", "link"} {
			delete(got, extra)
		}
		if diff := cmp.Diff(client, got); diff != "" {
			t.Error(diff)
		}
		put := f.ok(api, "PUT /oidc/clients/"+clientID, `{"icon": "https://notes.example/i.png", "access_token_lifetime_seconds": 60}`).(map[string]any)
		changed := put["client"].(map[string]any)
		if changed["icon"] != "https://notes.example/i.png" || changed["access_token_lifetime_seconds"] != 60.0 || changed["name"] != "Notes" ||
			len(put) != 1 {
			t.Error(put)
		}
		day := map[string]any{"activity_date": "2026-11-15", "unique_users": 1.0}
		all := map[string]any{"client_id": clientID, "activity_date": "2026-11-15", "unique_users": 1.0}
		day["total_access"] = 1.0
		rotated := f.ok(api, "POST /oidc/clients/"+clientID+"/rotate-secret", "").(map[string]any)
		if rotated["client_id"] != clientID || len(rotated["client_secret"].(string)) != 43 {
			t.Error(rotated)
		}
		user := f.caller.UserID
		for _, step := range []struct {
			route string
			want  any
		}{
			{"GET /oidc/clients/" + clientID + "/activity", []any{day}},
			{"GET /oidc/clients/activity", []any{all}},
			{"GET /oidc/clients/activity?days=3650", []any{all}},
			{"GET /oidc/clients/" + clientID + "/users?limit=1", []any{map[string]any{
				"user_id": "usr_2", "scopes": []any{"openid"},
				"created_at": "2026-11-15T08:30:02.000Z", "updated_at": "2026-11-15T08:30:02.000Z",
			}}},
			{"GET /oidc/user/consent", []any{map[string]any{
				"client_id": clientID, "scopes": []any{"openid"}, "created_at": "2026-11-15T08:30:01.000Z",
				"updated_at": "2026-11-15T08:30:01.000Z", "client_name": "Notes", "client_description": "Keeps notes",
				"client_icon": "https://notes.example/i.png", "client_homepage_url": "https://notes.example",
			}}},
			{"DELETE /oidc/user/consent/" + clientID, map[string]any{"deleted": true}},
			{"GET /oidc/user/consent", []any{}},
			{"DELETE /oidc/clients/" + clientID + "/users/usr_2", map[string]any{"deleted": true}},
			{"DELETE /oidc/clients/" + clientID + "/users", map[string]any{"deleted": true}},
			{"GET /oidc/clients/" + clientID + "/users", []any{}},
			{"POST /oidc/keys/rotate", map[string]any{"rotated": true}},
			{"DELETE /oidc/clients/" + clientID, map[string]any{"deleted": true}},
			{"GET /oidc/clients", []any{}},
			{"GET /oidc/clients/activity", []any{}},
		} {
			if diff := cmp.Diff(step.want, f.ok(api, step.route, "")); diff != "" {
				t.Errorf("%s (as %s): %s", step.route, user, diff)
			}
		}
		catalogue := f.ok(api, "GET /oidc/scopes", "").(map[string]any)
		if len(catalogue["scopes"].([]any)) != 23 || len(catalogue["permissions"].([]any)) != 4 {
			t.Error(catalogue)
		}
	})
}

// TestAudience also checks that an audience belongs to one client of the whole installation, and
// that this API is not one that a client can register.
func TestAudience(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		api := f.api()
		with := func(audience string) string { return minimal[:len(minimal)-1] + `, "audience": ` + audience + `}` }
		want := func(status int, route, body string) any {
			t.Helper()
			got, value, _ := f.call(api, route, body)
			if got != status {
				t.Errorf("%s %s: %d %v", route, body, got, value)
			}
			return value
		}
		made := want(200, "POST /oidc/clients", with(`"https://api.example"`)).(map[string]any)["client"].(map[string]any)
		first := "/oidc/clients/" + made["id"].(string)
		for _, body := range []any{
			made, want(200, "GET "+first, ""), want(200, "GET /oidc/clients", "").([]any)[0],
			want(200, "PUT "+first, `{"name": "Other"}`).(map[string]any)["client"],
		} {
			if body.(map[string]any)["audience"] != "https://api.example" {
				t.Error(body)
			}
		}
		mine := f.caller
		f.caller = f.member(id.New(id.Org), auth.Owner)
		want(409, "POST /oidc/clients", with(`"https://api.example"`))
		want(409, "POST /oidc/clients", with(`"https://steward.example"`))
		want(409, "POST /oidc/clients", with(`"https://steward.example/"`))
		none := want(200, "POST /oidc/clients", with(`null`)).(map[string]any)["client"].(map[string]any)
		second := "/oidc/clients/" + none["id"].(string)
		if _, shown := none["audience"]; shown {
			t.Error(none)
		}
		want(409, "PUT "+second, `{"audience": "https://api.example"}`)
		want(409, "PUT "+second, `{"audience": "https://steward.example"}`)
		want(422, "PUT "+second, `{"audience": "api"}`)
		want(422, "PUT "+second, `{"audience": "https://b.example", "client_type": "public"}`)
		want(200, "PUT "+second, `{"client_type": "public"}`)
		want(422, "PUT "+second, `{"audience": "https://b.example"}`)
		want(200, "PUT "+second, `{"audience": "https://b.example", "client_type": "confidential"}`)
		want(422, "PUT "+second, `{"client_type": "public"}`)
		want(200, "PUT "+second, `{"audience": null, "client_type": "public"}`)
		f.caller = mine
		want(200, "PUT "+first, `{"audience": "https://b.example"}`) // free again
		want(200, "DELETE "+first, "")
		want(200, "POST /oidc/clients", with(`"https://b.example"`))
		for audience, kind := range map[string]errs.Kind{"https://b.example": "", "https://api.example": errs.NotFound} {
			_, err := f.Audience(f.ctx, audience)
			wantKind(t, err, kind)
		}
	})
}

func TestLifetimesAreWholeNumbersInAnyNotation(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite))
	api := f.api()
	client := "/oidc/clients/" + f.client(Settings{}).Client.ID
	for _, c := range []struct {
		text   string
		status int
		want   any
	}{
		{"3600", 200, 3600.0},
		{"3600.0", 200, 3600.0},
		{"3.6e3", 200, 3600.0},
		{"null", 200, nil},
		{"3600.5", 422, nil},
		{"1e300", 422, nil},
		{"-1e300", 422, nil},
		{`"3600"`, 422, nil},
	} {
		for _, field := range []string{
			"access_token_lifetime_seconds", "refresh_token_lifetime_seconds", "id_token_lifetime_seconds",
		} {
			body := `{"` + field + `": ` + c.text + `}`
			status, value, _ := f.call(api, "PUT "+client, body)
			if status != c.status {
				t.Errorf("%s: %d %v", body, status, value)
			}
			if status == 200 && value.(map[string]any)["client"].(map[string]any)[field] != c.want {
				t.Errorf("%s: %v", body, value)
			}
			created := strings.Replace(body, "{", minimal[:len(minimal)-1]+", ", 1)
			if status, value, _ := f.call(api, "POST /oidc/clients", created); status != c.status {
				t.Errorf("%s: %d %v", created, status, value)
			}
		}
	}
}

func TestErrorResponses(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite))
	api := f.api()
	public := f.client(Settings{ClientType: some(Public)}).Client.ID
	unknown := id.New(id.Client)
	for _, c := range []struct {
		route, body string
		status      int
		detail      string
	}{
		{"POST /oidc/clients", ``, 400, "this request needs a JSON body"},
		{"POST /oidc/clients", `{}`, 422, ""},
		{"POST /oidc/clients", `{"name": 1, "description": [], "homepage_url": null}`, 422, ""},
		{"POST /oidc/clients", strings.Replace(minimal, "https", "gopher", 1), 422, ""},
		{"POST /oidc/clients", minimal[:len(minimal)-1] + `, "redirect_uris": "https://a.example"}`, 422, ""},
		{"PUT /oidc/clients/" + public, `{"grant_types": ["client_credentials"]}`, 422, ""},
		{"PUT /oidc/clients/" + public, `{"name": null}`, 422, ""},
		{
			"POST /oidc/clients/" + public + "/rotate-secret", ``, 422,
			"a public client has no secret; make it confidential first",
		},
		{"GET /oidc/clients/" + unknown, ``, 404, "OAuth client " + unknown + " not found"},
		{"PUT /oidc/clients/" + unknown, `{}`, 404, "OAuth client " + unknown + " not found"},
		{"DELETE /oidc/clients/" + unknown, ``, 404, "OAuth client " + unknown + " not found"},
		{"GET /oidc/clients/" + unknown + "/activity", ``, 404, "OAuth client " + unknown + " not found"},
		{"GET /oidc/clients/" + unknown + "/users", ``, 404, "OAuth client " + unknown + " not found"},
		{"DELETE /oidc/clients/" + unknown + "/users", ``, 404, "OAuth client " + unknown + " not found"},
		{"DELETE /oidc/clients/" + unknown + "/users/u", ``, 404, "OAuth client " + unknown + " not found"},
		{"POST /oidc/clients/" + unknown + "/rotate-secret", ``, 404, "OAuth client " + unknown + " not found"},
		{"DELETE /oidc/clients/" + public + "/users/u", ``, 404, "user u not found"},
		{"DELETE /oidc/user/consent/" + unknown, ``, 404, "consent for client " + unknown + " not found"},
		{"GET /oidc/clients/" + public + "/activity?days=0", ``, 422, ""},
		{"GET /oidc/clients/activity?days=3651", ``, 422, ""},
		{"GET /oidc/clients/activity?days=many", ``, 422, ""},
	} {
		status, value, _ := f.call(api, c.route, c.body)
		problem, _ := value.(map[string]any)
		if status != c.status || c.detail != "" && problem["detail"] != c.detail {
			t.Errorf("%s %s: %d %v", c.route, c.body, status, value)
		}
	}
}

func TestUpdateAndDeleteHonourIfMatch(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite))
	api := f.api()
	path := " /oidc/clients/" + f.client(Settings{}).Client.ID
	_, _, h := f.call(api, "GET"+path, "")
	tag := h.Get("ETag")
	status, _, h := f.call(api, "PUT"+path, `{"name": "b"}`, "If-Match", tag)
	if status != 200 || h.Get("ETag") == tag || h.Get("ETag") == "" {
		t.Error(status, h)
	}
	if status, _, _ := f.call(api, "PUT"+path, `{"name": "c"}`, "If-Match", tag); status != 412 {
		t.Error(status)
	}
	if status, _, _ := f.call(api, "DELETE"+path, "", "If-Match", tag); status != 412 {
		t.Error(status)
	}
	f.ok(api, "DELETE"+path, "", "If-Match", h.Get("ETag"))
}

// TestRepeatedRequestsWithAnIdempotencyKey checks that a repeated request creates one client and
// returns its secret again.
func TestRepeatedRequestsWithAnIdempotencyKey(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		api := f.api()
		first := f.ok(api, "POST /oidc/clients", minimal, "Idempotency-Key", "once")
		again := f.ok(api, "POST /oidc/clients", minimal, "Idempotency-Key", "once")
		if diff := cmp.Diff(first, again); diff != "" || f.rows("oidc_clients") != 1 {
			t.Error(diff, f.rows("oidc_clients"))
		}
		f.ok(api, "POST /oidc/keys/rotate", "", "Idempotency-Key", "twice")
		value := f.ok(api, "POST /oidc/keys/rotate", "", "Idempotency-Key", "twice").(map[string]any)
		if value["rotated"] != true {
			t.Error(value)
		}
		if f.rows("oidc_keys") != 8 {
			t.Error(f.rows("oidc_keys"), "keys after one rotation")
		}
	})
}
