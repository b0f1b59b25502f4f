package signin

import (
	"net/http"

	"steward/internal/db"
	"steward/internal/oidc/provider/browser"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
)

// Notice is what a user is told about their account, so that a stranger who changes it is noticed.
type Notice string

// The notices.
const (
	NoticePassword        Notice = "password"         // the password was changed
	NoticeDevice          Notice = "device"           // a sign-in in a browser that was not seen before
	NoticePasskey         Notice = "passkey"          // a passkey was added
	NoticePasskeyRemoved  Notice = "passkey_removed"  // a passkey was removed
	NoticeFactor          Notice = "factor"           // an authenticator app was added or removed
	NoticeFactorsCleared  Notice = "factors_cleared"  // an owner has removed all second factors
	NoticeIdentity        Notice = "identity"         // an account elsewhere was linked
	NoticeIdentityRemoved Notice = "identity_removed" // the link to an account elsewhere was removed
	NoticeEmail           Notice = "email"            // the address is about to change; told to the one of before
)

// ErrNoMail is returned for pages that need mail.
var ErrNoMail = &oauth.Error{
	Status: http.StatusNotFound, Code: oauth.InvalidRequest,
	Description: "this server sends no mail: ask an owner of your organization for a link",
}

// Tell tells the user of a change in the transaction of the change, if users can be told.
func (d Directory) Tell(tx *db.Tx, userID string, n Notice) error {
	if d.Notify == nil {
		return nil
	}
	return d.Notify(tx, userID, n)
}

// Changed tells the user of a change that the user has made, and records it.
func (d Directory) Changed(tx *db.Tx, userID, action string, n Notice) error {
	if err := d.Tell(tx, userID, n); err != nil {
		return err
	}
	return d.Audit(tx, action, userID, userID)
}

// ownerIn returns the owner of a browser in which a user signs in.
func ownerIn(f *flow.Flow, userID, passwordHash string) browser.Owner {
	if f.Upstream != "" {
		return browser.Owner{UserID: userID, Upstream: f.Upstream}
	}
	return browser.Owner{UserID: userID, PasswordHash: passwordHash}
}

// NotifyDevice tells a user of a sign-in in a browser that was not seen before.
func (h *Handler) NotifyDevice(tx *db.Tx, r *http.Request, o browser.Owner) error {
	if _, known := h.Browsers.Recognize(r, o); known {
		return nil
	}
	return h.Users.Tell(tx, o.UserID, NoticeDevice)
}
