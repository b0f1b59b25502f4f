package provider

import (
	"context"

	"steward/internal/errs"
	"steward/internal/oidc/provider/jwt"
)

// organization returns the claims about a user in the client's organization, or nil if the user is not
// an enabled member there.
func (p *Provider) organization(ctx context.Context, orgID, userID string) (*jwt.OrganizationClaims, error) {
	role, err := p.Accounts.Role(ctx, orgID, userID)
	if errs.KindOf(err) == errs.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	name, err := p.Accounts.OrgName(ctx, orgID)
	if err != nil {
		return nil, err
	}
	groups, err := p.Upstreams.Store.Groups(ctx, orgID, userID)
	if err != nil {
		return nil, err
	}
	return &jwt.OrganizationClaims{OrgID: orgID, OrgName: name, Role: role, Groups: groups}, nil
}
