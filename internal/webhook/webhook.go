// Package webhook owns webhooks: the URLs that accept requests, the destinations we forward them to,
// and the outcome of each delivery. The packages replay and tail build on it.
//
// A request moves through it like this. Ingest (ingest.go) checks the token against a cache, reads the
// bounded body and makes a Receipt. Store.Accept gathers receipts that arrive at the same time and
// commits them in one transaction: the receipts, the counters, and for each enabled destination a
// pending Delivery with its row in the queue. Only then do we respond with 200 and wake the scheduler
// (package queue), which decides when to attempt each delivery. Sender (attempt.go) loads the receipt
// and sends it through package send. Store.Finish (store_finish.go) writes the results: success, or
// failed with the next attempt, and the counters.
//
// We send deliveries at least once and record them exactly once: the destination's lease fences
// Finish. docs/states.md shows the states.
//
// Receipts and results also go to the event log (package eventlog), which the live tail (package tail)
// reads.
//
// Ids are ULIDs, and a row's key joins the webhook's id and its own (key.go), so lists, time filters
// and retention all work on key ranges. Deleting a webhook removes it and its destinations at once;
// Retention removes its receipts and deliveries later.
package webhook

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/name"
	"steward/internal/page"
	"steward/internal/stamp"
	"steward/internal/webhook/verify"
)

const (
	maxName        = 256
	maxDescription = 1024
	tokenSize      = 32
)

// Webhook is an endpoint that accepts requests.
type Webhook struct {
	ID          string          `json:"id" example:"wh_01jcq3v5w8z9d6y4k2m7n0p1rt"`
	CreatedAt   stamp.Time      `json:"created_at" format:"date-time"`
	UpdatedAt   stamp.Time      `json:"updated_at" format:"date-time"`
	CreatedBy   string          `json:"created_by" doc:"Id of the user who created it" example:"usr_01jcq3s1d4f8k2m6p9r3t7v0wx"`
	Name        string          `json:"name" example:"Orders"`
	Description *string         `json:"description" example:"Orders of the shop"`
	URL         string          `json:"url,omitempty" doc:"URL to send requests to; shown only when it is created or rotated" example:"https://steward.example.com/in/wh_01jcq43f5h8k1n4q7t0w3z6c9f/9sKd2LqPz7Wx4RtY8mNb3VcF6hJg1QaE"`
	Internal    bool            `json:"internal" doc:"Managed by the system; users cannot change or delete it"`
	Metadata    json.RawMessage `json:"metadata" doc:"What an internal webhook is for; null for others" example:"null"`
	Retention   *int64          `json:"retention_seconds,omitempty" doc:"How long receipts and deliveries are kept, if set" example:"604800"`
	// Verification has masks in place of secrets.
	Verification *verify.Settings `json:"verification,omitempty" doc:"How requests prove where they come from, if they must"`
	Dedupe       *Dedupe          `json:"dedupe,omitempty" doc:"How repeated requests are recognized, if they are"`

	orgID   string
	version int64
	secrets verify.Secrets // until the webhook is stored
}

// ETag returns the row's version.
func (w Webhook) ETag() string { return page.ETag(w.version) }

// NewWebhook is the body of a create request.
type NewWebhook struct {
	Name         string                    `json:"name" minLength:"1" maxLength:"256" example:"Orders"`
	Description  page.Opt[string]          `json:"description,omitempty" required:"false" maxLength:"1024" example:"Orders of the shop"`
	Internal     bool                      `json:"internal,omitempty" doc:"Create a system webhook, which users cannot change or delete; requires the role owner or admin"`
	Events       string                    `json:"events,omitempty" enum:"audit" doc:"Make it a system webhook that receives each entry of the audit log; requires the right to read the audit log, as do its changes and destinations. Whoever may read webhooks sees its receipts"`
	Retention    page.Opt[int64]           `json:"retention_seconds,omitempty" required:"false" minimum:"60" doc:"How long receipts and deliveries are kept" example:"604800"`
	Verification page.Opt[verify.Settings] `json:"verification,omitempty" required:"false" doc:"Refuse requests that do not prove where they come from" example:"{\"type\":\"stripe\",\"secrets\":[\"whsec_4fVq0hXz7Lr2mTb9KcW1sYpD6uJ3nEa8\"]}"`
	Dedupe       page.Opt[Dedupe]          `json:"dedupe,omitempty" required:"false" doc:"Do not store repeated requests: they get the id of the first receipt, with Steward-Duplicate: true" example:"{\"by\":\"header\",\"header\":\"x-event-id\"}"`
	Metadata     map[string]string         `json:"-"`
}

