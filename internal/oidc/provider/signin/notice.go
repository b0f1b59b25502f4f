package signin

import "steward/internal/db"

// Notice is what a user is told about their account, so that a stranger who changes it is noticed.
type Notice string

// The notices.
const (
	NoticePassword       Notice = "password"        // the password was changed
	NoticeDevice         Notice = "device"          // a sign-in in a browser that was not seen before
	NoticePasskey        Notice = "passkey"         // a passkey was added
	NoticePasskeyRemoved Notice = "passkey_removed" // a passkey was removed
	NoticeFactor         Notice = "factor"          // an authenticator app was added or removed
	NoticeFactorsCleared Notice = "factors_cleared" // an owner has removed all second factors
	NoticeIdentity       Notice = "identity"        // an account elsewhere was linked
	NoticeEmail          Notice = "email"           // the address is about to change; told to the one of before
)

// notify tells the user of a change in the transaction of the change, if users can be told.
func (h *Handler) notify(tx *db.Tx, userID string, n Notice) error {
	if h.Users.Notify == nil {
		return nil
	}
	return h.Users.Notify(tx, userID, n)
}
