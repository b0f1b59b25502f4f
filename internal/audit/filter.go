package audit

import (
	"strings"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/stamp"
)

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
