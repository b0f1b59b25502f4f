package resource

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/seal"
)

// each runs a test on both databases.
func each(t *testing.T, test func(f *fixture)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(newFixture(t, d, t.TempDir(), "node_1")) })
}

// nth returns a fail function that fails the n-th call of a verb.
func nth(verb string, n int, err error) func(string, *Provisioned) error {
	var calls atomic.Int32
	return func(called string, _ *Provisioned) error {
		if called == verb && int(calls.Add(1)) == n {
			return err
		}
		return nil
	}
}

func always(verb string, err error) func(string, *Provisioned) error {
	return func(called string, _ *Provisioned) error {
		if called == verb {
			return err
		}
		return nil
	}
}

var errDown = errs.Unavailablef(nil, "the engine is down")

func TestCreatedResourcesAreListedAndDeletedOnesAreNot(t *testing.T) {
	each(t, func(f *fixture) {
		created, err := f.create(five("x")...)
		f.must(err)
		if len(created) != 5 || created[2].Bucket.Name != "x-bucket" || created[3].Provisioned.Name != "x-b" {
			f.t.Fatalf("created %+v", created)
		}
		f.checkAgreement()
		if got := f.listed(); len(got) != 5 || got[Named{Type: DB, Name: "x-a"}] != created[0].Provisioned.Password {
			f.t.Errorf("listed: %v", got)
		}
		f.must(f.delete(namesOf(five("x"))...))
		if got := f.listed(); len(got) != 0 {
			f.t.Errorf("listed after the deletion: %v", got)
		}
		f.checkAgreement()
		want := []string{
			"bucket.create", "bucket.delete", "database.create", "database.create", "database.delete", "database.delete",
			"kv.create", "kv.create", "kv.delete", "kv.delete",
		}
		if actions := slices.Sorted(slices.Values(f.audit.Read("action"))); !slices.Equal(actions, want) {
			f.t.Errorf("audit: %v", actions)
		}
	})
}

func TestPasswordsAreSealedAndFound(t *testing.T) {
	each(t, func(f *fixture) {
		created, err := f.create(NewResource{Type: DB}, NewResource{Type: KV})
		f.must(err)
		for _, r := range created {
			p := r.Provisioned
			var sealed []byte
			f.must(f.Store.DB.Read(f.t.Context()).Row(`SELECT password FROM resources WHERE id = $1`, p.ID).Scan(&sealed))
			if strings.Contains(string(sealed), p.Password) || len(p.Password) != 43 {
				f.t.Errorf("the password %q is stored in plain text or short", p.Password)
			}
			got, err := f.Store.ByID(f.t.Context(), p.ID)
			f.must(err)
			if *got != *p {
				f.t.Errorf("got %+v, want %+v", got, p)
			}
		}
		_, err = f.Store.ByPassword(f.t.Context(), seal.Hash(created[1].Provisioned.Password))
		f.must(err)
		_, err = f.Store.ByPassword(f.t.Context(), seal.Hash(created[0].Provisioned.Password))
		f.want(errs.NotFound, err) // of a database
		ids, err := f.Store.IDs(f.t.Context(), "", KV)
		f.must(err)
		if want := map[string]bool{created[1].Provisioned.ID: true}; !maps.Equal(ids, want) {
			f.t.Errorf("ids: %v, want %v", ids, want)
		}
	})
}

func TestCreateWhoseFourthEngineCallFailsLeavesNothing(t *testing.T) {
	each(t, func(f *fixture) {
		for _, late := range []bool{false, true} {
			f.kvs.late = late
			f.kvs.set(nth("create", 2, errors.New("no room"))) // the fourth call of an engine
			_, err := f.create(five("x")...)
			f.want(errs.Internal, err)
			if !strings.Contains(err.Error(), "create key-value store x-b: no room") {
				f.t.Errorf("error: %v", err)
			}
			f.checkAgreement()
			if got := f.listed(); len(got) != 0 || len(f.audit.Read("action")) != 0 {
				f.t.Fatalf("listed: %v, audit: %v", got, f.audit.Read("action"))
			}
		}
		f.kvs.set(nil)
		_, err := f.create(five("x")...) // the names are free
		f.must(err)
	})
}

