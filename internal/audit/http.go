package audit

import (
	"context"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/period"
)

// Handler serves the routes of this package.
type Handler struct{ Store *Store }

// ListInput has the query parameters for the log.
type ListInput struct {
	page.Paging
	period.Between
	Action string       `query:"action" maxLength:"100" pattern:"^[a-z_-]+\\.[a-z_-]*$" patternDescription:"an action such as apikey.create, or the beginning of actions up to the dot, such as apikey." doc:"Only this action, such as apikey.create; apikey. selects all actions on API keys" example:"apikey.create"`
	Actor  string       `query:"actor" maxLength:"128" doc:"Only what was done by the user, with the API key, or by the OAuth client with this id"`
	Target string       `query:"target" maxLength:"2048" doc:"Only what was done to the thing with this id" example:"key_01jcq3t2f5h8k1n4q7s0v3y6bd"`
	Start  period.Bound `query:"start" doc:"The same as since"`
	End    period.Bound `query:"end" doc:"The same as until"`
}

// filter returns the query's filter, or Invalid with all faults.
func (in *ListInput) filter() (Filter, error) {
	var faults errs.Faults
	f := Filter{Action: in.Action, Actor: in.Actor, Target: in.Target}
	faults.Check(in.Start == "" || in.Since == "", "query.start", "expected either since or start")
	faults.Check(in.End == "" || in.Until == "", "query.end", "expected either until or end")
	f.Start, f.End = in.Times(&faults)
	if in.Start != "" {
		f.Start = in.Start.Parse(&faults, "query.start")
	}
	end := "query.until"
	if in.End != "" {
		end = "query.end"
		f.End = in.End.Parse(&faults, end)
	}
	f.check(&faults, end)
	return f, faults.Err()
}

// List serves GET /audit.
func (h *Handler) List(ctx context.Context, in *ListInput) (page.Page[Entry], error) {
	f, err := in.filter()
	if err != nil {
		return page.Page[Entry]{}, err
	}
	return h.Store.List(ctx, auth.From(ctx).OrgID, f, in.Paging)
}
