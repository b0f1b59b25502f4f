package app

import (
	"context"

	"steward/internal/account"
	"steward/internal/apikey"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/eval"
	"steward/internal/object"
	"steward/internal/oidc"
	"steward/internal/resource"
	"steward/internal/search"
	"steward/internal/thread"
	"steward/internal/webhook"
)

// searched holds what can be searched.
type searched struct {
	accounts  *account.Store
	keys      *apikey.Store
	clients   *oidc.Store
	hooks     *webhook.Store
	objects   *object.Store
	resources *resource.Store
	threads   *thread.Store
	evals     *eval.Store
}

// handler returns the handler of searches.
func (s searched) handler() *search.Handler {
	return &search.Handler{Sources: []search.Source{
		{Type: "webhook", Permission: auth.ReadWebhooks, Find: s.hooks.Search},
		{Type: "destination", Permission: auth.ReadWebhooks, Find: s.hooks.SearchDestinations},
		{Type: "receipt", Permission: auth.ReadWebhooks, Find: s.hooks.SearchReceipts},
		{Type: "oauth_client", Permission: auth.ReadClients, Find: s.clients.Search},
		{Type: "api_key", Permission: auth.ReadKeys, Find: s.keys.Search},
		{Type: "bucket", Permission: auth.ReadResources, Find: s.objects.Search},
		{Type: "database", Permission: auth.ReadResources, Find: s.provisioned(resource.DB)},
		{Type: "store", Permission: auth.ReadResources, Find: s.provisioned(resource.KV)},
		{Type: "thread", Permission: auth.ReadThreads, Find: s.threads.Search},
		{Type: "session", Permission: auth.ReadThreads, Find: byID(s.threads.Session)},
		{Type: "eval", Permission: auth.ReadEvals, Find: s.evals.Search},
		{Type: "eval_run", Permission: auth.ReadEvals, Find: byID(s.evals.Run)},
		{Type: "project", Permission: auth.ReadProjects, Find: s.accounts.SearchProjects},
		{Type: "member", Permission: auth.ListMembers, Find: s.accounts.SearchMembers},
	}}
}

// byID returns the search for things that have no name.
func byID[T any](
	get func(ctx context.Context, caller *auth.Caller, id string) (T, error),
) func(context.Context, *auth.Caller, string, int) ([]db.Named, error) {
	return func(ctx context.Context, caller *auth.Caller, id string, _ int) ([]db.Named, error) {
		_, err := get(ctx, caller, id)
		if errs.KindOf(err) == errs.NotFound {
			return nil, nil
		}
		return []db.Named{{ID: id, Name: id}}, err
	}
}

// provisioned returns the search for resources of a type.
func (s searched) provisioned(t resource.Type) func(context.Context, *auth.Caller, string, int) ([]db.Named, error) {
	return func(ctx context.Context, caller *auth.Caller, text string, limit int) ([]db.Named, error) {
		return s.resources.Search(ctx, caller, t, text, limit)
	}
}
