package webhook

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/period"
	"steward/internal/webhook/stats"
	"steward/internal/webhook/webhooktest"
)

type createIn = struct{ Body NewWebhook }

func (h *fixture) get(c *auth.Caller, webhookID string) (Webhook, error) {
	return h.http.Get(as(c), &Path{webhookID})
}

func (h *fixture) update(c *auth.Caller, webhookID string, p Patch, match string) (Webhook, error) {
	return h.store.Update(as(c), c.OrgID, webhookID, p, page.IfMatch{IfMatch: match})
}

func TestWebhookLife(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, path := h.webhook(alice)
		if !strings.HasPrefix(path, "/in/"+w.ID+"/") || len(path) != len("/in/"+w.ID+"/")+tokenSize {
			t.Errorf("ingest path %q", path)
		}
		got, err := h.get(alice, w.ID)
		must(t, err)
		if got.URL != "" || got.CreatedBy != "usr_alice" || got.Name != "orders" || got.Description != nil ||
			string(got.Metadata) != "null" {
			t.Errorf("got %+v", got)
		}
		text := "all orders"
		up, err := h.update(alice, w.ID, Patch{Description: page.Some(text)}, got.ETag())
		must(t, err)
		if up.Name != "orders" || *up.Description != text || up.ETag() == got.ETag() {
			t.Errorf("updated %+v", up)
		}
		_, err = h.update(alice, w.ID, Patch{Name: page.Some("x")}, got.ETag())
		mustBe(t, err, errs.PreconditionFailed)
		up, err = h.update(alice, w.ID, Patch{Name: page.Some("x"), Description: page.Opt[string]{Sent: true, Null: true}}, "")
		must(t, err)
		if up.Name != "x" || up.Description != nil {
			t.Errorf("updated %+v", up)
		}
		for _, p := range []Patch{
			{Name: page.Some(" ")},
			{Name: page.Some(strings.Repeat("x", 257))},
			{Description: page.Some(strings.Repeat("x", 1025))},
			{Retention: page.Some(int64(1))},
		} {
			_, err := h.update(alice, w.ID, p, "")
			mustBe(t, err, errs.Invalid)
		}
		must(t, h.store.Delete(as(alice), "org_a", w.ID, page.IfMatch{}))
		_, err = h.get(alice, w.ID)
		mustBe(t, err, errs.NotFound)
		mustBe(t, h.store.Delete(as(alice), "org_a", w.ID, page.IfMatch{}), errs.NotFound)
		want := []string{"webhook.create", "webhook.update", "webhook.update", "webhook.delete"}
		if diff := cmp.Diff(want, h.audit.Read("action")); diff != "" {
			t.Errorf("audit -want +got:\n%s", diff)
		}
	})
}

func TestWebhookList(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		var ids []string
		for range 5 {
			w, _ := h.webhook(alice)
			ids = append([]string{w.ID}, ids...)
		}
		h.webhook(bob)
		var seen []string
		p := page.Paging{Limit: 2}
		for {
			result, err := h.http.List(as(alice), &ListRequest{Paging: p})
			must(t, err)
			if result.Total != 5 {
				t.Errorf("total %d", result.Total)
			}
			for _, w := range result.Items {
				seen = append(seen, w.ID)
			}
			if result.Next == "" {
				break
			}
			p.Cursor = result.Next
		}
		if diff := cmp.Diff(ids, seen); diff != "" {
			t.Errorf("by cursor -want +got:\n%s", diff)
		}
		result, err := h.http.List(as(alice), &ListRequest{Paging: page.Paging{Limit: 2, Offset: 3}})
		must(t, err)
		if len(result.Items) != 2 || result.Items[0].ID != ids[3] || result.Next != "" {
			t.Errorf("by offset %+v", result)
		}
		_, err = h.http.List(as(alice), &ListRequest{Paging: page.Paging{Limit: 2, Cursor: "!"}})
		mustBe(t, err, errs.Invalid)
	})
}

