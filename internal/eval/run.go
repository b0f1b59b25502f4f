package eval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
)

const (
	// maxText is the largest result or error, in bytes.
	maxText = 1 << 20
	// MaxBody is the largest completion, which may have both.
	MaxBody = 2*maxText + 64<<10
	// maxListed caps error and result together: a list leaves out or cuts larger ones.
	maxListed = 64 << 10
	// maxListedError is the length, in characters, to which a list cuts an error.
	maxListedError = 1000
)

// Run applies an eval to a session.
type Run struct {
	_ struct{} `goName:"EvalRun"`

	ID              string          `json:"id" example:"evalrun_01jcq41c3e5g7j9m1p3r5t7w9z"`
	SessionID       string          `json:"sessionId" example:"sess_01jcq3y8a0c2e4g6j8m0p2r4t6"`
	EvalID          string          `json:"evalId" example:"evalid_01jcq40a1c3e5g7j9m1p3r5t7w"`
	EvalIdentifier  *string         `json:"evalIdentifier" example:"politeness"`
	EvalName        *string         `json:"evalName" doc:"Null until the evaluation is known" example:"Politeness"`
	AgentIdentifier *string         `json:"agentIdentifier" doc:"Null until the evaluation is known" example:"agent_support"`
	OrgID           string          `json:"orgId" example:"org_01jcq3r0b3d6g9j2m5p8s1v4xz"`
	ProjectID       string          `json:"projectId" example:"prj_01jcq3q9z1b4d7g0j3m6p9s2vw"`
	DeploymentID    *string         `json:"deploymentId" example:"deploy_2026_11_15"`
	SpanID          *string         `json:"spanId,omitempty" example:"7c2f4a6e8b0d1f35"`
	Devmode         bool            `json:"devmode"`
	Pending         bool            `json:"pending"`
	Success         bool            `json:"success" doc:"Whether the evaluation itself ran: no error, and success of the result is not false"`
	Passed          *bool           `json:"passed" doc:"The verdict: passed of the result, or null if that is not a boolean" example:"true"`
	Score           *float64        `json:"score" doc:"score of the result, or null if that is not a finite number" example:"0.92"`
	Error           *string         `json:"error" example:"the connection was refused"`
	Result          json.RawMessage `json:"result" example:"{\"reason\":\"polite\",\"score\":0.92,\"passed\":true,\"success\":true}"`
	ResultOmitted   bool            `json:"result_omitted,omitempty" doc:"Result is omitted from the list: too large, or the page is full"`
	Truncated       bool            `json:"truncated,omitempty" doc:"Error is cut to 1000 characters in the list"`
	CreatedAt       stamp.Time      `json:"createdAt" format:"date-time"`
	UpdatedAt       stamp.Time      `json:"updatedAt" format:"date-time"`

	version int64
}

// ETag returns the row's version, which a completion and new labels change.
func (r Run) ETag() string { return page.ETag(r.version) }

// shorten leaves out the result and cuts the error, for a list.
func (r *Run) shorten(hasResult bool) {
	r.Result = nil
	r.ResultOmitted = hasResult
	if r.Error == nil {
		return
	}
	if runes := []rune(*r.Error); len(runes) > maxListedError {
		cut := string(runes[:maxListedError])
		r.Error = &cut
		r.Truncated = true
	}
}

// Start is the request body for POST /evalrun.
type Start struct {
	_ struct{} `goName:"NewEvalRun"`

	ID             string           `json:"id" example:"evalrun_01jcq41c3e5g7j9m1p3r5t7w9z"`
	SessionID      string           `json:"sessionId" doc:"The session may be created later" example:"sess_01jcq3y8a0c2e4g6j8m0p2r4t6"`
	EvalID         string           `json:"evalId" doc:"The evaluation may be created later" example:"evalid_01jcq40a1c3e5g7j9m1p3r5t7w"`
	EvalIdentifier *string          `json:"evalIdentifier,omitempty" example:"politeness"`
	OrgID          string           `json:"orgId" example:"org_01jcq3r0b3d6g9j2m5p8s1v4xz"`
	ProjectID      string           `json:"projectId" doc:"An unknown project is created" example:"prj_01jcq3q9z1b4d7g0j3m6p9s2vw"`
	DeploymentID   *string          `json:"deploymentId,omitempty" example:"deploy_2026_11_15"`
	SpanID         *string          `json:"spanId,omitempty" example:"7c2f4a6e8b0d1f35"`
	Devmode        bool             `json:"devmode,omitempty"`
	Timestamp      stamp.ClientTime `json:"timestamp,omitempty"`
}

// build returns the run. It returns Invalid with all errors in the body.
func (s Start) build(now stamp.Time) (Run, error) {
	var faults errs.Faults
	s.Check(&faults)
	at := s.Timestamp.Resolve(now)
	return Run{
		ID: s.ID, SessionID: s.SessionID, EvalID: s.EvalID, OrgID: s.OrgID, ProjectID: s.ProjectID,
		EvalIdentifier: nonEmpty(s.EvalIdentifier), DeploymentID: nonEmpty(s.DeploymentID), SpanID: nonEmpty(s.SpanID),
		Devmode: s.Devmode, Pending: true, CreatedAt: at, UpdatedAt: at, version: 1,
	}, faults.Err()
}

