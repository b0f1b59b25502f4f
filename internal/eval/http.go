package eval

import (
	"cmp"
	"context"
	"math"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/idempotency"
	"steward/internal/page"
	"steward/internal/period"
)

// Handler has one method for each route.
type Handler struct{ Store *Store }

// Window has the paging parameters. By default, these lists have the largest limit.
type Window struct {
	Limit  int         `query:"limit" default:"1000" minimum:"0" maximum:"1000" doc:"Maximum number of entries to return"`
	Offset int         `query:"offset" minimum:"0" doc:"Number of entries to skip"`
	Cursor page.Cursor `query:"cursor" doc:"Cursor from the next link; as fast at any depth" example:"WzE3NjMxOTMwMDAxMjMsInRocmRfMDFqY3EiXQ"`
}

func (w Window) paging() page.Paging {
	return page.Paging{Limit: w.Limit, Offset: w.Offset, Cursor: w.Cursor}
}

// confine narrows a filter to the caller's view. It returns false if nothing can match.
func (f *Filter) confine(caller *auth.Caller, orgID string) bool {
	if orgID != "" && orgID != caller.OrgID || f.ProjectID != "" && !caller.Sees(f.ProjectID) {
		return false
	}
	if caller.ProjectID != "" {
		f.ProjectID = caller.ProjectID
	}
	return true
}

// ListInput has the query parameters for List.
type ListInput struct {
	OrgID     string `query:"orgId" doc:"Return only those of this organization" example:"org_01jcq3r0b3d6g9j2m5p8s1v4xz"`
	ProjectID string `query:"projectId" doc:"Return only those of this project" example:"prj_01jcq3q9z1b4d7g0j3m6p9s2vw"`
	AgentID   string `query:"agentId" doc:"Return only those with this agentIdentifier" example:"agent_support"`
	Window
}

// List serves GET /cli/eval.
func (h *Handler) List(ctx context.Context, in *ListInput) (page.Page[Eval], error) {
	caller := auth.From(ctx)
	f := Filter{ProjectID: in.ProjectID, AgentID: in.AgentID}
	if !f.confine(caller, in.OrgID) {
		return page.Page[Eval]{}, nil
	}
	return h.Store.List(ctx, caller.OrgID, f, in.paging())
}

// Get serves GET /cli/eval/{id}.
func (h *Handler) Get(ctx context.Context, in *struct {
	ID string `path:"id"`
},
) (Eval, error) {
	return h.Store.Get(ctx, auth.From(ctx), in.ID)
}

// PutInput is the request for PUT /cli/eval/{id}.
type PutInput struct {
	ID string `path:"id"`
	page.IfMatch
	Body NewEval
}

// Put serves PUT /cli/eval/{id}.
func (h *Handler) Put(ctx context.Context, in *PutInput) (Eval, error) {
	caller := auth.From(ctx)
	var faults errs.Faults
	checkID(&faults, "path.id", in.ID)
	e := in.Body.build(in.ID, "body", &faults)
	if err := faults.Err(); err != nil {
		return Eval{}, err
	}
	if org := in.Body.OrgID; org != nil && *org != caller.OrgID {
		return Eval{}, errForeignOrg()
	}
	return h.Store.Put(ctx, caller, e, in.IfMatch)
}

func errForeignOrg() error {
	return errs.New(errs.Forbidden, "orgId is not an organization of yours")
}

// Sync serves POST /cli/devmode/eval.
func (h *Handler) Sync(ctx context.Context, in *struct{ Body Sync }) (Synced, error) {
	caller := auth.From(ctx)
	evals, err := in.Body.build()
	if err != nil {
		return Synced{}, err
	}
	for _, n := range in.Body.Create {
		if n.OrgID != nil && *n.OrgID != caller.OrgID {
			return Synced{}, errForeignOrg()
		}
	}
	target := "devmode"
	if d := nonEmpty(in.Body.DeploymentID); d != nil {
		target = *d
	}
	return idempotency.Once(ctx, func(ctx context.Context) (Synced, error) {
		return h.Store.Sync(ctx, caller, target, evals, in.Body.Delete)
	})
}

// RunsInput has the query parameters for Runs.
type RunsInput struct {
	OrgID     string `query:"orgId" doc:"Return only those of this organization" example:"org_01jcq3r0b3d6g9j2m5p8s1v4xz"`
	ProjectID string `query:"projectId" doc:"Return only those of this project" example:"prj_01jcq3q9z1b4d7g0j3m6p9s2vw"`
	AgentID   string `query:"agentId" doc:"Return only those whose evaluation has this agentIdentifier" example:"agent_support"`
	Agent     string `query:"agent" doc:"The same as agentId" example:"agent_support"`
	EvalID    string `query:"evalId" doc:"Return only those of this evaluation" example:"evalid_01jcq40a1c3e5g7j9m1p3r5t7w"`
	SessionID string `query:"sessionId" doc:"Return only those of this session" example:"sess_01jcq3y8a0c2e4g6j8m0p2r4t6"`

	Passed   page.Opt[bool]    `query:"passed" nullable:"false" doc:"Return only those that passed, or with false those that failed: by passed of the result, or by success where it has none" example:"false"`
	MinScore page.Opt[float64] `query:"minScore" nullable:"false" doc:"Return only those with at least this score" example:"0.5"`
	MaxScore page.Opt[float64] `query:"maxScore" nullable:"false" doc:"Return only those with at most this score" example:"0.9"`
	period.Between
	Window
}

// Runs serves GET /cli/eval-run.
func (h *Handler) Runs(ctx context.Context, in *RunsInput) (page.Page[Run], error) {
	caller := auth.From(ctx)
	f := Filter{
		ProjectID: in.ProjectID, AgentID: cmp.Or(in.AgentID, in.Agent), EvalID: in.EvalID, SessionID: in.SessionID,
		Passed: in.Passed.Ptr(), MinScore: in.MinScore.Ptr(), MaxScore: in.MaxScore.Ptr(),
	}
	var faults errs.Faults
	f.Since, f.Until = in.Times(&faults)
	faults.Check(isNumber(in.MinScore.Value), "query.minScore", "expected a finite number")
	faults.Check(isNumber(in.MaxScore.Value), "query.maxScore", "expected a finite number")
	if err := faults.Err(); err != nil {
		return page.Page[Run]{}, err
	}
	if !f.confine(caller, in.OrgID) {
		return page.Page[Run]{}, nil
	}
	return h.Store.Runs(ctx, caller.OrgID, f, in.paging())
}

func isNumber(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// Run serves GET /cli/eval-run/{id}.
func (h *Handler) Run(ctx context.Context, in *struct {
	ID string `path:"id"`
},
) (Run, error) {
	return h.Store.Run(ctx, auth.From(ctx), in.ID)
}

// Start serves POST /evalrun.
func (h *Handler) Start(ctx context.Context, in *struct{ Body Start }) (Run, error) {
	caller := auth.From(ctx)
	r, err := in.Body.build(h.Store.now())
	if err != nil {
		return Run{}, err
	}
	if r.OrgID != caller.OrgID {
		return Run{}, errForeignOrg()
	}
	return idempotency.Once(ctx, func(ctx context.Context) (Run, error) { return h.Store.Start(ctx, caller, r) })
}

// Complete serves PUT /evalrun.
func (h *Handler) Complete(ctx context.Context, in *struct{ Body Completion }) (Run, error) {
	o, err := in.Body.build(h.Store.now())
	if err != nil {
		return Run{}, err
	}
	return h.Store.Complete(ctx, auth.From(ctx), o)
}
