package signin

import (
	"context"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/errs"
)

// NoPassword tells users in a domain without passwords how to sign in.
const NoPassword = "Your organization does not use passwords. Sign in with its provider."

// RefusesPassword reports whether a user must sign in with the domain's provider, because the provider
// is set as the only way and the user has an identity there. Owners can always use their password, so
// that a failing provider locks nobody out. So can users in several organizations, and users who have a
// password and have not linked an identity.
func (h *Handler) RefusesPassword(ctx context.Context, user account.User) (bool, error) {
	u, err := h.Upstreams.ForEmail(ctx, user.Email)
	if errs.KindOf(err) == errs.NotFound || err == nil && !u.Only {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	memberships, err := h.Accounts.Memberships(ctx, user.ID)
	if err != nil {
		return false, err
	}
	if len(memberships) != 1 || memberships[0].OrgID != u.OrgID || memberships[0].Role == auth.Owner {
		return false, nil
	}
	identities, err := h.Upstreams.Store.Identities(ctx, user.ID)
	if err != nil {
		return false, err
	}
	for _, i := range identities {
		if i.OrgID == u.OrgID && i.Issuer == u.Issuer && (i.Linked || user.PasswordHash == "") {
			return true, nil
		}
	}
	return false, nil
}

// OnlyUpstream reports whether a new person must accept an invitation with the domain's provider.
func (h *Handler) OnlyUpstream(ctx context.Context, i account.Invitation) (bool, error) {
	u, err := h.Upstreams.ForEmail(ctx, i.Email)
	if errs.KindOf(err) == errs.NotFound {
		return false, nil
	}
	return err == nil && u.Only && u.OrgID == i.OrgID && i.Role != auth.Owner, err
}
