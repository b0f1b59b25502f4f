package signin

import (
	"context"
	"strings"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/oidc/provider/clientauth"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/upstream"
)

// ForEmail returns the provider for an e-mail address, or NotFound.
func (s *Upstreams) ForEmail(ctx context.Context, email string) (upstream.Upstream, error) {
	return s.Store.ForDomain(ctx, upstream.DomainOf(email))
}

// Buttons returns an organization's providers for a page to offer.
func (s *Upstreams) Buttons(ctx context.Context, orgID string) ([]pages.Provider, error) {
	list, err := s.Store.Enabled(ctx, orgID)
	if err != nil {
		return nil, err
	}
	shown := make([]pages.Provider, len(list))
	for i, one := range list {
		shown[i] = pages.Provider{ID: one.ID, Name: one.Name}
	}
	return shown, nil
}

// buttons returns the providers that a flow's sign-in page offers. They belong to the organization of
// the application or invitation that the user continues to, or to the only organization there is.
// Nobody else sees which providers an organization has.
func (h *Handler) buttons(ctx context.Context, f *flow.Flow) ([]pages.Provider, error) {
	orgID, err := h.orgOf(ctx, f)
	if err != nil || orgID == "" {
		return nil, err
	}
	return h.Upstreams.Buttons(ctx, orgID)
}

// orgOf returns the organization that a flow leads to, or "" if we do not know it.
func (h *Handler) orgOf(ctx context.Context, f *flow.Flow) (string, error) {
	if f.Request != nil {
		c, err := clientauth.Find(ctx, h.Clients, f.Request.ClientID)
		if err != nil {
			return "", err
		}
		return c.OrgID, nil
	}
	if token, ok := invitationToken(f); ok {
		i, err := h.Accounts.InvitationByToken(ctx, token)
		if err == nil || errs.KindOf(err) != errs.NotFound {
			return i.OrgID, err
		}
	}
	orgID, only, err := h.Accounts.FirstOrg(ctx)
	if !only {
		return "", err
	}
	return orgID, err
}

// invitationToken returns the token if a flow leads to an invitation.
func invitationToken(f *flow.Flow) (token string, ok bool) {
	return strings.CutPrefix(f.Next, oauth.PathInvitation)
}

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
