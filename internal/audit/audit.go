// Package audit owns the log of who did what to which resource, from where.
//
// Record is called by every change inside its own transaction, so a line is there exactly when the change is. It never holds values, only
// the action ("apikey.delete") and the id of what was changed.
package audit

import "steward/internal/stamp"

// Entry is one line.
type Entry struct {
	ID         string     `json:"id"`
	At         stamp.Time `json:"at" format:"date-time"`
	UserID     *string    `json:"user_id" doc:"Who did it; null for Steward itself"`
	KeyID      *string    `json:"key_id" doc:"The API key that was used, if one was"`
	Action     string     `json:"action" example:"apikey.create"`
	Target     string     `json:"target" doc:"The id of what was changed"`
	RemoteAddr string     `json:"remote_addr"`
	RequestID  string     `json:"request_id"`
}
