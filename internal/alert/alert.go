// Package alert tells an organization when something goes wrong: a destination fails, deliveries are
// late, requests are rejected, too few deliveries or runs succeed, a disk fills up, or a backup failed.
//
// An Alert is a rule: what to measure, and where to send notices. Once a minute, one replica measures all
// rules (evaluator.go, measure.go). A rule begins to fire when its condition holds, and recovers when the
// condition has not held for clearFor (Alert.step). Both are written in one transaction with the notice
// about it, unless somebody else has changed the rule meanwhile. So no notice is lost or made twice, even
// if a replica dies or two measure at once. A worker sends the notices that are due, again and again until
// the receiver accepts them (worker.go). It sends them at least once, each with its own id.
package alert

import (
	"maps"
	"net/mail"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/name"
	"steward/internal/page"
	"steward/internal/stamp"
)

const (
	// maxAlerts bounds an organization's alerts: each is measured once a minute.
	maxAlerts     = 50
	maxName       = 64
	maxURL        = 2048
	maxRecipients = 10
	// defaultRepeat is after how many hours a firing alert is sent again.
	defaultRepeat = 24
	// clearFor is how long a firing alert's condition must not hold until the alert recovers. A condition
	// that comes and goes causes no flood of notices this way.
	clearFor = 5 * time.Minute
)

// Kind says what an alert measures.
type Kind string

// The kinds.
const (
	DestinationFailing Kind = "destination_failing"
	DeliveryOverdue    Kind = "delivery_overdue"
	RequestsRejected   Kind = "requests_rejected"
	DeliveryPassRate   Kind = "delivery_pass_rate"
	RunPassRate        Kind = "run_pass_rate"
	DiskLow            Kind = "disk_low"
	BackupFailed       Kind = "backup_failed"
)

// kind has the defaults of a kind's params, which are 0 for those that it does not use.
type kind struct {
	minutes, count, percent int64
	webhook, eval           bool
	// installation reports whether it concerns all organizations. Only the first one can use it.
	installation bool
}

var kinds = map[Kind]kind{
	DestinationFailing: {minutes: 10, webhook: true},
	DeliveryOverdue:    {minutes: 15, webhook: true},
	RequestsRejected:   {minutes: 60, count: 10, webhook: true},
	DeliveryPassRate:   {minutes: 60, count: 20, percent: 95, webhook: true},
	RunPassRate:        {minutes: 60, count: 20, percent: 90, eval: true},
	DiskLow:            {percent: 10, installation: true},
	BackupFailed:       {installation: true},
}

// State is what a rule has found.
type State string

// The states. step moves an alert between them.
const (
	OK     State = "ok"
	Firing State = "firing"
)

// Alert is a rule, and what it has found.
type Alert struct {
	ID          string     `json:"id" example:"alr_01jcq3w7y2b5d8f1h4k7n0q3st"`
	Name        string     `json:"name" example:"Orders fail"`
	Kind        Kind       `json:"kind" enum:"destination_failing,delivery_overdue,requests_rejected,delivery_pass_rate,run_pass_rate,disk_low,backup_failed"`
	Params      Params     `json:"params"`
	Target      Target     `json:"target"`
	RepeatHours int64      `json:"repeat_hours" doc:"After how many hours a notice is sent again while the alert is firing; 0 for never" example:"24"`
	Disabled    bool       `json:"disabled" doc:"Whether the rule is not measured"`
	State       State      `json:"state" enum:"ok,firing"`
	Since       stamp.Time `json:"since" format:"date-time" doc:"Since when it has this state"`
	Summary     string     `json:"summary" doc:"What was found when the last notice was made; empty if the state is ok" example:"Deliveries to hooks.example.com have been failing since 15 November 2026, 08:30 UTC"`
	LastNotice  *Notice    `json:"last_notice" doc:"null before the first one"`
	CreatedBy   string     `json:"created_by" example:"usr_01jcq3s1d4f8k2m6p9r3t7v0wx"`
	CreatedAt   stamp.Time `json:"created_at" format:"date-time"`
	UpdatedAt   stamp.Time `json:"updated_at" format:"date-time"`

	orgID string
	// clearSince is since when a firing alert's condition does not hold, or nil.
	clearSince *stamp.Time
	notifiedAt *stamp.Time
	version    int64
}

// ETag returns the row's version, which measurements leave alone.
func (a Alert) ETag() string { return page.ETag(a.version) }

// MovesWithoutVersion implements page.Moving.
func (Alert) MovesWithoutVersion() {}