// TestWebhookListWithoutSystemWebhooks lists the webhooks of users, those of the system, and all, by cursor
// and by offset. Another organization has some of both.
func TestWebhookListWithoutSystemWebhooks(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		sizes := map[string]int{}
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			for i := range page.MaxSkipped + 10 {
				isInternal := i%4 > 0
				w, err := NewWebhook{Name: "x", Internal: isInternal}.build(h.clock.now())
				must(t, err)
				w.orgID = alice.OrgID
				if _, err := h.store.insert(tx, w); err != nil {
					return err
				}
				sizes[""]++
				sizes[fmt.Sprint(isInternal)]++
			}
			return nil
		}))
		h.webhook(bob)
		_, err := h.http.Create(as(bob), &struct{ Body NewWebhook }{NewWebhook{Name: "x", Internal: true}})
		must(t, err)
		for of, internal := range map[string]page.Opt[bool]{"": {}, "true": page.Some(true), "false": page.Some(false)} {
			h.compareOffsets("internal="+of, sizes[of], func(_ context.Context, p page.Paging) (got []string, next page.Cursor, err error) {
				result, err := h.http.List(as(alice), &ListRequest{Paging: p, Internal: internal})
				if int(result.Total) != sizes[of] {
					t.Errorf("internal=%s: the total is %d, want %d", of, result.Total, sizes[of])
				}
				for _, w := range result.Items {
					if of != "" && of != fmt.Sprint(w.Internal) {
						t.Errorf("internal=%s lists %+v", of, w)
					}
					got = append(got, w.ID)
				}
				return got, result.Next, err
			})
		}
	})
}

func TestDestinationLife(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		made := h.destination(alice, w.ID, `{"url": "https://example.com/x", "color": "red", "big": 12345678901234567890}`)
		if !strings.HasPrefix(made.Secret, secretPrefix) || made.WebhookID != w.ID || made.Config.MaxRetries != 8 ||
			made.Config.Concurrency != 10 || made.Config.TimeoutSeconds != 15 || made.Config.Disabled {
			t.Errorf("made %+v", made)
		}
		list, err := h.http.Destinations(as(alice), &Path{w.ID})
		must(t, err)
		if len(list) != 1 || list[0].Secret != "" || string(list[0].Config.raw) != string(made.Config.raw) {
			t.Errorf("list %+v", list)
		}
		secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(made.Secret, secretPrefix))
		must(t, err)
		if !bytes.Equal(list[0].signingKey, secret) {
			t.Error("the stored secret differs")
		}
		c := config(t, `{"url": "http://example.com/y", "concurrency": 1, "disabled": true}`)
		up, err := h.store.UpdateDestination(as(alice), DestinationRef{"org_a", w.ID, made.ID}, &c, page.IfMatch{IfMatch: made.ETag()})
		must(t, err)
		if !up.Config.Disabled || up.Config.Concurrency != 1 || up.Config.URL != "http://example.com/y" {
			t.Errorf("updated %+v", up)
		}
		same, err := h.store.UpdateDestination(as(alice), DestinationRef{"org_a", w.ID, made.ID}, nil, page.IfMatch{})
		must(t, err)
		if same.ETag() != up.ETag() {
			t.Error("an update without config changed something")
		}
		_, err = h.store.UpdateDestination(as(alice), DestinationRef{"org_a", w.ID, made.ID}, &c, page.IfMatch{IfMatch: made.ETag()})
		mustBe(t, err, errs.PreconditionFailed)
		_, err = h.store.UpdateDestination(as(alice), DestinationRef{"org_a", w.ID, "whds_none"}, &c, page.IfMatch{})
		mustBe(t, err, errs.NotFound)
		must(t, h.store.DeleteDestination(as(alice), DestinationRef{"org_a", w.ID, made.ID}, page.IfMatch{}))
		mustBe(t, h.store.DeleteDestination(as(alice), DestinationRef{"org_a", w.ID, made.ID}, page.IfMatch{}), errs.NotFound)
		for range maxDestinations {
			h.destination(alice, w.ID, `{"url": "http://example.com"}`)
		}
		_, err = h.store.CreateDestination(as(alice), alice, w.ID, made)
		mustBe(t, err, errs.Conflict)
	})
}

