package e2e

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"steward/e2e/installation"
	"steward/e2e/sink"
	"steward/internal/waittest"
)

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

func getReceipt(s *installation.Steward, h installation.Hook, id string) (r receipt) {
	s.T.Helper()
	s.Call("GET", "/webhook/receipt-get/"+h.ID+"/"+id, nil).Want(200).Decode(&r)
	return r
}

// listReceipts returns the first page of a webhook's receipts.
func listReceipts(s *installation.Steward, h installation.Hook) (all []receipt) {
	s.T.Helper()
	s.Call("GET", "/webhook/receipt-list/"+h.ID, nil).Want(200).Decode(&all)
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

// listDeliveries returns the first page of a webhook's deliveries, newest first.
func listDeliveries(s *installation.Steward, h installation.Hook, query string) (all []delivery) {
	s.T.Helper()
	s.Call("GET", "/webhook/delivery-list/"+h.ID+"?"+query, nil).Want(200).Decode(&all)
	return all
}

// firstAttempt waits until the first attempt at a destination has ended. It returns all attempts,
// oldest first.
func firstAttempt(s *installation.Steward, h installation.Hook, destinationID string) (chain []delivery) {
	s.T.Helper()
	waittest.True(s.T, "the end of the first attempt", func() bool {
		chain = listDeliveries(s, h, "destinationId="+destinationID)
		slices.Reverse(chain)
		return len(chain) > 0 && chain[0].Status != "pending"
	})
	return chain
}

// waitStatus waits until a delivery has ended, and fails the test unless it has that status then.
func waitStatus(s *installation.Steward, h installation.Hook, deliveryID, status string) {
	s.T.Helper()
	waittest.True(s.T, "the end of "+deliveryID, func() bool {
		all := listDeliveries(s, h, "")
		d := all[slices.IndexFunc(all, func(d delivery) bool { return d.ID == deliveryID })]
		if d.Status != "pending" && d.Status != status {
			s.T.Fatalf("%s is %s, want %s: %s", deliveryID, d.Status, status, d.failure())
		}
		return d.Status == status
	})
}

// waitEnded waits until no delivery of these webhooks is pending.
func waitEnded(s *installation.Steward, hooks map[string]installation.Hook) {
	s.T.Helper()
	waittest.Until(s.T, "the end of every delivery", func() (pending int, done bool) {
		for _, h := range hooks {
			total := s.Total("/webhook/delivery-list/" + h.ID + "?status=pending")
			n, err := strconv.Atoi(cmp.Or(total, "10001")) // left out above 10,000
			s.Must(err)
			pending += n
		}
		return pending, pending == 0
	})
}

func retryDelivery(s *installation.Steward, h installation.Hook, deliveryID string, body any) *installation.Response {
	s.T.Helper()
	return s.Call("POST", "/webhook/delivery-retry/"+h.ID+"/"+deliveryID, body)
}

func TestDeletedWebhookIsGoneAndOthersStay(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		k, h, other := sink.New(t), s.NewHook("orders"), s.NewHook("others")
		k.Status("/broken", 500, "Retry-After", "3600")
		id, _ := s.NewDestination(h, k.URL+"/broken")
		kept, _ := s.NewDestination(other, k.URL+"/kept")
		receiptID := s.Ingest(h, "x")
		s.Ingest(other, "y")
		failed := firstAttempt(s, h, id)[0]
		firstAttempt(s, other, kept)
		s.Call("DELETE", "/webhook/destination-delete/"+other.ID+"/"+id, nil).Want(404) // of h
		s.Call("DELETE", "/webhook/delete/"+h.ID, nil).Want(204)
		for _, path := range []string{
			"get/" + h.ID, "destination-list/" + h.ID, "receipt-list/" + h.ID, "delivery-list/" + h.ID,
			"receipt-get/" + h.ID + "/" + receiptID, "receipt-payload/" + h.ID + "/" + receiptID,
		} {
			s.Call("GET", "/webhook/"+path, nil).Want(404)
		}
		retryDelivery(s, h, failed.ID, nil).Want(404)
		s.Call("DELETE", "/webhook/delete/"+h.ID, nil).Want(404)
		checkNotFound(s, h.Path)
		if ids := s.Call("GET", "/webhook/list", nil).IDs(); ids != other.ID {
			t.Errorf("the list has %s, want %s", ids, other.ID)
		}
		if len(listReceipts(s, other)) != 1 || len(listDeliveries(s, other, "")) != 1 {
			t.Error("the other webhook has lost its receipt or delivery")
		}
		if got := getTotals(s, ""); got != (totals{2, 1, 1}) {
			t.Errorf("totals %+v: those of the deleted webhook must stay", got)
		}
	})
}

func TestWebhooksOfOrganizationsAreIsolated(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		other := s.SecondOrganization()
		k, h := sink.New(t), s.NewHook("orders")
		k.Status("/broken", 500)
		id, _ := s.NewDestination(h, k.URL+"/broken")
		receiptID := s.Ingest(h, "x")
		failed := firstAttempt(s, h, id)[0]
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
			if r := other.Call(method, "/webhook/"+path, body); r.Status != 404 {
				t.Errorf("%s: %d %s", route, r.Status, r.Body)
			}
		}
		own := other.NewHook("own")
		other.Ingest(own, "y")
		// Nor are they reached through a webhook of its own.
		other.Call("GET", "/webhook/receipt-get/"+own.ID+"/"+receiptID, nil).Want(404)
		other.Call("GET", "/webhook/receipt-payload/"+own.ID+"/"+receiptID, nil).Want(404)
		retryDelivery(other, own, failed.ID, nil).Want(404)
		if got := listDeliveries(other, own, "destinationId="+id); len(got) != 0 {
			t.Errorf("the destination of another organization selects %+v", got)
		}
		for caller, want := range map[*installation.Steward]installation.Hook{s: h, other: own} {
			if ids := caller.Call("GET", "/webhook/list", nil).IDs(); ids != want.ID {
				t.Errorf("the list has %s, want %s", ids, want.ID)
			}
			if got := getTotals(caller, ""); got.Received != 1 {
				t.Errorf("totals %+v", got)
			}
		}
	})
}

func TestSystemWebhookTakesDestinationsOnly(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		made := s.Call("POST", "/webhook/create", object{"name": "system", "internal": true}).Want(201)
		h := installation.Hook{ID: made.Text("id")}
		if made.Get("internal") != true {
			t.Errorf("created %s", made.Body)
		}
		s.Call("PUT", "/webhook/update/"+h.ID, object{"name": "mine"}).Want(403)
		s.Call("DELETE", "/webhook/delete/"+h.ID, nil).Want(403)
		id, _ := s.NewDestination(h, "http://127.0.0.1:9/")
		s.Call("DELETE", "/webhook/destination-delete/"+h.ID+"/"+id, nil).Want(204)
	})
}
