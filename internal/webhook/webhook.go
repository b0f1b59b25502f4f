// Package webhook owns webhooks: the URLs that take requests in, the destinations they are forwarded to, and what became of each.
//
// The walk of a request. Ingest (ingest.go) checks the token from memory, reads the bounded body and makes a Receipt; what arrives at the
// same time goes to Store.Accept together, which writes the receipts, one ready Delivery for each enabled destination, and the counters, in
// one transaction. The 200 is sent after its commit. The Worker (worker.go) has a lane for each destination with work. After the commit
// the lanes get the deliveries in memory where they keep up; else they read them when they have room (Store.Ready). The Sender
// (sender.go) knows the network only. Results are gathered, and Store.Finish writes them: success, or failed and the chain's next pending
// row, and the counters.
//
// A destination is one process's turn at a time (Store.TakeTurns): a lease that it renews for as long as it has work, and that fences
// Finish. So deliveries need none of their own, and nothing is written when they are taken in hand: a pending one is ready until it is
// finished, or waiting for the time of its retry. A crash needs no care: the turn ends, and whoever has the next one finds the rows ready.
// Sending is at least once, bookkeeping exactly once. docs/states.md draws it.
//
// Ids are ULIDs of their row's date, and receipts and deliveries are found by the ULID of their webhook and their own (store_key.go). That is
// why lists, time filters and retention are ranges of keys.
//
// Deleting a webhook removes it and its destinations at once; receipts and deliveries cannot be reached any more then, since every read
// goes through the webhook's row, and Retention removes them in small batches.
package webhook

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/stamp"
)

const (
	maxName        = 256
	maxDescription = 1024
	tokenSize      = 32
)

// Webhook is an endpoint that takes requests in.
type Webhook struct {
	ID          string          `json:"id" example:"wh_01jcq3v5w8z9d6y4k2m7n0p1rt"`
	CreatedAt   stamp.Time      `json:"created_at" format:"date-time"`
	UpdatedAt   stamp.Time      `json:"updated_at" format:"date-time"`
	CreatedBy   string          `json:"created_by" doc:"The user who made it"`
	Name        string          `json:"name"`
	Description *string         `json:"description"`
	URL         string          `json:"url,omitempty" doc:"Where to send requests to; shown at create and rotate-url only"`
	Internal    bool            `json:"internal" doc:"Kept by the system: users cannot change or delete it"`
	Metadata    json.RawMessage `json:"metadata" doc:"What an internal webhook is for; else null"`
	Retention   *int64          `json:"retention_seconds,omitempty" doc:"How long receipts and deliveries are kept, where set"`

	orgID   string
	version int64
}

// ETag is the row's version.
func (w Webhook) ETag() string { return page.ETag(w.version) }

// NewWebhook is what it takes to make a webhook.
type NewWebhook struct {
	Name        string            `json:"name" minLength:"1" maxLength:"256"`
	Description page.Opt[string]  `json:"description,omitempty" required:"false" maxLength:"1024"`
	Internal    bool              `json:"internal,omitempty" doc:"Make it a system webhook, which users cannot change or delete"`
	Retention   page.Opt[int64]   `json:"retention_seconds,omitempty" required:"false" minimum:"60" doc:"How long receipts and deliveries are kept"`
	Metadata    map[string]string `json:"-"`
}

// build makes the webhook's row without its organization, or Invalid.
func (n NewWebhook) build(now time.Time) (Webhook, error) {
	w := Webhook{
		ID: id.At(id.Webhook, now), CreatedAt: stamp.Of(now), UpdatedAt: stamp.Of(now), Name: n.Name, Description: n.Description.Ptr(),
		Internal: n.Internal, Retention: n.Retention.Ptr(), version: 1,
	}
	if n.Metadata != nil {
		text, err := json.Marshal(n.Metadata)
		if err != nil {
			return Webhook{}, err
		}
		w.Metadata = text
	}
	return w, w.check()
}

// Patch is a partial update: what is not sent stays.
type Patch struct {
	Name        page.Opt[string] `json:"name,omitempty" required:"false" minLength:"1" maxLength:"256"`
	Description page.Opt[string] `json:"description,omitempty" required:"false" maxLength:"1024" doc:"null clears it"`
	Retention   page.Opt[int64]  `json:"retention_seconds,omitempty" required:"false" minimum:"60" doc:"How long receipts and deliveries are kept"`
}

// apply gives the changed webhook, or Invalid.
func (p Patch) apply(w Webhook, now time.Time) (Webhook, error) {
	p.Name.Set(&w.Name)
	p.Description.SetPtr(&w.Description)
	p.Retention.SetPtr(&w.Retention)
	w.UpdatedAt = stamp.Of(now)
	w.version++
	return w, w.check()
}

func (w Webhook) check() error {
	var faults errs.Faults
	faults.Check(strings.TrimSpace(w.Name) != "" && utf8.RuneCountInString(w.Name) <= maxName,
		"body.name", "expected 1 to %d characters that are not all blank", maxName)
	faults.Check(w.Description == nil || utf8.RuneCountInString(*w.Description) <= maxDescription,
		"body.description", "expected at most %d characters", maxDescription)
	faults.Check(w.Retention == nil || *w.Retention >= 60 && *w.Retention <= 10*365*86400,
		"body.retention_seconds", "expected 60 to 315360000 seconds, or null")
	return faults.Err()
}

// userChange refuses a change by a user of what the system keeps.
func userChange(internal bool, thing string) error {
	if internal {
		return errs.New(errs.Forbidden, "this %s is kept by the system: it cannot be changed or deleted", thing)
	}
	return nil
}
