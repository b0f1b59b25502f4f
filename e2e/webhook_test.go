package e2e

import (
	"strings"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/sink"
)

func TestDeletedWebhookIsGoneAndOthersStay(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		k, h, other := sink.New(t), s.NewHook("orders"), s.NewHook("others")
		k.Status("/broken", 500, "Retry-After", "3600")
		id, _ := s.NewDestination(h, k.URL+"/broken")
		kept, _ := s.NewDestination(other, k.URL+"/kept")
		receiptID := s.Ingest(h, "x")
		s.Ingest(other, "y")
		failed := s.FirstAttempt(h, id)[0]
		s.FirstAttempt(other, kept)
		s.Call("DELETE", "/webhook/destination-delete/"+other.ID+"/"+id, nil).Want(404) // of h
		s.Call("DELETE", "/webhook/delete/"+h.ID, nil).Want(204)
		for _, path := range []string{
			"get/" + h.ID, "destination-list/" + h.ID, "receipt-list/" + h.ID, "delivery-list/" + h.ID,
			"receipt-get/" + h.ID + "/" + receiptID, "receipt-payload/" + h.ID + "/" + receiptID,
		} {
			s.Call("GET", "/webhook/"+path, nil).Want(404)
		}
		s.RetryDelivery(h, failed.ID, nil).Want(404)
		s.Call("DELETE", "/webhook/delete/"+h.ID, nil).Want(404)
		checkNotFound(s, h.Path)
		if ids := s.Call("GET", "/webhook/list", nil).IDs(); ids != other.ID {
			t.Errorf("the list has %s, want %s", ids, other.ID)
		}
		if len(s.ListReceipts(other)) != 1 || len(s.ListDeliveries(other, "")) != 1 {
			t.Error("the other webhook has lost its receipt or delivery")
		}
		if got := s.WebhookTotals(""); got != (installation.WebhookTotals{Received: 2, Delivered: 1, Failed: 1}) {
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
		failed := s.FirstAttempt(h, id)[0]
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
		other.RetryDelivery(own, failed.ID, nil).Want(404)
		if got := other.ListDeliveries(own, "destinationId="+id); len(got) != 0 {
			t.Errorf("the destination of another organization selects %+v", got)
		}
		for caller, want := range map[*installation.Steward]installation.Hook{s: h, other: own} {
			if ids := caller.Call("GET", "/webhook/list", nil).IDs(); ids != want.ID {
				t.Errorf("the list has %s, want %s", ids, want.ID)
			}
			if got := caller.WebhookTotals(""); got.Received != 1 {
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
