package thread

import (
	"encoding/json"
	"math"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/stamp"
)

// Session is one run of an agent, as its runtime tells it: a start and a completion, in any order.
type Session struct {
	ID           string      `json:"id"`
	OrgID        string      `json:"orgId"`
	ProjectID    *string     `json:"projectId" doc:"Null when only the completion is known, and not whose it is"`
	ThreadID     *string     `json:"threadId"`
	DeploymentID *string     `json:"deploymentId"`
	RouteID      string      `json:"routeId"`
	Environment  string      `json:"environment"`
	Devmode      bool        `json:"devmode"`
	URL          string      `json:"url"`
	Method       string      `json:"method"`
	Trigger      string      `json:"trigger"`
	Pending      bool        `json:"pending" doc:"True until the runtime has told the completion"`
	StartedAt    stamp.Time  `json:"startedAt" format:"date-time"`
	CompletedAt  *stamp.Time `json:"completedAt" format:"date-time"`
	StatusCode   *int        `json:"statusCode"`
	Error        *string     `json:"error"`
	AgentIDs     []string    `json:"agentIds"`
	UserData     *string     `json:"userData" doc:"Lists leave out one over 64 KiB"`
	Metadata     Metadata    `json:"metadata"`
	CreatedAt    stamp.Time  `json:"createdAt" format:"date-time"`
	UpdatedAt    stamp.Time  `json:"updatedAt" format:"date-time"`

	started bool
	version int64
}

// ETag is the row's version.
func (s Session) ETag() string { return page.ETag(s.version) }

func (s Session) project() string {
	if s.ProjectID == nil {
		return ""
	}
	return *s.ProjectID
}

// Start is the body of POST /session.
type Start struct {
	ID           string   `json:"id"`
	ThreadID     *string  `json:"threadId,omitempty" doc:"May name a thread that comes later"`
	OrgID        string   `json:"orgId" doc:"The caller's organization"`
	ProjectID    string   `json:"projectId"`
	DeploymentID *string  `json:"deploymentId,omitempty"`
	RouteID      string   `json:"routeId"`
	Environment  string   `json:"environment"`
	Devmode      bool     `json:"devmode"`
	URL          string   `json:"url"`
	Method       string   `json:"method"`
	Trigger      string   `json:"trigger"`
	Metadata     Metadata `json:"metadata,omitempty"`
	Timestamp    *Moment  `json:"timestamp,omitempty"`
}

// Completion is the body of PUT /session.
type Completion struct {
	ID         string   `json:"id"`
	ThreadID   *string  `json:"threadId"`
	Error      *string  `json:"error,omitempty"`
	AgentIDs   []string `json:"agentIds,omitempty" nullable:"true"`
	StatusCode int      `json:"statusCode"`
	UserData   *string  `json:"userData,omitempty" doc:"At most 1 MiB"`
	Metadata   Metadata `json:"metadata,omitempty" doc:"Replaces that of the start when it is sent"`
	Timestamp  *Moment  `json:"timestamp,omitempty"`
}

// Moment is a runtime's timestamp: an RFC 3339 time, or milliseconds since 1970.
type Moment stamp.Time

// noMoment is what a value of another form becomes, for check to find.
const noMoment = Moment(math.MinInt64)

// UnmarshalJSON reads either form.
func (m *Moment) UnmarshalJSON(b []byte) error {
	var millis float64
	if json.Unmarshal(b, &millis) == nil {
		*m = Moment(min(max(millis, 0), 1e15) * 1000)
		return nil
	}
	var text string
	if json.Unmarshal(b, &text) != nil || (*stamp.Time)(m).UnmarshalText([]byte(text)) != nil {
		*m = noMoment
	}
	return nil
}

// Schema documents both forms; check tells them from others.
func (Moment) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{
		Description: "When it happened: RFC 3339, or milliseconds since 1970; a time more than 5 minutes ahead of ours is taken as now",
		Examples:    []any{"2026-11-15T08:30:00Z"},
	}
}

func (m *Moment) check(faults *errs.Faults) {
	faults.Check(m == nil || *m != noMoment, "body.timestamp", "expected an RFC 3339 time, or milliseconds since 1970")
}

// maxAhead is how far a runtime's clock may run before ours.
const maxAhead = 5 * time.Minute

// within gives the runtime's time, or now when there is none, or when it is nonsense: what happened must be recorded all the same.
func (m *Moment) within(now stamp.Time) stamp.Time {
	if m == nil || *m <= 0 || stamp.Time(*m) > now.Add(maxAhead) {
		return now
	}
	return stamp.Time(*m)
}

const (
	maxAgents   = 1000
	foreignText = "expected 1 to 128 characters of A-Z a-z 0-9 . _ : -"
)

// check gives Invalid with every fault, and brings the values into the form in which they are stored.
func (b *Start) check() error {
	var faults errs.Faults
	faults.Check(id.Foreign(b.ID), "body.id", foreignText)
	b.ThreadID = checkThreadID(&faults, b.ThreadID)
	b.Timestamp.check(&faults)
	b.Metadata, _ = checkMetadata(&faults, "body.metadata", b.Metadata)
	return faults.Err()
}

// check is as that of Start.
func (b *Completion) check() error {
	var faults errs.Faults
	faults.Check(id.Foreign(b.ID), "body.id", foreignText)
	b.ThreadID = checkThreadID(&faults, b.ThreadID)
	b.Timestamp.check(&faults)
	faults.Check(len(b.AgentIDs) <= maxAgents, "body.agentIds", "expected at most %d", maxAgents)
	faults.Check(b.UserData == nil || len(*b.UserData) <= MaxText, "body.userData", "expected at most %d bytes", MaxText)
	b.Metadata, _ = checkMetadata(&faults, "body.metadata", b.Metadata)
	return faults.Err()
}

// checkThreadID takes an empty id for none.
func checkThreadID(faults *errs.Faults, threadID *string) *string {
	if threadID == nil || *threadID == "" {
		return nil
	}
	faults.Check(id.Foreign(*threadID), "body.threadId", foreignText)
	return threadID
}
