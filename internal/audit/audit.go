// Package audit owns the log of who did what to which resource, and from where.
//
// Every change calls Record in its own transaction, so an entry exists exactly if the change does.
// Runtimes' saves of threads, sessions and runs are exempt. An entry has the action ("apikey.delete") and
// the changed thing's id, but never values. Purge removes old entries.
package audit

import (
	"context"
	"strings"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/stamp"
	"steward/internal/web"
)

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

// source returns the request id and remote address, if the context belongs to a request.
func source(ctx context.Context) (requestID, remoteAddr string) {
	meta := web.Request(ctx)
	return meta.ID, meta.RemoteAddr
}

// RemoteAddr returns the remote address of the context's request, or "".
func RemoteAddr(ctx context.Context) string {
	_, remoteAddr := source(ctx)
	return remoteAddr
}

// Filter selects entries. Empty fields match all.
type Filter struct {
	// Action is an action, or the thing it was done to with a final dot, such as `client.`.
	Action string
	// Actor is a user's, API key's or OAuth client's id.
	Actor  string
	Target string
	// Start is inclusive and End exclusive.
	Start, End *stamp.Time
}

// actorColumns maps the prefix of an actor's id to the column for such actors.
var actorColumns = map[string]string{id.User: `user_id`, id.Key: `key_id`, id.Client: `client_id`}

// check adds the filter's faults. end is the location of End in the request.
func (f Filter) check(faults *errs.Faults, end string) {
	faults.Check(f.Actor == "" || f.actorColumn() != "", "query.actor", "expected the id of a user, an API key or an OAuth client")
	faults.Check(f.Start == nil || f.End == nil || *f.Start < *f.End, end, "expected a time after the beginning")
}

func (f Filter) actorColumn() string {
	prefix, _, _ := strings.Cut(f.Actor, "_")
	return actorColumns[prefix]
}

// thingOf returns the kind of thing in an action.
func thingOf(action string) string {
	thing, _, _ := strings.Cut(action, ".")
	return thing
}
