package resource

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"testing"
	"time"

	"steward/internal/errs"
)

// transferFixture has an embedded store x, in a region whose engine is another server now.
type transferFixture struct {
	*fixture
	embedded *Provisioned
	server   *fileEngine
}

func eachTransfer(t *testing.T, test func(f *transferFixture)) {
	each(t, func(base *fixture) {
		base.kvs.remote = false
		created, err := base.create(NewResource{Type: KV, Name: new("x"), Description: new("A cache")})
		base.must(err)
		f := &transferFixture{fixture: base, embedded: created[0].Provisioned, server: newFileEngine(base.t, base.t.TempDir(), "server")}
		f.Embedded = Region{DB: f.dbs, KV: f.kvs}
		f.Regions[0].KV = f.server
		test(f)
	})
}

func fillNothing(context.Context, *Provisioned) error { return nil }

// current returns what callers see.
func (f *transferFixture) current() *Provisioned {
	f.t.Helper()
	p, err := f.Store.Get(f.t.Context(), f.caller.OrgID, "local", KV, "x")
	f.must(err)
	return p
}

// checkServer checks that the server has what the rows say, and that nothing is half done. The embedded files stay.
func (f *transferFixture) checkServer() {
	f.t.Helper()
	rows, err := f.Store.all(f.t.Context(), ``)
	f.must(err)
	want := map[string]string{}
	for _, p := range rows {
		if p.State != Active {
			f.t.Errorf("%s is left in state %s", p.ID, p.State)
		}
		if p.Engine == "server" {
			want[p.ID] = p.Password
		}
	}
	if got := f.server.files(f.t); !maps.Equal(got, want) {
		f.t.Errorf("the server has %v, the rows have %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	if got := f.kvs.files(f.t)[f.embedded.ID]; got != f.embedded.Password {
		f.t.Errorf("the embedded engine has the password %q", got)
	}
	if len(rows) != 1 {
		f.t.Errorf("%d rows", len(rows))
	}
}

func TestTransferGivesTheNameToAnotherEngine(t *testing.T) {
	eachTransfer(t, func(f *transferFixture) {
		filled := ""
		moved, err := f.Transfer(f.t.Context(), f.embedded, func(ctx context.Context, to *Provisioned) error {
			f.now = f.now.Add(claimTime - time.Minute)
			f.must(f.Renew(ctx, to))
			f.now = f.now.Add(claimTime - time.Minute)
			f.must(f.Recover(ctx))
			filled = to.Password
			return nil
		})
		f.must(err)
		got := f.current()
		if got.ID != moved.ID || got.ID == f.embedded.ID || got.Password != filled || got.Engine != "server" || got.Node != "" ||
			*got.Description != "A cache" || got.CreatedBy != f.embedded.CreatedBy || got.CreatedAt != f.embedded.CreatedAt {
			f.t.Errorf("got %+v", got)
		}
		if actions := f.audit.Read("action"); actions[len(actions)-1] != "kv.move" {
			f.t.Errorf("recorded %s", actions)
		}
		f.checkServer()
	})
}

func TestTransferThatFailsChangesNothing(t *testing.T) {
	eachTransfer(t, func(f *transferFixture) {
		failed := errors.New("no room")
		unavailable := func(verbs ...string) func(string, *Provisioned) error {
			return func(verb string, _ *Provisioned) error {
				if slices.Contains(verbs, verb) {
					return errDown
				}
				return nil
			}
		}
		for _, test := range []struct {
			fail func(string, *Provisioned) error
			fill func(context.Context, *Provisioned) error
			want error
		}{
			{want: failed, fill: func(context.Context, *Provisioned) error { return failed }},
			{want: errDown, fill: fillNothing, fail: unavailable("create")},
			{want: errDown, fill: fillNothing, fail: unavailable("create", "delete")},
			{want: failed, fill: func(context.Context, *Provisioned) error { return failed }, fail: unavailable("delete")},
		} {
			f.server.set(test.fail)
			_, err := f.Transfer(f.t.Context(), f.embedded, test.fill)
			if !errors.Is(err, test.want) {
				f.t.Errorf("got %v, want %v", err, test.want)
			}
			f.server.set(nil)
			f.now = f.now.Add(claimTime)
			f.must(f.Recover(f.t.Context()))
			if got := f.current(); got.ID != f.embedded.ID || got.Password != f.embedded.Password {
				f.t.Errorf("got %+v", got)
			}
			f.checkServer()
		}
	})
}

// TestTransferOfWhatIsChangedMeanwhile rotates, deletes and recovers during the copy.
func TestTransferOfWhatIsChangedMeanwhile(t *testing.T) {
	eachTransfer(t, func(f *transferFixture) {
		_, err := f.Transfer(f.t.Context(), f.embedded, func(ctx context.Context, to *Provisioned) error {
			f.now = f.now.Add(claimTime)
			f.must(f.Recover(ctx)) // of another replica
			f.want(errs.Conflict, f.Renew(ctx, to))
			return nil
		})
		f.want(errs.Conflict, err)
		f.checkServer()
		_, err = f.Transfer(f.t.Context(), f.embedded, func(ctx context.Context, _ *Provisioned) (err error) {
			f.embedded, err = f.Rotate(ctx, f.embedded, nil)
			return err
		})
		f.want(errs.Conflict, err)
		f.checkServer()
		_, err = f.Transfer(f.t.Context(), f.embedded, func(context.Context, *Provisioned) error {
			return f.delete(Named{Type: KV, Name: "x"})
		})
		f.want(errs.Conflict, err)
		if left := f.server.files(f.t); len(left) > 0 {
			f.t.Errorf("the server has %v", left)
		}
	})
}

// TestTransferThatIsInterrupted ends a transfer before each of its steps, as the end of its process does.
func TestTransferThatIsInterrupted(t *testing.T) {
	eachTransfer(t, func(f *transferFixture) {
		for end := 1; ; end++ {
			steps, done := 0, make(chan bool)
			f.Step = func(string) {
				if steps++; steps == end {
					done <- false
					runtime.Goexit()
				}
			}
			go func() {
				_, err := f.Transfer(f.t.Context(), f.embedded, fillNothing)
				f.must(err)
				done <- true
			}()
			finished := <-done
			f.Step = nil
			f.must(f.restart(f.t.Context()))
			f.checkServer()
			if moved := f.current().ID != f.embedded.ID; moved != finished {
				f.t.Fatalf("step %d: moved %t", end, moved)
			}
			if finished {
				return
			}
		}
	})
}
