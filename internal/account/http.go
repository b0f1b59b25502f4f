package account

import (
	"context"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/web"
)

// Handler has one method for each route of this package.
type Handler struct {
	Store *Store
	// BaseURL is where invitation links lead to.
	BaseURL string
}

// Members answers GET /oidc/org/members.
func (h *Handler) Members(ctx context.Context, _ *struct{}) ([]Member, error) {
	return h.Store.Members(ctx, auth.From(ctx).OrgID)
}

// Invite answers POST /oidc/org/members.
func (h *Handler) Invite(ctx context.Context, in *struct{ Body NewMember }) (Invited, error) {
	caller := auth.From(ctx)
	if err := in.Body.check(); err != nil {
		return Invited{}, err
	}
	if in.Body.Role == auth.Owner && caller.Role != auth.Owner {
		return Invited{}, errs.New(errs.Forbidden, "only an owner may make owners")
	}
	m, token, err := h.Store.Invite(ctx, caller.OrgID, caller.UserID, in.Body)
	return Invited{Member: m, Link: h.BaseURL + "/invite/" + token}, err
}

// MemberInput names a member. It is exported since huma passes over embedded structs that are not.
type MemberInput struct {
	ID string `path:"id" doc:"The user's id"`
	page.IfMatch
}

// Change answers PUT /oidc/org/members/{id}.
func (h *Handler) Change(ctx context.Context, in *struct {
	MemberInput
	Body MemberPatch
},
) (Member, error) {
	return h.Store.ChangeMember(ctx, auth.From(ctx), in.ID, in.IfMatch, in.Body)
}

// Remove answers DELETE /oidc/org/members/{id}.
func (h *Handler) Remove(ctx context.Context, in *MemberInput) (web.None, error) {
	return web.None{}, h.Store.RemoveMember(ctx, auth.From(ctx), in.ID, in.IfMatch)
}

// WhoAmI answers GET /cli/auth/user.
func (h *Handler) WhoAmI(ctx context.Context, _ *struct{}) (Profile, error) {
	return h.Store.Profile(ctx, auth.From(ctx))
}

// Orgs answers GET /cli/organization.
func (h *Handler) Orgs(ctx context.Context, _ *struct{}) ([]Org, error) {
	return h.Store.Orgs(ctx, auth.From(ctx))
}

// Projects answers GET /cli/project.
func (h *Handler) Projects(ctx context.Context, in *struct {
	Limit  int         `query:"limit" default:"1000" minimum:"0" maximum:"1000" doc:"How many to give at most"`
	Offset int         `query:"offset" minimum:"0" doc:"How many to pass over"`
	Cursor page.Cursor `query:"cursor" doc:"Opaque place to go on from, as the next link gives it"`
},
) (page.Page[Project], error) {
	return h.Store.Projects(ctx, auth.From(ctx), page.Paging{Limit: in.Limit, Offset: in.Offset, Cursor: in.Cursor})
}

// CreateProject answers POST /cli/project.
func (h *Handler) CreateProject(ctx context.Context, in *struct{ Body NewProject }) (Project, error) {
	if err := in.Body.check(); err != nil {
		return Project{}, err
	}
	return h.Store.CreateProject(ctx, auth.From(ctx).OrgID, in.Body)
}

// DeleteProject answers DELETE /cli/project/{id}.
func (h *Handler) DeleteProject(ctx context.Context, in *struct {
	ID string `path:"id"`
	page.IfMatch
},
) (web.None, error) {
	return web.None{}, h.Store.DeleteProject(ctx, auth.From(ctx).OrgID, in.ID, in.IfMatch)
}