// Params says when an alert fires. Each kind uses some of the fields.
type Params struct {
	_ struct{} `goName:"AlertParams"`

	Minutes   *int64 `json:"minutes,omitempty" nullable:"true" minimum:"1" maximum:"1440" doc:"How long it must last, or the window in which events are counted" example:"10"`
	Count     *int64 `json:"count,omitempty" nullable:"true" minimum:"1" maximum:"1000" doc:"How many requests must be rejected, or of how many events a rate is taken at least" example:"20"`
	Percent   *int64 `json:"percent,omitempty" nullable:"true" minimum:"1" maximum:"100" doc:"The rate, or the free part of the disk, below which it fires" example:"95"`
	WebhookID string `json:"webhook_id,omitempty" nullable:"true" maxLength:"128" doc:"Only this webhook" example:"wh_01jcq43f5h8k1n4q7t0w3z6c9f"`
	EvalID    string `json:"eval_id,omitempty" nullable:"true" maxLength:"128" doc:"Only this evaluation" example:"evalid_01jcq40a1c3e5g7j9m1p3r5t7w"`
}

// Where notices go.
const (
	Webhook = "webhook"
	Slack   = "slack"
	Mail    = "mail"
)

// Target is where notices go. A URL may contain a credential, so we show its scheme and host only.
type Target struct {
	_ struct{} `goName:"AlertTarget"`

	Type string   `json:"type" enum:"webhook,slack,mail"`
	URL  string   `json:"url,omitempty" nullable:"true" maxLength:"2048" doc:"For webhook and slack, an http or https URL; responses show only its host" example:"https://hooks.slack.com/***"`
	To   []string `json:"to,omitempty" maxItems:"10" nullable:"false" doc:"For mail, addresses of members" example:"ada@example.com"`
}

// masked returns the target as responses show it.
func (t Target) masked() Target {
	if u, err := url.Parse(t.URL); err == nil && t.URL != "" {
		t.URL = u.Scheme + "://" + u.Host + "/***"
	}
	return t
}

// NewAlert is a request to create an alert.
type NewAlert struct {
	_ struct{} `goName:"NewAlert"`

	Name        string          `json:"name" minLength:"1" maxLength:"64" example:"Orders fail"`
	Kind        Kind            `json:"kind" enum:"destination_failing,delivery_overdue,requests_rejected,delivery_pass_rate,run_pass_rate,disk_low,backup_failed"`
	Params      Params          `json:"params,omitzero" doc:"Each kind has defaults"`
	Target      Target          `json:"target"`
	RepeatHours page.Opt[int64] `json:"repeat_hours,omitempty" minimum:"0" maximum:"168" nullable:"false" doc:"By default 24; 0 for never" example:"24"`
	Disabled    bool            `json:"disabled,omitempty"`
}

// Patch is a request to update an alert. Absent fields stay as they are. With other params, the alert
// begins with the state ok again.
type Patch struct {
	_ struct{} `goName:"AlertPatch"`

	Name        page.Opt[string] `json:"name,omitempty" minLength:"1" maxLength:"64" nullable:"false" example:"Orders fail"`
	Params      page.Opt[Params] `json:"params,omitempty" nullable:"false" doc:"Replaces all params" example:"{\"minutes\":30}"`
	Target      page.Opt[Target] `json:"target,omitempty" nullable:"false" doc:"Replaces the target; a URL as responses show it stays as it is" example:"{\"type\":\"slack\",\"url\":\"https://hooks.slack.com/services/T0/B0/x\"}"`
	RepeatHours page.Opt[int64]  `json:"repeat_hours,omitempty" minimum:"0" maximum:"168" nullable:"false" example:"24"`
	Disabled    page.Opt[bool]   `json:"disabled,omitempty" nullable:"false"`
}

// alert returns the requested alert, which may be invalid.
func (n NewAlert) alert(now time.Time) Alert {
	created := stamp.Of(now)
	a := Alert{
		ID: id.At(id.Alert, now), Name: n.Name, Kind: n.Kind, Params: n.Params, Target: n.Target, RepeatHours: defaultRepeat,
		Disabled: n.Disabled, State: OK, Since: created, CreatedAt: created, UpdatedAt: created, version: 1,
	}
	n.RepeatHours.Set(&a.RepeatHours)
	a.Params.fill(kinds[a.Kind])
	return a
}

// Check adds a fault for each rule that the request breaks.
func (n NewAlert) Check(faults *errs.Faults) { n.alert(time.Time{}).validate(faults) }

// Check adds a fault for each rule that the patch breaks for any alert.
func (p Patch) Check(faults *errs.Faults) {
	checkName(faults, p.Name.Ptr())
	if t := p.Target.Ptr(); t != nil {
		t.check(faults)
	}
}