func TestEngineThatIsDownRefusesCreationAndDeletion(t *testing.T) {
	each(t, func(f *fixture) {
		_, err := f.create(five("x")...)
		f.must(err)
		f.kvs.set(func(string, *Provisioned) error { return errDown })
		_, err = f.create(five("y")...)
		f.want(errs.Unavailable, err)
		before := f.listed()
		f.want(errs.Unavailable, f.delete(namesOf(five("x"))...))
		if got := f.listed(); !maps.Equal(got, before) || len(got) != 5 {
			f.t.Errorf("listed after a refused deletion: %v, want %v", got, before)
		}
		f.must(f.delete(Named{Type: DB, Name: "x-a"})) // the other engine works
		f.kvs.set(nil)
		f.check()
	})
}

func TestFailedUndoIsFinishedByRecover(t *testing.T) {
	each(t, func(f *fixture) {
		down := nth("create", 2, errDown)
		f.kvs.set(func(verb string, p *Provisioned) error {
			if verb == "delete" {
				return errDown
			}
			return down(verb, p)
		})
		_, err := f.create(five("x")...)
		f.want(errs.Unavailable, err)
		if len(f.kvs.files(f.t)) != 1 || len(f.listed()) != 0 {
			f.t.Fatalf("files: %v, listed: %v", f.kvs.files(f.t), f.listed())
		}
		_, err = f.create(NewResource{Type: KV, Name: new("x-a")})
		f.want(errs.Conflict, err)
		if !strings.Contains(err.Error(), "being deleted") {
			f.t.Errorf("error: %v", err)
		}
		f.kvs.set(nil)
		f.now = f.now.Add(retryAfter)
		f.must(f.Recover(f.t.Context()))
		f.checkAgreement()
		_, err = f.create(five("x")...)
		f.must(err)
	})
}

func TestDeletionThatFailsInTheMiddleIsFinished(t *testing.T) {
	each(t, func(f *fixture) {
		for name, finish := range map[string]func() error{
			"recover":  func() error { f.now = f.now.Add(retryAfter); return f.Recover(f.t.Context()) },
			"repeated": func() error { return f.delete(Named{Type: KV, Name: "x-b"}) },
		} {
			_, err := f.create(five("x")...)
			f.must(err)
			f.kvs.set(nth("delete", 2, errors.New("busy")))
			err = f.delete(namesOf(five("x"))...)
			f.want(errs.Unavailable, err)
			if !strings.Contains(err.Error(), "the deletion continues") || len(f.listed()) != 0 {
				f.t.Errorf("%s: %v, listed: %v", name, err, f.listed())
			}
			f.want(errs.NotFound, f.delete(namesOf(five("x"))...))
			f.must(finish())
			f.checkAgreement()
		}
	})
}

func TestOneOfTwoDeletionsAtOnceIsNotFound(t *testing.T) {
	each(t, func(f *fixture) {
		_, err := f.create(NewResource{Type: KV, Name: new("x")})
		f.must(err)
		const n = 4
		results := make(chan error, n)
		var found sync.WaitGroup // by all, before the first one deletes it
		found.Add(n)
		f.Step = func(step string) {
			if step == "begin deletion" {
				found.Done()
				found.Wait()
			}
		}
		for range n {
			go func() { results <- f.delete(Named{Type: KV, Name: "x"}) }()
		}
		deleted := 0
		for range n {
			err := <-results
			if err == nil {
				deleted++
			} else {
				f.want(errs.NotFound, err)
			}
		}
		if deleted != 1 {
			f.t.Errorf("%d of %d deletions succeeded", deleted, n)
		}
	})
}

