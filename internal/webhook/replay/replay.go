// Package replay owns replays, which deliver a webhook's receipts from a period, or chosen ones, again. Its table is
// webhook_replays.
//
// A replay is a row. Create checks the request and counts the deliveries it selects. The Worker, which
// runs on one replica at a time, walks the receipts in key order and adds ordinary deliveries, which
// are sent like all others. One transaction writes the deliveries and the walk's new place, so a
// worker that takes over, even after a crash, adds none twice. If an attempt for the receipt is
// already waiting for its retry, the worker adds none, but makes that one due and counts it. Package
// webhook reports first attempts as they end (Ended); the last one completes the replay.
// docs/states.md shows the states.
//
// At most window deliveries of a replay are under way. Other deliveries to the same destination wait
// behind few of them, and a slow destination slows down the replay and nothing else.
package replay

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/period"
	"steward/internal/stamp"
	"steward/internal/webhook"
)

// State is a replay's state.
type State string

// The states. Create makes a Running replay; the others are final.
const (
	Running   State = "running"   // deliveries are being added, or some first attempts have not ended
	Done      State = "done"      // all first attempts have ended; set by Ended, or by the worker
	Cancelled State = "cancelled" // no more deliveries are added; set by Cancel
)

// Replay is a replay as the API shows it.
type Replay struct {
	ID            string         `json:"id" example:"whrp_01jcq3v5w8z9d6y4k2m7n0p1rt"`
	WebhookID     string         `json:"webhook_id" example:"wh_01jcq43f5h8k1n4q7t0w3z6c9f"`
	State         State          `json:"state" enum:"running,done,cancelled"`
	Total         int64          `json:"total" doc:"Number of deliveries; grows while a long replay is being counted"`
	Done          int64          `json:"done" doc:"How many first attempts have ended"`
	Failed        int64          `json:"failed" doc:"How many of them failed" example:"3"`
	Since         stamp.Time     `json:"since" format:"date-time" example:"2026-11-15T08:30:00.123Z"`
	Until         stamp.Time     `json:"until" format:"date-time" example:"2026-11-16T08:30:00.123Z"`
	Status        webhook.Status `json:"status,omitempty" enum:"pending,waiting,success,failed" doc:"Status of the last delivery of what is replayed, if it was asked for"`
	DestinationID string         `json:"destinationId,omitempty" doc:"Where it went, if that was asked for" example:"whds_01jcq44h7k0n3q6t9w2z5c8f1j"`
	To            string         `json:"to,omitempty" doc:"Where it is sent, if that was asked for" example:"whds_01jcq44h7k0n3q6t9w2z5c8f1j"`
	Rate          int64          `json:"rate,omitempty" doc:"Deliveries per second, if that was asked for"`
	Selected      int64          `json:"selected,omitempty" doc:"Number of receipts that were chosen by their ids, if they were" example:"3"`
	CreatedAt     stamp.Time     `json:"created_at" format:"date-time"`
	FinishedAt    *stamp.Time    `json:"finished_at,omitempty" format:"date-time"`

	dryRun    bool
	orgID     string
	createdBy string
	added     int64
	counted   bool
	countedTo string
	walked    bool
	addedTo   string
	nextDue   stamp.Time
	// ulids are those of the Selected receipts, in order. Replays are read without them.
	ulids []string
}

// Count is a dry run's result.
type Count struct {
	_ struct{} `goName:"ReplayCount"`

	Total int64 `json:"total" doc:"Number of deliveries that the replay would make, or make due"`
}

// Alternative returns the response to a dry run.
func (r Replay) Alternative() (status int, value any, ok bool) {
	return http.StatusOK, Count{Total: r.Total}, r.dryRun
}

// maxSelected is the maximum number of receipts that you can choose.
const maxSelected = 1000

// maxRate is the highest rate you can ask for, in deliveries per second.
const maxRate = 10_000

