package eval

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/errs"
	"steward/internal/stamp"
)

const (
	// maxAhead is how far a runtime's clock may be ahead of ours.
	maxAhead = 5 * time.Minute
	// maxText is the most that a result, or an error, may have.
	maxText = 1 << 20
	// MaxBody is what a completion with both may come to.
	MaxBody = 2*maxText + 64<<10
	// maxListed is how much of error and result a list shows; what is larger is told by Get.
	maxListed = 64 << 10
)

// Run is one run of an eval over a session.
type Run struct {
	ID              string          `json:"id"`
	SessionID       string          `json:"sessionId"`
	EvalID          string          `json:"evalId"`
	EvalIdentifier  *string         `json:"evalIdentifier"`
	EvalName        *string         `json:"evalName" doc:"null until the eval is known"`
	AgentIdentifier *string         `json:"agentIdentifier" doc:"null until the eval is known"`
	OrgID           string          `json:"orgId"`
	ProjectID       string          `json:"projectId"`
	DeploymentID    *string         `json:"deploymentId"`
	SpanID          *string         `json:"spanId,omitempty"`
	Devmode         bool            `json:"devmode"`
	Pending         bool            `json:"pending"`
	Success         bool            `json:"success"`
	Error           *string         `json:"error"`
	Result          json.RawMessage `json:"result"`
	Truncated       bool            `json:"truncated,omitempty" doc:"In lists: error is cut and result left out, since they are over 64 KiB"`
	CreatedAt       stamp.Time      `json:"createdAt" format:"date-time"`
	UpdatedAt       stamp.Time      `json:"updatedAt" format:"date-time"`

	size int64 // of error and result together
}

// Start is what a runtime tells when a run begins.
type Start struct {
	ID             string  `json:"id"`
	SessionID      string  `json:"sessionId" doc:"May become known later"`
	EvalID         string  `json:"evalId" doc:"May become known later"`
	EvalIdentifier *string `json:"evalIdentifier,omitempty"`
	OrgID          string  `json:"orgId"`
	ProjectID      string  `json:"projectId" doc:"An unknown project is registered"`
	DeploymentID   *string `json:"deploymentId,omitempty"`
	SpanID         *string `json:"spanId,omitempty"`
	Devmode        bool    `json:"devmode,omitempty"`
	Timestamp      Moment  `json:"timestamp,omitempty"`
}

// build makes the run, or Invalid.
func (s Start) build(now time.Time) (Run, error) {
	var faults errs.Faults
	checkID(&faults, "body.id", s.ID)
	checkID(&faults, "body.sessionId", s.SessionID)
	checkID(&faults, "body.evalId", s.EvalID)
	checkID(&faults, "body.projectId", s.ProjectID)
	r := Run{
		ID: s.ID, SessionID: s.SessionID, EvalID: s.EvalID, OrgID: s.OrgID, ProjectID: s.ProjectID, Devmode: s.Devmode, Pending: true,
		EvalIdentifier: filled(s.EvalIdentifier), DeploymentID: filled(s.DeploymentID), SpanID: filled(s.SpanID),
	}
	faults.Check(s.EvalIdentifier == nil || len(*s.EvalIdentifier) <= 256, "body.evalIdentifier", "expected at most 256 bytes")
	checkOptionalID(&faults, "body.deploymentId", r.DeploymentID)
	checkOptionalID(&faults, "body.spanId", r.SpanID)
	r.CreatedAt = s.Timestamp.read(now, &faults)
	r.UpdatedAt = r.CreatedAt
	return r, faults.Err()
}

// sameStart tells whether two starts say the same. The time is not compared: a repeat that carries none would differ by our own clock.
func (r Run) sameStart(o Run) bool {
	return r.ID == o.ID && r.SessionID == o.SessionID && r.EvalID == o.EvalID && r.ProjectID == o.ProjectID && r.Devmode == o.Devmode &&
		same(r.EvalIdentifier, o.EvalIdentifier) && same(r.DeploymentID, o.DeploymentID) && same(r.SpanID, o.SpanID)
}

func same(a, b *string) bool { return a == nil && b == nil || a != nil && b != nil && *a == *b }