// apply returns the alert with the patch applied, or Invalid, listing all faults in the
// request.
func (p Patch) apply(before Alert, now time.Time) (Alert, error) {
	a := before
	p.Name.Set(&a.Name)
	p.Params.Set(&a.Params)
	p.RepeatHours.Set(&a.RepeatHours)
	p.Disabled.Set(&a.Disabled)
	p.Target.Set(&a.Target)
	if a.Target.URL != "" && a.Target.URL == before.Target.masked().URL {
		a.Target.URL = before.Target.URL
	}
	a.Params.fill(kinds[a.Kind])
	a.UpdatedAt = max(stamp.Of(now), before.UpdatedAt)
	if p.Params.Sent || a.Disabled != before.Disabled {
		a.State = OK
		a.Since = a.UpdatedAt
		a.Summary = ""
		a.clearSince = nil
	}
	a.version++
	var faults errs.Faults
	a.validate(&faults)
	return a, faults.Err()
}

// fill sets params that the client has not sent to the kind's defaults.
func (p *Params) fill(k kind) {
	for field, fallback := range map[**int64]int64{&p.Minutes: k.minutes, &p.Count: k.count, &p.Percent: k.percent} {
		if *field == nil && fallback > 0 {
			*field = &fallback
		}
	}
}

func (a Alert) validate(faults *errs.Faults) {
	checkName(faults, &a.Name)
	k, known := kinds[a.Kind]
	faults.Check(known, "body.kind", "expected one of the kinds")
	p := a.Params
	for _, f := range []struct {
		name     string
		value    *int64
		fallback int64
		most     int64
	}{{"minutes", p.Minutes, k.minutes, 1440}, {"count", p.Count, k.count, 1000}, {"percent", p.Percent, k.percent, 100}} {
		faults.Check(!known || f.fallback > 0 || f.value == nil, "body.params."+f.name, "expected with other kinds only")
		faults.Check(f.value == nil || *f.value >= 1 && *f.value <= f.most, "body.params."+f.name, "expected 1 to %d", f.most)
	}
	faults.Check(p.WebhookID == "" || id.Is(id.Webhook, p.WebhookID) && (!known || k.webhook), "body.params.webhook_id",
		"expected the id of a webhook, with kinds about webhooks")
	faults.Check(p.EvalID == "" || id.Foreign(p.EvalID) && (!known || k.eval), "body.params.eval_id",
		"expected the id of an evaluation, with the kind run_pass_rate")
	faults.Check(a.RepeatHours >= 0 && a.RepeatHours <= 168, "body.repeat_hours", "expected 0 to 168")
	a.Target.check(faults)
}

func checkName(faults *errs.Faults, s *string) {
	faults.Check(s == nil || name.Valid(*s) && utf8.RuneCountInString(*s) <= maxName, "body.name", "expected %s", name.Expected)
}

func (t Target) check(faults *errs.Faults) {
	switch t.Type {
	case Webhook, Slack:
		u, err := url.Parse(t.URL)
		faults.Check(err == nil && len(t.URL) <= maxURL && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil,
			"body.target.url", "expected an absolute http or https URL without user and password, of at most %d characters", maxURL)
		faults.Check(len(t.To) == 0, "body.target.to", "expected with mail only")
	case Mail:
		faults.Check(len(t.To) > 0 && len(t.To) <= maxRecipients, "body.target.to", "expected 1 to %d addresses of members", maxRecipients)
		for _, to := range t.To {
			address, err := mail.ParseAddress(to)
			faults.Check(err == nil && address.Address == to, "body.target.to", "expected addresses such as ada@example.com")
		}
		faults.Check(t.URL == "", "body.target.url", "expected with webhook and slack only")
	default:
		faults.Check(false, "body.target.type", "expected webhook, slack or mail")
	}
}

// normal returns the target with each address once and in lower case.
func (t Target) normal() Target {
	to := map[string]bool{}
	for _, address := range t.To {
		to[strings.ToLower(address)] = true
	}
	t.To = slices.Sorted(maps.Keys(to))
	return t
}

// Verdict is the result of a measurement. Summary says what is wrong, if Failing.
type Verdict struct {
	Failing bool
	Summary string
}

// step returns the alert after a measurement, and the event to tell of, or "".
func (a Alert) step(v Verdict, now stamp.Time) (Alert, Event) {
	switch {
	case a.State == OK && v.Failing:
		a.State = Firing
		a.Since = now
		a.Summary = v.Summary
		return a, EventFiring
	case a.State == OK:
		return a, ""
	case v.Failing:
		a.clearSince = nil
		if a.RepeatHours == 0 || now < a.notifiedAtOr(a.Since).Add(time.Duration(a.RepeatHours)*time.Hour) {
			return a, ""
		}
		a.Summary = v.Summary
		return a, EventRepeated
	case a.clearSince == nil:
		a.clearSince = &now
		return a, ""
	case now < a.clearSince.Add(clearFor):
		return a, ""
	}
	a.State = OK
	a.Since = now
	a.Summary = ""
	a.clearSince = nil
	return a, EventRecovered
}

func (a Alert) notifiedAtOr(otherwise stamp.Time) stamp.Time {
	if a.notifiedAt == nil {
		return otherwise
	}
	return *a.notifiedAt
}
