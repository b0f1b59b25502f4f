package thread

import (
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/stamp"
)

// Session is one agent run, as its runtime reports it: a start and a completion, which may arrive in
// any order.
type Session struct {
	ID           string      `json:"id" example:"sess_01jcq3y8a0c2e4g6j8m0p2r4t6"`
	OrgID        string      `json:"orgId" example:"org_01jcq3r0b3d6g9j2m5p8s1v4xz"`
	ProjectID    *string     `json:"projectId" doc:"Null if only the completion has arrived and its project is not known" example:"prj_01jcq3q9z1b4d7g0j3m6p9s2vw"`
	ThreadID     *string     `json:"threadId" example:"thrd_01jcq3x6z8b0d2f4h6k8n0q2s4"`
	DeploymentID *string     `json:"deploymentId" example:"deploy_2026_11_15"`
	RouteID      string      `json:"routeId" example:"route_chat"`
	Environment  string      `json:"environment" example:"production"`
	Devmode      bool        `json:"devmode"`
	URL          string      `json:"url" example:"https://agents.example.com/chat"`
	Method       string      `json:"method" example:"POST"`
	Trigger      string      `json:"trigger" example:"api"`
	Pending      bool        `json:"pending" doc:"True until the completion has arrived"`
	StartedAt    stamp.Time  `json:"startedAt" format:"date-time"`
	CompletedAt  *stamp.Time `json:"completedAt" format:"date-time"`
	StatusCode   *int        `json:"statusCode" example:"200"`
	Error        *string     `json:"error" example:"the connection was refused"`
	AgentIDs     []string    `json:"agentIds" example:"agent_support"`
	UserData     *string     `json:"userData" doc:"Null in lists if user_data_omitted is set" example:"{\"step\":3}"`
	Metadata     Metadata    `json:"metadata"`
	CreatedAt    stamp.Time  `json:"createdAt" format:"date-time"`
	UpdatedAt    stamp.Time  `json:"updatedAt" format:"date-time"`
	// The next two are set in lists only.
	UserDataOmitted bool `json:"user_data_omitted,omitempty" doc:"userData is omitted from the list: too large, or the page is full"`
	MetadataOmitted bool `json:"metadata_omitted,omitempty" doc:"metadata is omitted from the list: the page is full"`

	started bool
	version int64
}

// ETag returns the row's version.
func (s Session) ETag() string { return page.ETag(s.version) }

func (s Session) project() string {
	if s.ProjectID == nil {
		return ""
	}
	return *s.ProjectID
}

// Start is the request body for POST /session.
type Start struct {
	_ struct{} `goName:"NewSession"`

	ID           string           `json:"id" example:"sess_01jcq3y8a0c2e4g6j8m0p2r4t6"`
	ThreadID     *string          `json:"threadId,omitempty" doc:"The thread may be created later" example:"thrd_01jcq3x6z8b0d2f4h6k8n0q2s4"`
	OrgID        string           `json:"orgId" doc:"The caller's organization" example:"org_01jcq3r0b3d6g9j2m5p8s1v4xz"`
	ProjectID    string           `json:"projectId" example:"prj_01jcq3q9z1b4d7g0j3m6p9s2vw"`
	DeploymentID *string          `json:"deploymentId,omitempty" example:"deploy_2026_11_15"`
	RouteID      string           `json:"routeId" example:"route_chat"`
	Environment  string           `json:"environment" example:"production"`
	Devmode      bool             `json:"devmode"`
	URL          string           `json:"url" example:"https://agents.example.com/chat"`
	Method       string           `json:"method" example:"POST"`
	Trigger      string           `json:"trigger" example:"api"`
	Metadata     Metadata         `json:"metadata,omitempty" maxProperties:"1000"`
	Timestamp    stamp.ClientTime `json:"timestamp,omitempty"`
}

// Completion is the request body for PUT /session.
type Completion struct {
	_ struct{} `goName:"SessionCompletion"`

	ID         string           `json:"id" example:"sess_01jcq3y8a0c2e4g6j8m0p2r4t6"`
	ThreadID   *string          `json:"threadId" example:"thrd_01jcq3x6z8b0d2f4h6k8n0q2s4"`
	Error      *string          `json:"error,omitempty" example:"the connection was refused"`
	AgentIDs   []string         `json:"agentIds,omitempty" maxItems:"1000" example:"agent_support"`
	StatusCode int              `json:"statusCode" example:"200"`
	UserData   *string          `json:"userData,omitempty" doc:"At most 1 MiB" example:"{\"step\":3}"`
	Metadata   Metadata         `json:"metadata,omitempty" maxProperties:"1000" doc:"Replaces the metadata of the start"`
	Timestamp  stamp.ClientTime `json:"timestamp,omitempty"`
}

const (
	maxAgents = 1000
	idRule    = "expected " + id.ExpectedForeign
)

// check brings the values into the form that we store. It returns Invalid with all errors in the
// body.
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
