package webhook

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/encode"
	"steward/internal/id"
	"steward/internal/stamp"
	"steward/internal/webhook/send"
)

// Status is the state of a delivery.
type Status string

// The states. Accept, a failed attempt and delivery-retry create a Pending delivery; Finish alone
// moves it on, once.
const (
	Pending Status = "pending" // waiting or being sent
	Success Status = "success" // the destination answered with 2xx
	Failed  Status = "failed"  // anything else; another attempt may follow
)

// Filters of lists that are not states.
const (
	// Waiting are Pending deliveries that are not the first of their chain, so that the one before them
	// failed.
	Waiting Status = "waiting"
	// Failing are Failed deliveries after which no attempt to deliver the same has ended.
	Failing Status = "failing"
)

// Delivery is one attempt to forward a receipt to a destination.
type Delivery struct {
	ID            string          `json:"id" example:"whdv_01jcq3v5w8z9d6y4k2m7n0p1rt"`
	Date          stamp.Time      `json:"date" format:"date-time" doc:"When the attempt was scheduled"`
	WebhookID     string          `json:"webhook_id" example:"wh_01jcq43f5h8k1n4q7t0w3z6c9f"`
	DestinationID string          `json:"webhook_destination_id" example:"whds_01jcq44h7k0n3q6t9w2z5c8f1j"`
	ReceiptID     string          `json:"webhook_receipt_id" example:"whrc_01jcq45k1n4q7t0w3z6c9f2h5k"`
	Status        Status          `json:"status" enum:"pending,success,failed"`
	Retries       int             `json:"retries" doc:"Number of this attempt, from 0"`
	Error         *string         `json:"error" example:"null"`
	Response      *StoredResponse `json:"response"`
	DueAt         *stamp.Time     `json:"due_at,omitempty" format:"date-time" doc:"When a pending attempt is due; absent once it has ended"`
	Failing       bool            `json:"failing,omitempty" doc:"True if it failed and no later attempt to deliver the receipt to the destination has ended"`
	NextDueAt     *stamp.Time     `json:"next_due_at,omitempty" format:"date-time" doc:"When the next attempt is due, if it is failing and another one waits"`
	ReplayID      string          `json:"replay_id,omitempty" example:"whrp_01jcq3v5w8z9d6y4k2m7n0p1rt" doc:"Id of the replay that it belongs to, if any"`

	orgID string
	key   string     // of its row
	due   stamp.Time // when a pending one may be sent; DueAt is for the API
	size  int64      // of the receipt's headers and body
}

// newDelivery returns a pending delivery of a receipt.
func newDelivery(orgID, webhookID, destinationID, receiptID string, now time.Time) Delivery {
	d := Delivery{
		ID: id.At(id.Delivery, now), Date: stamp.Of(now), WebhookID: webhookID, DestinationID: destinationID, ReceiptID: receiptID,
		Status: Pending, orgID: orgID, due: stamp.Of(now),
	}
	d.key = rowKey(webhookID, d.ID)
	return d
}

// Response is the response of a destination, as the API shows it.
type Response struct {
	_ struct{} `goName:"DeliveryResponse"`

	send.Response
	HeadersOmitted bool `json:"headers_omitted,omitempty" doc:"True in long lists, where headers are left out"`
	BodyOmitted    bool `json:"body_omitted,omitempty" doc:"True in long lists, where bodies are left out"`
}

// StoredResponse is a Response as JSON, which is how it is stored and shown.
type StoredResponse string

// storedResponse returns the response of an attempt, or "" if there was none.
func storedResponse(r *send.Response) (StoredResponse, error) {
	if r == nil {
		return "", nil
	}
	text, err := encode.Value(nil, r)
	if err != nil {
		return "", fmt.Errorf("encode response: %w", err)
	}
	return StoredResponse(text), nil
}

