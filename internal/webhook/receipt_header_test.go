package webhook

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
)

// credentials are headers that viewers do not see the values of, and others are the rest.
var (
	credentials = []string{
		"Authorization", "Cookie", "Proxy-Authorization", "X-Api-Key", "X-Auth-Token", "Client-Secret", "X-Hub-Signature", "Webhook-Signature",
	}
	others = []string{"User-Agent", "X-Key-Id", "Key", "X-Apikey", "X-Hub-Signature-256", "Authorization-Info"}
)

// postCredentials sends an event with headers whose values contain "hidden" and "shown", and returns the
// id of its receipt.
func (h *fixture) postCredentials(path string) string {
	h.t.Helper()
	r := httptest.NewRequest("POST", path, strings.NewReader(`{"n": 1}`))
	for _, name := range credentials {
		r.Header.Set(name, "hidden")
	}
	for _, name := range others {
		r.Header.Set(name, "shown")
	}
	rec := h.request(r)
	var got struct{ ID string }
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != 200 {
		h.t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	return got.ID
}

// shownReceipts returns a receipt as a caller gets it: in lists and alone, on both faces.
func (h *fixture) shownReceipts(c *auth.Caller, webhookID, receiptID string) map[string]string {
	h.t.Helper()
	one, err := h.http.Receipt(as(c), &ReceiptPath{Path{webhookID}, receiptID})
	must(h.t, err)
	list, err := h.http.Receipts(as(c), &ReceiptsRequest{Path: Path{webhookID}, Paging: page.Paging{Limit: 10}})
	must(h.t, err)
	found, err := h.http.Receipts(as(c), &ReceiptsRequest{
		Path: Path{webhookID}, Paging: page.Paging{Limit: 10}, ReceiptFilter: ReceiptFilter{Search: `"n"`},
	})
	must(h.t, err)
	shown := map[string]string{"export": h.export(c, webhookID, ReceiptFilter{})}
	for name, value := range map[string]any{"get": one, "sdk get": one.SDK(), "list": list.Items, "search": found.Items, "sdk list": list.SDK().(page.Page[Receipt]).Items} {
		text, err := json.Marshal(value)
		must(h.t, err)
		shown[name] = string(text)
	}
	return shown
}

func TestViewersDoNotSeeCredentialsOfReceipts(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, path := h.webhook(alice)
		receiptID := h.postCredentials(path)
		token := &auth.Caller{OrgID: "org_a", UserID: "usr_v", Role: auth.Viewer, ClientID: "oac_x", Scopes: []string{"webhook:read"}}
		for _, viewer := range []*auth.Caller{withRole(auth.Viewer), token} {
			for form, text := range h.shownReceipts(viewer, w.ID, receiptID) {
				if strings.Contains(text, "hidden") || strings.Count(text, `"***"`) != len(credentials) || strings.Count(text, `"shown"`) != len(others) {
					t.Errorf("%s: a viewer gets %s", form, text)
				}
			}
		}
		reader := &auth.Caller{OrgID: "org_a", UserID: "usr_m", Role: auth.Member, KeyID: "key_m", Scopes: []string{"webhook:read"}}
		for _, c := range []*auth.Caller{withRole(auth.Owner), withRole(auth.Admin), withRole(auth.Member), reader} {
			for form, text := range h.shownReceipts(c, w.ID, receiptID) {
				if strings.Contains(text, "***") || strings.Count(text, `"hidden"`) != len(credentials) {
					t.Errorf("%s: %s gets %s", form, c.Role, text)
				}
			}
		}
		_, err := h.http.Receipt(as(bob), &ReceiptPath{Path{w.ID}, receiptID})
		mustBe(t, err, errs.NotFound)
	})
}

// TestMaskedReceiptHasItsOwnETag: whoever may see more after a change of role must not get a 304.
func TestMaskedReceiptHasItsOwnETag(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, path := h.webhook(alice)
		in := &ReceiptPath{Path{w.ID}, h.postCredentials(path)}
		masked, err := h.http.Receipt(as(withRole(auth.Viewer)), in)
		must(t, err)
		whole, err := h.http.Receipt(as(alice), in)
		must(t, err)
		if masked.ETag() == whole.ETag() {
			t.Errorf("both have the ETag %s", whole.ETag())
		}
	})
}

