package installation

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"steward/internal/waittest"
)

// Receipt is a receipt as the API returns it.
type Receipt struct {
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

// GetReceipt returns a receipt.
func (s *Steward) GetReceipt(h Hook, id string) (r Receipt) {
	s.T.Helper()
	s.Call("GET", "/webhook/receipt-get/"+h.ID+"/"+id, nil).Want(200).Decode(&r)
	return r
}

// ListReceipts returns the first page of a webhook's receipts.
func (s *Steward) ListReceipts(h Hook) (all []Receipt) {
	s.T.Helper()
	s.Call("GET", "/webhook/receipt-list/"+h.ID, nil).Want(200).Decode(&all)
	return all
}

// Delivery is a delivery as the API returns it.
type Delivery struct {
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

// Failure returns a delivery's error, or "none".
func (d Delivery) Failure() string {
	if d.Error == nil {
		return "none"
	}
	return *d.Error
}

// ListDeliveries returns the first page of a webhook's deliveries, newest first.
func (s *Steward) ListDeliveries(h Hook, query string) (all []Delivery) {
	s.T.Helper()
	s.Call("GET", "/webhook/delivery-list/"+h.ID+"?"+query, nil).Want(200).Decode(&all)
	return all
}

// FirstAttempt waits until the first attempt at a destination has ended. It returns all attempts,
// oldest first.
func (s *Steward) FirstAttempt(h Hook, destinationID string) (chain []Delivery) {
	s.T.Helper()
	waittest.True(s.T, "the end of the first attempt", func() bool {
		chain = s.ListDeliveries(h, "destinationId="+destinationID)
		slices.Reverse(chain)
		return len(chain) > 0 && chain[0].Status != "pending"
	})
	return chain
}

// WaitStatus waits until a delivery has ended, and fails the test unless it ended with this status.
func (s *Steward) WaitStatus(h Hook, deliveryID, status string) {
	s.T.Helper()
	waittest.True(s.T, "the end of "+deliveryID, func() bool {
		all := s.ListDeliveries(h, "")
		d := all[slices.IndexFunc(all, func(d Delivery) bool { return d.ID == deliveryID })]
		if d.Status != "pending" && d.Status != status {
			s.T.Fatalf("%s is %s, want %s: %s", deliveryID, d.Status, status, d.Failure())
		}
		return d.Status == status
	})
}

// WaitEnded waits until no delivery of these webhooks is pending.
func (s *Steward) WaitEnded(hooks map[string]Hook) {
	s.T.Helper()
	waittest.Until(s.T, "the end of every delivery", func() (pending int, done bool) {
		for _, h := range hooks {
			total := s.Total("/webhook/delivery-list/" + h.ID + "?status=pending")
			n, err := strconv.Atoi(cmp.Or(total, "10001")) // the server omits totals above 10,000
			s.Must(err)
			pending += n
		}
		return pending, pending == 0
	})
}

// RetryDelivery asks for another attempt.
func (s *Steward) RetryDelivery(h Hook, deliveryID string, body any) *Response {
	s.T.Helper()
	return s.Call("POST", "/webhook/delivery-retry/"+h.ID+"/"+deliveryID, body)
}