// NewReplay is the body of a create request.
type NewReplay struct {
	_ struct{} `goName:"ReplayNewReplay"`

	Since         period.Bound             `json:"since,omitempty" nullable:"false" doc:"Receipts from this time on; not required with receiptIds. A date means its beginning, 00:00 UTC" example:"2026-11-15T08:30:00Z"`
	Until         page.Opt[period.Bound]   `json:"until,omitempty" required:"false" doc:"Receipts before this time; by default, until now. A date means its beginning, 00:00 UTC" example:"2026-11-15T08:30:00Z"`
	ReceiptIDs    []string                 `json:"receiptIds,omitempty" nullable:"false" maxItems:"1000" doc:"Only these receipts" example:"[\"whrc_01jcq45k1n4q7t0w3z6c9f2h5k\"]"`
	Status        page.Opt[webhook.Status] `json:"status,omitempty" required:"false" enum:"pending,waiting,success,failed" doc:"Only if the last delivery has this status; one that failed and waits for its retry is waiting, failed and pending"`
	DestinationID page.Opt[string]         `json:"destinationId,omitempty" required:"false" minLength:"1" maxLength:"128" doc:"Only what went to this destination" example:"whds_01jcq44h7k0n3q6t9w2z5c8f1j"`
	To            page.Opt[string]         `json:"to,omitempty" required:"false" minLength:"1" maxLength:"128" doc:"Destination to send to; by default, where it went" example:"whds_01jcq44h7k0n3q6t9w2z5c8f1j"`
	Rate          page.Opt[int64]          `json:"rate,omitempty" required:"false" minimum:"1" maximum:"10000" doc:"Deliveries per second; by default, as fast as the destinations respond"`
	DryRun        bool                     `json:"dry_run,omitempty" doc:"Only count the deliveries"`
}

// Check implements web.Checked.
func (n NewReplay) Check(faults *errs.Faults) { n.build(faults, time.Now()) }

// build returns a replay. It leaves the organization and webhook for Plan to set.
func (n NewReplay) build(faults *errs.Faults, now time.Time) Replay {
	r := Replay{
		ID: id.At(id.Replay, now), State: Running, CreatedAt: stamp.Of(now), Until: stamp.Of(now), dryRun: n.DryRun,
		nextDue: stamp.Of(now),
	}
	if since := n.Since.Parse(faults, "body.since"); since != nil {
		r.Since = *since
	}
	if until := n.Until.Value.Parse(faults, "body.until"); until != nil {
		r.Until = *until
	}
	n.Status.Set(&r.Status)
	n.DestinationID.Set(&r.DestinationID)
	n.To.Set(&r.To)
	if rate := n.Rate.Ptr(); rate != nil {
		r.Rate = *rate
		faults.Check(*rate >= 1 && *rate <= maxRate, "body.rate", "expected 1 to %d", maxRate)
	}
	r.Until = min(r.Until, stamp.Of(now)) // later receipts are delivered anyway
	faults.Check(n.Since != "" || len(n.ReceiptIDs) > 0, "body.since", "expected a time, or receiptIds")
	faults.Check(r.Since <= r.Until, "body.since", "expected a time before until and not in the future")
	if len(n.ReceiptIDs) > 0 {
		n.selectReceipts(&r, faults)
	}
	return r
}

// selectReceipts makes a replay one of the receipts with the given ids.
func (n NewReplay) selectReceipts(r *Replay, faults *errs.Faults) {
	faults.Check(len(n.ReceiptIDs) <= maxSelected, "body.receiptIds", "expected at most %d", maxSelected)
	for i, receiptID := range n.ReceiptIDs {
		at := fmt.Sprintf("body.receiptIds[%d]", i)
		if faults.Check(id.Is(id.Receipt, receiptID), at, "expected the id of a receipt"); id.Is(id.Receipt, receiptID) {
			r.ulids = append(r.ulids, strings.TrimPrefix(receiptID, id.Receipt+"_"))
		}
	}
	slices.Sort(r.ulids)
	r.ulids = slices.Compact(r.ulids)
	r.Selected = int64(len(r.ulids))
	if r.Selected == 0 {
		return
	}
	r.Since = max(r.Since, timeOf(r.ulids[0]))
	last := timeOf(r.ulids[len(r.ulids)-1]).Add(time.Millisecond)
	if n.Until.Value == "" || last < r.Until {
		r.Until = last
	}
}

// timeOf returns the time in a ULID.
func timeOf(text string) stamp.Time {
	parsed, err := ulid.ParseStrict(text)
	if err != nil { // id.Is has accepted it
		return 0
	}
	return stamp.Of(parsed.Timestamp())
}

// pace returns the time between two deliveries.
func (r Replay) pace() time.Duration {
	if r.Rate == 0 {
		return 0
	}
	return time.Second / time.Duration(r.Rate)
}

const (
	// window bounds a replay's deliveries under way: those added whose first attempt has not ended.
	window = 128
	// ahead is how long before their due time we add deliveries.
	ahead = 2 * time.Second
)

// room returns how many deliveries may be added now.
func (r Replay) room(now stamp.Time) int {
	room := int(window - (r.added - r.Done))
	if r.Rate > 0 {
		room = min(room, int(now.Add(ahead).Sub(max(r.nextDue, now))/r.pace()))
	}
	return max(0, room)
}
