package account

import (
	"context"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/idempotency"
	"steward/internal/page"
	"steward/internal/web"
)

// Handler serves the routes of this package.
type Handler struct {
	Store *Store
	// BaseURL is the start of every link.
	BaseURL string
	// Passkeys reports whether users can sign in with passkeys at BaseURL.
	Passkeys func() bool
}

// Members serves GET /oidc/org/members.
func (h *Handler) Members(ctx context.Context, _ *struct{}) ([]Member, error) {
	return h.Store.Members(ctx, auth.From(ctx).OrgID)
}

// Invite serves POST /oidc/org/members.
func (h *Handler) Invite(ctx context.Context, in *struct{ Body NewMember }) (Invited, error) {
	caller := auth.From(ctx)
	if err := in.Body.check(); err != nil {
		return Invited{}, err
	}
	if in.Body.Role == auth.Owner && caller.Role != auth.Owner {
		return Invited{}, errs.New(errs.Forbidden, "only an owner can add owners")
	}
	return idempotency.Once(ctx, func(ctx context.Context) (Invited, error) {
		m, token, err := h.Store.Invite(ctx, caller.OrgID, caller.Actor(), in.Body)
		return h.invited(m, token), err
	})
}

func (h *Handler) invited(m Member, token string) Invited {
	return Invited{Member: m, Link: h.BaseURL + "/invite/" + token}
}

// Reinvite serves POST /oidc/org/members/{id}/invite.
func (h *Handler) Reinvite(ctx context.Context, in *memberID) (Invited, error) {
	return idempotency.Once(ctx, func(ctx context.Context) (Invited, error) {
		m, token, err := h.Store.Reinvite(ctx, auth.From(ctx), in.ID)
		return h.invited(m, token), err
	})
}

// ResetPassword serves POST /oidc/org/members/{id}/reset-password.
func (h *Handler) ResetPassword(ctx context.Context, in *memberID) (Reset, error) {
	return idempotency.Once(ctx, func(ctx context.Context) (Reset, error) {
		token, expires, err := h.Store.ResetPassword(ctx, auth.From(ctx), in.ID)
		return Reset{Link: ResetLink(h.BaseURL, token), ExpiresAt: expires}, err
	})
}

// memberID names a member.
type memberID struct {
	ID string `path:"id" doc:"Id of the user, or of the invitation of a pending member"`
}

// memberInput names a member, optionally at a version.
type memberInput struct {
	memberID
	page.IfMatch
}

// Change serves PUT /oidc/org/members/{id}.
func (h *Handler) Change(ctx context.Context, in *struct {
	memberInput
	Body MemberPatch
},
) (Member, error) {
	return h.Store.ChangeMember(ctx, auth.From(ctx), in.ID, in.IfMatch, in.Body)
}

// Remove serves DELETE /oidc/org/members/{id}.
func (h *Handler) Remove(ctx context.Context, in *memberInput) (web.None, error) {
	return web.None{}, h.Store.RemoveMember(ctx, auth.From(ctx), in.ID, in.IfMatch)
}

// Projects serves GET /cli/project.
func (h *Handler) Projects(ctx context.Context, in *struct {
	Limit  int         `query:"limit" default:"1000" minimum:"0" maximum:"1000" doc:"Maximum number of items"`
	Offset int         `query:"offset" minimum:"0" doc:"Number of items to skip"`
	Cursor page.Cursor `query:"cursor" doc:"Cursor from the next link" example:"WzE3NjMxOTMwMDAxMjMsInRocmRfMDFqY3EiXQ"`
},
) (Projects, error) {
	caller := auth.From(ctx)
	found, err := h.Store.Projects(ctx, caller, page.Paging{Limit: in.Limit, Offset: in.Offset, Cursor: in.Cursor})
	if err != nil || web.FaceOf(ctx) == web.Bare {
		return Projects{Page: found}, err
	}
	name, err := h.Store.OrgName(ctx, caller.OrgID)
	return Projects{Page: found, org: Org{ID: caller.OrgID, Name: name}}, err
}

// CreateProject serves POST /cli/project.
func (h *Handler) CreateProject(ctx context.Context, in *struct{ Body NewProject }) (Project, error) {
	if err := in.Body.check(); err != nil {
		return Project{}, err
	}
	return idempotency.Once(ctx, func(ctx context.Context) (Project, error) {
		return h.Store.CreateProject(ctx, auth.From(ctx).OrgID, in.Body)
	})
}

// DeleteProject serves DELETE /cli/project/{id}.
func (h *Handler) DeleteProject(ctx context.Context, in *struct {
	ID string `path:"id"`
	page.IfMatch
},
) (web.None, error) {
	return web.None{}, h.Store.DeleteProject(ctx, auth.From(ctx).OrgID, in.ID, in.IfMatch)
}

// Orgs serves GET /cli/organization.
func (h *Handler) Orgs(ctx context.Context, _ *struct{}) ([]Org, error) {
	return h.Store.Orgs(ctx, auth.From(ctx))
}

// ChangeOrg serves PUT /cli/organization/{id}.
func (h *Handler) ChangeOrg(ctx context.Context, in *struct {
	ID string `path:"id" doc:"Id of the caller's organization"`
	page.IfMatch
	Body OrgPatch
},
) (Org, error) {
	var faults errs.Faults
	in.Body.Check(&faults)
	required := in.Body.RequireMFA.Ptr()
	faults.Check(required == nil || required.Factor != Passkey || h.Passkeys(),
		"body.require_mfa.factor", "passkeys cannot be used with the base URL of this server")
	if err := faults.Err(); err != nil {
		return Org{}, err
	}
	caller := auth.From(ctx)
	if in.ID != caller.OrgID {
		return Org{}, errs.Missing("organization", in.ID)
	}
	return h.Store.ChangeOrg(ctx, caller, in.IfMatch, in.Body)
}

// ClearFactors serves DELETE /oidc/org/members/{id}/factors.
func (h *Handler) ClearFactors(ctx context.Context, in *memberID) (web.None, error) {
	return web.None{}, h.Store.ClearFactors(ctx, auth.From(ctx), in.ID)
}
