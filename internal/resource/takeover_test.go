package resource

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"steward/internal/errs"
)

// TestStalledCreationIsUndone has a replica take over from one that has not died but is slow. Its own
// engine may fail then, so that it has not finished.
func TestStalledCreationIsUndone(t *testing.T) {
	each(t, func(f *fixture) {
		other := newFixture(f.t, f.Store.DB, f.dir, "node_2")
		for _, failure := range []error{nil, errDown} {
			other.dbs.set(always("delete", failure))
			f.dbs.set(func(verb string, _ *Provisioned) error {
				if verb == "create" {
					f.now = f.now.Add(2 * claimTime)
					other.now = f.now
					return other.Recover(f.t.Context())
				}
				return nil
			})
			_, err := f.create(NewResource{Type: DB, Name: new("x")}, NewResource{Type: S3, Name: new("x-bucket")})
			f.want(errs.Conflict, err)
			if got := f.listed(); len(got) != 0 {
				f.t.Errorf("listed: %v", got)
			}
			other.dbs.set(nil)
			f.check()
		}
	})
}

// TestRotationThatLosesToADeletionLeavesNothing has a late call of the engine recreate nothing.
func TestRotationThatLosesToADeletionLeavesNothing(t *testing.T) {
	each(t, func(f *fixture) {
		created, err := f.create(NewResource{Type: KV, Name: new("x")})
		f.must(err)
		f.kvs.set(func(verb string, p *Provisioned) error {
			if verb != "rotate" {
				return nil
			}
			f.kvs.set(nil)
			f.must(f.delete(Named{Type: KV, Name: "x"}))
			return f.kvs.write(f.t.Context(), p) // a server that creates a user it does not know
		})
		f.want(errs.Unavailable, second(f.Rotate(f.t.Context(), created[0].Provisioned, nil)))
		f.checkAgreement()
	})
}

func TestReplicaTakesOverAfterTheClaim(t *testing.T) {
	each(t, func(f *fixture) {
		other := newFixture(f.t, f.Store.DB, f.dir, "node_2")
		func() {
			defer func() { _ = recover() }()
			f.Step = func(step string) {
				if step == "activate" {
					panic("the process dies")
				}
			}
			_, _ = f.create(five("x")...)
		}()
		f.must(other.restart(f.t.Context())) // the claim is that of another replica
		if len(other.dbs.files(f.t)) != 2 {
			f.t.Fatal("a replica has taken over what another is changing")
		}
		other.check()
		_, err := other.create(five("x")...)
		f.must(err)
	})
}

func TestClientThatLeavesUndoesTheCreation(t *testing.T) {
	each(t, func(f *fixture) {
		ctx, cancel := context.WithCancel(f.t.Context())
		f.kvs.set(func(verb string, _ *Provisioned) error {
			if verb == "create" {
				cancel()
			}
			return nil
		})
		_, err := f.Create(ctx, f.caller, f.region(), five("x"), nil)
		if err == nil {
			f.t.Fatal("created for a client that has gone")
		}
		f.kvs.set(nil)
		f.checkAgreement()
	})
}

// TestEngineThatIsDownDoesNotDelayOthers checks that the recovery calls an engine once that is down.
func TestEngineThatIsDownDoesNotDelayOthers(t *testing.T) {
	each(t, func(f *fixture) {
		f.must(second(f.create(five("x")...)))
		calls := 0
		failing := errors.New("busy")
		f.kvs.set(always("delete", failing))
		f.dbs.set(always("delete", failing))
		f.want(errs.Unavailable, f.delete(namesOf(five("x"))...))
		f.kvs.set(func(verb string, _ *Provisioned) error { calls++; return errDown })
		f.dbs.set(nil)
		f.now = f.now.Add(retryAfter)
		f.must(f.Recover(f.t.Context()))
		if calls != 1 || len(f.dbs.files(f.t)) != 0 {
			f.t.Errorf("%d calls of the engine that is down; the other has %v", calls, f.dbs.files(f.t))
		}
		f.kvs.set(nil)
		f.check()
	})
}

// ensuringEngine loses its files, and recreates those that are missing.
type ensuringEngine struct {
	*fileEngine
	ensure func()
	fail   error // returned by Ensure after it has recreated all
}

func (e ensuringEngine) Ensure(ctx context.Context, all []*Provisioned) error {
	e.ensure()
	for _, p := range all {
		if err := e.write(ctx, p); err != nil {
			return err
		}
	}
	return e.fail
}

func TestLostUsersAreRecreatedUnlessTheyWereDeleted(t *testing.T) {
	for name, fail := range map[string]error{"succeeds": nil, "fails in the end": errs.New(errs.Unavailable, "one of several servers is down")} {
		t.Run(name, func(t *testing.T) { testLostUsers(t, fail) })
	}
}

func testLostUsers(t *testing.T, fail error) {
	each(t, func(f *fixture) {
		engine := ensuringEngine{f.kvs, func() {}, fail}
		f.Regions[0].KV = engine
		created, err := f.create(NewResource{Type: KV, Name: new("x")}, NewResource{Type: KV, Name: new("y")}, NewResource{Type: KV, Name: new("z")})
		f.must(err)
		for _, r := range created {
			f.must(f.kvs.Delete(f.t.Context(), r.Provisioned))
		}
		f.check()
		engine.ensure = func() {
			f.must(f.delete(Named{Type: KV, Name: "x"}))
			f.must(second(f.Rotate(f.t.Context(), created[1].Provisioned, nil)))
		}
		f.Regions[0].KV = engine
		f.check()
		if got := f.listed(); len(got) != 2 {
			f.t.Errorf("listed: %v", got)
		}
	})
}

// TestConcurrentChangesEndInAgreement has two replicas change the same resources, with claims that
// expire at once, so that each takes over what the other is changing.
func TestConcurrentChangesEndInAgreement(t *testing.T) {
	each(t, func(f *fixture) {
		var group sync.WaitGroup
		for i, node := range []string{"node_1", "node_2", "node_3", "node_4"} {
			r := newFixture(f.t, f.Store.DB, f.dir, node)
			r.now = r.now.Add(time.Duration(i) * 2 * claimTime)
			group.Go(func() {
				for range 10 {
					_, _ = r.create(NewResource{Type: DB, Name: new("x")}, NewResource{Type: KV, Name: new("x")})
					if p, err := r.Store.Get(f.t.Context(), r.caller.OrgID, "local", KV, "x"); err == nil {
						_, _ = r.Rotate(f.t.Context(), p, nil)
					}
					f.must(r.Recover(f.t.Context()))
					_ = r.delete(Named{Type: KV, Name: "x"}, Named{Type: DB, Name: "x"})
				}
			})
		}
		group.Wait()
		f.now = f.now.Add(10 * claimTime)
		f.check()
	})
}
