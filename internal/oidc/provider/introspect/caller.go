package introspect

import (
	"context"
	"errors"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/oidc/provider/jwt"
)

// Caller returns the caller of the management API who presents an access token: its user, with the
// current role in the organization of the client and the scopes of the token. It returns Unauthorized if
// the token is invalid or bound to a key, and Forbidden if it has no user.
func (h *Handler) Caller(ctx context.Context, token string) (*auth.Caller, error) {
	refused := errs.New(errs.Unauthorized, "the access token is invalid, expired or revoked")
	a, err := h.liveAccess(ctx, token)
	if errors.Is(err, jwt.ErrInvalid) {
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	if a.Confirm != nil {
		return nil, errs.New(errs.Unauthorized, "the access token is bound to a key and cannot be used as a Bearer token")
	}
	if a.UserID() == "" {
		return nil, errs.New(errs.Forbidden, "the access token has no user and so no role in an organization")
	}
	role, err := h.role(ctx, a.OrgID, a.Subject)
	if errs.KindOf(err) == errs.NotFound {
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	return &auth.Caller{UserID: a.Subject, OrgID: a.OrgID, Role: role, ClientID: a.ClientID, Scopes: a.Scopes()}, nil
}

// member is a user in an organization.
type member struct{ orgID, userID string }

// role returns a role from the cache. It returns NotFound, which is not cached, for a user who is no member.
func (h *Handler) role(ctx context.Context, orgID, userID string) (auth.Role, error) {
	return h.roles.Get(member{orgID, userID}, func() (auth.Role, error) { return h.Role(ctx, orgID, userID) })
}
