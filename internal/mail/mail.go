// Package mail owns the mail that Steward sends to its users: the queue, the texts, and the connection
// to the mail server.
//
// To send a mail, you add a Request to the queue in the transaction that the mail is about (store.go).
// A request names its subject, but holds neither text nor link. A worker, on one replica at a time,
// takes the requests that are due, composes each mail, which makes the token for its link, and sends
// it (worker.go, smtp.go). If a mail cannot be sent, the worker tries again for some days. One Content
// yields both the plain text and the HTML (content.go).
//
// We send a mail at least once: a process that dies before it has recorded that the server accepted a
// mail sends it again, with the same Message-ID.
package mail

import (
	"time"

	"steward/internal/stamp"
)

// Kind tells mails apart by their purpose.
type Kind string

// The kinds. The table's CHECK lists the same.
const (
	KindInvitation Kind = "invitation" // an invitation's link
	KindReset      Kind = "reset"      // a link to set a new password
	KindEmail      Kind = "email"      // a link that proves a new address
	KindNotice     Kind = "notice"     // something has happened to the account
	KindAlert      Kind = "alert"      // an alert of an organization
)

// Event is a change to an account. We send its user a notice, so that a stranger's change does not go
// unseen.
type Event string

// The events.
const (
	PasswordChanged  Event = "password"
	NewDevice        Event = "device" // a sign-in from a browser that we have not seen before
	PasskeyAdded     Event = "passkey"
	PasskeyRemoved   Event = "passkey_removed"
	FactorChanged    Event = "factor"          // an authenticator app was added or removed
	FactorsCleared   Event = "factors_cleared" // an owner removed all second factors
	IdentityLinked   Event = "identity"
	IdentityUnlinked Event = "identity_removed"
	EmailChanging    Event = "email" // goes to the old address
)

// Request asks for a mail. Each kind uses some of the fields.
type Request struct {
	Kind Kind `json:"-"`
	// OrgID and InvitationID name an invitation.
	OrgID        string `json:"org_id,omitempty"`
	InvitationID string `json:"invitation_id,omitempty"`
	// UserID names the user who asked for a new address.
	UserID string `json:"user_id,omitempty"`
	// To is a notice's recipient, or the address whose owner asked for a new password.
	To string `json:"to,omitempty"`
	// Notice says what happened, RemoteAddr from where, and At when.
	Notice     Event      `json:"notice,omitempty"`
	RemoteAddr string     `json:"remote_addr,omitempty"`
	At         stamp.Time `json:"at,omitzero"`
	// Alert is an alert's text, for a member of OrgID with the address To.
	Alert *Alert `json:"alert,omitempty"`
}

// Letter is a mail that is ready to send.
type Letter struct {
	To string
	Content
}

const (
	// maxAge is how long we try to send a mail.
	maxAge = 3 * 24 * time.Hour
	// firstPause and maxPause bound the pause until the next attempt.
	firstPause = time.Minute
	maxPause   = 4 * time.Hour
)

// pauseAfter returns the pause after the given number of attempts. It doubles each time.
func pauseAfter(attempts int64) time.Duration {
	return min(firstPause<<min(attempts-1, 16), maxPause)
}
