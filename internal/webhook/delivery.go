package webhook

import (
	"math/rand/v2"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/encode"
	"steward/internal/id"
	"steward/internal/stamp"
)

// Status is what became of a delivery.
type Status string

// The states. Accept, a failed attempt and delivery-retry make a delivery Pending; Finish alone moves it on, once.
const (
	Pending Status = "pending" // waiting or being sent
	Success Status = "success" // answered with 2xx
	Failed  Status = "failed"  // anything else; the chain may have another attempt
)

// Delivery is one attempt to forward a receipt to a destination.
type Delivery struct {
	ID            string     `json:"id" example:"whdv_01jcq3v5w8z9d6y4k2m7n0p1rt"`
	Date          stamp.Time `json:"date" format:"date-time" doc:"When the attempt was planned"`
	WebhookID     string     `json:"webhook_id"`
	DestinationID string     `json:"webhook_destination_id"`
	ReceiptID     string     `json:"webhook_receipt_id"`
	Status        Status     `json:"status" enum:"pending,success,failed"`
	Retries       int        `json:"retries" doc:"The number of this attempt in its chain, from 0"`
	Error         *string    `json:"error"`
	Response      *Answer    `json:"response"`

	orgID string
	// A pending one is ready to be sent by the process whose turn the destination is, or waits for its retry until it is due.
	ready bool
	due   stamp.Time
	// rowKey is the key where it is known already.
	rowKey string
}

func (d *Delivery) key() string {
	if d.rowKey == "" {
		return rowKey(d.WebhookID, d.ID)
	}
	return d.rowKey
}

// Response is what a destination answered.
type Response struct {
	Status     int               `json:"status"`
	Headers    map[string]string `json:"headers"`
	Body       string            `json:"body" doc:"The first 16 KiB"`
	DurationMS int64             `json:"duration_ms"`
}

// Answer is a Response as it is stored, which is how it is shown.
type Answer string

// newAnswer gives what encoding/json would write of a Response.
func newAnswer(status int, headers []field, body string, took time.Duration) *Answer {
	to := strconv.AppendInt(append(make([]byte, 0, 256+len(body)), `{"status":`...), int64(status), 10)
	to = appendHeaders(append(to, `,"headers":`...), headers)
	to = encode.String(append(to, `,"body":`...), body)
	to = strconv.AppendInt(append(to, `,"duration_ms":`...), took.Milliseconds(), 10)
	return new(Answer(append(to, '}')))
}

// Schema documents what it holds.
func (Answer) Schema(r huma.Registry) *huma.Schema {
	return r.Schema(reflect.TypeFor[Response](), true, "")
}

// AppendJSON writes the Response.
func (a Answer) AppendJSON(to []byte) ([]byte, error) { return appendStored[Response](to, string(a)) }

// MarshalJSON is AppendJSON for those who do not know it.
func (a Answer) MarshalJSON() ([]byte, error) { return a.AppendJSON(nil) }

// AppendJSON writes what encoding/json would, without decoding the response.
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
		return append(to, "null}"...), nil
	}
	to, err := d.Response.AppendJSON(to)
	return append(to, '}'), err
}

// MarshalJSON is AppendJSON for those who do not know it.
func (d Delivery) MarshalJSON() ([]byte, error) { return d.AppendJSON(nil) }

// delays are the pauses before each retry; the last one is for all that follow.
var delays = []time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour, 3 * time.Hour, 8 * time.Hour, 12 * time.Hour,
}

// pause gives the time until attempt n (from 1): what the destination asked for, else the policy ±20 %.
func pause(n int, retryAfter time.Duration) time.Duration {
	if retryAfter > 0 {
		return retryAfter
	}
	d := delays[min(n, len(delays))-1]
	return d - d/5 + rand.N(d*2/5+1)
}

// Result is how an attempt ended.
type Result struct {
	Delivery *Delivery
	At       stamp.Time
	// Error is empty for a success.
	Error    string
	Response *Answer
	// RetryAfter is what the destination asked for, if it did.
	RetryAfter time.Duration
	// Gone says that the destination wants nothing more.
	Gone bool
	// Final says that no other attempt may follow, whatever MaxRetries is.
	Final bool
	// MaxRetries is the destination's.
	MaxRetries int
}

// next gives the attempt that follows a failed one, or nil at the end of the chain.
func (r Result) next() *Delivery {
	d := r.Delivery
	if r.Error == "" || r.Final || r.Gone || d.Retries >= r.MaxRetries {
		return nil
	}
	return &Delivery{
		ID: id.At(id.Delivery, r.At.Std()), Date: r.At, WebhookID: d.WebhookID, DestinationID: d.DestinationID, ReceiptID: d.ReceiptID,
		Status: Pending, Retries: d.Retries + 1, orgID: d.orgID, due: r.At.Add(pause(d.Retries+1, r.RetryAfter)),
	}
}
