package webhook

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/oklog/ulid/v2"

	"steward/internal/encode"
	"steward/internal/id"
	"steward/internal/stamp"
	"steward/internal/webhook/queue"
	"steward/internal/webhook/send"
)

// Status is a delivery's state.
type Status string

// The states. Accept, a failed attempt, delivery-retry and a replay create a Pending delivery; only
// Finish moves it on, once.
const (
	Pending Status = "pending" // waiting or being sent
	Success Status = "success" // the destination answered with 2xx
	Failed  Status = "failed"  // any other outcome; another attempt may follow
)

// Statuses that lists can filter by, in addition to the states.
const (
	// Waiting selects Pending deliveries that are retries: an earlier attempt in their chain failed.
	Waiting Status = "waiting"
	// Failing selects Failed deliveries after which no attempt for the same receipt and destination
	// has ended.
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
	// Receipt is set only in lists, and only while we keep the receipt.
	Receipt *DeliveredReceipt `json:"receipt,omitempty" doc:"In lists, what it delivers; absent if that is no longer kept"`

	orgID string
	key   string // the row's key
}

// newAttempt returns a row for another attempt at the same delivery, due now.
func newAttempt(of queue.Row, now time.Time) queue.Row {
	of.Key = of.ReceiptKey[:ulid.EncodedSize] + bare(id.At(id.Delivery, now))
	of.Date = stamp.Of(now)
	of.DueAt = of.Date
	return of
}

// pendingDelivery returns the delivery that a row in the queue stands for.
func pendingDelivery(r queue.Row) Delivery {
	return Delivery{
		ID: r.DeliveryID(), Date: r.Date, WebhookID: r.WebhookID(), DestinationID: r.DestinationID, ReceiptID: r.ReceiptID(),
		Status: Pending, Retries: r.Retries, DueAt: &r.DueAt, ReplayID: r.ReplayID, orgID: r.OrgID, key: r.Key,
	}
}

// Response is a destination's response as the API shows it.
type Response struct {
	_ struct{} `goName:"DeliveryResponse"`

	send.Response
	HeadersOmitted bool `json:"headers_omitted,omitempty" doc:"True in long lists, where headers are left out"`
	BodyOmitted    bool `json:"body_omitted,omitempty" doc:"True in long lists, where bodies are left out"`
}

// StoredResponse is a Response as JSON. We store and show the same text.
type StoredResponse string

// storedResponse encodes an attempt's response, or returns "" if there was none.
func storedResponse(r *send.Response) (string, error) {
	if r == nil {
		return "", nil
	}
	text, err := encode.Value(nil, r)
	if err != nil {
		return "", fmt.Errorf("encode response: %w", err)
	}
	return string(text), nil
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

// MarshalJSON returns the stored text.
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
	if r := d.Receipt; r != nil {
		to = encode.String(append(to, `,"receipt":{"content_type":`...), r.ContentType)
		to = strconv.AppendInt(append(to, `,"size":`...), r.Size, 10)
		to = append(encode.String(append(to, `,"preview":`...), r.Preview), '}')
	}
	return append(to, '}'), nil
}

// MarshalJSON is AppendJSON for encoding/json.
func (d Delivery) MarshalJSON() ([]byte, error) { return d.AppendJSON(nil) }

// statusOf returns the state in which an attempt leaves its delivery.
func statusOf(r queue.Result) Status {
	if r.Error == "" {
		return Success
	}
	return Failed
}

// retryOf returns the attempt that follows a failed one, and false if none does.
func retryOf(r queue.Result) (queue.Row, bool) {
	if !r.IsRetried() {
		return queue.Row{}, false
	}
	next := newAttempt(r.Row, r.At.Std())
	next.Retries++
	next.DueAt = r.RetryAt()
	return next, true
}
