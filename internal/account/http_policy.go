package account

import (
	"context"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/web"
)

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
func (h *Handler) ClearFactors(ctx context.Context, in *MemberID) (web.None, error) {
	return web.None{}, h.Store.ClearFactors(ctx, auth.From(ctx), in.ID)
}
