package introspect

import (
	"context"

	"steward/internal/errs"
	"steward/internal/oidc/provider/jwt"
)

// Organization returns the claims about a user in the client's organization, or nil if the user is not
// an enabled member there.
func (h *Handler) Organization(ctx context.Context, orgID, userID string) (*jwt.OrganizationClaims, error) {
	role, err := h.Accounts.Role(ctx, orgID, userID)
	if errs.KindOf(err) == errs.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	name, err := h.Accounts.OrgName(ctx, orgID)
	if err != nil {
		return nil, err
	}
	groups, err := h.Upstreams.Groups(ctx, orgID, userID)
	if err != nil {
		return nil, err
	}
	return &jwt.OrganizationClaims{OrgID: orgID, OrgName: name, Role: role, Groups: groups}, nil
}