func TestRotationReplacesThePassword(t *testing.T) {
	each(t, func(f *fixture) {
		created, err := f.create(NewResource{Type: KV, Name: new("x")})
		f.must(err)
		old := created[0].Provisioned
		rotated, err := f.Rotate(f.t.Context(), old, nil)
		f.must(err)
		f.checkAgreement()
		if rotated.Password == old.Password || rotated.State != Active {
			f.t.Errorf("rotated: %+v", rotated)
		}
		_, err = f.Store.ByPassword(f.t.Context(), seal.Hash(old.Password))
		f.want(errs.NotFound, err)
		_, err = f.Rotate(f.t.Context(), old, nil) // an old version
		f.want(errs.Conflict, err)
		f.kvs.set(always("check", errDown))
		_, err = f.Rotate(f.t.Context(), rotated, nil)
		f.want(errs.Unavailable, err)
		if got := f.listed()[Named{Type: KV, Name: "x"}]; got != rotated.Password {
			f.t.Errorf("a refused rotation changed the password")
		}
	})
}

func TestRotationThatFailsInTheMiddleIsFinished(t *testing.T) {
	each(t, func(f *fixture) {
		created, err := f.create(NewResource{Type: DB, Name: new("x")})
		f.must(err)
		f.dbs.set(always("rotate", errors.New("busy")))
		_, err = f.Rotate(f.t.Context(), created[0].Provisioned, nil)
		f.want(errs.Unavailable, err)
		rotating, err := f.Store.Get(f.t.Context(), f.caller.OrgID, "local", DB, "x")
		f.must(err)
		if rotating.State != Rotating || rotating.Password == created[0].Provisioned.Password {
			f.t.Errorf("rotating: %+v", rotating)
		}
		_, err = f.Rotate(f.t.Context(), rotating, nil)
		f.want(errs.Conflict, err)
		f.dbs.set(nil)
		f.check()
		if got := f.listed()[Named{Type: DB, Name: "x"}]; got != rotating.Password {
			f.t.Error("the recovery chose another password")
		}
	})
}

func TestRotatingResourceCanBeDeleted(t *testing.T) {
	each(t, func(f *fixture) {
		created, err := f.create(NewResource{Type: DB, Name: new("x")})
		f.must(err)
		f.dbs.set(always("rotate", errDown))
		_, err = f.Rotate(f.t.Context(), created[0].Provisioned, nil)
		f.want(errs.Unavailable, err)
		f.must(f.delete(Named{Type: DB, Name: "x"}))
		f.checkAgreement()
	})
}

func TestTakenNamesSayWhy(t *testing.T) {
	each(t, func(f *fixture) {
		_, err := f.create(NewResource{Type: DB, Name: new("x")})
		f.must(err)
		f.must(second(f.create(NewResource{Type: KV, Name: new("x")}))) // names are by type
		var inside, outside error
		f.dbs.set(func(verb string, p *Provisioned) error {
			if verb == "create" && p.Name == "y" {
				_, inside = f.create(NewResource{Type: DB, Name: new("y")})
				outside = f.delete(Named{Type: DB, Name: "y"})
			}
			return nil
		})
		f.must(second(f.create(NewResource{Type: DB, Name: new("y")})))
		f.want(errs.NotFound, outside) // nobody sees it while it is created
		for want, err := range map[string]error{
			"a database named x exists already":   second(f.create(NewResource{Type: KV}, NewResource{Type: DB, Name: new("x")})),
			"a database named y is being created": inside,
		} {
			if errs.KindOf(err) != errs.Conflict || !strings.Contains(err.Error(), want) {
				f.t.Errorf("got %v, want %s", err, want)
			}
		}
		f.checkAgreement()
	})
}

func second[T any](_ T, err error) error { return err }

func TestTakenBucketUndoesTheOthers(t *testing.T) {
	each(t, func(f *fixture) {
		f.must(second(f.create(NewResource{Type: S3, Name: new("x-bucket")})))
		f.want(errs.Conflict, second(f.create(five("x")...)))
		f.checkAgreement()
		if got := f.listed(); len(got) != 1 {
			f.t.Errorf("listed: %v", got)
		}
	})
}

func TestUnknownNameDeletesNothing(t *testing.T) {
	each(t, func(f *fixture) {
		f.must(second(f.create(five("x")...)))
		for _, unknown := range []Named{{Type: DB, Name: "none"}, {Type: KV, Name: "none"}, {Type: S3, Name: "none"}} {
			f.want(errs.NotFound, f.delete(append(namesOf(five("x")), unknown)...))
		}
		if got := f.listed(); len(got) != 5 {
			f.t.Errorf("listed: %v", got)
		}
		f.checkAgreement()
	})
}

