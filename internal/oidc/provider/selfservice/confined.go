package selfservice

import (
	"net/http"
	"slices"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/session"
)

// errConfined refuses a user who has signed in with an organization's provider.
var errConfined = &oauth.Error{
	Status: http.StatusForbidden, Code: oauth.AccessDenied,
	Description: "you have signed in with the provider of an organization: sign in with a password or a passkey to do this",
}

// confinedPaths are the account page and the forms on it that a session for one organization may use.
// They leave out everything that changes how a user signs in, because the provider's administrator could
// use it to get into the user's other organizations.
var confinedPaths = []string{
	oauth.PathAccount, oauth.PathAccountProfile, oauth.PathAccountSessions, oauth.PathAccountSignOut, oauth.PathAccountApps,
	oauth.PathAccountKeys, oauth.PathAccountKeyDelete,
}

// checkConfined returns errConfined if a session may not use the request's page or form.
func checkConfined(r *http.Request, s *session.Session) error {
	if s.OrgID == "" || slices.Contains(confinedPaths, r.URL.Path) {
		return nil
	}
	return errConfined
}
