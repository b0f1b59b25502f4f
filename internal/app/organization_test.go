package app

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"steward/internal/account"
	"steward/internal/apikey"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/object"
)

// column is a column of a table.
type column struct {
	table, name, kind string
	required          bool
}

// columnsOf returns the columns of all tables.
func columnsOf(t *testing.T, d *db.DB) []column {
	text := `SELECT m.name, c.name, c.type, c."notnull" = 1 AND c.dflt_value IS NULL FROM sqlite_master m, pragma_table_info(m.name) c
		WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%'`
	if d.Dialect() == db.Postgres {
		text = `SELECT c.table_name, c.column_name, c.data_type, c.is_nullable = 'NO' AND c.column_default IS NULL
			FROM information_schema.columns c JOIN information_schema.tables t
			ON t.table_schema = c.table_schema AND t.table_name = c.table_name
			WHERE c.table_schema = current_schema() AND t.table_type = 'BASE TABLE'`
	}
	all, err := db.Collect(d.Read(t.Context()), func(row db.Row) (c column, err error) {
		return c, row.Scan(&c.table, &c.name, &c.kind, &c.required)
	}, text)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// tablesWith returns the tables that have a column, and not another one.
func tablesWith(all []column, name, without string) (tables []string) {
	for _, c := range all {
		has := slices.ContainsFunc(all, func(o column) bool { return o.table == c.table && o.name == without })
		if c.name == name && !has {
			tables = append(tables, c.table)
		}
	}
	slices.Sort(tables)
	return tables
}

// TestEveryTableOfOrganizationsIsRemoved fails for a new table whose rows nobody removes with their
// organization, or with their user.
func TestEveryTableOfOrganizationsIsRemoved(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		all := columnsOf(t, d)
		removed := slices.Clone(steppedTables)
		for _, table := range orgTables {
			removed = append(removed, table.Name)
		}
		slices.Sort(removed)
		if tables := tablesWith(all, "org_id", ""); !slices.Equal(tables, removed) {
			t.Errorf("the tables with org_id are %v, and orgTables and steppedTables are %v", tables, removed)
		}
		for _, table := range tablesWith(all, "user_id", "org_id") {
			if !slices.Contains(userTables, table) {
				t.Errorf("%s has rows of users: add it to userTables", table)
			}
		}
	})
}

// values are what the columns with constraints have in rows of fillTable.
var values = map[string]any{
	"api_keys.type": "user", "oidc_clients.client_type": "public", "invitations.role": "viewer", "webhook_log.kind": "receipt",
	"webhook_replays.state": "done", "alerts.state": "ok",
}

// fillTable adds rows of an organization to a table.
func fillTable(tx *db.Tx, all []column, table, orgID string, rows int) error {
	if table == "mail_quotas" { // has one row for an organization
		rows = 1
	}
	for n := range rows {
		var names, places []string
		var args []any
		for _, c := range all {
			if c.table != table || !c.required && c.name != "org_id" {
				continue
			}
			names = append(names, c.name)
			args = append(args, valueOf(c, orgID, n))
			places = append(places, fmt.Sprintf("$%d", len(args)))
		}
		text := `INSERT INTO ` + table + ` (` + strings.Join(names, ", ") + `) VALUES (` + strings.Join(places, ", ") + `)`
		if _, err := tx.Exec(text, args...); err != nil {
			return fmt.Errorf("fill %s: %w", table, err)
		}
	}
	return nil
}

func valueOf(c column, orgID string, n int) any {
	unique := fmt.Sprintf("%s %s %d", c.table, orgID, n)
	if value, ok := values[c.table+"."+c.name]; ok {
		return value
	}
	if c.name == "org_id" {
		return orgID
	}
	switch strings.ToLower(c.kind) {
	case "bytea", "blob":
		return []byte(unique)
	case "boolean":
		return false
	case "bigint", "integer":
		return n
	}
	return unique
}

// tenant is an organization with something of each kind.
type tenant struct {
	f      *fixture
	d      *db.DB
	orgID  string
	key    string // of the owner
	member string // a user who belongs to no other organization
	ingest string
}

