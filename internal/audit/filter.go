package audit

import (
	"strings"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/stamp"
)

// Filter selects entries of the log. Empty fields match all.
type Filter struct {
	// Action is an action, or with a dot at its end what the action was done to, such as `client.`.
	Action string
	// Actor is the id of a user, an API key or an OAuth client.
	Actor  string
	Target string
	// Entries are from Start on and before End.
	Start, End *stamp.Time
}

// actorColumns are the columns of the kinds of actors.
var actorColumns = map[string]string{id.User: `user_id`, id.Key: `key_id`, id.Client: `client_id`}

// check adds what is wrong with the filter to faults. end is the location of its end.
func (f Filter) check(faults *errs.Faults, end string) {
	faults.Check(f.Actor == "" || f.actorColumn() != "", "query.actor", "expected the id of a user, an API key or an OAuth client")
	faults.Check(f.Start == nil || f.End == nil || *f.Start < *f.End, end, "expected a time after the beginning")
}

func (f Filter) actorColumn() string {
	prefix, _, _ := strings.Cut(f.Actor, "_")
	return actorColumns[prefix]
}

// thingOf returns what an action was done to.
func thingOf(action string) string {
	thing, _, _ := strings.Cut(action, ".")
	return thing
}
