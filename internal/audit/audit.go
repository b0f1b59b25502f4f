// Package audit owns the log of who did what to which resource, and from where.
//
// Every change calls Record in its own transaction, so an entry exists exactly if the change does.
// Exceptions are the saves of runtimes: of threads, sessions and runs. An entry has the action
// ("apikey.delete") and the id of what was changed, never values. Purge removes old entries.
package audit

import "steward/internal/stamp"

// Entry is one entry of the log.
type Entry struct {
	ID         string     `json:"id"`
	At         stamp.Time `json:"at" format:"date-time"`
	UserID     *string    `json:"user_id" doc:"The user who did it; null for an OAuth client that acts as itself, and for Steward"`
	KeyID      *string    `json:"key_id" doc:"The API key that was used, or null"`
	ClientID   *string    `json:"client_id" doc:"The OAuth client whose access token was used, or that created the API key with one; or null"`
	Action     string     `json:"action" example:"apikey.create"`
	Target     string     `json:"target" doc:"Id of what was changed"`
	RemoteAddr string     `json:"remote_addr"`
	RequestID  string     `json:"request_id"`
}
