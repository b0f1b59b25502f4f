package audit

import (
	"context"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
)

// Handler serves the routes of this package.
type Handler struct{ Store *Store }

// ListInput is the query of the log.
type ListInput struct {
	page.Paging
	Action string `query:"action" maxLength:"100" pattern:"^[a-z_-]+\\.[a-z_-]*$" patternDescription:"an action such as apikey.create, or the beginning of actions up to the dot, such as apikey." doc:"Only this action, such as apikey.create; apikey. selects all actions on API keys"`
	Actor  string `query:"actor" maxLength:"128" doc:"Only what was done by the user, with the API key, or by the OAuth client with this id"`
	Target string `query:"target" maxLength:"2048" doc:"Only what was done to the thing with this id"`
	Start  string `query:"start" format:"date-time" doc:"Only from this time on"`
	End    string `query:"end" format:"date-time" doc:"Only before this time"`
}

// filter returns the filter of the query, or Invalid with all faults.
func (in *ListInput) filter() (Filter, error) {
	var faults errs.Faults
	f := Filter{Action: in.Action, Actor: in.Actor, Target: in.Target}
	f.Start = parseTime(&faults, "query.start", in.Start)
	f.End = parseTime(&faults, "query.end", in.End)
	if faults.Err() == nil {
		f.check(&faults)
	}
	return f, faults.Err()
}

func parseTime(faults *errs.Faults, location, text string) *stamp.Time {
	if text == "" {
		return nil
	}
	var at stamp.Time
	err := at.UnmarshalText([]byte(text))
	faults.Check(err == nil, location, "expected an RFC 3339 time such as 2026-11-15T08:30:00Z")
	return &at
}

// List serves GET /audit.
func (h *Handler) List(ctx context.Context, in *ListInput) (page.Page[Entry], error) {
	f, err := in.filter()
	if err != nil {
		return page.Page[Entry]{}, err
	}
	return h.Store.List(ctx, auth.From(ctx).OrgID, f, in.Paging)
}
