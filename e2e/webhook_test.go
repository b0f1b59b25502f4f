package e2e

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"steward/internal/waittest"
)

// hook is a webhook. Its ingest path stays the same over a restart, its URL does not: the process has
// another port then.
type hook struct{ ID, URL, path string }

// hook creates a webhook.
func (s *steward) hook(name string) hook {
	s.t.Helper()
	var h hook
	s.call("POST", "/webhook/create", object{"name": name}).want(201).decode(&h)
	u, err := url.Parse(h.URL)
	s.must(err)
	h.path = u.Path
	return h
}

// destination creates a destination and returns its id and secret. Fields of its config come in pairs.
func (s *steward) destination(h hook, to string, fields ...any) (id, secret string) {
	s.t.Helper()
	config := object{"url": to}
	for i := 0; i < len(fields); i += 2 {
		config[fields[i].(string)] = fields[i+1]
	}
	made := s.call("POST", "/webhook/destination-create/"+h.ID, object{"type": "url", "config": config}).want(201)
	return made.text("id"), made.text("secret")
}

// ingest sends an event to a webhook and returns the id of its receipt.
func (s *steward) ingest(h hook, body string, headers ...string) string {
	s.t.Helper()
	r, err := s.send("POST", h.path, strings.NewReader(body), headers...)
	s.must(err)
	return r.want(200).text("id")
}

// receipt is a receipt as the API returns it.
type receipt struct {
	ID          string
	Date        time.Time
	WebhookID   string `json:"webhook_id"`
	Headers     map[string]string
	Payload     json.RawMessage
	Encoding    string `json:"payload_encoding"`
	Omitted     bool   `json:"payload_omitted"`
	Method      string
	Query       string
	RemoteAddr  string `json:"remote_addr"`
	Size        int
	ContentType string `json:"content_type"`
}

func (s *steward) receipt(h hook, id string) (r receipt) {
	s.t.Helper()
	s.call("GET", "/webhook/receipt-get/"+h.ID+"/"+id, nil).want(200).decode(&r)
	return r
}

// receipts returns the first page of a webhook's receipts.
func (s *steward) receipts(h hook) (all []receipt) {
	s.t.Helper()
	s.call("GET", "/webhook/receipt-list/"+h.ID, nil).want(200).decode(&all)
	return all
}

// delivery is a delivery as the API returns it.
type delivery struct {
	ID            string
	Date          time.Time
	WebhookID     string `json:"webhook_id"`
	DestinationID string `json:"webhook_destination_id"`
	ReceiptID     string `json:"webhook_receipt_id"`
	Status        string
	Retries       int
	Error         *string
	Response      *struct {
		Status   int
		Headers  map[string]string
		Body     string
		Duration *int64 `json:"duration_ms"`
	}
}

// failure returns the error of a delivery, or "none".
func (d delivery) failure() string {
	if d.Error == nil {
		return "none"
	}
	return *d.Error
}

// deliveries returns the first page of a webhook's deliveries, newest first.
func (s *steward) deliveries(h hook, query string) (all []delivery) {
	s.t.Helper()
	s.call("GET", "/webhook/delivery-list/"+h.ID+"?"+query, nil).want(200).decode(&all)
	return all
}

// firstAttempt waits until the first attempt at a destination has ended. It returns all attempts,
// oldest first.
func (s *steward) firstAttempt(h hook, destinationID string) (chain []delivery) {
	s.t.Helper()
	waittest.True(s.t, "the end of the first attempt", func() bool {
		chain = s.deliveries(h, "destinationId="+destinationID)
		slices.Reverse(chain)
		return len(chain) > 0 && chain[0].Status != "pending"
	})
	return chain
}

// waitStatus waits until a delivery has ended, and fails the test unless it has that status then.
func (s *steward) waitStatus(h hook, deliveryID, status string) {
	s.t.Helper()
	waittest.True(s.t, "the end of "+deliveryID, func() bool {
		all := s.deliveries(h, "")
		d := all[slices.IndexFunc(all, func(d delivery) bool { return d.ID == deliveryID })]
		if d.Status != "pending" && d.Status != status {
			s.t.Fatalf("%s is %s, want %s: %s", deliveryID, d.Status, status, d.failure())
		}
		return d.Status == status
	})
}

// waitEnded waits until no delivery of these webhooks is pending.
func (s *steward) waitEnded(hooks map[string]hook) {
	s.t.Helper()
	waittest.Until(s.t, "the end of every delivery", func() (pending int, done bool) {
		for _, h := range hooks {
			total := s.total("/webhook/delivery-list/" + h.ID + "?status=pending")
			n, err := strconv.Atoi(cmp.Or(total, "10001")) // left out above 10,000
			s.must(err)
			pending += n
		}
		return pending, pending == 0
	})
}

