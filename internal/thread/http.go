package thread

import (
	"context"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/eval"
	"steward/internal/id"
	"steward/internal/idempotency"
	"steward/internal/page"
	"steward/internal/web"
)

// Handler has one method for each route but the socket.
type Handler struct {
	Store *Store
	Evals *eval.Store
}

// List serves GET /thread.
func (h *Handler) List(ctx context.Context, in *struct {
	Limit     int         `query:"limit" default:"10" minimum:"0" maximum:"1000" doc:"Maximum number of threads to return"`
	Offset    int         `query:"offset" default:"0" minimum:"0" doc:"Number of threads to skip"`
	Cursor    page.Cursor `query:"cursor" doc:"Cursor from the next link; as fast at any depth" example:"WzE3NjMxOTMwMDAxMjMsInRocmRfMDFqY3EiXQ"`
	Sort      string      `query:"sort" default:"created" enum:"created,updated" doc:"Time to sort by"`
	Direction string      `query:"direction" default:"desc" enum:"asc,desc" doc:"Sort direction; desc is newest first"`
	OrgID     string      `query:"orgId" doc:"Return only threads of this organization" example:"org_01jcq3r0b3d6g9j2m5p8s1v4xz"`
	ProjectID string      `query:"projectId" doc:"Return only threads of this project" example:"prj_01jcq3q9z1b4d7g0j3m6p9s2vw"`
	Metadata  string      `query:"metadata" doc:"JSON object; return only threads with an equal value at each of its keys" example:"{\"customer\":\"acme\"}"`
	Deleted   bool        `query:"deleted" doc:"Return only deleted threads that are still retained"`
},
) (page.Page[Thread], error) {
	caller := auth.From(ctx)
	keys, err := parseFilter(in.Metadata)
	if err != nil {
		return page.Page[Thread]{}, err
	}
	projectID, ok := visibleProject(caller, in.OrgID, in.ProjectID)
	if !ok {
		return page.Page[Thread]{}, nil
	}
	f := Filter{
		ProjectID: projectID, Keys: keys, Deleted: in.Deleted,
		Updated: in.Sort == "updated", Ascending: in.Direction == "asc",
	}
	return h.Store.List(ctx, caller, f, page.Paging{Limit: in.Limit, Offset: in.Offset, Cursor: in.Cursor})
}

// visibleProject returns the project to list, "" for all. It returns false if the filters name
// nothing that the caller sees.
func visibleProject(caller *auth.Caller, orgID, projectID string) (string, bool) {
	if orgID != "" && orgID != caller.OrgID {
		return "", false
	}
	if projectID == "" {
		return caller.ProjectID, true
	}
	return projectID, caller.Sees(projectID)
}

// Get serves GET /thread/{id}.
func (h *Handler) Get(ctx context.Context, in *struct {
	ID string `path:"id"`
},
) (Thread, error) {
	return h.Store.Get(ctx, auth.From(ctx), in.ID)
}

// PutInput is the request for PUT /thread/{id}.
type PutInput struct {
	ID string `path:"id" doc:"Chosen by the caller: 1 to 128 characters of A-Z a-z 0-9 . _ : -"`
	page.IfMatch
	Body Put
}

// CheckPut adds a fault if the request does not name a new thread's project.
func (h *Handler) CheckPut(ctx context.Context, in *PutInput, faults *errs.Faults) {
	caller := auth.From(ctx)
	if in.Body.ProjectID != "" || caller.ProjectID != "" {
		return
	}
	if isNew, err := h.Store.isNew(ctx, caller.OrgID, in.ID); err == nil {
		faults.Check(!isNew, "body.project_id", projectRule)
	}
}

// Put serves PUT /thread/{id}.
func (h *Handler) Put(ctx context.Context, in *PutInput) (Thread, error) {
	if err := checkID("path.id", in.ID); err != nil {
		return Thread{}, err
	}
	return h.Store.Put(ctx, auth.From(ctx), in.ID, in.IfMatch, in.Body)
}

// checkID returns Invalid for a malformed id, and for the one whose path is the socket's.
func checkID(location, threadID string) error {
	switch {
	case threadID == "ws":
		return errs.InvalidField(location, "expected another id: /thread/ws is the socket")
	case !id.Foreign(threadID):
		return errs.InvalidField(location, idRule)
	}
	return nil
}

// Delete serves DELETE /thread/{id}.
func (h *Handler) Delete(ctx context.Context, in *struct {
	ID string `path:"id"`
	page.IfMatch
},
) (web.None, error) {
	return web.None{}, h.Store.Delete(ctx, auth.From(ctx), in.ID, in.IfMatch)
}

// Start serves POST /session.
func (h *Handler) Start(ctx context.Context, in *struct{ Body Start }) (Session, error) {
	caller := auth.From(ctx)
	if err := h.Store.Decoding.Do(ctx, caller.OrgID, in.Body.Metadata, in.Body.check); err != nil {
		return Session{}, err
	}
	if in.Body.OrgID != caller.OrgID {
		return Session{}, errs.New(errs.Forbidden, "orgId is not an organization of yours")
	}
	return idempotency.Once(ctx, func(ctx context.Context) (Session, error) { return h.Store.Start(ctx, caller, in.Body) })
}

// Complete serves PUT /session.
func (h *Handler) Complete(ctx context.Context, in *struct{ Body Completion }) (Session, error) {
	caller := auth.From(ctx)
	if err := h.Store.Decoding.Do(ctx, caller.OrgID, in.Body.Metadata, in.Body.check); err != nil {
		return Session{}, err
	}
	return h.Store.Complete(ctx, caller, in.Body)
}

// Sessions serves GET /session.
func (h *Handler) Sessions(ctx context.Context, in *struct {
	page.Paging
	OrgID     string `query:"orgId" doc:"Return only sessions of this organization" example:"org_01jcq3r0b3d6g9j2m5p8s1v4xz"`
	ProjectID string `query:"projectId" doc:"Return only sessions of this project" example:"prj_01jcq3q9z1b4d7g0j3m6p9s2vw"`
	ThreadID  string `query:"threadId" doc:"Return only sessions of this thread" example:"thrd_01jcq3x6z8b0d2f4h6k8n0q2s4"`
},
) (Sessions, error) {
	caller := auth.From(ctx)
	projectID, ok := visibleProject(caller, in.OrgID, in.ProjectID)
	if !ok {
		return Sessions{}, nil
	}
	found, err := h.Store.Sessions(ctx, caller.OrgID, SessionFilter{ProjectID: projectID, ThreadID: in.ThreadID}, in.Paging)
	return Sessions{found}, err
}

// Session serves GET /session/{id}.
func (h *Handler) Session(ctx context.Context, in *struct {
	ID string `path:"id"`
},
) (SessionDetail, error) {
	caller := auth.From(ctx)
	found, err := h.Store.Session(ctx, caller, in.ID)
	if err != nil || web.FaceOf(ctx) == web.Bare {
		return SessionDetail{Session: found}, err
	}
	filter := eval.Filter{SessionID: in.ID, ProjectID: caller.ProjectID}
	runs, err := h.Evals.Runs(ctx, caller.OrgID, filter, page.Paging{Limit: maxSessionRuns})
	return SessionDetail{Session: found, runs: runs.Items}, err
}

// maxSessionRuns caps the evaluation runs shown with a session, the latest ones.
const maxSessionRuns = 100
