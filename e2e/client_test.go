package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	api "steward/client"
	"steward/e2e/installation"
	"steward/e2e/sink"
	"steward/internal/waittest"
)

// newAPIClient returns a client of package client with the installation's key.
func newAPIClient(s *installation.Steward) *api.Client { return api.New(s.URL, s.Key) }

// ok fails the test if a call of the client failed, and returns its result.
func ok[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// everything returns the items of a sequence.
func everything[T any](t testing.TB, all iter.Seq2[T, error]) (items []T) {
	t.Helper()
	for item, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
	}
	return items
}

// TestClient uses package client over all areas of the API.
func TestClient(t *testing.T) {
	t.Parallel()
	areas := map[string]func(t *testing.T, s *installation.Steward, c *api.Client){
		"account": clientAccount, "API keys": clientKeys, "members": clientMembers, "OAuth clients": clientOAuth,
		"webhooks": clientWebhooks, "deliveries": clientDeliveries, "storage": clientStorage, "threads": clientThreads,
		"sessions": clientSessions, "evaluations": clientEvals,
	}
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		for name, area := range areas {
			t.Run(name, func(t *testing.T) { area(t, s, newAPIClient(s)) })
		}
	})
}

func clientAccount(t *testing.T, s *installation.Steward, c *api.Client) {
	ctx := t.Context()
	me := ok(c.GetCurrentUser(ctx))(t)
	if me.Role != string(api.RoleOwner) || me.Organizations[0].ID != s.OrgID {
		t.Errorf("%+v", me)
	}
	if orgs := ok(c.ListOrganizations(ctx))(t); len(orgs) != 1 || orgs[0].ID != s.OrgID || string(*orgs[0].Role) != me.Role {
		t.Errorf("%+v", orgs)
	}
	if regions := ok(c.ListRegions(ctx))(t); regions[0].Region != "local" {
		t.Errorf("%+v", regions)
	}
	project := ok(c.CreateProject(ctx, api.NewProject{Name: "shop"}))(t)
	if all := everything(t, c.AllProjects(ctx, nil)); !slices.Contains(all, *project) {
		t.Errorf("%+v is not among %+v", project, all)
	}
	if err := c.DeleteProject(ctx, project.ID); err != nil {
		t.Error(err)
	}
	if err := c.DeleteProject(ctx, project.ID); !api.IsNotFound(err) {
		t.Error(err)
	}
	entries := everything(t, c.AllAuditEntries(ctx, &api.ListAuditEntriesParams{Limit: 1}))
	isDeletion := func(e api.AuditEntry) bool { return e.Action == "project.delete" && e.Target == project.ID }
	if !slices.ContainsFunc(entries, isDeletion) || *entries[0].UserID != me.ID {
		t.Errorf("%+v", entries)
	}
}

func clientKeys(t *testing.T, s *installation.Steward, c *api.Client) {
	ctx := t.Context()
	expires := time.Now().Add(time.Hour).UTC().Truncate(time.Millisecond)
	made := ok(c.CreateAPIKey(ctx, api.NewAPIKey{Name: "ci", ExpiresAt: &expires, Scopes: []string{"webhook:read"}}))(t)
	key := ok(c.GetAPIKey(ctx, made.ID))(t)
	if key.Name != "ci" || !key.ExpiresAt.Equal(expires) || key.Project != nil || !slices.Equal(key.Scopes, []string{"webhook:read"}) {
		t.Errorf("%+v", key)
	}
	_, err := c.CreateAPIKey(ctx, api.NewAPIKey{Name: "none", Scopes: []string{}}) // an empty list is not the default
	var e *api.Error
	if !errors.As(err, &e) || e.Code != api.CodeInvalid || e.Fields[0].Location != "body.scopes" || e.RequestID == "" {
		t.Errorf("%v", err)
	}
	limited := api.New(s.URL, made.Value)
	if _, err := limited.CreateWebhook(ctx, api.NewWebhook{Name: "w"}); !api.IsForbidden(err) {
		t.Error(err)
	}
	if err := c.DeleteAPIKey(ctx, made.ID); err != nil {
		t.Error(err)
	}
	if _, err := limited.ListWebhooks(ctx, nil); !api.IsUnauthorized(err) {
		t.Error(err)
	}
}

