package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/sink"
)

// platformCLI is the CLI of the platform, configured for an installation. It runs on SQLite: each command takes more than
// a second of CPU, and TestSDKs calls the same routes on both databases.
type platformCLI struct {
	s   *installation.Steward
	bun string
	dir string // home and working directory
}

func newPlatformCLI(s *installation.Steward) *platformCLI {
	s.T.Helper()
	return &platformCLI{s: s, bun: bunPath(s), dir: s.T.TempDir()}
}

// as returns the CLI with another key.
func (c *platformCLI) as(key string) *platformCLI {
	other := *c
	other.s = c.s.As(key)
	return &other
}

// run runs a command without a terminal. The environment has nothing but what docs/sdk.md names.
func (c *platformCLI) run(stdin string, args ...string) (stdout, stderr string, code int) {
	c.s.T.Helper()
	main, err := filepath.Abs(sdkDir + "@agentuity/cli/bin/cli.ts")
	c.s.Must(err)
	cmd := exec.CommandContext(c.s.T.Context(), c.bun, append([]string{main}, args...)...)
	cmd.Dir = c.dir
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = []string{
		"PATH=" + filepath.Dir(c.bun) + ":" + os.Getenv("PATH"), "HOME=" + c.dir,
		"AGENTUITY_API_KEY=" + c.s.Key, "AGENTUITY_API_URL=" + c.s.URL + "/sdk", "AGENTUITY_CATALYST_URL=" + c.s.URL + "/sdk",
		"AGENTUITY_SKIP_VERSION_CHECK=1",
	}
	return finish(c.s.T, cmd)
}

// cloud runs a command of `cloud`, which must succeed, and returns the JSON that it prints.
func (c *platformCLI) cloud(args ...string) *installation.Response {
	c.s.T.Helper()
	return c.json(append([]string{"cloud"}, args...)...)
}

// json runs a command, which must succeed, and returns the JSON that it prints. Some print it twice.
func (c *platformCLI) json(args ...string) *installation.Response {
	c.s.T.Helper()
	stdout, stderr, code := c.run("", append([]string{"--json"}, args...)...)
	if code != 0 {
		c.s.T.Fatalf("%q: exit code %d: %s%s", args, code, stdout, stderr)
	}
	if half := len(stdout) / 2; len(stdout) > 0 && stdout[:half] == stdout[half:] {
		stdout = stdout[:half]
	}
	return &installation.Response{T: c.s.T, What: strings.Join(args, " "), Status: 200, Body: []byte(stdout)}
}

// wantText checks that a command prints all of these texts and no errors.
func (c *platformCLI) wantText(args string, wants ...string) {
	c.s.T.Helper()
	stdout, stderr, code := c.run("", strings.Fields(args)...)
	missing := slices.ContainsFunc(wants, func(want string) bool { return !strings.Contains(stdout+stderr, want) })
	if code != 0 || missing {
		c.s.T.Errorf("%s: got exit code %d, want %q: %s%s", args, code, wants, stdout, stderr)
	}
}

// wantError checks that a command fails with an exit code and a text, wherever it prints it.
func (c *platformCLI) wantError(code int, want string, args ...string) {
	c.s.T.Helper()
	stdout, stderr, got := c.run("", args...)
	if got != code || !strings.Contains(stdout+stderr, want) {
		c.s.T.Errorf("%q: got exit code %d, want %d and %q: %s%s", args, got, code, want, stdout, stderr)
	}
}

