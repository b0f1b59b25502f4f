package app

import (
	"context"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/resource"
	"steward/internal/search"
)

// searchSources returns the sources that can be searched.
func (p *parts) searchSources() []search.Source {
	return []search.Source{
		{Type: "webhook", Permission: auth.ReadWebhooks, Find: p.webhooks.store.Search},
		{Type: "destination", Permission: auth.ReadWebhooks, Find: p.webhooks.store.SearchDestinations},
		{Type: "receipt", Permission: auth.ReadWebhooks, Find: p.webhooks.store.SearchReceipts},
		{Type: "oauth_client", Permission: auth.ReadClients, Find: p.oauth.Clients.Search},
		{Type: "api_key", Permission: auth.ReadKeys, Find: p.apiKeys.Search},
		{Type: "bucket", Permission: auth.ReadResources, Find: p.storage.buckets.Search},
		{Type: "database", Permission: auth.ReadResources, Find: provisioned(p.engines.store, resource.DB)},
		{Type: "store", Permission: auth.ReadResources, Find: provisioned(p.engines.store, resource.KV)},
		{Type: "thread", Permission: auth.ReadThreads, Find: p.threads.Search},
		{Type: "session", Permission: auth.ReadThreads, Find: byID(p.threads.Session)},
		{Type: "eval", Permission: auth.ReadEvals, Find: p.evals.Search},
		{Type: "eval_run", Permission: auth.ReadEvals, Find: byID(p.evals.Run)},
		{Type: "project", Permission: auth.ReadProjects, Find: p.accounts.SearchProjects},
		{Type: "member", Permission: auth.ListMembers, Find: p.accounts.SearchMembers},
	}
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
func provisioned(
	resources *resource.Store, t resource.Type,
) func(context.Context, *auth.Caller, string, int) ([]db.Named, error) {
	return func(ctx context.Context, caller *auth.Caller, text string, limit int) ([]db.Named, error) {
		return resources.Search(ctx, caller, t, text, limit)
	}
}
