package provider

import (
	"context"
	"errors"

	"steward/internal/auth"
	"steward/internal/errs"
)

// Caller gives who calls the management API with an access token: its user, with their role of today in the organization of the client, and
// no more rights than the token's scopes carry. Anything that is not good is Unauthorized; a token without a user has no role, so it is
// Forbidden.
func (p *Provider) Caller(ctx context.Context, token string) (*auth.Caller, error) {
	refused := errs.New(errs.Unauthorized, "the access token is not valid, has expired or was revoked")
	a, err := p.liveAccess(ctx, token)
	if errors.Is(err, errToken) {
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	if a.Confirm != nil {
		return nil, errs.New(errs.Unauthorized, "the access token is bound to a key and cannot be used as a Bearer token")
	}
	if a.user() == "" {
		return nil, errs.New(errs.Forbidden, "the access token was made without a user, and so has no role in an organization")
	}
	role, err := p.role(ctx, a.Org, a.Subject)
	if errs.KindOf(err) == errs.NotFound {
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	return &auth.Caller{UserID: a.Subject, OrgID: a.Org, Role: role, ClientID: a.ClientID, Scopes: a.scopes()}, nil
}

// membership is what a role hangs on.
type membership struct{ orgID, userID string }

// role gives what a user is in an organization today, or NotFound for somebody who is no member. That is not remembered.
func (p *Provider) role(ctx context.Context, orgID, userID string) (auth.Role, error) {
	return p.roles.Get(membership{orgID, userID}, func() (auth.Role, error) { return p.Users.Role(ctx, orgID, userID) })
}

// profile gives what userinfo tells of a user, or NotFound. Whatever changes a name bumps auth.Callers.
func (p *Provider) profile(ctx context.Context, userID string) (User, error) {
	return p.profiles.Get(userID, func() (User, error) { return p.Users.ByID(ctx, userID) })
}