func (s *steward) retry(h hook, deliveryID string, body any) *response {
	s.t.Helper()
	return s.call("POST", "/webhook/delivery-retry/"+h.ID+"/"+deliveryID, body)
}

func TestDeletedWebhookIsGoneAndOthersStay(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k, h, other := newSink(t), s.hook("orders"), s.hook("others")
		k.status("/broken", 500, "Retry-After", "3600")
		id, _ := s.destination(h, k.URL+"/broken")
		kept, _ := s.destination(other, k.URL+"/kept")
		receiptID := s.ingest(h, "x")
		s.ingest(other, "y")
		failed := s.firstAttempt(h, id)[0]
		s.firstAttempt(other, kept)
		s.call("DELETE", "/webhook/destination-delete/"+other.ID+"/"+id, nil).want(404) // of h
		s.call("DELETE", "/webhook/delete/"+h.ID, nil).want(204)
		for _, path := range []string{
			"get/" + h.ID, "destination-list/" + h.ID, "receipt-list/" + h.ID, "delivery-list/" + h.ID,
			"receipt-get/" + h.ID + "/" + receiptID, "receipt-payload/" + h.ID + "/" + receiptID,
		} {
			s.call("GET", "/webhook/"+path, nil).want(404)
		}
		s.retry(h, failed.ID, nil).want(404)
		s.call("DELETE", "/webhook/delete/"+h.ID, nil).want(404)
		s.checkNotFound(h.path)
		if ids := s.call("GET", "/webhook/list", nil).ids(); ids != other.ID {
			t.Errorf("the list has %s, want %s", ids, other.ID)
		}
		if len(s.receipts(other)) != 1 || len(s.deliveries(other, "")) != 1 {
			t.Error("the other webhook has lost its receipt or delivery")
		}
		if got := s.totals(""); got != (totals{2, 1, 1}) {
			t.Errorf("totals %+v: those of the deleted webhook must stay", got)
		}
	})
}

func TestWebhooksOfOrganizationsAreIsolated(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		other := s.secondOrganization()
		k, h := newSink(t), s.hook("orders")
		k.status("/broken", 500)
		id, _ := s.destination(h, k.URL+"/broken")
		receiptID := s.ingest(h, "x")
		failed := s.firstAttempt(h, id)[0]
		config := object{"type": "url", "config": object{"url": k.URL}}
		for route, body := range map[string]any{
			"GET get/" + h.ID:                               nil,
			"PUT update/" + h.ID:                            object{"name": "mine"},
			"DELETE delete/" + h.ID:                         nil,
			"POST rotate-url/" + h.ID:                       nil,
			"POST destination-create/" + h.ID:               config,
			"GET destination-list/" + h.ID:                  nil,
			"PUT destination-update/" + h.ID + "/" + id:     config,
			"DELETE destination-delete/" + h.ID + "/" + id:  nil,
			"GET receipt-list/" + h.ID:                      nil,
			"GET receipt-get/" + h.ID + "/" + receiptID:     nil,
			"GET receipt-payload/" + h.ID + "/" + receiptID: nil,
			"GET delivery-list/" + h.ID:                     nil,
			"POST delivery-retry/" + h.ID + "/" + failed.ID: nil,
		} {
			method, path, _ := strings.Cut(route, " ")
			if r := other.call(method, "/webhook/"+path, body); r.status != 404 {
				t.Errorf("%s: %d %s", route, r.status, r.body)
			}
		}
		own := other.hook("own")
		other.ingest(own, "y")
		// Nor are they reached through a webhook of its own.
		other.call("GET", "/webhook/receipt-get/"+own.ID+"/"+receiptID, nil).want(404)
		other.call("GET", "/webhook/receipt-payload/"+own.ID+"/"+receiptID, nil).want(404)
		other.retry(own, failed.ID, nil).want(404)
		if got := other.deliveries(own, "destinationId="+id); len(got) != 0 {
			t.Errorf("the destination of another organization selects %+v", got)
		}
		for caller, want := range map[*steward]hook{s: h, other: own} {
			if ids := caller.call("GET", "/webhook/list", nil).ids(); ids != want.ID {
				t.Errorf("the list has %s, want %s", ids, want.ID)
			}
			if got := caller.totals(""); got.Received != 1 {
				t.Errorf("totals %+v", got)
			}
		}
	})
}

func TestSystemWebhookTakesDestinationsOnly(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		made := s.call("POST", "/webhook/create", object{"name": "system", "internal": true}).want(201)
		h := hook{ID: made.text("id")}
		if made.get("internal") != true {
			t.Errorf("created %s", made.body)
		}
		s.call("PUT", "/webhook/update/"+h.ID, object{"name": "mine"}).want(403)
		s.call("DELETE", "/webhook/delete/"+h.ID, nil).want(403)
		id, _ := s.destination(h, "http://127.0.0.1:9/")
		s.call("DELETE", "/webhook/destination-delete/"+h.ID+"/"+id, nil).want(204)
	})
}