// newTenant creates an organization and fills it: databases, key-value stores, buckets and webhooks by the
// API, and rows in all other tables.
func newTenant(f *fixture, d *db.DB, name string) *tenant {
	t := f.t.(*testing.T)
	t.Helper()
	o := &tenant{f: f, d: d, orgID: field(f.send("owner", "POST", "/cli/organization", `{"name":"`+name+`"}`), "id")}
	owner := field(f.send("owner", "GET", "/cli/auth/user", ""), "id")
	o.key = apikey.NewValue()
	o.write(func(tx *db.Tx) error {
		if err := f.server.Key.Store.MakeRoot(tx, o.orgID, owner, o.key); err != nil {
			return err
		}
		_, err := addMember(tx, f.server, o.orgID, auth.Viewer)
		return err
	})
	o.member = one[string](o, `SELECT user_id FROM members WHERE org_id = $1 AND role = 'viewer'`, o.orgID)
	resources := `{"resources":[{"type":"db","name":"a"},{"type":"kv","name":"a"},{"type":"s3","name":"` + name + `-bucket"}]}`
	o.send(201, "POST", "/resource/"+o.orgID+"/local", resources)
	hook := o.send(201, "POST", "/webhook/create", `{"name":"a"}`)
	o.send(201, "POST", "/webhook/destination-create/"+field(hook, "id"), `{"type":"url","config":{"url":"http://127.0.0.1:9/"}}`)
	o.ingest = strings.TrimPrefix(field(hook, "url"), "http://steward.test")
	for range 3 {
		o.send(200, "POST", o.ingest, `{}`)
	}
	o.putObject(name + "-bucket")
	all := columnsOf(t, d)
	o.write(func(tx *db.Tx) error {
		for _, table := range orgTables {
			if err := fillTable(tx, all, table.Name, o.orgID, 3); err != nil {
				return err
			}
		}
		for _, table := range []string{"password_resets", "email_changes", "oidc_authenticators", "oidc_recovery_codes", "oidc_passkeys"} {
			if err := fillTable(tx, all, table, o.orgID, 1); err != nil {
				return err
			}
			if _, err := tx.Exec(`UPDATE `+table+` SET user_id = $1 WHERE user_id = $2`, o.member, table+" "+o.orgID+" 0"); err != nil {
				return err
			}
		}
		return nil
	})
	return o
}

func (o *tenant) write(do func(tx *db.Tx) error) {
	o.f.t.Helper()
	if err := o.d.Write(context.Background(), do); err != nil {
		o.f.t.Fatal(err)
	}
}

// one returns the value of a query.
func one[T any](o *tenant, text string, args ...any) (value T) {
	o.f.t.Helper()
	if err := o.d.Read(context.Background()).Row(text, args...).Scan(&value); err != nil {
		o.f.t.Fatalf("%s: %v", text, err)
	}
	return value
}

// send sends a request with the key of the owner and checks its status.
func (o *tenant) send(status int, method, path, body string) *httptest.ResponseRecorder {
	o.f.t.Helper()
	got := o.f.send(o.key, method, path, body)
	if got.Code != status {
		o.f.t.Fatalf("%s %s: %d %s, want %d", method, path, got.Code, got.Body, status)
	}
	return got
}

func (o *tenant) putObject(bucket string) {
	o.f.t.Helper()
	s := o.f.parts.storage
	b, err := s.buckets.ByName(context.Background(), bucket)
	if err == nil {
		_, err = s.server.Index.Put(context.Background(), b, object.PutRequest{Key: "k"}, strings.NewReader("bytes"), 5)
	}
	if err != nil {
		o.f.t.Fatal(err)
	}
}

// counts returns the number of rows that an organization has in each table.
func (o *tenant) counts() map[string]int {
	o.f.t.Helper()
	n := map[string]int{}
	for _, table := range orgTables {
		n[table.Name] = one[int](o, `SELECT count(*) FROM `+table.Name+` WHERE org_id = $1`, o.orgID)
	}
	for _, table := range steppedTables {
		n[table] = one[int](o, `SELECT count(*) FROM `+table+` WHERE org_id = $1`, o.orgID)
	}
	return n
}

// rest returns the numbers of rows that belong to organizations in other ways.
func (o *tenant) rest() map[string]int {
	n := map[string]int{}
	for _, table := range []string{
		"orgs", "users", "webhook_receipts", "webhook_deliveries", "webhook_queue", "objects", "blobs", "bucket_states", "object_blocks",
		"oidc_sessions", "password_resets",
	} {
		n[table] = one[int](o, `SELECT count(*) FROM `+table)
	}
	return n
}

