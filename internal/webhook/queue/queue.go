// Package queue owns the queue of deliveries: it decides when each is attempted.
//
// It owns the tables webhook_queue, webhook_leases and webhook_recoveries, which no other package writes,
// and reads webhook_destinations to end what belonged to those that are gone. Package webhook is built upon it,
// reads its tables in lists, and gives the Scheduler three functions: Load, Attempt and Finish.
//
// How a delivery moves through it. The transaction that stores a receipt adds a Row for each
// destination (Insert), and Store.Notify wakes the Scheduler (scheduler.go) after the commit. The
// Scheduler also discovers due rows by polling (Store.Heads). It leases their destinations (Store.Lease)
// and reads their queues in order (Store.Due). What is read, leased and sent next is decided by lanes
// (lane.go), one for each destination, whose states are moved by one table (transition.go), within a
// budget of bytes and sockets (budget.go). Load reads the receipts of what was chosen, Attempt makes each
// attempt in a goroutine of its own, and its Result is collected with others (results.go) until Finish
// writes them: in one transaction the deliveries end, their rows are removed (Remove), and the next
// attempts are added.
//
// A row stays in the queue until its delivery has ended, so a crash needs no recovery: the lease
// expires, and whoever holds the next one finds the row. A recovery (recovery.go) is what a user asks
// for: the waiting attempts of a destination are made due.
package queue

import (
	"math/rand/v2"
	"time"

	"github.com/oklog/ulid/v2"

	"steward/internal/id"
	"steward/internal/stamp"
)

// DefaultConcurrency is how many attempts to a destination are made at the same time, unless it says
// otherwise.
const DefaultConcurrency = 10

// Row is a pending delivery in the queue. What Heads and Due return has only some of its fields.
type Row struct {
	Key           string // of the delivery
	DestinationID string
	Date          stamp.Time // when the delivery was added
	Retries       int        // the number of the attempt, from 0
	ReceiptKey    string
	OrgID         string
	DueAt         stamp.Time
	Size          int64  // of the receipt's headers and body
	ReplayID      string // of the replay that it belongs to, or ""
}

// A key is the ULID of the webhook, and then that of the delivery or the receipt.

// WebhookID returns the id of the webhook.
func (r Row) WebhookID() string { return id.Webhook + "_" + r.Key[:ulid.EncodedSize] }

// DeliveryID returns the id of the delivery.
func (r Row) DeliveryID() string { return id.Delivery + "_" + r.Key[ulid.EncodedSize:] }

// ReceiptID returns the id of the receipt.
func (r Row) ReceiptID() string { return id.Receipt + "_" + r.ReceiptKey[ulid.EncodedSize:] }

// Request is what was received, and is sent.
type Request struct {
	Method  string
	Headers string // a JSON object
	Body    []byte
}

// Task is a delivery in memory. Its row has its key, destination, due time and size from the start; the
// rest is set by Load.
type Task struct {
	Row
	Request *Request // nil before it is read, when it is no longer kept, and after the attempt

	lane    *lane
	charge  charge // what it takes of the budget
	written bool   // its result is durable, but its lane is still being read
}

// Result is how an attempt ended.
type Result struct {
	Row Row
	At  stamp.Time
	// Error is empty for a success.
	Error string
	// Response is what the destination answered, as JSON, or "".
	Response string
	// RetryAfter is what the destination asked for, or 0.
	RetryAfter time.Duration
	// Gone says that the destination wants no more deliveries.
	Gone bool
	// Final says that no retry may follow, whatever MaxRetries is.
	Final      bool
	MaxRetries int
}

// IsRetried reports whether another attempt follows.
func (r Result) IsRetried() bool {
	return r.Error != "" && !r.Final && !r.Gone && r.Row.Retries < r.MaxRetries
}

// RetryAt returns when the attempt after a failed one is due.
func (r Result) RetryAt() stamp.Time { return r.At.Add(pause(r.Row.Retries+1, r.RetryAfter)) }

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