func clientMembers(t *testing.T, _ *installation.Steward, c *api.Client) {
	ctx := t.Context()
	invited := ok(c.InviteMember(ctx, api.NewMember{Email: "ada@example.com", Role: api.RoleViewer, FirstName: new("Ada")}))(t)
	if !strings.HasPrefix(invited.Link, "http") || *invited.FirstName != "Ada" || invited.LastName != nil {
		t.Errorf("%+v", invited)
	}
	changed := ok(c.UpdateMember(ctx, invited.ID, api.MemberPatch{
		Role: new(api.RoleMember), FirstName: api.Clear[string](), LastName: api.Set("Lovelace"),
	}))(t)
	if changed.Role != api.RoleMember || changed.FirstName != nil || *changed.LastName != "Lovelace" {
		t.Errorf("%+v", changed)
	}
	if again := ok(c.RenewInvitation(ctx, invited.ID))(t); again.Link == invited.Link {
		t.Error("the invitation is the same")
	}
	if err := c.RemoveMember(ctx, invited.ID); err != nil {
		t.Error(err)
	}
	if members := ok(c.ListMembers(ctx))(t); len(members) != 1 {
		t.Errorf("%+v", members)
	}
}

func clientOAuth(t *testing.T, _ *installation.Steward, c *api.Client) {
	ctx := t.Context()
	made := ok(c.CreateOAuthClient(ctx, api.NewOAuthClient{
		Name: "Portal", Description: "d", HomepageURL: "https://portal.example.com", AccessTokenLifetimeSeconds: new(int64(600)),
	}, nil))(t)
	id := made.Client.ID
	cleared := ok(c.UpdateOAuthClient(ctx, id, api.OAuthClientPatch{
		AccessTokenLifetimeSeconds: api.Clear[int64](), RedirectURIs: []string{"https://portal.example.com/cb"},
	}, nil))(t)
	if cleared.Client.AccessTokenLifetimeSeconds != nil || len(cleared.Client.RedirectURIs) != 1 || cleared.Client.Name != "Portal" {
		t.Errorf("%+v", cleared)
	}
	if rotated := ok(c.RotateOAuthClientSecret(ctx, id))(t); rotated.ClientSecret == made.ClientSecret {
		t.Error("the secret is the same")
	}
	details := ok(c.GetOAuthClient(ctx, id))(t)
	if details.UserCount != 0 || details.ClientType != api.ClientTypeConfidential {
		t.Errorf("%+v", details)
	}
	catalogue := ok(c.GetScopeCatalogue(ctx))(t)
	if len(catalogue.Scopes) == 0 || len(everything(t, c.AllOAuthClients(ctx, nil))) == 0 {
		t.Error("no scopes or no clients")
	}
	if users := ok(c.ListOAuthClientUsers(ctx, id, nil))(t); len(users) != 0 {
		t.Errorf("%+v", users)
	}
	if deleted := ok(c.DeleteOAuthClient(ctx, id))(t); !deleted.Deleted {
		t.Error("not deleted")
	}
	if _, err := c.GetOAuthClient(ctx, id); !api.IsNotFound(err) {
		t.Error(err)
	}
}

