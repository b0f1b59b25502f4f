package thread

import (
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/stamp"
)

// Session is one run of an agent, as its runtime reports it: a start and a completion, which may
// arrive in any order.
type Session struct {
	ID           string      `json:"id"`
	OrgID        string      `json:"orgId"`
	ProjectID    *string     `json:"projectId" doc:"Null if only the completion has arrived and its project is not known"`
	ThreadID     *string     `json:"threadId"`
	DeploymentID *string     `json:"deploymentId"`
	RouteID      string      `json:"routeId"`
	Environment  string      `json:"environment"`
	Devmode      bool        `json:"devmode"`
	URL          string      `json:"url"`
	Method       string      `json:"method"`
	Trigger      string      `json:"trigger"`
	Pending      bool        `json:"pending" doc:"True until the completion has arrived"`
	StartedAt    stamp.Time  `json:"startedAt" format:"date-time"`
	CompletedAt  *stamp.Time `json:"completedAt" format:"date-time"`
	StatusCode   *int        `json:"statusCode"`
	Error        *string     `json:"error"`
	AgentIDs     []string    `json:"agentIds"`
	UserData     *string     `json:"userData" doc:"Null in lists if user_data_omitted is set"`
	Metadata     Metadata    `json:"metadata"`
	CreatedAt    stamp.Time  `json:"createdAt" format:"date-time"`
	UpdatedAt    stamp.Time  `json:"updatedAt" format:"date-time"`
	// The next two are set in lists only.
	UserDataOmitted bool `json:"user_data_omitted,omitempty" doc:"userData is omitted from the list: too large, or the page is full"`
	MetadataOmitted bool `json:"metadata_omitted,omitempty" doc:"metadata is omitted from the list: the page is full"`

	started bool
	version int64
}

// ETag returns the version of the row.
func (s Session) ETag() string { return page.ETag(s.version) }

func (s Session) project() string {
	if s.ProjectID == nil {
		return ""
	}
	return *s.ProjectID
}

// Start is the body of POST /session.
type Start struct {
	ID           string           `json:"id"`
	ThreadID     *string          `json:"threadId,omitempty" doc:"The thread may be created later"`
	OrgID        string           `json:"orgId" doc:"The caller's organization"`
	ProjectID    string           `json:"projectId"`
	DeploymentID *string          `json:"deploymentId,omitempty"`
	RouteID      string           `json:"routeId"`
	Environment  string           `json:"environment"`
	Devmode      bool             `json:"devmode"`
	URL          string           `json:"url"`
	Method       string           `json:"method"`
	Trigger      string           `json:"trigger"`
	Metadata     Metadata         `json:"metadata,omitempty" maxProperties:"1000"`
	Timestamp    stamp.ClientTime `json:"timestamp,omitempty"`
}

// Completion is the body of PUT /session.
type Completion struct {
	ID         string           `json:"id"`
	ThreadID   *string          `json:"threadId"`
	Error      *string          `json:"error,omitempty"`
	AgentIDs   []string         `json:"agentIds,omitempty" maxItems:"1000"`
	StatusCode int              `json:"statusCode"`
	UserData   *string          `json:"userData,omitempty" doc:"At most 1 MiB"`
	Metadata   Metadata         `json:"metadata,omitempty" maxProperties:"1000" doc:"Replaces the metadata of the start"`
	Timestamp  stamp.ClientTime `json:"timestamp,omitempty"`
}

const (
	maxAgents = 1000
	idRule    = "expected " + id.ExpectedForeign
)

// check brings the values into the form in which they are stored. It returns Invalid with all
// errors of the body.
func (b *Start) check() error {
	var faults errs.Faults
	b.Check(&faults)
	return faults.Err()
}

// Check implements web.Checked.
func (b *Start) Check(faults *errs.Faults) {
	faults.Check(id.Foreign(b.ID), "body.id", idRule)
	faults.Check(id.Foreign(b.ProjectID), "body.projectId", idRule)
	b.ThreadID = checkThreadID(faults, b.ThreadID)
	b.Timestamp.Check(faults, "body.timestamp")
	b.Metadata = checkMetadata(faults, "body.metadata", b.Metadata).text
}

// check is like Start.check.
func (b *Completion) check() error {
	var faults errs.Faults
	b.Check(&faults)
	return faults.Err()
}

// Check implements web.Checked.
func (b *Completion) Check(faults *errs.Faults) {
	faults.Check(id.Foreign(b.ID), "body.id", idRule)
	b.ThreadID = checkThreadID(faults, b.ThreadID)
	b.Timestamp.Check(faults, "body.timestamp")
	faults.Check(len(b.AgentIDs) <= maxAgents, "body.agentIds", "expected at most %d", maxAgents)
	faults.Check(b.UserData == nil || len(*b.UserData) <= MaxText, "body.userData", "expected at most %d bytes", MaxText)
	b.Metadata = checkMetadata(faults, "body.metadata", b.Metadata).text
}

// checkThreadID returns nil for an empty id.
func checkThreadID(faults *errs.Faults, threadID *string) *string {
	if threadID == nil || *threadID == "" {
		return nil
	}
	faults.Check(id.Foreign(*threadID), "body.threadId", idRule)
	return threadID
}