// TestPlatformCLIManagesAPIKeys also covers regions and the current user.
func TestPlatformCLIManagesAPIKeys(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	c := newPlatformCLI(s)
	made := c.cloud("apikey", "create", "--name", "laptop", "--expires-at", "30d", "--confirm")
	s.As(made.Text("value")).Call("GET", "/cli/auth/user", nil).Want(200)
	id := made.Text("id")
	if got := c.cloud("apikey", "get", id); got.Text("name") != "laptop" || got.Text("orgId") != s.OrgID || got.Text("expiresAt") == "" {
		t.Errorf("get: %s", got.Body)
	}
	s.KeyOf("prj_cli")
	if got := c.cloud("apikey", "list"); strings.Count(string(got.Body), `"id": "key_`) != 3 {
		t.Errorf("list: %s", got.Body)
	}
	var ofProject []struct{ Name string }
	c.cloud("apikey", "list", "--project-id", "prj_cli").Decode(&ofProject)
	if len(ofProject) != 1 || ofProject[0].Name != "key of prj_cli" {
		t.Errorf("list of a project: %v", ofProject)
	}
	c.wantText("cloud apikey list", "laptop", "root key", "key of prj_cli")
	if got := c.cloud("apikey", "delete", id); got.Get("success") != true {
		t.Errorf("delete: %s", got.Body)
	}
	s.As(made.Text("value")).Call("GET", "/cli/auth/user", nil).Want(401)

	c.wantError(12, "'"+id+"' not found", "cloud", "apikey", "get", id)
	c.wantError(12, "'"+id+"' not found", "cloud", "apikey", "delete", id)
	c.wantError(1, "--confirm is required", "cloud", "apikey", "create", "--name", "x", "--expires-at", "1y")
	c.wantError(1, "Invalid expires-at", "cloud", "apikey", "create", "--name", "x", "--expires-at", "soon", "--confirm")
	c.wantError(1, "body.expiresAt: expected", "cloud", "apikey", "create", "--name", "x", "--expires-at", "2001-01-01T00:00:00Z", "--confirm")
	c.as("sk_wrong").wantError(1, `"status": 401`, "--json", "cloud", "apikey", "list")
}

// TestPlatformCLIShowsUserAndRegions covers `auth` and `cloud region`.
func TestPlatformCLIShowsUserAndRegions(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	c := newPlatformCLI(s)
	var user struct{ Organizations []struct{ ID string } }
	c.json("auth", "whoami").Decode(&user)
	if len(user.Organizations) != 1 || user.Organizations[0].ID != s.OrgID {
		t.Errorf("whoami: %+v", user)
	}
	c.wantText("auth whoami", s.OrgID, "Default organization")
	if got := c.json("auth", "apikey"); got.Text("apiKey") != s.Key {
		t.Errorf("apikey: %s", got.Body)
	}
	c.as("sk_wrong").wantError(1, "the API key is missing, unknown or expired", "auth", "whoami")

	c.wantText("cloud region list", "local", "This machine")
	c.wantText("cloud region select local", "This machine (local)")
	if got := c.cloud("region", "current"); string(got.Body) != "\"local\"\n" {
		t.Errorf("current: %s", got.Body)
	}
	c.wantError(1, "'nowhere' not found. Available regions: local", "cloud", "region", "select", "nowhere")
	c.wantText("cloud region unselect", "cleared")
}