// expire deletes the organization and has its grace period end.
func (o *tenant) expire() {
	o.f.t.Helper()
	o.send(200, "DELETE", "/cli/organization/"+o.orgID, "")
	o.write(func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE orgs SET deleted_at = deleted_at - $2 WHERE id = $1`, o.orgID, account.Grace.Microseconds())
		return err
	})
}

// clean removes what was due, with the bytes of objects.
func (o *tenant) clean() {
	o.f.t.Helper()
	ctx := context.Background()
	if err := o.f.parts.orgRemover.Run(ctx); err != nil {
		o.f.t.Fatal(err)
	}
	if err := o.f.parts.storage.cleaner.Purge(ctx); err != nil {
		o.f.t.Fatal(err)
	}
	o.write(func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE blobs SET garbage_at = 0 WHERE garbage_at IS NOT NULL`)
		return err
	})
	if err := o.f.parts.storage.cleaner.CollectGarbage(ctx); err != nil {
		o.f.t.Fatal(err)
	}
}

func TestRemovalTakesAllOfOneOrganization(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, nil)
		kept := newTenant(f, d, "kept")
		rest, counts := kept.rest(), kept.counts()
		gone := newTenant(f, d, "gone")
		for table, n := range gone.counts() {
			if n == 0 && table != "webhook_tombstones" {
				t.Errorf("the organization has nothing in %s", table)
			}
		}
		gone.expire()
		gone.clean()
		for table, n := range gone.counts() {
			if n != 0 {
				t.Errorf("%d rows are left in %s", n, table)
			}
		}
		for table, n := range kept.counts() {
			if n != counts[table] {
				t.Errorf("another organization has %d rows in %s instead of %d", n, table, counts[table])
			}
		}
		for table, n := range kept.rest() {
			if n != rest[table] {
				t.Errorf("there are %d rows in %s instead of %d", n, table, rest[table])
			}
		}
		if got := f.send(gone.key, "GET", "/cli/organization", ""); got.Code != 401 {
			t.Errorf("a key of the removed organization: %d", got.Code)
		}
		if got := f.send("owner", "DELETE", "/cli/organization/"+gone.orgID, ""); got.Code != 404 {
			t.Errorf("the id of the removed organization: %d", got.Code)
		}
		kept.send(200, "GET", "/resource/"+kept.orgID+"/local", "")
		kept.send(200, "POST", kept.ingest, `{}`)
	})
}

// TestRemovalGoesOnAfterACrash ends the removal after each step, and begins again on another replica.
func TestRemovalGoesOnAfterACrash(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, nil)
		gone := newTenant(f, d, "gone")
		gone.expire()
		remover := *f.parts.orgRemover
		for crashAt := range len(remover.Steps) + 1 {
			ctx, crash := context.WithCancel(t.Context())
			crashing := remover
			crashing.Steps = slices.Insert(slices.Clone(remover.Steps), crashAt, func(context.Context, string) (bool, error) {
				crash()
				return false, ctx.Err()
			})
			if err := crashing.Run(ctx); err == nil {
				t.Error("the removal did not end")
			}
			crash()
		}
		if n := one[int](gone, `SELECT count(*) FROM orgs WHERE id = $1`, gone.orgID); n != 1 {
			t.Errorf("%d organizations before the last run", n)
		}
		gone.clean()
		for table, n := range gone.counts() {
			if n != 0 {
				t.Errorf("%d rows are left in %s", n, table)
			}
		}
	})
}

// TestTwoReplicasRemoveAtOnce has two of them run at the same time, as they do when one has lost its lease.
func TestTwoReplicasRemoveAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, nil)
		gone := newTenant(f, d, "gone")
		gone.expire()
		other := newParts(t, d).orgRemover
		ended := make(chan error)
		go func() { ended <- other.Run(context.Background()) }()
		err := f.parts.orgRemover.Run(t.Context())
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err != nil {
			t.Error(err)
		}
		gone.clean()
		for table, n := range gone.counts() {
			if n != 0 {
				t.Errorf("%d rows are left in %s", n, table)
			}
		}
	})
}