// withoutBody returns the response without its headers and body.
func (r StoredResponse) withoutBody() (StoredResponse, error) {
	var whole Response
	if err := json.Unmarshal([]byte(r), &whole); err != nil {
		return "", fmt.Errorf("decode response: %w", err)
	}
	text, err := encode.Value(nil, Response{
		Response:       send.Response{Status: whole.Status, Headers: map[string]string{}, DurationMS: whole.DurationMS},
		HeadersOmitted: true, BodyOmitted: true,
	})
	return StoredResponse(text), err
}

// Schema documents the response.
func (StoredResponse) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[Response](), true, "")
}

// MarshalJSON returns the response.
func (r StoredResponse) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// AppendJSON implements encode.Appender.
func (d Delivery) AppendJSON(to []byte) ([]byte, error) {
	to = encode.String(append(to, `{"id":`...), d.ID)
	to = append(d.Date.Append(append(to, `,"date":"`...)), `","webhook_id":`...)
	to = encode.String(to, d.WebhookID)
	to = encode.String(append(to, `,"webhook_destination_id":`...), d.DestinationID)
	to = encode.String(append(to, `,"webhook_receipt_id":`...), d.ReceiptID)
	to = encode.String(append(to, `,"status":`...), string(d.Status))
	to = strconv.AppendInt(append(to, `,"retries":`...), int64(d.Retries), 10)
	to = encode.Optional(append(to, `,"error":`...), d.Error)
	to = append(to, `,"response":`...)
	if d.Response == nil {
		to = append(to, "null"...)
	} else {
		to = append(to, *d.Response...)
	}
	if d.DueAt != nil {
		to = append(d.DueAt.Append(append(to, `,"due_at":"`...)), '"')
	}
	if d.Failing {
		to = append(to, `,"failing":true`...)
	}
	if d.NextDueAt != nil {
		to = append(d.NextDueAt.Append(append(to, `,"next_due_at":"`...)), '"')
	}
	if d.ReplayID != "" {
		to = encode.String(append(to, `,"replay_id":`...), d.ReplayID)
	}
	return append(to, '}'), nil
}

// MarshalJSON is AppendJSON for encoding/json.
func (d Delivery) MarshalJSON() ([]byte, error) { return d.AppendJSON(nil) }

// backoff are the pauses before each retry; the last one is for all that follow.
var backoff = []time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour, 3 * time.Hour, 8 * time.Hour, 12 * time.Hour,
}

// pause returns the time until retry n, from 1: what the destination asked for, or the policy ±20 %.
func pause(n int, retryAfter time.Duration) time.Duration {
	if retryAfter > 0 {
		return retryAfter
	}
	d := backoff[min(n, len(backoff))-1]
	return d - d/5 + rand.N(d*2/5+1)
}

// Result is how an attempt ended.
type Result struct {
	Delivery Delivery
	At       stamp.Time
	// Error is empty for a success.
	Error    string
	Response StoredResponse
	// RetryAfter is what the destination asked for, or 0.
	RetryAfter time.Duration
	// Gone says that the destination wants no more deliveries.
	Gone bool
	// Final says that no retry may follow, whatever MaxRetries is.
	Final      bool
	MaxRetries int
}

func (r Result) status() Status {
	if r.Error == "" {
		return Success
	}
	return Failed
}

// isRetried reports whether another attempt follows.
func (r Result) isRetried() bool {
	return r.Error != "" && !r.Final && !r.Gone && r.Delivery.Retries < r.MaxRetries
}

// retry returns the attempt that follows a failed one, and false if there is none.
func (r Result) retry() (Delivery, bool) {
	d := r.Delivery
	if !r.isRetried() {
		return Delivery{}, false
	}
	next := newDelivery(d.orgID, d.WebhookID, d.DestinationID, d.ReceiptID, r.At.Std())
	next.Retries = d.Retries + 1
	next.due = r.At.Add(pause(next.Retries, r.RetryAfter))
	next.size = d.size
	next.ReplayID = d.ReplayID
	return next, true
}
