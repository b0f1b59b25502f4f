package webhook

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
)

// entries returns the actions and targets of the audit entries that a webhook received, oldest first.
func (h *fixture) entries(w Webhook) (all []string) {
	h.t.Helper()
	for _, r := range h.receipts(w) {
		var event auditEvent
		must(h.t, json.Unmarshal(r.Payload, &event))
		if event.Type != "audit."+event.Data.Action || event.Timestamp != event.Data.At || event.Data.ID == "" || event.Data.UserID == nil {
			h.t.Errorf("%s", r.Payload)
		}
		all = append(all, event.Data.Action+" "+event.Data.Target)
	}
	slices.Reverse(all)
	return all
}

func TestAuditEntriesAreEvents(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		h.store.Audit.Recorded = h.store.AcceptAuditTx
		owner := withRole(auth.Owner)
		siem, err := h.http.Create(as(owner), &createIn{NewWebhook{Name: "siem", Events: AuditEvents}})
		must(t, err)
		if !siem.Internal || siem.URL != "" || string(siem.Metadata) != auditMetadata {
			t.Errorf("%+v", siem)
		}
		if got := h.entries(siem); len(got) != 0 {
			t.Errorf("without a destination: %v", got)
		}
		to := h.destination(owner, siem.ID, `{"url":"http://127.0.0.1:9/"}`)
		orders, _ := h.webhook(owner)
		h.webhook(bob) // of another organization
		lost := errors.New("rolled back")
		err = h.store.DB.Write(as(owner), func(tx *db.Tx) error {
			if err := h.store.Audit.Record(tx, "webhook.update", orders.ID); err != nil {
				return err
			}
			return lost
		})
		if !errors.Is(err, lost) {
			t.Error(err)
		}
		want := []string{"webhook.destination-create " + to.ID, "webhook.create " + orders.ID}
		if got := h.entries(siem); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if got := h.deliveries(owner, siem.ID, Filter{}); len(got) != 2 {
			t.Errorf("%d deliveries", len(got))
		}
		_, _, err = h.store.Rotate(as(owner), "org_a", siem.ID, page.IfMatch{})
		mustBe(t, err, errs.Forbidden)
		for name, caller := range map[string]*auth.Caller{
			"member": withRole(auth.Member), "without the scope": {OrgID: "org_a", UserID: "usr_o", Role: auth.Owner, Scopes: []string{"webhook:write"}},
		} {
			_, creating := h.http.Create(as(caller), &createIn{NewWebhook{Name: "siem", Events: AuditEvents}})
			_, updating := h.update(caller, siem.ID, Patch{Name: page.Some("b")}, "")
			other, err := NewDestination{Type: "url", Config: config(t, `{"url":"http://127.0.0.1:9/"}`)}.build(h.store.Now())
			must(t, err)
			_, adding := h.store.CreateDestination(as(caller), caller, siem.ID, other)
			_, diverting := h.store.UpdateDestination(as(caller), DestinationRef{"org_a", siem.ID, to.ID}, &other.Config, page.IfMatch{})
			for what, err := range map[string]error{
				"create": creating, "update": updating, "add a destination": adding, "divert": diverting,
				"delete": h.store.Delete(as(caller), "org_a", siem.ID, page.IfMatch{}),
			} {
				if errs.KindOf(err) != errs.Forbidden {
					t.Errorf("%s: %s: %v", name, what, err)
				}
			}
		}
		for range maxAudit - 1 {
			_, err := h.http.Create(as(owner), &createIn{NewWebhook{Name: "more", Events: AuditEvents}})
			must(t, err)
		}
		_, err = h.http.Create(as(owner), &createIn{NewWebhook{Name: "more", Events: AuditEvents}})
		mustBe(t, err, errs.Conflict)
		must(t, h.store.Delete(as(owner), "org_a", siem.ID, page.IfMatch{}))
	})
}