// clientWebhooks has more webhooks than a page.
func clientWebhooks(t *testing.T, _ *installation.Steward, c *api.Client) {
	ctx := t.Context()
	var made []string
	for i := range 7 {
		webhook := ok(c.CreateWebhook(ctx, api.NewWebhook{Name: fmt.Sprint("hook ", i), Description: new("text")}))(t)
		made = append(made, webhook.ID)
	}
	var listed []string
	for _, webhook := range everything(t, c.AllWebhooks(ctx, &api.ListWebhooksParams{Limit: 3})) {
		if slices.Contains(made, webhook.ID) {
			listed = append(listed, webhook.ID)
		}
	}
	slices.Reverse(listed)
	if !slices.Equal(listed, made) {
		t.Errorf("listed %v, want %v", listed, made)
	}
	id := made[0]
	var res api.Response
	if webhook := ok(c.Capture(&res).GetWebhook(ctx, id))(t); *webhook.Description != "text" || webhook.URL != nil {
		t.Errorf("%+v", webhook)
	}
	conditional := c.With("If-Match", res.ETag())
	if changed := ok(conditional.UpdateWebhook(ctx, id, api.WebhookPatch{Description: api.Clear[string]()}))(t); changed.Description != nil {
		t.Errorf("%+v", changed)
	}
	if _, err := conditional.UpdateWebhook(ctx, id, api.WebhookPatch{Name: new("late")}); !api.IsPreconditionFailed(err) {
		t.Error(err)
	}
	if _, err := c.With("If-None-Match", ok(c.Do(ctx, "GET", "/webhook/get/"+id, nil))(t).ETag()).GetWebhook(ctx, id); !api.IsNotModified(err) {
		t.Error(err)
	}
	for _, id := range made {
		if err := c.DeleteWebhook(ctx, id); err != nil {
			t.Error(err)
		}
	}
	if _, err := c.GetWebhook(ctx, id); !api.IsNotFound(err) {
		t.Error(err)
	}
}

// clientDeliveries reads what a failing destination leaves.
func clientDeliveries(t *testing.T, s *installation.Steward, c *api.Client) {
	ctx := t.Context()
	k := sink.New(t)
	k.Status("/", 500)
	webhook := ok(c.CreateWebhook(ctx, api.NewWebhook{Name: "orders"}))(t)
	destination := ok(c.CreateDestination(ctx, webhook.ID, api.NewDestination{
		Type: "url", Config: api.DestinationConfig{URL: k.URL, MaxRetries: new(0), AdditionalProperties: map[string]any{"team": "shop"}},
	}))(t)
	if destination.Secret == nil || destination.Config.AdditionalProperties["team"] != "shop" {
		t.Errorf("%+v", destination)
	}
	body := `{"order":9007199254740993}` // more digits than a float64 has
	s.Ingest(installation.Hook{ID: webhook.ID, Path: strings.TrimPrefix(*webhook.URL, s.URL)}, body)
	var failed []api.Delivery
	waittest.Within(t, time.Minute, "a failed delivery", func() bool {
		failed = ok(c.ListDeliveries(ctx, webhook.ID, &api.ListDeliveriesParams{Status: api.ListDeliveriesParamsStatusFailed}))(t)
		return len(failed) > 0
	})
	if failed[0].Response.Status != 500 || failed[0].WebhookDestinationID != destination.ID {
		t.Errorf("%+v", failed[0])
	}
	receipt := ok(c.GetReceipt(ctx, webhook.ID, failed[0].WebhookReceiptID))(t)
	raw := ok(c.GetReceiptPayload(ctx, webhook.ID, receipt.ID))(t)
	if string(receipt.Payload) != body || string(raw) != body || receipt.Method != "POST" {
		t.Errorf("%s, %s, %+v", receipt.Payload, raw, receipt)
	}
	k.Status("/", 204)
	if retried := ok(c.RetryDelivery(ctx, webhook.ID, failed[0].ID))(t); retried.Retries != 1 {
		t.Errorf("%+v", retried)
	}
	waittest.Within(t, time.Minute, "a delivery", func() bool {
		return ok(c.GetWebhookAnalytics(ctx, nil))(t).Summary.TotalDelivered > 0
	})
	destination.Config.Disabled = new(true)
	changed := ok(c.UpdateDestination(ctx, webhook.ID, destination.ID, api.DestinationPatch{Config: &destination.Config}))(t)
	if !*changed.Config.Disabled || changed.Config.AdditionalProperties["team"] != "shop" {
		t.Errorf("%+v", changed)
	}
	if err := c.DeleteDestination(ctx, webhook.ID, destination.ID); err != nil {
		t.Error(err)
	}
	if left := ok(c.ListDestinations(ctx, webhook.ID))(t); len(left) != 0 {
		t.Errorf("%+v", left)
	}
}

