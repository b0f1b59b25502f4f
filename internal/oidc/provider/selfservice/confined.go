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

// confinedPaths lists the pages and forms for a session that opens only one organization. It leaves out
// everything that changes how a user signs in, since that would open the user's other organizations to
// whoever manages the provider.
var confinedPaths = []string{
	oauth.PathAccount, oauth.PathAccountProfile, oauth.PathAccountSessions, oauth.PathAccountSignOut, oauth.PathAccountApps,
	oauth.PathAccountKeys, oauth.PathAccountKeyDelete,
}

// checkConfined returns errConfined if a session may not use a page or a form.
func checkConfined(r *http.Request, s *session.Session) error {
	if s.OrgID == "" || slices.Contains(confinedPaths, r.URL.Path) {
		return nil
	}
	return errConfined
}
