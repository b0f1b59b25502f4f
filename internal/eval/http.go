package eval

import (
	"context"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
)

// Handler has one method for each route of this package.
type Handler struct{ Store *Store }

// Window is the paging of these lists: all of them, up to the most that one answer may hold.
type Window struct {
	Limit  int         `query:"limit" default:"1000" minimum:"0" maximum:"1000" doc:"How many to give at most"`
	Offset int         `query:"offset" minimum:"0" doc:"How many to pass over"`
	Cursor page.Cursor `query:"cursor" doc:"Opaque place to go on from, as the next link gives it; pages in constant time at any depth"`
}

func (w Window) paging() page.Paging {
	return page.Paging{Limit: w.Limit, Offset: w.Offset, Cursor: w.Cursor}
}

// confine narrows a filter to what the caller sees; false means that nothing can match.
func (f *Filter) confine(caller *auth.Caller, orgID string) bool {
	if orgID != "" && orgID != caller.OrgID || f.ProjectID != "" && !caller.Sees(f.ProjectID) {
		return false
	}
	if caller.ProjectID != "" {
		f.ProjectID = caller.ProjectID
	}
	return true
}

// ListInput is the query of the list of evals.
type ListInput struct {
	OrgID     string `query:"orgId" doc:"Only those of this organization"`
	ProjectID string `query:"projectId" doc:"Only those of this project"`
	AgentID   string `query:"agentId" doc:"Only those with this agentIdentifier"`
	Window
}

// List answers GET /cli/eval.
func (h *Handler) List(ctx context.Context, in *ListInput) (page.Page[Eval], error) {
	caller, f := auth.From(ctx), Filter{ProjectID: in.ProjectID, AgentID: in.AgentID}
	if !f.confine(caller, in.OrgID) {
		return page.Page[Eval]{}, nil
	}
	return h.Store.List(ctx, caller.OrgID, f, in.paging())
}

// Get answers GET /cli/eval/{id}.
func (h *Handler) Get(ctx context.Context, in *struct {
	ID string `path:"id"`
},
) (Eval, error) {
	return h.Store.Get(ctx, auth.From(ctx), in.ID)
}

// PutInput is a whole eval.
type PutInput struct {
	ID string `path:"id"`
	page.IfMatch
	Body NewEval
}

// Put answers PUT /cli/eval/{id}.
func (h *Handler) Put(ctx context.Context, in *PutInput) (Eval, error) {
	caller := auth.From(ctx)
	var faults errs.Faults
	faults.Check(id.Foreign(in.ID), "path.id", "expected 1 to 128 characters of A-Z a-z 0-9 . _ : -")
	e := in.Body.build(in.ID, "body", &faults)
	if err := faults.Err(); err != nil {
		return Eval{}, err
	}
	if org := in.Body.OrgID; org != nil && *org != caller.OrgID {
		return Eval{}, foreignOrg()
	}
	return h.Store.Put(ctx, caller, e, in.IfMatch)
}

func foreignOrg() error { return errs.New(errs.Forbidden, "orgId is not an organization of yours") }

// Sync answers POST /cli/devmode/eval.
func (h *Handler) Sync(ctx context.Context, in *struct{ Body Sync }) (Synced, error) {
	caller := auth.From(ctx)
	evals, err := in.Body.build()
	if err != nil {
		return Synced{}, err
	}
	for _, n := range in.Body.Create {
		if n.OrgID != nil && *n.OrgID != caller.OrgID {
			return Synced{}, foreignOrg()
		}
	}
	target := "devmode"
	if d := filled(in.Body.DeploymentID); d != nil {
		target = *d
	}
	return h.Store.Sync(ctx, caller, target, evals, in.Body.Delete)
}

// RunsInput is the query of the list of runs.
type RunsInput struct {
	OrgID     string `query:"orgId" doc:"Only those of this organization"`
	ProjectID string `query:"projectId" doc:"Only those of this project"`
	AgentID   string `query:"agentId" doc:"Only those whose eval has this agentIdentifier"`
	EvalID    string `query:"evalId" doc:"Only those of this eval"`
	SessionID string `query:"sessionId" doc:"Only those of this session"`
	Window
}

// Runs answers GET /cli/eval-run.
func (h *Handler) Runs(ctx context.Context, in *RunsInput) (page.Page[Run], error) {
	caller := auth.From(ctx)
	f := Filter{ProjectID: in.ProjectID, AgentID: in.AgentID, EvalID: in.EvalID, SessionID: in.SessionID}
	if !f.confine(caller, in.OrgID) {
		return page.Page[Run]{}, nil
	}
	return h.Store.Runs(ctx, caller.OrgID, f, in.paging())
}

// Run answers GET /cli/eval-run/{id}.
func (h *Handler) Run(ctx context.Context, in *struct {
	ID string `path:"id"`
},
) (Run, error) {
	return h.Store.Run(ctx, auth.From(ctx), in.ID)
}

// Start answers POST /evalrun.
func (h *Handler) Start(ctx context.Context, in *struct{ Body Start }) (Run, error) {
	caller := auth.From(ctx)
	r, err := in.Body.build(h.Store.Now())
	if err != nil {
		return Run{}, err
	}
	if r.OrgID != caller.OrgID {
		return Run{}, foreignOrg()
	}
	return h.Store.Start(ctx, caller, r)
}

// Complete answers PUT /evalrun.
func (h *Handler) Complete(ctx context.Context, in *struct{ Body Completion }) (Run, error) {
	o, err := in.Body.build(h.Store.Now())
	if err != nil {
		return Run{}, err
	}
	return h.Store.Complete(ctx, auth.From(ctx), o)
}
