package resource

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"steward/internal/audit"
	"steward/internal/audit/audittest"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/object"
	"steward/internal/seal"
)

// fixture is a region with engines, used by an organization.
type fixture struct {
	t testing.TB
	*Manager
	dir    string
	caller *auth.Caller
	dbs    *fileEngine
	kvs    *fileEngine
	now    time.Time
	audit  *audittest.Log
}

// restart does what a process does at its start.
func (f *fixture) restart(ctx context.Context) error {
	if err := f.ReleaseOwn(ctx); err != nil {
		return err
	}
	return f.Recover(ctx)
}

// newFixture returns a replica with a node id, whose engines have their files in a directory.
func newFixture(t testing.TB, d *db.DB, dir, node string) *fixture {
	t.Helper()
	ring, err := seal.NewRing(make([]byte, seal.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Exec(t.Context(), `INSERT INTO orgs (id, name, created_at) VALUES ('org_1', 'Harbour', 0)
		ON CONFLICT (id) DO NOTHING`); err != nil {
		t.Fatal(err)
	}
	f := &fixture{
		t: t, dir: dir, audit: audittest.New(t, d), now: time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC),
		caller: &auth.Caller{OrgID: "org_1", UserID: "usr_1", Role: auth.Owner},
		dbs:    newFileEngine(t, filepath.Join(dir, "db"), "files"),
		kvs:    newFileEngine(t, filepath.Join(dir, "kv"), "keyfiles"),
	}
	now := func() time.Time { return f.now }
	record := &audit.Store{Now: now}
	f.Manager = &Manager{
		Store:   &Store{DB: d, Ring: ring, Now: now, Audit: record},
		Regions: []Region{{Region: "local", S3: true, DB: f.dbs, KV: f.kvs}},
		Buckets: &object.Buckets{DB: d, Ring: ring, Now: now, Audit: record},
		Totals:  &object.Totals{DB: d, Now: now},
		S3:      S3Address{SigningRegion: "r", Origin: "http://s3.test"},
		Node:    node,
		Log:     slog.New(slog.DiscardHandler),
	}
	return f
}

func newFileEngine(t testing.TB, dir, name string) *fileEngine {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return &fileEngine{dir: dir, name: name, remote: true}
}

func (f *fixture) region() *Region { return &f.Regions[0] }

// five are five resources of all types.
func five(prefix string) []NewResource {
	return []NewResource{
		{Type: DB, Name: new(prefix + "-a")},
		{Type: KV, Name: new(prefix + "-a")},
		{Type: S3, Name: new(prefix + "-bucket")},
		{Type: DB, Name: new(prefix + "-b")},
		{Type: KV, Name: new(prefix + "-b")},
	}
}

// namesOf returns what a request to create resources names.
func namesOf(wanted []NewResource) []Named {
	named := make([]Named, len(wanted))
	for i, w := range wanted {
		named[i] = Named{Type: w.Type, Name: *w.Name}
	}
	return named
}

func (f *fixture) create(wanted ...NewResource) ([]Resource, error) {
	return f.Create(f.context(), f.caller, f.region(), wanted, nil)
}

func (f *fixture) delete(named ...Named) error {
	return f.Delete(f.context(), f.caller, f.region(), named)
}

// context returns the context of the caller's requests.
func (f *fixture) context() context.Context { return auth.With(f.t.Context(), f.caller) }

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// want checks the kind of an error.
func (f *fixture) want(kind errs.Kind, err error) {
	f.t.Helper()
	if errs.KindOf(err) != kind {
		f.t.Fatalf("got %v, want %s", err, kind)
	}
}

// listed returns the passwords of what callers see, by type and name.
func (f *fixture) listed() map[Named]string {
	f.t.Helper()
	all := map[Named]string{}
	others, err := f.Store.List(f.t.Context(), f.caller.OrgID, "")
	f.must(err)
	for _, p := range others {
		all[Named{Type: p.Type, Name: p.Name}] = p.Password
	}
	buckets, err := f.Buckets.List(f.t.Context(), f.caller.OrgID, "")
	f.must(err)
	for _, b := range buckets {
		all[Named{Type: S3, Name: b.Name}] = b.SecretKey
	}
	return all
}

// check recovers, and checks that engines and rows agree and that nothing is half done.
func (f *fixture) check() {
	f.t.Helper()
	f.now = f.now.Add(claimTime + time.Hour)
	f.must(f.Recover(f.t.Context()))
	f.checkAgreement()
}

func (f *fixture) checkAgreement() {
	f.t.Helper()
	rows, err := f.Store.all(f.t.Context(), ``)
	f.must(err)
	want := map[Type]map[string]string{DB: {}, KV: {}}
	for _, p := range rows {
		if p.State != Active {
			f.t.Errorf("%s %s is left in state %s", p.Type, p.Name, p.State)
		}
		want[p.Type][p.ID] = p.Password
	}
	for kind, engine := range map[Type]*fileEngine{DB: f.dbs, KV: f.kvs} {
		if got := engine.files(f.t); !maps.Equal(got, want[kind]) {
			f.t.Errorf("the engine of %s has %v, the rows have %v", kind, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want[kind])))
		}
	}
}