func TestResourceOfAnotherEngineIsListedAndUnavailable(t *testing.T) {
	each(t, func(f *fixture) {
		created, err := f.create(NewResource{Type: DB, Name: new("x")})
		f.must(err)
		for _, engine := range []Databases{newFileEngine(f.t, f.t.TempDir(), "other"), nil} {
			f.Regions[0].DB = engine
			f.want(errs.Unavailable, f.delete(Named{Type: DB, Name: "x"}))
			f.want(errs.Unavailable, second(f.Rotate(f.t.Context(), created[0].Provisioned, nil)))
			if got := f.listed(); len(got) != 1 {
				f.t.Errorf("listed: %v", got)
			}
			if got := f.missingEngines(); !strings.Contains(got, "region=local type=db engine=files count=1") {
				f.t.Errorf("logged at the start: %q", got)
			}
		}
	})
}

// missingEngines returns what is logged at the start of a process about engines that its regions do not have.
func (f *fixture) missingEngines() string {
	f.t.Helper()
	var log strings.Builder
	f.Log = slog.New(slog.NewTextHandler(&log, nil))
	f.must(f.WarnOfMissingEngines(f.t.Context()))
	return log.String()
}

func TestFilesOfALocalEngineBelongToItsNode(t *testing.T) {
	each(t, func(f *fixture) {
		f.dbs.remote = false
		created, err := f.create(NewResource{Type: DB}, NewResource{Type: KV})
		f.must(err)
		for i, node := range []string{"node_1", ""} {
			p := created[i].Provisioned
			ids, err := f.Store.IDs(f.t.Context(), node, p.Type)
			f.must(err)
			if p.Node != node || !maps.Equal(ids, map[string]bool{p.ID: true}) {
				f.t.Errorf("%s belongs to %q, want %q; its ids are %v", p.Type, p.Node, node, ids)
			}
		}
	})
}

// TestEmbeddedResourceOutlivesTheEngineOfItsRegion gives a region other engines than the embedded ones.
func TestEmbeddedResourceOutlivesTheEngineOfItsRegion(t *testing.T) {
	each(t, func(f *fixture) {
		created, err := f.create(NewResource{Type: DB, Name: new("x")}, NewResource{Type: KV, Name: new("x")})
		f.must(err)
		others := Region{DB: newFileEngine(f.t, f.t.TempDir(), "other"), KV: newFileEngine(f.t, f.t.TempDir(), "other")}
		f.Embedded = Region{DB: f.dbs, KV: f.kvs}
		for _, r := range []Region{{Region: "local"}, {Region: "local", DB: others.DB, KV: others.KV}} {
			f.Regions[0] = r
			f.send(200, "GET /resource/org_1/local/x/tables", "")
			f.send(200, "POST /resource/org_1/local/x/query", `{"query": "a", "args": [1]}`)
			f.send(200, "GET /resource/org_1/local/x/keys", "")
			f.send(200, "GET /resource/org_1/local/x/value?key=a", "")
			f.send(200, "PUT /resource/org_1/local/x/value?key=a", `{"ttl_ms": 10000}`)
			f.send(204, "DELETE /resource/org_1/local/x/value?key=a", "")
			for _, kind := range []string{"db", "kv"} {
				rotated := f.send(200, "POST /resource/org_1/local/x/rotate?type="+kind, "")
				if !strings.Contains(rotated, "file://"+kind) {
					f.t.Errorf("rotated: %s", rotated)
				}
			}
		}
		f.checkAgreement()
		for _, r := range created {
			f.must(f.delete(Named{Type: r.Provisioned.Type, Name: "x"}))
		}
		f.checkAgreement()
		made, err := f.create(NewResource{Type: DB, Name: new("x")})
		f.must(err)
		if made[0].Provisioned.Engine != "other" {
			f.t.Errorf("created by %s", made[0].Provisioned.Engine)
		}
	})
}