func TestDeletedOrganizationCanBeRestored(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, nil)
		o := newTenant(f, d, "back")
		counts := o.counts()
		o.send(200, "DELETE", "/cli/organization/"+o.orgID, "")
		for _, path := range []string{"/cli/auth/user", "/cli/project", "/resource/" + o.orgID + "/local", "/sdk/webhook/list"} {
			got := o.send(403, "GET", path, "")
			if !strings.Contains(got.Body.String(), "an owner can restore it until") {
				t.Errorf("%s: %s", path, got.Body)
			}
		}
		o.send(403, "DELETE", "/cli/organization/"+o.orgID, "")
		o.send(404, "POST", o.ingest, `{}`)
		if _, err := f.parts.storage.buckets.ByName(t.Context(), "back-bucket"); errs.KindOf(err) != errs.Forbidden {
			t.Errorf("the bucket: %v", err)
		}
		heads, err := f.parts.webhooks.store.Queue.Heads(t.Context(), 0)
		if err != nil || len(heads) > 0 {
			t.Errorf("there are deliveries to send: %v, %v", heads, err)
		}
		if got := o.send(200, "GET", "/cli/organization", ""); !strings.Contains(got.Body.String(), `"removed_at":"`) {
			t.Errorf("the list: %s", got.Body)
		}
		if err := o.f.parts.orgRemover.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.send(404, "POST", "/cli/organization/"+f.orgID+"/restore", "")
		if got := o.send(200, "POST", "/cli/organization/"+o.orgID+"/restore", ""); field(got, "deleted_at") != "" {
			t.Errorf("the organization is still deleted: %s", got.Body)
		}
		for table, n := range o.counts() {
			if n != counts[table] && table != "audit" {
				t.Errorf("%d rows in %s instead of %d", n, table, counts[table])
			}
		}
		o.send(200, "GET", "/cli/auth/user", "")
		o.send(200, "POST", o.ingest, `{}`)
		if heads, err := f.parts.webhooks.store.Queue.Heads(t.Context(), 0); err != nil || len(heads) != 1 {
			t.Errorf("%d destinations have deliveries, %v", len(heads), err)
		}
	})
}

func TestRemovalEndsTheTimeToRestore(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, nil)
		o := newTenant(f, d, "late")
		o.expire()
		remover := *f.parts.orgRemover
		remover.Steps = nil
		remover.Tables = nil
		remover.Steps = append(remover.Steps, func(context.Context, string) (bool, error) { return false, nil })
		if err := remover.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		o.send(404, "POST", "/cli/organization/"+o.orgID+"/restore", "")
		o.send(403, "GET", "/cli/auth/user", "")
	})
}

func TestOrganizationsAreCreatedByOwnersOfTheFirst(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, nil)
		for who, want := range map[string]int{"owner": 201, "admin": 403, "viewer": 403, projectKey: 403} {
			if got := f.send(who, "POST", "/cli/organization", `{"name":"`+who+`"}`); got.Code != want {
				t.Errorf("%s: %d %s, want %d", who, got.Code, got.Body, want)
			}
		}
		o := newTenant(f, d, "second")
		o.send(403, "POST", "/cli/organization", `{"name":"third"}`)
		f.server.Org.Open = true
		o.send(201, "POST", "/cli/organization", `{"name":"third"}`)
		if got := f.send("viewer", "POST", "/cli/organization", `{"name":"own"}`); got.Code != 201 || field(got, "role") != "owner" {
			t.Errorf("open to all: %d %s", got.Code, got.Body)
		}
		if got := f.send("owner", "DELETE", "/cli/organization/"+f.orgID, ""); got.Code != 409 {
			t.Errorf("deletion of the first: %d %s", got.Code, got.Body)
		}
	})
}

func TestOrganizationsOfAUserAreBounded(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, nil)
		o := &tenant{f: f, d: d}
		owner := field(f.send("owner", "GET", "/cli/auth/user", ""), "id")
		o.write(func(tx *db.Tx) error {
			for n := range 99 {
				if _, err := tx.Exec(`INSERT INTO members (org_id, user_id, role, version, created_at, updated_at)
					VALUES ($1, $2, 'viewer', 1, 1, 1)`, fmt.Sprint("org_", n), owner); err != nil {
					return err
				}
			}
			return nil
		})
		if got := f.send("owner", "POST", "/cli/organization", `{"name":"a"}`); got.Code != 409 {
			t.Errorf("%d %s", got.Code, got.Body)
		}
	})
}