func TestConfigFaults(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"url": "http://example.com"}`:                                                                 true,
		`{"url": "https://example.com:8443/a?b=c", "headers": {"X-A": "b"}}`:                            true,
		`{"url": "http://example.com", "timeout_seconds": 60, "max_retries": 20}`:                       true,
		`{"url": "http://example.com", "timeout_seconds": null}`:                                        true,
		`{"url": "http://example.com", "timeout_seconds": 5.0, "max_retries": 2e0, "concurrency": 1e2}`: true,
		`{"url": "http://example.com:65535", "Timeout_Seconds": "of others"}`:                           true,
		`{}`:                                                                     false,
		`{"url": "ftp://example.com"}`:                                           false,
		`{"url": "http://u:p@example.com"}`:                                      false,
		`{"url": "/relative"}`:                                                   false,
		`{"url": "http://"}`:                                                     false,
		`{"URL": "http://example.com"}`:                                          false,
		`{"url": "http://example.com:0"}`:                                        false,
		`{"url": "http://example.com:65536"}`:                                    false,
		`{"url": "http://example.com", "timeout_seconds": 61}`:                   false,
		`{"url": "http://example.com", "timeout_seconds": 0}`:                    false,
		`{"url": "http://example.com", "max_retries": -1}`:                       false,
		`{"url": "http://example.com", "max_retries": 21}`:                       false,
		`{"url": "http://example.com", "concurrency": 0}`:                        false,
		`{"url": "http://example.com", "concurrency": 101}`:                      false,
		`{"url": "http://example.com", "headers": {"a b": "c"}}`:                 false,
		`{"url": "http://example.com", "headers": {"a": "c\r\nd: e"}}`:           false,
		`{"url": "http://example.com", "headers": {"host": "other"}}`:            false,
		`{"url": "http://example.com", "headers": {"Host": "other"}}`:            false,
		`{"url": "http://example.com", "headers": {"x-\u212a": "not a k"}}`:      false,
		`{"url": "http://example.com", "headers": {"webhook-signature": "v1,"}}`: false,
	} {
		if err := config(t, text).check(); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, name := range []string{"url", "http", "webhook"} {
		d, err := NewDestination{Type: name, Config: config(t, `{"url": "http://example.com"}`)}.build(newClock())
		if err != nil || d.Type != name {
			t.Errorf("%s becomes %s, %v", name, d.Type, err)
		}
	}
	_, err := NewDestination{Type: "carrier pigeon", Config: config(t, `{"url": "x", "concurrency": 0}`)}.build(newClock())
	var invalid *errs.Error
	if !errors.As(err, &invalid) || len(invalid.Faults) != 3 {
		t.Errorf("not all faults at once: %v", err)
	}
}

var errRolledBack = errors.New("rolled back")

func TestInternalWebhooks(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		byUser, err := h.http.Create(as(alice), &createIn{NewWebhook{Name: "sys", Internal: true}})
		must(t, err)
		var hookID string
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			hookID, err = h.store.CreateInternalTx(tx, Creator{"org_a", "usr_alice"}, "bucket", map[string]string{"type": "s3", "bucket_name": "b"})
			return err
		}))
		event := func(orgID, body string) error {
			return d.Write(t.Context(), func(tx *db.Tx) error {
				return h.store.AcceptEventsTx(tx, orgID, hookID, [][]byte{[]byte(body)})
			})
		}
		must(t, event("org_a", `{}`))
		if got := h.receipts(Webhook{ID: hookID}); len(got) != 0 {
			t.Errorf("receipts without a destination: %+v", got)
		}
		own := h.destination(alice, hookID, `{"url": "http://127.0.0.1:1"}`)
		var kept Destination
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			n := NewDestination{Type: "url", Config: config(t, `{"url": "http://127.0.0.1:2"}`), Internal: true}
			kept, err = h.store.CreateDestinationTx(tx, Creator{"org_a", "usr_alice"}, hookID, n)
			return err
		}))
		for _, id := range []string{byUser.ID, hookID} {
			_, err = h.update(alice, id, Patch{Name: page.Some("x")}, "")
			mustBe(t, err, errs.Forbidden)
			mustBe(t, h.store.Delete(as(alice), "org_a", id, page.IfMatch{}), errs.Forbidden)
			_, _, err = h.store.Rotate(as(alice), "org_a", id, page.IfMatch{})
			mustBe(t, err, errs.Forbidden)
		}
		mustBe(t, h.store.DeleteDestination(as(alice), DestinationRef{"org_a", hookID, kept.ID}, page.IfMatch{}), errs.Forbidden)
		got, err := h.get(alice, hookID)
		must(t, err)
		if !got.Internal || string(got.Metadata) != `{"bucket_name":"b","type":"s3"}` {
			t.Errorf("got %+v", got)
		}
		woken := 0
		h.store.Queue.Wake = func(destinationIDs []string) { woken += len(destinationIDs) }
		must(t, event("org_a", `{"Records": []}`))
		if woken != 2 {
			t.Errorf("the scheduler was woken for %d destinations", woken)
		}
		must(t, event("org_b", `{}`))
		// What is rolled back has not happened.
		err = d.Write(t.Context(), func(tx *db.Tx) error {
			if err := h.store.AcceptEventsTx(tx, "org_a", hookID, [][]byte{[]byte("lost")}); err != nil {
				return err
			}
			return errRolledBack
		})
		receipts := h.receipts(Webhook{ID: hookID})
		if !errors.Is(err, errRolledBack) || len(receipts) != 1 || woken != 2 {
			t.Fatalf("rolled back: %v, receipts %+v", err, receipts)
		}
		webhooktest.SumsHold(t, h.db, "org_a")
		r, err := h.store.Receipt(as(alice), "org_a", hookID, receipts[0].ID)
		must(t, err)
		if string(r.withPayload().Payload) != `{"Records":[]}` || len(h.deliveries(alice, hookID, Filter{ReceiptID: receipts[0].ID})) != 2 {
			t.Errorf("receipt %+v", r)
		}
		must(t, h.store.DeleteDestination(as(alice), DestinationRef{"org_a", hookID, own.ID}, page.IfMatch{}))
		must(t, d.Write(t.Context(), func(tx *db.Tx) error { return h.store.DeleteInternalTx(tx, "org_a", hookID) }))
		_, err = h.get(alice, hookID)
		mustBe(t, err, errs.NotFound)
		must(t, event("org_a", `{}`))
	})
}

// TestIsolation walks every route with a caller of another organization.
func TestIsolation(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		to := h.destination(alice, w.ID, `{"url": "http://127.0.0.1:1"}`)
		receiptID := h.accept(w, alice, "secret")[0]
		deliveryID := h.deliveries(alice, w.ID, Filter{})[0].ID
		ctx := as(bob)
		for name, call := range map[string]func() error{
			"get":                func() error { _, err := h.get(bob, w.ID); return err },
			"update":             func() error { _, err := h.update(bob, w.ID, Patch{}, ""); return err },
			"rotate":             func() error { _, _, err := h.store.Rotate(ctx, "org_b", w.ID, page.IfMatch{}); return err },
			"delete":             func() error { return h.store.Delete(ctx, "org_b", w.ID, page.IfMatch{}) },
			"destination-create": func() error { _, err := h.store.CreateDestination(ctx, bob, w.ID, to); return err },
			"destination-list":   func() error { _, err := h.store.Destinations(ctx, "org_b", w.ID); return err },
			"destination-update": func() error {
				_, err := h.store.UpdateDestination(ctx, DestinationRef{"org_b", w.ID, to.ID}, nil, page.IfMatch{})
				return err
			},
			"destination-delete": func() error {
				return h.store.DeleteDestination(ctx, DestinationRef{"org_b", w.ID, to.ID}, page.IfMatch{})
			},
			"receipt-list": func() error {
				_, err := h.store.Receipts(ctx, "org_b", w.ID, ReceiptFilter{}, page.Paging{Limit: 1})
				return err
			},
			"receipt-list with q": func() error {
				_, err := h.store.Receipts(ctx, "org_b", w.ID, ReceiptFilter{Search: "1"}, page.Paging{Limit: 1})
				return err
			},
			"receipt-export":    func() error { _, err := h.http.Export(ctx, &ExportRequest{Path: Path{w.ID}}); return err },
			"receipt-neighbors": func() error { _, err := h.http.Neighbors(ctx, &ReceiptPath{Path{w.ID}, receiptID}); return err },
			"receipt-get":       func() error { _, err := h.store.Receipt(ctx, "org_b", w.ID, receiptID); return err },
			"delivery-list": func() error {
				_, err := h.store.Deliveries(ctx, "org_b", w.ID, Filter{}, page.Paging{Limit: 1})
				return err
			},
			"delivery-retry": func() error { _, err := h.store.Retry(ctx, "org_b", w.ID, deliveryID); return err },
		} {
			if err := call(); errs.KindOf(err) != errs.NotFound || !strings.HasPrefix(err.Error(), "webhook "+w.ID+" not found") {
				t.Errorf("%s: %v", name, err)
			}
		}
		own, _ := h.webhook(bob)
		_, err := h.store.Receipt(ctx, "org_b", own.ID, receiptID)
		mustBe(t, err, errs.NotFound)
		_, err = h.store.Retry(ctx, "org_b", own.ID, deliveryID)
		mustBe(t, err, errs.NotFound)
		for _, webhookID := range []string{"", w.ID} {
			query := stats.Query{WebhookID: webhookID, Query: period.Query{Granularity: "hour"}}
			sums, err := h.http.Analytics(ctx, &struct{ stats.Query }{query})
			must(t, err)
			if sums.Summary != (stats.Summary{}) {
				t.Errorf("another organization's counts: %+v", sums)
			}
		}
	})
}

// TestOneOfTwoDeletionsAtOnceIsNotFound deletes destinations, and then their webhook, several times at once.
func TestOneOfTwoDeletionsAtOnceIsNotFound(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, _ := h.webhook(alice)
		once := func(what string, remove func() error) {
			t.Helper()
			const n = 8
			results := make(chan error, n)
			for range n {
				go func() { results <- remove() }()
			}
			deleted := 0
			for range n {
				err := <-results
				if err == nil {
					deleted++
				} else if errs.KindOf(err) != errs.NotFound {
					t.Errorf("%s: %v", what, err)
				}
			}
			if deleted != 1 {
				t.Errorf("%s: %d of %d deletions succeeded", what, deleted, n)
			}
		}
		for range 5 {
			to := h.destination(alice, w.ID, `{"url": "http://sink.test"}`)
			ref := DestinationRef{OrgID: alice.OrgID, WebhookID: w.ID, ID: to.ID}
			once("destination", func() error { return h.store.DeleteDestination(as(alice), ref, page.IfMatch{}) })
		}
		once("webhook", func() error { return h.store.Delete(as(alice), alice.OrgID, w.ID, page.IfMatch{}) })
	})
}

// TestURLCanBeReadAgain reads a URL after its creation, its rotation, and that by a process of an earlier version,
// which stores the hash of the new token alone.
func TestURLCanBeReadAgain(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		h := newFixture(t, d)
		w, path := h.webhook(alice)
		read := func(c *auth.Caller) (string, error) {
			got, err := h.http.URL(as(c), &Path{ID: w.ID})
			return got.URL, err
		}
		got, err := read(alice)
		must(t, err)
		if got != "http://steward.test"+path {
			t.Errorf("got %s, want %s", got, path)
		}
		rotated, token, err := h.store.Rotate(as(alice), alice.OrgID, w.ID, page.IfMatch{})
		must(t, err)
		if got, err = read(alice); err != nil || got != h.http.url(rotated.ID, token) {
			t.Errorf("after a rotation: %s %v", got, err)
		}
		_, err = read(bob)
		mustBe(t, err, errs.NotFound)
		for _, change := range []string{`token_hash = $1`, `token_hash = $1, token = NULL`} {
			_, err = d.Exec(t.Context(), `UPDATE webhooks SET `+change, []byte("1234"))
			must(t, err)
			_, err = read(alice)
			if errs.KindOf(err) != errs.NotFound || !strings.Contains(err.Error(), "rotate it") {
				t.Errorf("%s: %v", change, err)
			}
		}
		_, err = d.Exec(t.Context(), `UPDATE webhooks SET internal = $1`, true)
		must(t, err)
		_, err = read(alice)
		mustBe(t, err, errs.Forbidden)
	})
}