// Completion is what a runtime tells when a run ends.
type Completion struct {
	ID        string          `json:"id"`
	Error     *string         `json:"error,omitempty" doc:"null, absent or empty when there was none"`
	Result    json.RawMessage `json:"result,omitempty" doc:"Any JSON; kept as it is"`
	Timestamp Moment          `json:"timestamp,omitempty"`
}

// outcome is a completion that was checked.
type outcome struct {
	id      string
	err     *string
	result  *string
	success bool
	at      stamp.Time
}

// build checks a completion: Invalid, or TooLarge.
func (c Completion) build(now time.Time) (outcome, error) {
	var faults errs.Faults
	checkID(&faults, "body.id", c.ID)
	o := outcome{id: c.ID, err: filled(c.Error), at: c.Timestamp.read(now, &faults)}
	if text := string(c.Result); text != "" && text != "null" {
		o.result = &text
	}
	o.success = o.err == nil && !failed(c.Result)
	if err := faults.Err(); err != nil {
		return o, err
	}
	if o.err != nil && len(*o.err) > maxText || len(c.Result) > maxText {
		return o, errs.New(errs.TooLarge, "error and result may have %d bytes each", maxText)
	}
	return o, nil
}

func (o outcome) size() (n int) {
	if o.err != nil {
		n = len(*o.err)
	}
	if o.result != nil {
		n += len(*o.result)
	}
	return n
}

// failed tells whether a result says of itself that the run did not succeed: an object whose `success` is false.
func failed(result json.RawMessage) bool {
	var object map[string]json.RawMessage
	return json.Unmarshal(result, &object) == nil && string(object["success"]) == "false"
}

// completedAs tells whether the run was completed with that outcome.
func (r Run) completedAs(o outcome) bool {
	var result json.RawMessage
	if o.result != nil {
		result = json.RawMessage(*o.result)
	}
	return same(r.Error, o.err) && equalJSON(r.Result, result)
}

// equalJSON compares values, not texts: order of keys, white space, escapes and ways to write a number do not matter.
func equalJSON(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	return string(a) == string(b) || equalValues(decode(a), decode(b))
}

func decode(text json.RawMessage) (v any) {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil // both were valid when they came in
	}
	return v
}

func equalValues(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for key, value := range x {
			other, there := y[key]
			if !there || !equalValues(value, other) {
				return false
			}
		}
		return true
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !equalValues(x[i], y[i]) {
				return false
			}
		}
		return true
	case json.Number:
		y, ok := b.(json.Number)
		return ok && equalNumbers(string(x), string(y))
	}
	return a == b
}

// equalNumbers compares whole numbers by their digits, which may be more than a float holds, and others as floats.
func equalNumbers(a, b string) bool {
	if a == b || !strings.ContainsAny(a+b, ".eE") {
		return a == b
	}
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return err1 == nil && err2 == nil && x == y
}

// Moment is a time as runtimes send it: milliseconds since 1970, or RFC 3339. Absent or null means now.
type Moment struct{ text string }

// UnmarshalJSON keeps the text, so that read can name the field when it is wrong.
func (m *Moment) UnmarshalJSON(b []byte) error {
	m.text = string(b)
	return nil
}

// Schema documents both forms.
func (Moment) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Description: "Milliseconds since 1970, or an RFC 3339 time; one more than 5 minutes ahead of ours is taken as now. Absent means now",
	}
}

// read gives the moment, and notes a fault when it is no time. A runtime whose clock is wrong may be right about all else: what it puts
// into the future happened now.
func (m Moment) read(now time.Time, faults *errs.Faults) stamp.Time {
	if m.text == "" || m.text == "null" {
		return stamp.Of(now)
	}
	at, ok := m.parse()
	if !ok || at < 0 {
		faults.Add("body.timestamp", "expected milliseconds since 1970 or an RFC 3339 time")
	}
	if at > stamp.Of(now.Add(maxAhead)) {
		return stamp.Of(now)
	}
	return at
}

func (m Moment) parse() (at stamp.Time, ok bool) {
	if m.text[0] == '"' {
		var text string
		err := json.Unmarshal([]byte(m.text), &text)
		if err == nil {
			err = at.UnmarshalText([]byte(text))
		}
		return at, err == nil
	}
	ms, err := strconv.ParseFloat(m.text, 64)
	return stamp.Time(math.Round(ms * 1000)), err == nil && ms >= 0 && ms < 1e14
}