// TestPlatformCLIManagesOAuthClients covers `cloud oidc`, which needs the organization.
func TestPlatformCLIManagesOAuthClients(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	c := newPlatformCLI(s)
	oidc := func(args ...string) *installation.Response {
		return c.cloud(append([]string{"oidc", "--org-id", s.OrgID}, args...)...)
	}
	create := []string{
		"create", "--name", "App", "--description", "For tests", "--homepage-url", "https://app.example.com",
		"--redirect-uris", "https://app.example.com/a,https://app.example.com/b", "--scopes", "openid,email",
	}
	made := oidc(append(create, "--type", "confidential")...)
	id := made.Text("client.id")
	if uris, _ := made.Get("client.redirect_uris").([]any); len(uris) != 2 || made.Text("client_secret") == "" {
		t.Errorf("create: %s", made.Body)
	}
	oidc(append(create, "--type", "public")...)
	if got := oidc("get", id); got.Text("name") != "App" || got.Get("user_count") != 0.0 {
		t.Errorf("get: %s", got.Body)
	}
	if got := oidc("list"); strings.Count(string(got.Body), `"id": "oac_`) != 2 {
		t.Errorf("list: %s", got.Body)
	}
	if got := oidc("rotate-secret", id, "--force"); got.Text("client_id") != id || got.Text("client_secret") == made.Text("client_secret") {
		t.Errorf("rotate-secret: %s", got.Body)
	}
	for _, empty := range [][]string{{"users", id}, {"activity", id, "--days", "30"}} {
		if got := oidc(empty...); string(got.Body) != "[]\n" {
			t.Errorf("%q: %s", empty, got.Body)
		}
	}
	c.wantText("cloud oidc get "+id+" --org-id "+s.OrgID, "https://app.example.com/b", "confidential")

	c.wantError(1, "Organization ID is required", "cloud", "oidc", "list")
	c.wantError(1, "not a member of", "cloud", "oidc", "list", "--org-id", "org_other")
	c.wantError(16, "Operation cancelled", "cloud", "oidc", "delete", id, "--org-id", s.OrgID)
	c.wantError(1, "Invalid scopes: all", "cloud", "oidc", "create", "--org-id", s.OrgID, "--name", "x", "--homepage-url", "https://x.example",
		"--type", "public", "--redirect-uris", "https://x.example", "--scopes", "all")
	c.wantError(1, "body.redirect_uris[0]: expected", "cloud", "oidc", "create", "--org-id", s.OrgID, "--name", "x", "--homepage-url",
		"https://x.example", "--type", "public", "--redirect-uris", "nowhere", "--scopes", "openid")
	if got := oidc("delete", id, "--force"); got.Get("success") != true {
		t.Errorf("delete: %s", got.Body)
	}
	c.wantError(12, "'"+id+"' not found", "cloud", "oidc", "get", id, "--org-id", s.OrgID)
	c.wantError(1, id+" not found", "cloud", "oidc", "delete", id, "--org-id", s.OrgID, "--yes")
}

// TestPlatformCLIManagesWebhooks covers `cloud webhook` with destinations, receipts and deliveries.
func TestPlatformCLIManagesWebhooks(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	c, k := newPlatformCLI(s), sink.New(t)
	k.Status("/failing", 500)
	made := c.cloud("webhook", "create", "--name", "orders", "--description", "From the shop")
	h := installation.Hook{ID: made.Text("id"), Path: strings.TrimPrefix(made.Text("url"), s.URL)}
	if got := c.cloud("webhook", "get", h.ID); got.Text("description") != "From the shop" || got.Get("url") != nil {
		t.Errorf("get: %s", got.Body)
	}
	c.wantText("cloud webhook list --limit 1", "orders", h.ID)
	to := c.cloud("webhook", "destinations", "create", "url", h.ID, k.URL+"/old").Text("id")
	if got := c.cloud("webhook", "destinations", "update", h.ID, to, "--url", k.URL+"/failing"); got.Text("config.url") != k.URL+"/failing" {
		t.Errorf("update a destination: %s", got.Body)
	}
	c.wantText("cloud webhook destinations list "+h.ID, to, k.URL+"/failing")

	text := s.Ingest(h, "plain, ü")
	binary := s.Ingest(h, "\xff\x00")
	if got := c.cloud("webhook", "receipts", "get", h.ID, binary); got.Text("payload") != "/wA=" || got.Text("webhook_id") != h.ID {
		t.Errorf("a binary receipt: %s", got.Body)
	}
	c.wantText("cloud webhook receipts get "+h.ID+" "+text, "plain, ü", "Headers")
	var receipts struct{ Receipts []struct{ ID string } }
	c.cloud("webhook", "receipts", "list", h.ID, "--limit", "1", "--offset", "1").Decode(&receipts)
	if len(receipts.Receipts) != 1 || receipts.Receipts[0].ID != text {
		t.Errorf("receipts: %+v", receipts)
	}

	failed := s.FirstAttempt(h, to)[0]
	if got := c.cloud("webhook", "deliveries", "retry", h.ID, failed.ID); got.Text("webhook_destination_id") != to {
		t.Errorf("retry: %s", got.Body)
	}
	c.wantText("cloud webhook deliveries list "+h.ID, failed.ID, "failed")

	c.wantError(10, "--confirm", "cloud", "webhook", "delete", h.ID)
	c.wantError(10, "--confirm", "cloud", "webhook", "destinations", "delete", h.ID, to)
	c.wantError(1, "body.config.url: expected", "cloud", "webhook", "destinations", "create", "url", h.ID, "nowhere")
	c.wantError(1, "WebhookReceiptNotFoundError", "--json", "cloud", "webhook", "receipts", "get", h.ID, "whrc_none")
	c.cloud("webhook", "destinations", "delete", h.ID, to, "--confirm")
	c.cloud("webhook", "delete", h.ID, "--confirm")
	c.wantError(1, "webhook "+h.ID+" not found", "cloud", "webhook", "get", h.ID)
}

