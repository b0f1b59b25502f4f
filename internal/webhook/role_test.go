package webhook

import (
	"encoding/json"
	"strings"
	"testing"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
)

// withRole returns a caller of the first organization.
func withRole(role auth.Role) *auth.Caller {
	return &auth.Caller{OrgID: "org_a", UserID: "usr_" + string(role), Role: role, KeyID: "key_" + string(role)}
}

func TestOnlyManagersCreateInternalWebhooks(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		for _, role := range []auth.Role{auth.Owner, auth.Admin} {
			w, err := h.http.Create(as(withRole(role)), &createIn{NewWebhook{Name: "sys", Internal: true}})
			must(t, err)
			if !w.Internal {
				t.Errorf("%s got %+v", role, w)
			}
		}
		_, err := h.http.Create(as(withRole(auth.Member)), &createIn{NewWebhook{Name: "sys", Internal: true}})
		mustBe(t, err, errs.Forbidden)
		if !strings.Contains(err.Error(), "owner or admin") {
			t.Errorf("the error does not name the role: %v", err)
		}
		_, err = h.http.Create(as(withRole(auth.Member)), &createIn{NewWebhook{Name: "own"}})
		must(t, err)
	})
}

// TestViewersDoNotSeeHeaderValues: other roles do, and deliveries are sent with the stored values.
func TestViewersDoNotSeeHeaderValues(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		for _, text := range []string{
			`{"url": "http://a.test", "headers": {"Authorization": "Bearer hidden", "X-Key": "hidden too"}, "color": {"big": 12345678901234567890}}`,
			`{"url": "http://b.test"}`,
			`{"headers": {"X-Key": "hidden"}, "url": "http://c.test", "headers": null}`,
			`{"headers": {"X-Key": "hidden"}, "url": "http://d.test", "headers": {"X-Key": "hidden", "X-Key": "hidden"}}`,
		} {
			h.destination(alice, w.ID, text)
		}
		list := func(c *auth.Caller) string {
			t.Helper()
			all, err := h.http.Destinations(as(c), &Path{w.ID})
			must(t, err)
			text, err := json.Marshal(all)
			must(t, err)
			return string(text)
		}
		token := &auth.Caller{OrgID: "org_a", UserID: "usr_v", Role: auth.Viewer, ClientID: "oac_x", Scopes: []string{"webhook:read"}}
		for _, viewer := range []*auth.Caller{withRole(auth.Viewer), token} {
			got := list(viewer)
			for _, want := range []string{
				`"headers":{"Authorization":"***","X-Key":"***"}`, `"color":{"big":12345678901234567890}`,
				`"config":{"url":"http://b.test"}`, `"config":{"headers":null,"url":"http://c.test"}`,
			} {
				if !strings.Contains(got, want) {
					t.Errorf("a viewer does not get %s: %s", want, got)
				}
			}
			if strings.Contains(got, "hidden") {
				t.Errorf("a viewer sees values: %s", got)
			}
		}
		for _, role := range []auth.Role{auth.Owner, auth.Admin, auth.Member} {
			if got := list(withRole(role)); !strings.Contains(got, "Bearer hidden") || strings.Contains(got, "***") {
				t.Errorf("%s gets %s", role, got)
			}
		}
	})
}
