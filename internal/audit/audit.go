// Package audit owns the log of who did what to which resource, and from where.
//
// Every change calls Record in its own transaction, so an entry exists exactly if the change does.
// Runtimes' saves of threads, sessions and runs are exempt. An entry has the action ("apikey.delete") and
// the changed thing's id, but never values. Purge removes old entries.
package audit

import "steward/internal/stamp"

// Entry is one entry in the log.
type Entry struct {
	_ struct{} `goName:"AuditEntry"`

	ID         string     `json:"id" example:"aud_01jcq47n5r8t1w4z7c0f3h6k9m"`
	At         stamp.Time `json:"at" format:"date-time"`
	UserID     *string    `json:"user_id" doc:"The user who did it; null for an OAuth client that acts as itself, and for Steward" example:"usr_01jcq3s1d4f8k2m6p9r3t7v0wx"`
	KeyID      *string    `json:"key_id" doc:"The API key that was used, or null" example:"key_01jcq3t2f5h8k1n4q7s0v3y6bd"`
	ClientID   *string    `json:"client_id" doc:"The OAuth client whose access token was used, or that created the API key with one; or null" example:"oac_01jcq3w7y2b5d8f1h4k7n0q3st"`
	Action     string     `json:"action" example:"apikey.create"`
	Target     string     `json:"target" doc:"Id of what was changed" example:"key_01jcq3t2f5h8k1n4q7s0v3y6bd"`
	RemoteAddr string     `json:"remote_addr" example:"203.0.113.7"`
	RequestID  string     `json:"request_id" example:"req_01jcq3v5w8z9d6y4k2m7n0p1rt"`
}
