// Package mail owns the mail that Steward sends to its users: the queue, the texts, and the connection to
// the mail server.
//
// Whoever wants a mail to be sent adds a Request to the queue, in the transaction of what the mail is about
// (store.go). The request says what the mail is about, and has neither its text nor a link. A worker, on
// one replica at a time, takes what is due, has it composed, which makes the token of its link, and sends
// it (worker.go, smtp.go). A mail that cannot be sent is tried again later, for some days. The text is made
// of a Content, which is the same in plain text and HTML (content.go).
//
// A mail is sent at least once: a process that dies before it has noted that the server took a mail sends
// it again, with the same Message-ID.
package mail

import (
	"strings"
	"time"

	"steward/internal/errs"
	"steward/internal/stamp"
)

// Kind is what a mail is for.
type Kind string

// The kinds of mail. The CHECK of the table says the same.
const (
	KindInvitation Kind = "invitation" // the link of an invitation
	KindReset      Kind = "reset"      // a link to set a new password
	KindEmail      Kind = "email"      // a link that proves a new address
	KindNotice     Kind = "notice"     // something has happened to the account
)

// Event is something that has happened to an account. Its user gets a notice, so that a change by a stranger
// does not go unseen.
type Event string

// The events.
const (
	PasswordChanged  Event = "password"
	NewDevice        Event = "device" // a sign-in in a browser that was not seen before
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
	// UserID names the user who has asked for a new address.
	UserID string `json:"user_id,omitempty"`
	// To is the address to which a notice goes, or for which a new password was asked.
	To string `json:"to,omitempty"`
	// Notice names what has happened, RemoteAddr from where, and At when.
	Notice     Event      `json:"notice,omitempty"`
	RemoteAddr string     `json:"remote_addr,omitempty"`
	At         stamp.Time `json:"at,omitzero"`
}

// Letter is a mail that is ready to be sent.
type Letter struct {
	To string
	Content
}

// check returns Invalid if a header would have more than one line.
func (l Letter) check() error {
	if strings.ContainsAny(l.To+l.Subject, "\r\n") {
		return errs.New(errs.Invalid, "the address or the subject of a mail has a line break")
	}
	return nil
}

const (
	// maxAge is how long a mail is tried.
	maxAge = 3 * 24 * time.Hour
	// firstPause and maxPause bound the time until the next attempt.
	firstPause = time.Minute
	maxPause   = 4 * time.Hour
)

// pauseAfter returns the time until the next attempt, after a number of them: it doubles each time.
func pauseAfter(attempts int64) time.Duration {
	return min(firstPause<<min(attempts-1, 16), maxPause)
}