// Check implements web.Checked.
func (s Start) Check(faults *errs.Faults) {
	checkID(faults, "body.id", s.ID)
	checkID(faults, "body.sessionId", s.SessionID)
	checkID(faults, "body.evalId", s.EvalID)
	checkID(faults, "body.projectId", s.ProjectID)
	checkLength(faults, "body.evalIdentifier", s.EvalIdentifier, 256)
	checkOptionalID(faults, "body.deploymentId", nonEmpty(s.DeploymentID))
	checkOptionalID(faults, "body.spanId", nonEmpty(s.SpanID))
	s.Timestamp.Check(faults, "body.timestamp")
}

// sameStart reports whether two runs were started with the same values. It ignores the time, which
// is the server's if none was sent.
func (r Run) sameStart(o Run) bool {
	return r.ID == o.ID && r.SessionID == o.SessionID && r.EvalID == o.EvalID && r.ProjectID == o.ProjectID &&
		r.Devmode == o.Devmode && equal(r.EvalIdentifier, o.EvalIdentifier) &&
		equal(r.DeploymentID, o.DeploymentID) && equal(r.SpanID, o.SpanID)
}

// equal reports whether two texts are equal or both nil.
func equal(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }

// Completion is the request body for PUT /evalrun.
type Completion struct {
	_ struct{} `goName:"EvalRunCompletion"`

	ID        string           `json:"id" example:"evalrun_01jcq41c3e5g7j9m1p3r5t7w9z"`
	Error     *string          `json:"error,omitempty" doc:"Null, absent or empty if there was none" example:"the connection was refused"`
	Result    json.RawMessage  `json:"result,omitempty" doc:"Any JSON value. Of an object, success says whether the evaluation ran, passed is its verdict and score its figure" example:"{\"reason\":\"polite\",\"score\":0.92,\"passed\":true,\"success\":true}"`
	Timestamp stamp.ClientTime `json:"timestamp,omitempty"`
}

// outcome is a validated completion.
type outcome struct {
	id      string
	err     *string
	result  *string // compact JSON
	verdict verdict
	at      stamp.Time
}

// build returns the outcome. It returns TooLarge, or Invalid with all errors in the body.
func (c Completion) build(now stamp.Time) (outcome, error) {
	var faults errs.Faults
	c.Check(&faults)
	if err := faults.Err(); err != nil {
		return outcome{}, err
	}
	if c.Error != nil && len(*c.Error) > maxText || len(c.Result) > maxText {
		return outcome{}, errs.New(errs.TooLarge, "error and result may have at most %d bytes each", maxText)
	}
	result, err := compactResult(c.Result)
	if err != nil {
		return outcome{}, err
	}
	return outcome{id: c.ID, err: nonEmpty(c.Error), result: result, verdict: judge(c.Result), at: c.Timestamp.Resolve(now)}, nil
}

// Check implements web.Checked.
func (c Completion) Check(faults *errs.Faults) {
	checkID(faults, "body.id", c.ID)
	c.Timestamp.Check(faults, "body.timestamp")
}

// compactResult returns the result without white space, or nil for null.
func compactResult(result json.RawMessage) (*string, error) {
	if len(result) == 0 {
		return nil, nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, result); err != nil {
		return nil, fmt.Errorf("compact result: %w", err)
	}
	text := compact.String()
	if text == "null" {
		return nil, nil
	}
	return &text, nil
}

// size returns the length of error and result.
func (o outcome) size() int {
	n := 0
	if o.err != nil {
		n += len(*o.err)
	}
	if o.result != nil {
		n += len(*o.result)
	}
	return n
}

// verdict has the members that the API understands in a result.
type verdict struct {
	broken bool // success is false
	passed *bool
	score  *float64
}

// judge reads the verdict from a result, which need not be an object. It ignores members that have another type.
func judge(result json.RawMessage) (v verdict) {
	var object map[string]json.RawMessage
	if json.Unmarshal(result, &object) != nil {
		return v
	}
	v.broken = string(object["success"]) == "false"
	passed := string(object["passed"]) == "true"
	if passed || string(object["passed"]) == "false" {
		v.passed = &passed
	}
	if score, err := strconv.ParseFloat(string(object["score"]), 64); err == nil {
		score += 0 // SQLite stores no -0
		v.score = &score
	}
	return v
}

// completedAs reports whether the run was completed with an outcome.
func (r Run) completedAs(o outcome) bool {
	var result json.RawMessage
	if o.result != nil {
		result = json.RawMessage(*o.result)
	}
	return equal(r.Error, o.err) && equalJSON(r.Result, result)
}

// equalJSON reports whether two texts have equal values. The order of keys does not matter, nor does
// the way in which strings and numbers are written.
func equalJSON(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	return string(a) == string(b) || equalValues(decode(a), decode(b))
}

func decode(text json.RawMessage) any {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return nil // it was valid when it was received
	}
	return value
}

func equalValues(a, b any) bool {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && maps.EqualFunc(x, y, equalValues)
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, equalValues)
	case json.Number:
		y, ok := b.(json.Number)
		return ok && equalNumbers(string(x), string(y))
	}
	return a == b
}

// equalNumbers compares whole numbers by their digits, which a float may not hold, and others as
// floats.
func equalNumbers(a, b string) bool {
	if !strings.ContainsAny(a+b, ".eE") {
		return a == b
	}
	x, err := strconv.ParseFloat(a, 64)
	if err != nil {
		return a == b
	}
	y, err := strconv.ParseFloat(b, 64)
	if err != nil {
		return a == b
	}
	return x == y
}
