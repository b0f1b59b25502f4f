package app

import (
	"steward/internal/account/organization"
	"steward/internal/db"
	"steward/internal/object"
	"steward/internal/oidc"
	"steward/internal/resource"
	"steward/internal/webhook"
)

// orgTables lists the tables with a column org_id whose rows are removed with their organization.
// Credentials come first.
var orgTables = []organization.Table{
	{Name: "api_keys", Key: "id"},
	{Name: "oidc_clients", Key: "id"},
	{Name: "oidc_client_states", Key: "client_id"},
	{Name: "oidc_consents", Key: "client_id, user_id"},
	{Name: "oidc_grants", Key: "id"},
	{Name: "oidc_purges", Key: "client_id"},
	{Name: "oidc_client_days", Key: "client_id, day"},
	{Name: "oidc_client_day_users", Key: "client_id, day, user_id"},
	{Name: "oidc_upstreams", Key: "id"},
	{Name: "oidc_registration_tokens", Key: "id"},
	{Name: "oidc_identities", Key: "issuer, subject"},
	{Name: "oidc_sessions", Key: "id"},
	{Name: "oidc_logouts", Key: "session_id, client_id"},
	{Name: "invitations", Key: "id"},
	{Name: "mail_quotas", Key: "org_id"},
	{Name: "threads", Key: "id"},
	{Name: "thread_index_created", Key: "position, thread_id"},
	{Name: "thread_index_updated", Key: "position, thread_id"},
	{Name: "thread_term_counts", Key: "term"},
	{Name: "thread_counts", Key: "project_id"},
	{Name: "thread_purges", Key: "project_id"},
	{Name: "sessions", Key: "id"},
	{Name: "evals", Key: "id"},
	{Name: "eval_runs", Key: "id"},
	{Name: "eval_counts", Key: "kind, key, project_id"},
	{Name: "eval_relabels", Key: "eval_id"},
	{Name: "eval_purges", Key: "project_id"},
	{Name: "webhook_log", Key: "number, key"},
	{Name: "webhook_replays", Key: "webhook_id, id"},
	{Name: "webhook_counts", Key: "unit, bucket"},
	{Name: "webhook_counts_each", Key: "webhook_id, unit, bucket"},
	{Name: "webhook_totals", Key: "webhook_id"},
	{Name: "alert_notices", Key: "id"},
	{Name: "alerts", Key: "id"},
	{Name: "bucket_totals", Key: "bucket_id, tier"},
	{Name: "object_usage", Key: "day, tier"},
	{Name: "projects", Key: "id"},
	{Name: "idempotency", Key: "scope"},
	{Name: "audit", Key: "id"},
}

// steppedTables lists the tables with a column org_id whose rows are removed by wireOrganizations's steps,
// or as members.
var steppedTables = []string{
	"resources", "buckets", "webhooks", "webhook_destinations", "webhook_queue", "webhook_tombstones", "members",
}

// userTables lists the tables with a column user_id and without an organization. Their rows are
// removed with the user.
var userTables = []string{
	"oidc_sessions", "oidc_grants", "password_resets", "email_changes", "oidc_authenticators", "oidc_recovery_codes",
	"oidc_passkeys",
}

// wireOrganizations returns the remover of deleted organizations. Buckets have internal webhooks, and
// go first.
func (p *parts) wireOrganizations() *organization.Remover {
	store := &organization.Store{
		Accounts:      p.accounts,
		Caches:        append([]string{resource.Cache, object.Cache, oidc.Cache}, webhook.Caches()...),
		UserTables:    userTables,
		NeedsProvider: p.provider.NeedsProvider,
		UserRemoved:   []func(*db.Tx, string) error{p.oauth.Clients.ForgetUser},
	}
	hooks := &webhook.Retention{Store: p.webhooks.store} // its own, because only one loop at a time may use it
	return &organization.Remover{
		Store: store, Tables: orgTables, Log: p.log,
		Steps: []organization.Step{p.resources.RemoveOrg, p.storage.buckets.RemoveOrg, hooks.RemoveOrg},
	}
}