// TestPlatformCLIShowsThreadsSessionsAndEvaluations covers `cloud thread`, `session`, `eval` and
// `eval-run`.
func TestPlatformCLIShowsThreadsSessionsAndEvaluations(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	c := newPlatformCLI(s)
	for _, id := range []string{"t1", "t2"} {
		s.Call("PUT", "/thread/"+id, object{"project_id": "p1", "user_data": `{"a":1}`}).Want(200)
	}
	s.Call("POST", "/session", installation.SessionRequest(s, "s1", "t1", "p1")).Want(201)
	s.Call("PUT", "/session", object{"id": "s1", "threadId": "t1", "statusCode": 200, "agentIds": []string{"agent_1"}}).Want(200)
	s.Call("PUT", "/cli/eval/e1", object{"name": "Polite", "projectId": "p1", "agentIdentifier": "agent_1"}).Want(200)
	run := object{"id": "r1", "sessionId": "s1", "evalId": "e1", "orgId": s.OrgID, "projectId": "p1"}
	s.Call("POST", "/evalrun", run).Want(201)
	s.Call("PUT", "/evalrun", object{"id": "r1", "result": object{"success": true, "reason": "kind"}}).Want(200)

	list := func(want string, args ...string) {
		t.Helper()
		if got := c.cloud(args...).IDs(); got != want {
			t.Errorf("%q: got %s, want %s", args, got, want)
		}
	}
	list("t2 t1", "thread", "list")
	list("t1", "thread", "list", "--project-id", "p1", "--count", "1", "--sort", "created", "--direction", "asc")
	if got := c.cloud("thread", "get", "t1"); got.Text("user_data") != `{"a":1}` || got.Text("org_id") != s.OrgID {
		t.Errorf("thread: %s", got.Body)
	}
	list("s1", "session", "list", "--thread-id", "t1")
	c.wantText("cloud session list", "s1", "production")
	detail := c.cloud("session", "get", "s1")
	if detail.Get("success") != true || detail.Text("thread_id") != "t1" || !strings.Contains(string(detail.Body), `"eval_id": "e1"`) {
		t.Errorf("session: %s", detail.Body)
	}
	list("e1", "eval", "list", "--agent-id", "agent_1")
	if got := c.cloud("eval", "get", "e1"); got.Text("name") != "Polite" || got.Text("org_id") != s.OrgID {
		t.Errorf("eval: %s", got.Body)
	}
	list("r1", "eval-run", "list", "--session-id", "s1", "--eval-id", "e1")
	if got := c.cloud("eval-run", "get", "r1"); got.Text("eval_name") != "Polite" || got.Text("result.reason") != "kind" {
		t.Errorf("run: %s", got.Body)
	}

	c.wantText("cloud thread delete t1", "t1 deleted successfully")
	for _, what := range []string{"Thread", "Session", "Eval", "Eval run"} {
		command := strings.ReplaceAll(strings.ToLower(what), " ", "-")
		c.wantError(12, fmt.Sprintf("%s none not found", what), "cloud", command, "get", "none")
	}
	c.wantError(12, "Thread t1 not found", "cloud", "thread", "delete", "t1")
	c.as("sk_wrong").wantError(14, "the API key is missing", "cloud", "thread", "list")
}