func clientStorage(t *testing.T, s *installation.Steward, c *api.Client) {
	ctx := t.Context()
	one := []api.NewResource{{Type: api.ResourceTypeS3, Name: new("invoices")}}
	made := ok(c.CreateResources(ctx, s.OrgID, "local", api.NewResources{Resources: one}))(t)
	if _, err := c.CreateResources(ctx, s.OrgID, "local", api.NewResources{Resources: one}); !api.IsConflict(err) {
		t.Error(err)
	}
	env := made.Created[0].Env
	b := installation.Bucket{Steward: s, Name: "invoices", Access: env["S3_ACCESS_KEY_ID"], Secret: env["S3_SECRET_ACCESS_KEY"]}
	for _, key := range []string{"2026/a", "2026/b", "other"} {
		b.Put(key, "content")
	}
	keys := []string{}
	for _, object := range everything(t, c.AllObjects(ctx, "invoices", "2026/")) {
		keys = append(keys, object.Key)
	}
	folders := ok(c.ListFolders(ctx, "invoices", nil))(t)
	if !slices.Equal(keys, []string{"2026/a", "2026/b"}) || folders.Folders[0].ObjectCount != 2 || len(folders.Objects) != 1 {
		t.Errorf("%v, %+v", keys, folders)
	}
	config := ok(c.UpdateBucketConfig(ctx, "invoices", api.BucketConfigPatch{
		TTL: api.Set[int64](86400), CORS: api.Set(api.CORS{AllowedOrigins: []string{"https://app.example.com"}}),
	}))(t)
	if *config.TTL != 86400 || len(config.CORS.AllowedOrigins) != 1 || config.Public != nil {
		t.Errorf("%+v", config)
	}
	config = ok(c.UpdateBucketConfig(ctx, "invoices", api.BucketConfigPatch{CORS: api.Clear[api.CORS]()}))(t)
	if config.CORS != nil || *config.TTL != 86400 {
		t.Errorf("%+v", config)
	}
	if err := c.ResetBucketConfig(ctx, "invoices"); err != nil {
		t.Error(err)
	}
	if url := ok(c.PresignObject(ctx, "invoices", &api.PresignObjectParams{Key: "other"}))(t); !strings.Contains(url.PresignedURL, "X-Amz-Signature") {
		t.Errorf("%+v", url)
	}
	if n := ok(c.DeleteObjects(ctx, "invoices", &api.DeleteObjectsParams{Prefix: "2026/"}))(t).DeletedCount; n != 2 {
		t.Errorf("%d deleted", n)
	}
	if stats := ok(c.GetBucketStats(ctx, "invoices"))(t); stats.ObjectCount != 1 {
		t.Errorf("%+v", stats)
	}
	gone := api.ResourceDeletion{Resources: []api.NamedResource{{Type: api.ResourceTypeS3, Name: "invoices", IfEmpty: new(true)}}}
	if err := c.DeleteResources(ctx, s.OrgID, "local", gone); !api.IsConflict(err) {
		t.Error(err)
	}
	gone.Resources[0].IfEmpty = nil
	if err := c.DeleteResources(ctx, s.OrgID, "local", gone); err != nil {
		t.Error(err)
	}
	if left := ok(c.ListRegionResources(ctx, s.OrgID, "local"))(t); len(left.S3) != 0 {
		t.Errorf("%+v", left)
	}
}

