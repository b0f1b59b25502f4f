package signin

import (
	"net/http"

	"steward/internal/db"
	"steward/internal/mail"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
)

// ErrNoMail refuses pages that need mail.
var ErrNoMail = &oauth.Error{
	Status: http.StatusNotFound, Code: oauth.InvalidRequest,
	Description: "this server sends no mail: ask an owner of your organization for a link",
}

// ownerIn returns the owner for a user's browser.
func ownerIn(f *flow.Flow, userID, passwordHash string) BrowserOwner {
	if f.Upstream != "" {
		return BrowserOwner{UserID: userID, Upstream: f.Upstream}
	}
	return BrowserOwner{UserID: userID, PasswordHash: passwordHash}
}

// NotifyDevice tells a user about a sign-in from a browser we have not seen before.
func (h *Handler) NotifyDevice(tx *db.Tx, r *http.Request, o BrowserOwner) error {
	if _, known := h.Browsers.Recognize(r, o); known {
		return nil
	}
	return h.Accounts.Tell(tx, o.UserID, mail.NewDevice)
}