// build returns Invalid for bad fields. It leaves the organization for the caller to set.
func (n NewWebhook) build(now time.Time) (Webhook, error) {
	w := Webhook{
		ID: id.At(id.Webhook, now), CreatedAt: stamp.Of(now), UpdatedAt: stamp.Of(now), Name: n.Name, Description: n.Description.Ptr(),
		Internal: n.Internal || n.Events != "", Retention: n.Retention.Ptr(), Dedupe: n.Dedupe.Ptr().complete(), version: 1,
	}
	if n.Events == AuditEvents {
		w.Metadata = json.RawMessage(auditMetadata)
	} else if n.Metadata != nil {
		text, err := json.Marshal(n.Metadata)
		if err != nil {
			return Webhook{}, err
		}
		w.Metadata = text
	}
	if v := n.Verification.Ptr(); v != nil {
		if _, err := v.Join(verify.Secrets{}); err != nil {
			return Webhook{}, err
		}
		w.setVerification(v)
	}
	return w, w.check()
}

// setVerification sets how requests are verified, or with nil that they are not.
func (w *Webhook) setVerification(v *verify.Settings) {
	w.Verification = nil
	w.secrets = verify.Secrets{}
	if v != nil {
		shown, secrets := v.Split()
		w.Verification = &shown
		w.secrets = secrets
	}
}

// Check implements web.Checked.
func (n NewWebhook) Check(faults *errs.Faults) {
	Webhook{Name: n.Name, Description: n.Description.Ptr(), Retention: n.Retention.Ptr(), Dedupe: n.Dedupe.Ptr()}.inspect(faults)
	if v := n.Verification.Ptr(); v != nil {
		v.Check(faults)
	}
}

// Patch is a partial update. Fields you omit stay as they are.
type Patch struct {
	_ struct{} `goName:"WebhookPatch"`

	Name         page.Opt[string]          `json:"name,omitempty" required:"false" minLength:"1" maxLength:"256" nullable:"false" example:"Orders"`
	Description  page.Opt[string]          `json:"description,omitempty" required:"false" maxLength:"1024" doc:"null clears it" example:"Orders of the shop"`
	Retention    page.Opt[int64]           `json:"retention_seconds,omitempty" required:"false" minimum:"60" doc:"How long receipts and deliveries are kept" example:"604800"`
	Verification page.Opt[verify.Settings] `json:"verification,omitempty" required:"false" doc:"Replaces all settings of the verification; null ends it" example:"{\"type\":\"stripe\",\"secrets\":[\"whsec_4fVq0hXz7Lr2mTb9KcW1sYpD6uJ3nEa8\"]}"`
	Dedupe       page.Opt[Dedupe]          `json:"dedupe,omitempty" required:"false" doc:"Replaces the settings for repeated requests; null ends it" example:"{\"by\":\"header\",\"header\":\"x-event-id\"}"`
}

// apply returns the changed webhook, or Invalid.
func (p Patch) apply(w Webhook, now time.Time) (Webhook, error) {
	p.set(&w)
	w.UpdatedAt = stamp.Of(now)
	w.version++
	var faults errs.Faults
	p.Check(&faults) // only the patch's own fields: the stored ones may predate a rule
	return w, faults.Err()
}

func (p Patch) set(w *Webhook) {
	p.Name.Set(&w.Name)
	p.Description.SetPtr(&w.Description)
	p.Retention.SetPtr(&w.Retention)
}

// Check implements web.Checked.
func (p Patch) Check(faults *errs.Faults) {
	w := Webhook{Name: "unchanged", Dedupe: p.Dedupe.Ptr()}
	p.set(&w)
	w.inspect(faults)
	if v := p.Verification.Ptr(); v != nil {
		v.Check(faults)
	}
}

func (w Webhook) check() error {
	var faults errs.Faults
	w.inspect(&faults)
	return faults.Err()
}

func (w Webhook) inspect(faults *errs.Faults) {
	faults.Check(name.Valid(w.Name) && utf8.RuneCountInString(w.Name) <= maxName,
		"body.name", "expected %s, of at most %d characters", name.Expected, maxName)
	faults.Check(w.Description == nil || utf8.RuneCountInString(*w.Description) <= maxDescription,
		"body.description", "expected at most %d characters", maxDescription)
	faults.Check(w.Retention == nil || *w.Retention >= 60 && *w.Retention <= 10*365*86400,
		"body.retention_seconds", "expected 60 to 315360000 seconds, or null")
	if w.Dedupe != nil {
		w.Dedupe.Check(faults)
	}
}

// checkUserChange returns Forbidden for something the system manages.
func checkUserChange(internal bool, thing string) error {
	if internal {
		return errs.New(errs.Forbidden, "this %s is managed by the system and cannot be changed or deleted", thing)
	}
	return nil
}
