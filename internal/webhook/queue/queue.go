// Package queue owns the delivery queue and decides when to attempt each delivery.
//
// It owns the tables webhook_queue, webhook_leases and webhook_recoveries, and no other package writes
// them. It reads webhook_destinations to clean up after deleted destinations. Package webhook builds
// on it: it reads the queue's tables for its lists, and gives the Scheduler three functions, Load,
// Attempt and Finish.
//
// A delivery moves through it like this. The transaction that stores a receipt adds a Row for each
// destination (Insert), and after the commit Store.Notify wakes the Scheduler (scheduler.go). The
// Scheduler also polls for due rows (Store.Heads). It leases their destinations (Store.Lease) and
// reads their queues in order (Store.Due). The lanes (lane.go), one for each destination, decide what
// we read, lease and send next. A single table (transition.go) moves a lane from state to state, and
// all lanes share a budget of bytes and sockets (budget.go). Load reads the receipts of the chosen
// rows, and Attempt sends each in its own goroutine. We collect the Results (results.go) until Finish
// writes them in one transaction, which ends the deliveries, removes their rows (Remove) and adds the
// next attempts.
//
// A row stays in the queue until its delivery has ended, so a crash needs no cleanup: the lease
// expires, and the next process to hold it finds the row. A recovery (recovery.go) is something else:
// a user's request to make all of a destination's waiting attempts due.
package queue

import (
	"math/rand/v2"
	"time"

	"github.com/oklog/ulid/v2"

	"steward/internal/id"
	"steward/internal/stamp"
)

// DefaultConcurrency is how many attempts we make at a time to a destination that sets no limit
// itself.
const DefaultConcurrency = 10

// Row is a pending delivery in the queue. Heads and Due fill only some of its fields.
type Row struct {
	Key           string // the delivery's
	DestinationID string
	Date          stamp.Time // when the delivery was added
	Retries       int        // this attempt's number, from 0
	ReceiptKey    string
	OrgID         string
	DueAt         stamp.Time
	Size          int64  // the receipt's headers and body, in bytes
	ReplayID      string // the replay it belongs to, or ""
}

// A key is two ULIDs: the webhook's, then the delivery's or the receipt's.

// WebhookID returns the webhook's id.
func (r Row) WebhookID() string { return id.Webhook + "_" + r.Key[:ulid.EncodedSize] }

// DeliveryID returns the delivery's id.
func (r Row) DeliveryID() string { return id.Delivery + "_" + r.Key[ulid.EncodedSize:] }

// ReceiptID returns the receipt's id.
func (r Row) ReceiptID() string { return id.Receipt + "_" + r.ReceiptKey[ulid.EncodedSize:] }

// Request is the request that the webhook received and that we send on.
type Request struct {
	Method  string
	Headers string // a JSON object
	Body    []byte
}

// Task is a delivery in memory. At first its row has only the key, destination, due time and size;
// Load sets the rest.
type Task struct {
	Row
	Request *Request // nil until loaded, after the attempt, and if we no longer keep the receipt

	lane    *lane
	charge  charge // its share of the budget
	written bool   // its result is durable, but its lane is still being read
}

// Result is an attempt's outcome.
type Result struct {
	Row Row
	At  stamp.Time
	// Error is empty for a success.
	Error string
	// Response is the destination's response as JSON, or "".
	Response string
	// RetryAfter is the delay that the destination requested, or 0.
	RetryAfter time.Duration
	// Gone reports whether the destination wants no more deliveries.
	Gone bool
	// Final reports whether retries are out of the question, whatever MaxRetries allows.
	Final      bool
	MaxRetries int
	// Delays replaces the usual delays before retries; the last one repeats.
	Delays []time.Duration
	// GiveUpAt is when the last attempt may be due, or 0.
	GiveUpAt stamp.Time
}

// IsRetried reports whether another attempt follows.
func (r Result) IsRetried() bool {
	return r.Error != "" && !r.Final && !r.Gone && r.Row.Retries < r.MaxRetries &&
		(r.GiveUpAt == 0 || r.At.Add(r.delay()) <= r.GiveUpAt)
}

// RetryAt returns the due time for the attempt after a failed one. The usual delay varies by 20 %.
func (r Result) RetryAt() stamp.Time {
	delay := r.delay()
	if r.RetryAfter == 0 {
		delay += rand.N(delay*2/5+1) - delay/5
	}
	at := r.At.Add(delay)
	if r.GiveUpAt != 0 {
		at = min(at, r.GiveUpAt)
	}
	return at
}

// backoff lists the delays before each retry. The last one repeats.
var backoff = []time.Duration{
	5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour, 3 * time.Hour, 8 * time.Hour, 12 * time.Hour,
}

// delay returns the time until the next attempt: the destination's wish if it has one, or else the
// policy's.
func (r Result) delay() time.Duration {
	if r.RetryAfter > 0 {
		return r.RetryAfter
	}
	delays := r.Delays
	if delays == nil {
		delays = backoff
	}
	return delays[min(r.Row.Retries, len(delays)-1)]
}