// storedHeaders returns the column of a receipt.
func (h *fixture) storedHeaders(webhookID, receiptID string) (text string) {
	h.t.Helper()
	must(h.t, h.db.Read(h.t.Context()).Row(`SELECT headers FROM webhook_receipts WHERE key = $1`, rowKey(webhookID, receiptID)).Scan(&text))
	return text
}

func (h *fixture) exec(query string, args ...any) {
	h.t.Helper()
	must(h.t, h.db.Write(h.t.Context(), func(tx *db.Tx) error {
		n, err := tx.Exec(query, args...)
		if n == 0 {
			h.t.Errorf("no row: %s", query)
		}
		return err
	}))
}

// TestHeadersAreSealedAtRest also delivers them, and those of the system's own events.
func TestHeadersAreSealedAtRest(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		h.run()
		k := newSink(t, answer(200))
		w, path := h.webhook(alice)
		h.destination(alice, w.ID, `{"url": "`+k.URL+`"}`)
		receiptID := h.postCredentials(path)
		stored := h.storedHeaders(w.ID, receiptID)
		if strings.Contains(stored, "hidden") || strings.Contains(strings.ToLower(stored), "x-api-key") {
			t.Errorf("stored as %s", stored)
		}
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			return h.store.AcceptEventsTx(tx, "org_a", w.ID, [][]byte{[]byte(`{"event": 1}`), []byte(`{"event": 2}`)})
		}))
		h.waitFor(alice, w, Filter{Status: Success}, 3)
		k.mu.Lock()
		defer k.mu.Unlock()
		for i, r := range k.requests {
			if want := map[bool]string{true: "hidden"}[k.bodies[i] == `{"n": 1}`]; r.Header.Get("X-Api-Key") != want {
				t.Errorf("%s was sent with the key %q", k.bodies[i], r.Header.Get("X-Api-Key"))
			}
		}
	})
}

// TestHeadersOfEarlierVersionsStayReadable has a row in which they are not sealed.
func TestHeadersOfEarlierVersionsStayReadable(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, path := h.webhook(alice)
		receiptID := h.postCredentials(path)
		h.exec(`UPDATE webhook_receipts SET headers = $1`, `{"authorization":"hidden","x-old":"plain"}`)
		for form, text := range h.shownReceipts(alice, w.ID, receiptID) {
			if !strings.Contains(text, `"authorization":"hidden","x-old":"plain"`) {
				t.Errorf("%s: %s", form, text)
			}
		}
		for form, text := range h.shownReceipts(withRole(auth.Viewer), w.ID, receiptID) {
			if !strings.Contains(text, `"authorization":"***","x-old":"plain"`) {
				t.Errorf("%s: a viewer gets %s", form, text)
			}
		}
		k := newSink(t, answer(200))
		h.destination(alice, w.ID, `{"url": "`+k.URL+`"}`)
		h.accept(w, alice, "old")
		h.run()
		h.waitFor(alice, w, Filter{Status: Success}, 1)
	})
}

// TestHeadersOfAnotherWebhookDoNotOpen moves the headers of one organization to a receipt of another one.
func TestHeadersOfAnotherWebhookDoNotOpen(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		from, fromPath := h.webhook(alice)
		to, toPath := h.webhook(bob)
		stored := h.storedHeaders(from.ID, h.postCredentials(fromPath))
		receiptID := h.postCredentials(toPath)
		k := newSink(t, answer(200))
		h.destination(bob, to.ID, `{"url": "`+k.URL+`"}`)
		h.accept(to, bob, "moved")
		h.exec(`UPDATE webhook_receipts SET headers = $1 WHERE substr(key, 1, 26) = $2`, stored, bare(to.ID))
		if _, err := h.http.Receipt(as(bob), &ReceiptPath{Path{to.ID}, receiptID}); err == nil {
			t.Error("the receipt is shown with the headers of another webhook")
		}
		list, err := h.http.Receipts(as(bob), &ReceiptsRequest{Path: Path{to.ID}, Paging: page.Paging{Limit: 10}})
		must(t, err) // one damaged row does not hide the others
		text, err := json.Marshal(list.Items)
		must(t, err)
		if len(list.Items) != 2 || strings.Contains(string(text), "hidden") {
			t.Errorf("%s", text)
		}
		h.run()
		h.waitFor(bob, to, Filter{Status: Failed}, 1)
		if got := k.got(); len(got) != 0 {
			t.Errorf("%v was delivered", got)
		}
	})
}
