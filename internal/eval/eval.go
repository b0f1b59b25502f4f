// Package eval owns evaluations of agents and their runs.
//
// A deployment or a development server registers evals (Put, Sync); a runtime starts runs and completes them (Start, Complete). Nothing
// comes in a fixed order: a run may name a session or an eval that is not known yet. A run carries the name and the agent of its eval as
// columns of its own, so that the filter by agent is one range of an index over any number of runs. They are taken from the eval when
// the run starts; an eval that comes later, or changes, labels the newest of its runs in its own transaction and leaves a mark for
// the rest, which Sweep works off in small transactions (store_sweep.go). Deleting an eval leaves its runs as they are.
//
// A run starts pending and is completed once: pending → success or not. What was said first stays. Runs that start, or end, at the same
// moment share a transaction and a statement.
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
	ID              string     `json:"id"`
	Name            string     `json:"name"`
	Description     *string    `json:"description"`
	Identifier      *string    `json:"identifier" doc:"Stable over deployments, which the id need not be"`
	AgentIdentifier string     `json:"agentIdentifier"`
	OrgID           string     `json:"orgId"`
	ProjectID       string     `json:"projectId"`
	DeploymentID    *string    `json:"deploymentId,omitempty"`
	Version         *string    `json:"version,omitempty"`
	Filename        *string    `json:"filename,omitempty"`
	Devmode         bool       `json:"devmode"`
	CreatedAt       stamp.Time `json:"createdAt" format:"date-time"`
	UpdatedAt       stamp.Time `json:"updatedAt" format:"date-time"`

	version int64
}

// ETag is the row's version.
func (e Eval) ETag() string { return page.ETag(e.version) }

// NewEval is what a deployment tells about an eval.
type NewEval struct {
	Name            string  `json:"name"`
	Description     *string `json:"description,omitempty"`
	Identifier      *string `json:"identifier,omitempty"`
	AgentIdentifier string  `json:"agentIdentifier"`
	ProjectID       string  `json:"projectId" doc:"An unknown project is registered"`
	DeploymentID    *string `json:"deploymentId,omitempty"`
	Version         *string `json:"version,omitempty"`
	Filename        *string `json:"filename,omitempty"`
	Devmode         bool    `json:"devmode,omitempty"`
	OrgID           *string `json:"orgId,omitempty" doc:"The caller's organization"`
}

// build makes the eval, and notes what is wrong with it under the given location.
func (n NewEval) build(evalID, location string, faults *errs.Faults) Eval {
	text := func(name string, s *string, limit int) *string {
		faults.Check(s == nil || len(*s) <= limit, location+"."+name, "expected at most %d bytes", limit)
		return filled(s)
	}
	faults.Check(strings.TrimSpace(n.Name) != "" && utf8.RuneCountInString(n.Name) <= 256, location+".name",
		"expected 1 to 256 characters, not blank")
	faults.Check(n.AgentIdentifier != "" && len(n.AgentIdentifier) <= 256, location+".agentIdentifier", "expected 1 to 256 bytes")
	checkID(faults, location+".projectId", n.ProjectID)
	checkOptionalID(faults, location+".deploymentId", filled(n.DeploymentID))
	return Eval{
		ID: evalID, Name: n.Name, AgentIdentifier: n.AgentIdentifier, ProjectID: n.ProjectID, Devmode: n.Devmode,
		Description: text("description", n.Description, 4096), Identifier: text("identifier", n.Identifier, 256),
		DeploymentID: filled(n.DeploymentID), Version: text("version", n.Version, 256),
		Filename: text("filename", n.Filename, 1024),
	}
}

// Sync is what a development server tells: the evals that came and those that went.
type Sync struct {
	DeploymentID *string   `json:"deploymentId,omitempty"`
	Create       []SyncNew `json:"create,omitempty" maxItems:"1000"`
	Delete       []string  `json:"delete,omitempty" maxItems:"1000" doc:"Ids; unknown ones are passed over. Done before create"`
}

// SyncNew is one eval of a Sync.
type SyncNew struct {
	ID string `json:"id"`
	NewEval
}

// Synced is the answer to a Sync: the ids that are there now, and those that were there and are not any more.
type Synced struct {
	Created []string `json:"created"`
	Deleted []string `json:"deleted"`
}

// build makes the evals, or tells everything that is wrong with them.
func (s Sync) build() ([]Eval, error) {
	var faults errs.Faults
	checkOptionalID(&faults, "body.deploymentId", filled(s.DeploymentID))
	evals := make([]Eval, len(s.Create))
	for i, n := range s.Create {
		location := fmt.Sprintf("body.create[%d]", i)
		checkID(&faults, location+".id", n.ID)
		n.DeploymentID, n.Devmode = nil, true
		evals[i] = n.build(n.ID, location, &faults)
		evals[i].DeploymentID = filled(s.DeploymentID)
	}
	for i, evalID := range s.Delete {
		checkID(&faults, fmt.Sprintf("body.delete[%d]", i), evalID)
	}
	return evals, faults.Err()
}

func checkID(faults *errs.Faults, location, s string) {
	faults.Check(id.Foreign(s), location, "expected 1 to 128 characters of A-Z a-z 0-9 . _ : -")
}

func checkOptionalID(faults *errs.Faults, location string, s *string) {
	if s != nil {
		checkID(faults, location, *s)
	}
}

// filled takes an empty text for none.
func filled(s *string) *string {
	if s == nil || *s == "" {
		return nil
	}
	return s
}