// clientThreads has more threads than a page of the iterator.
func clientThreads(t *testing.T, _ *installation.Steward, c *api.Client) {
	ctx := t.Context()
	for i := range 120 {
		thread := api.NewThread{ProjectID: new("threads"), Metadata: map[string]any{"even": i%2 == 0}}
		ok(c.PutThread(ctx, fmt.Sprint("thread-", i), thread))(t)
	}
	params := &api.ListThreadsParams{ProjectID: "threads", Direction: api.DirectionAsc}
	all := everything(t, c.AllThreads(ctx, params))
	for i, thread := range all {
		if thread.ID != fmt.Sprint("thread-", i) {
			t.Fatalf("thread %d is %s", i, thread.ID)
		}
	}
	params.Metadata = `{"even":true}`
	if even := everything(t, c.AllThreads(ctx, params)); len(all) != 120 || len(even) != 60 {
		t.Errorf("%d threads, %d even ones", len(all), len(even))
	}
	if err := c.DeleteThread(ctx, "thread-0"); err != nil {
		t.Error(err)
	}
	if _, err := c.GetThread(ctx, "thread-0"); !api.IsNotFound(err) {
		t.Error(err)
	}
	if deleted := ok(c.ListThreads(ctx, &api.ListThreadsParams{ProjectID: "threads", Deleted: true}))(t); len(deleted) != 1 {
		t.Errorf("%+v", deleted)
	}
}

func clientSessions(t *testing.T, s *installation.Steward, c *api.Client) {
	ctx := t.Context()
	started := ok(c.StartSession(ctx, api.NewSession{
		ID: "session-1", OrgID: s.OrgID, ProjectID: "sessions", RouteID: "r", Environment: "production", URL: "/", Method: "GET", Trigger: "api",
	}))(t)
	if !started.Pending || started.StatusCode != nil {
		t.Errorf("%+v", started)
	}
	ended := ok(c.CompleteSession(ctx, api.SessionCompletion{ID: "session-1", StatusCode: 200, AgentIDs: []string{"a"}}))(t)
	if got := ok(c.GetSession(ctx, "session-1"))(t); ended.Pending || *got.StatusCode != 200 || !slices.Equal(got.AgentIDs, []string{"a"}) {
		t.Errorf("%+v, %+v", ended, got)
	}
	if list := everything(t, c.AllSessions(ctx, &api.ListSessionsParams{ProjectID: "sessions"})); len(list) != 1 {
		t.Errorf("%+v", list)
	}
}

func clientEvals(t *testing.T, s *installation.Steward, c *api.Client) {
	ctx := t.Context()
	eval := ok(c.PutEval(ctx, "eval-1", api.NewEval{Name: "Politeness", AgentIdentifier: "agent", ProjectID: "evals"}))(t)
	if eval.Description != nil || eval.Name != "Politeness" {
		t.Errorf("%+v", eval)
	}
	run := ok(c.StartEvalRun(ctx, api.NewEvalRun{ID: "run-1", SessionID: "s", EvalID: "eval-1", OrgID: s.OrgID, ProjectID: "evals"}))(t)
	if !run.Pending {
		t.Errorf("%+v", run)
	}
	ok(c.CompleteEvalRun(ctx, api.EvalRunCompletion{ID: "run-1", Result: map[string]any{"score": 0.5, "passed": false}}))(t)
	got := ok(c.GetEvalRun(ctx, "run-1"))(t)
	var result struct{ Score float64 }
	if err := json.Unmarshal(got.Result, &result); err != nil || result.Score != 0.5 || !got.Success ||
		*got.Passed || *got.Score != 0.5 {
		t.Errorf("%+v, %v", got, err)
	}
	synced := ok(c.SyncEvals(ctx, api.EvalSync{Delete: []string{"eval-1"}}))(t)
	left := everything(t, c.AllEvals(ctx, &api.ListEvalsParams{ProjectID: "evals"}))
	if !slices.Equal(synced.Deleted, []string{"eval-1"}) || len(left) != 0 {
		t.Errorf("%+v, %+v", synced, left)
	}
}

func TestClientEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	c := newAPIClient(s)
	ok(c.CreateProject(t.Context(), api.NewProject{Name: "second"}))(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := 0
	var last error
	for _, err := range c.AllProjects(ctx, &api.ListProjectsParams{Limit: 1}) {
		seen++
		last = err
		cancel()
	}
	if seen != 2 || !errors.Is(last, context.Canceled) {
		t.Errorf("%d results, %v", seen, last)
	}
	if _, err := c.CreateProject(ctx, api.NewProject{Name: "never"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if all := everything(t, c.AllProjects(t.Context(), nil)); len(all) != 2 {
		t.Errorf("%+v", all)
	}
}
