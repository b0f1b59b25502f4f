package thread

import (
	"context"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/web"
)

// Handler has one method for each route of this package.
type Handler struct{ Store *Store }

// List answers GET /thread.
func (h *Handler) List(ctx context.Context, in *struct {
	Limit     int         `query:"limit" default:"10" minimum:"0" maximum:"1000" doc:"How many to give at most"`
	Offset    int         `query:"offset" default:"0" minimum:"0" doc:"How many to pass over"`
	Cursor    page.Cursor `query:"cursor" doc:"Opaque place to go on from, as the next link gives it; pages in constant time at any depth"`
	Sort      string      `query:"sort" default:"created" enum:"created,updated" doc:"The time to sort by"`
	Direction string      `query:"direction" default:"desc" enum:"asc,desc" doc:"desc has the newest first"`
	OrgID     string      `query:"orgId" doc:"Only threads of this organization"`
	ProjectID string      `query:"projectId" doc:"Only threads of this project"`
	Metadata  string      `query:"metadata" doc:"A JSON object, like {user: ada}; finds threads that have each of its keys with an equal value"`
	Deleted   bool        `query:"deleted" doc:"True lists the deleted threads that are still kept, and only them"`
},
) (page.Page[Thread], error) {
	caller := auth.From(ctx)
	keys, err := parseFilter(in.Metadata)
	if err != nil {
		return page.Page[Thread]{}, err
	}
	projectID, seen := visible(caller, in.OrgID, in.ProjectID)
	if !seen {
		return page.Page[Thread]{}, nil
	}
	f := Filter{ProjectID: projectID, Keys: keys, Deleted: in.Deleted, Updated: in.Sort == "updated", Ascending: in.Direction == "asc"}
	return h.Store.List(ctx, caller, f, page.Paging{Limit: in.Limit, Offset: in.Offset, Cursor: in.Cursor})
}

// visible gives the project to list, "" for all; or false when the caller sees nothing of what the filters name.
func visible(caller *auth.Caller, orgID, projectID string) (string, bool) {
	if orgID != "" && orgID != caller.OrgID {
		return "", false
	}
	if projectID == "" {
		return caller.ProjectID, true
	}
	return projectID, caller.Sees(projectID)
}

// Get answers GET /thread/{id}.
func (h *Handler) Get(ctx context.Context, in *struct {
	ID string `path:"id"`
},
) (Thread, error) {
	return h.Store.Get(ctx, auth.From(ctx), in.ID)
}

// Put answers PUT /thread/{id}.
func (h *Handler) Put(ctx context.Context, in *struct {
	ID string `path:"id" doc:"Chosen by the caller: 1 to 128 characters of A-Z a-z 0-9 . _ : -"`
	page.IfMatch
	Body Put
},
) (Thread, error) {
	if err := checkID("path.id", in.ID); err != nil {
		return Thread{}, err
	}
	return h.Store.Put(ctx, auth.From(ctx), in.ID, in.IfMatch, in.Body)
}

// checkID gives Invalid for what is no id, and for the one id whose path is that of the socket.
func checkID(location, threadID string) error {
	switch {
	case threadID == "ws":
		return errs.Wrong(location, "expected another id: /thread/ws is the socket")
	case !id.Foreign(threadID):
		return errs.Wrong(location, foreignText)
	}
	return nil
}

// Delete answers DELETE /thread/{id}.
func (h *Handler) Delete(ctx context.Context, in *struct {
	ID string `path:"id"`
	page.IfMatch
},
) (web.None, error) {
	return web.None{}, h.Store.Delete(ctx, auth.From(ctx), in.ID, in.IfMatch)
}

// Start answers POST /session.
func (h *Handler) Start(ctx context.Context, in *struct{ Body Start }) (Session, error) {
	caller := auth.From(ctx)
	if err := in.Body.check(); err != nil {
		return Session{}, err
	}
	if in.Body.OrgID != caller.OrgID {
		return Session{}, errs.New(errs.Forbidden, "orgId is not an organization of yours")
	}
	return h.Store.Start(ctx, caller, in.Body)
}

// Complete answers PUT /session.
func (h *Handler) Complete(ctx context.Context, in *struct{ Body Completion }) (Session, error) {
	if err := in.Body.check(); err != nil {
		return Session{}, err
	}
	return h.Store.Complete(ctx, auth.From(ctx), in.Body)
}

// Sessions answers GET /session.
func (h *Handler) Sessions(ctx context.Context, in *struct {
	page.Paging
	OrgID     string `query:"orgId" doc:"Only sessions of this organization"`
	ProjectID string `query:"projectId" doc:"Only sessions of this project"`
	ThreadID  string `query:"threadId" doc:"Only sessions of this thread"`
},
) (page.Page[Session], error) {
	caller := auth.From(ctx)
	projectID, seen := visible(caller, in.OrgID, in.ProjectID)
	if !seen {
		return page.Page[Session]{}, nil
	}
	return h.Store.Sessions(ctx, caller.OrgID, SessionFilter{ProjectID: projectID, ThreadID: in.ThreadID}, in.Paging)
}

// Session answers GET /session/{id}.
func (h *Handler) Session(ctx context.Context, in *struct {
	ID string `path:"id"`
},
) (Session, error) {
	return h.Store.Session(ctx, auth.From(ctx), in.ID)
}
