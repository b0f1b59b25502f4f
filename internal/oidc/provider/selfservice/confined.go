package selfservice

import (
	"net/http"
	"slices"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/session"
)

// errConfined is returned to a user who has signed in with the provider of an organization.
var errConfined = &oauth.Error{
	Status: http.StatusForbidden, Code: oauth.AccessDenied,
	Description: "you have signed in with the provider of an organization: sign in with a password or a passkey to do this",
}

// confinedPaths are the account page and those of its forms that a session which opens one organization may use. What
// changes how a user signs in is not among them, since it would open the user's other organizations to
// whoever manages the provider.
var confinedPaths = []string{
	oauth.PathAccount, oauth.PathAccountProfile, oauth.PathAccountSessions, oauth.PathAccountSignOut, oauth.PathAccountApps,
	oauth.PathAccountKeys, oauth.PathAccountKeyDelete,
}

// checkConfined returns errConfined for a page or a form that a session may not use.
func checkConfined(r *http.Request, s *session.Session) error {
	if s.OrgID == "" || slices.Contains(confinedPaths, r.URL.Path) {
		return nil
	}
	return errConfined
}
