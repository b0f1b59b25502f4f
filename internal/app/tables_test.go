package app

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// owners maps the packages below internal to the tables whose SQL they have, with their subpackages. Views are what
// an owner lets others read: every package may.
var owners = map[string][]string{
	"db":          {"meta", "epochs", "commit_numbers", "processes", "oldest_schema"},
	"status":      {"processes"},
	"rotation":    {"master_keys", "master_key_progress"},
	"job":         {"leases"},
	"idempotency": {"idempotency"},
	"certificate": {"certificates"},
	"account":     {"orgs", "users", "members", "invitations", "password_resets", "email_changes", "projects"},
	"mail":        {"mails", "mail_quotas"},
	"apikey":      {"api_keys"},
	"audit":       {"audit"},
	"oidc": {
		"oidc_clients", "oidc_client_states", "oidc_consents", "oidc_purges", "oidc_client_days", "oidc_client_day_users",
		"oidc_flushes", "oidc_keys", "oidc_pushed", "oidc_grants", "oidc_revoked", "oidc_devices", "oidc_sessions", "oidc_proofs",
		"oidc_logouts", "oidc_passkeys", "oidc_challenges", "oidc_authenticators", "oidc_recovery_codes",
		"oidc_upstreams", "oidc_identities", "oidc_registration_tokens",
	},
	"thread": {
		"threads", "thread_index_created", "thread_index_updated", "thread_term_counts", "thread_counts", "thread_purges", "sessions",
	},
	"eval": {"evals", "eval_runs", "eval_counts", "eval_relabels", "eval_purges"},
	"webhook": {
		"webhooks", "webhook_destinations", "webhook_receipts", "webhook_deliveries", "webhook_queue", "webhook_log",
		"webhook_replays", "webhook_leases", "webhook_counts", "webhook_counts_each", "webhook_totals", "webhook_tombstones",
		"webhook_recoveries", "webhook_rejected", "webhook_filtered", "webhook_dedupe",
	},
	"object": {
		"buckets", "bucket_states", "bucket_totals", "object_usage", "objects", "object_blocks", "blobs", "object_uploads",
		"object_parts", "bucket_purges", "object_completions",
	},
	"resource": {"resources"},
	"node":     {"nodes", "processes"},
	"alert":    {"alerts", "alert_notices"},
	"app":      {"backup_schedule"},
}

// writers maps packages to the tables of their slice that they alone write; its other packages read them.
var writers = map[string][]string{
	"webhook/eventlog": {"webhook_log"},
	"webhook/queue":    {"webhook_queue", "webhook_leases", "webhook_recoveries"},
	"webhook/stats":    {"webhook_counts_each"},
	"app/backups":      {"backup_schedule"},
}

var (
	created = regexp.MustCompile(`(?m)^CREATE TABLE (\w+)`)
	// touched matches the tables of a statement.
	touched = regexp.MustCompile(`\b(?:FROM|JOIN|INTO|UPDATE|TABLE)\s+(\w+)`)
	// written matches the tables that a statement changes.
	written = regexp.MustCompile(`\b(?:INSERT INTO|UPDATE|DELETE FROM)\s+(\w+)`)
	// literal matches the texts between backquotes, and those between quotes, in Go.
	literal = regexp.MustCompile("`[^`]*`" + `|"(?:[^"\\\n]|\\.)*"`)
)

// TestTablesHaveOwners looks for SQL in all packages: it may touch the tables of its own package only.
func TestTablesHaveOwners(t *testing.T) {
	tables := tablesOfMigrations(t)
	owned := map[string]bool{}
	for owner, names := range owners {
		for _, name := range names {
			owned[name] = true
			if !tables[name] {
				t.Errorf("%s owns %s, which no migration creates", owner, name)
			}
		}
	}
	for name := range tables {
		if !owned[name] {
			t.Errorf("no package owns the table %s", name)
		}
	}
	found := 0
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), "../"))
		if strings.HasSuffix(name, "test") { // fixtures of tests, such as providertest
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		owner, _, _ := strings.Cut(name, "/")
		for _, text := range literal.FindAllString(string(source), -1) {
			for _, table := range touched.FindAllStringSubmatch(text, -1) {
				if !tables[table[1]] {
					continue
				}
				found++
				if !slices.Contains(owners[owner], table[1]) {
					t.Errorf("%s has SQL with %s, a table of another package", path, table[1])
				}
			}
			for _, table := range written.FindAllStringSubmatch(text, -1) {
				if by := writerOf(table[1]); by != "" && by != name {
					t.Errorf("%s changes %s, which only %s does", path, table[1], by)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 200 {
		t.Errorf("only %d uses of tables were found", found)
	}
}

// writerOf returns the package that alone writes a table of its slice, or "".
func writerOf(table string) string {
	for name, tables := range writers {
		if slices.Contains(tables, table) {
			return name
		}
	}
	return ""
}

// tablesOfMigrations returns the tables that the migrations create.
func tablesOfMigrations(t *testing.T) map[string]bool {
	files, err := filepath.Glob("../db/migrations/*.sql")
	if err != nil {
		t.Fatal(err)
	}
	tables := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range created.FindAllStringSubmatch(string(text), -1) {
			tables[name[1]] = true
		}
	}
	return tables
}
