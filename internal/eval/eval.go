// Package eval owns the evaluations that judge agents, and their runs.
//
// A deployment or a development server registers evals (Put, Sync); a runtime starts runs and
// completes them (Start, Complete). They may arrive in any order: a run may name a session or an
// eval that we do not know yet.
//
// A run copies its eval's name and agent when it starts. We call these its labels, and they make a
// filter by agent one range in an index. If an eval arrives later or changes, it labels its newest
// runs in its own transaction, and Sweep labels the others in small ones (store_relabel.go).
// Deleting an eval leaves its runs as they are.
//
// A completion also copies passed and score from the result. Sweep does so for results that an
// earlier version stored (judgeRuns).
//
// A run is pending until it is completed, once. Concurrent starts and completions share transactions.
package eval

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/stamp"
)

// Eval is an evaluation.
type Eval struct {
	ID              string     `json:"id" example:"evalid_01jcq40a1c3e5g7j9m1p3r5t7w"`
	Name            string     `json:"name" example:"Politeness"`
	Description     *string    `json:"description" example:"The answer is polite"`
	Identifier      *string    `json:"identifier" doc:"Stable identifier: the same in all deployments, unlike the id" example:"politeness"`
	AgentIdentifier string     `json:"agentIdentifier" example:"agent_support"`
	OrgID           string     `json:"orgId" example:"org_01jcq3r0b3d6g9j2m5p8s1v4xz"`
	ProjectID       string     `json:"projectId" example:"prj_01jcq3q9z1b4d7g0j3m6p9s2vw"`
	DeploymentID    *string    `json:"deploymentId,omitempty" example:"deploy_2026_11_15"`
	Version         *string    `json:"version,omitempty" example:"1.4.0"`
	Filename        *string    `json:"filename,omitempty" example:"evals/politeness.ts"`
	Devmode         bool       `json:"devmode"`
	CreatedAt       stamp.Time `json:"createdAt" format:"date-time"`
	UpdatedAt       stamp.Time `json:"updatedAt" format:"date-time"`

	version int64
}

// ETag returns the row's version.
func (e Eval) ETag() string { return page.ETag(e.version) }

// NewEval is the request body for PUT /cli/eval/{id}.
type NewEval struct {
	Name            string  `json:"name" example:"Politeness"`
	Description     *string `json:"description,omitempty" example:"The answer is polite"`
	Identifier      *string `json:"identifier,omitempty" example:"politeness"`
	AgentIdentifier string  `json:"agentIdentifier" example:"agent_support"`
	ProjectID       string  `json:"projectId" doc:"An unknown project is created" example:"prj_01jcq3q9z1b4d7g0j3m6p9s2vw"`
	DeploymentID    *string `json:"deploymentId,omitempty" example:"deploy_2026_11_15"`
	Version         *string `json:"version,omitempty" example:"1.4.0"`
	Filename        *string `json:"filename,omitempty" example:"evals/politeness.ts"`
	Devmode         bool    `json:"devmode,omitempty"`
	OrgID           *string `json:"orgId,omitempty" doc:"The caller's organization" example:"org_01jcq3r0b3d6g9j2m5p8s1v4xz"`
}

// build returns the eval, and adds errors to faults with locations below location.
func (n NewEval) build(evalID, location string, faults *errs.Faults) Eval {
	checkName := strings.TrimSpace(n.Name) != "" && utf8.RuneCountInString(n.Name) <= 256
	faults.Check(checkName, location+".name", "expected 1 to 256 characters, not blank")
	checkAgent := n.AgentIdentifier != "" && len(n.AgentIdentifier) <= 256
	faults.Check(checkAgent, location+".agentIdentifier", "expected 1 to 256 bytes")
	checkID(faults, location+".projectId", n.ProjectID)
	checkOptionalID(faults, location+".deploymentId", nonEmpty(n.DeploymentID))
	checkLength(faults, location+".description", n.Description, 4096)
	checkLength(faults, location+".identifier", n.Identifier, 256)
	checkLength(faults, location+".version", n.Version, 256)
	checkLength(faults, location+".filename", n.Filename, 1024)
	return Eval{
		ID: evalID, Name: n.Name, AgentIdentifier: n.AgentIdentifier, ProjectID: n.ProjectID, Devmode: n.Devmode,
		Description: nonEmpty(n.Description), Identifier: nonEmpty(n.Identifier), DeploymentID: nonEmpty(n.DeploymentID),
		Version: nonEmpty(n.Version), Filename: nonEmpty(n.Filename),
	}
}

// Check implements web.Checked.
func (n NewEval) Check(faults *errs.Faults) { n.build("", "body", faults) }

// Sync is the request body for POST /cli/devmode/eval: the evals that a development server adds and removes.
type Sync struct {
	_ struct{} `goName:"EvalSync"`

	DeploymentID *string   `json:"deploymentId,omitempty" example:"deploy_2026_11_15"`
	Create       []SyncNew `json:"create,omitempty" maxItems:"1000" doc:"Evaluations to create or replace"`
	Delete       []string  `json:"delete,omitempty" maxItems:"1000" doc:"Ids to delete first; unknown ones are ignored" example:"evalid_01jcq40a1c3e5g7j9m1p3r5t7w"`
}

// SyncNew is one eval in a Sync.
type SyncNew struct {
	_ struct{} `goName:"EvalSyncEntry"`

	ID string `json:"id" example:"evalid_01jcq40a1c3e5g7j9m1p3r5t7w"`
	NewEval
}

// Synced is the response to a Sync.
type Synced struct {
	_ struct{} `goName:"EvalSynced"`

	Created []string `json:"created" doc:"Ids of the evaluations that were created or replaced" example:"evalid_01jcq40a1c3e5g7j9m1p3r5t7w"`
	Deleted []string `json:"deleted" doc:"Ids of the evaluations that were deleted" example:"evalid_01jcq42e5g7j9m1p3r5t7w9z1b"`
}

// build returns the evals to create. It returns Invalid with all errors in the body.
func (s Sync) build() ([]Eval, error) {
	var faults errs.Faults
	evals := s.evals(&faults)
	return evals, faults.Err()
}

// Check implements web.Checked.
func (s Sync) Check(faults *errs.Faults) { s.evals(faults) }

func (s Sync) evals(faults *errs.Faults) []Eval {
	checkOptionalID(faults, "body.deploymentId", nonEmpty(s.DeploymentID))
	evals := make([]Eval, len(s.Create))
	for i, n := range s.Create {
		location := fmt.Sprintf("body.create[%d]", i)
		checkID(faults, location+".id", n.ID)
		n.DeploymentID = nil
		n.Devmode = true
		evals[i] = n.build(n.ID, location, faults)
		evals[i].DeploymentID = nonEmpty(s.DeploymentID)
	}
	for i, evalID := range s.Delete {
		checkID(faults, fmt.Sprintf("body.delete[%d]", i), evalID)
	}
	return evals
}

func checkID(faults *errs.Faults, location, s string) {
	faults.Check(id.Foreign(s), location, "expected %s", id.ExpectedForeign)
}

func checkOptionalID(faults *errs.Faults, location string, s *string) {
	if s != nil {
		checkID(faults, location, *s)
	}
}

func checkLength(faults *errs.Faults, location string, s *string, limit int) {
	faults.Check(s == nil || len(*s) <= limit, location, "expected at most %d bytes", limit)
}

// nonEmpty returns nil for an empty text.
func nonEmpty(s *string) *string {
	if s == nil || *s == "" {
		return nil
	}
	return s
}
