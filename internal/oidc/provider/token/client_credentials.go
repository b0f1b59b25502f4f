package token

import (
	"context"
	"slices"
	"strings"

	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
)

// clientCredentials issues a token for the client itself. It stores nothing: the token names the
// client's epoch.
func (h *Handler) clientCredentials(ctx context.Context, req *request) (*response, error) {
	scopes := slices.DeleteFunc(req.client.AllowedScopes(req.scope), needsUser)
	requested := strings.Fields(req.scope)
	if len(requested) > 0 && len(scopes) < len(requested) {
		return nil, oauth.NewError(oauth.InvalidScope, "a scope is not allowed for this client or needs a user")
	}
	access := h.Tokens.NewAccess(req.client, req.client.ID, scopes, req.jkt)
	if req.audience != "" {
		if err := h.Audiences.Admit(ctx, req.client, req.audience); err != nil {
			return nil, err
		}
		access.SetAudience(req.audience)
	}
	return h.issueAccess(ctx, access)
}

// needsUser reports whether a scope is meaningless without a user.
func needsUser(scope string) bool {
	switch scope {
	case oidc.ScopeOpenID, oidc.ScopeProfile, oidc.ScopeEmail, oidc.ScopeOfflineAccess:
		return true
	}
	return false
}
