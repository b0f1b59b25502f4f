package resource

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// killVariable has TestKilledProcess make one change and kill its process at one of the steps.
const killVariable = "STEWARD_RESOURCE_KILL"

// killOrder is what such a process does.
type killOrder struct {
	Path, URL string // of the database
	Dir       string
	Change    string // a key of changes
	Names     string // prefix of the names of the resources
	Step      int    // before which the process kills itself
}

// acknowledgement is the file that a process writes when its change is done: what callers see then.
func (o killOrder) acknowledgement() string {
	return filepath.Join(o.Dir, fmt.Sprintf("%s-%s-%d.done", o.Change, o.Names, o.Step))
}

// changes are what is killed. All but creations find five resources.
var changes = map[string]func(f *fixture, names string) error{
	"create": func(f *fixture, names string) error { return second(f.create(five(names)...)) },
	"undo": func(f *fixture, names string) error {
		f.kvs.set(nth("create", 2, errors.New("no room")))
		if err := second(f.create(five(names)...)); err == nil {
			return errors.New("the creation did not fail")
		}
		return nil
	},
	"delete":  func(f *fixture, names string) error { return f.delete(namesOf(five(names))...) },
	"recover": func(f *fixture, _ string) error { return f.restart(f.t.Context()) },
	"rotate": func(f *fixture, names string) error {
		for _, kind := range []Type{DB, KV} {
			p, err := f.Store.Get(f.t.Context(), f.caller.OrgID, "local", kind, names+"-a")
			if err != nil {
				return err
			}
			if _, err := f.Rotate(f.t.Context(), p, nil); err != nil {
				return err
			}
		}
		return nil
	},
}

// TestKilledProcess is the process that is killed. Without an order it does nothing.
func TestKilledProcess(t *testing.T) {
	text := os.Getenv(killVariable)
	if text == "" {
		return
	}
	var order killOrder
	if err := json.Unmarshal([]byte(text), &order); err != nil {
		t.Fatal(err)
	}
	d, err := db.Open(t.Context(), db.Options{Path: order.Path, URL: order.URL, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, d, order.Dir, "node_1")
	steps := 0
	f.Step = func(string) {
		if steps++; steps == order.Step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	f.must(changes[order.Change](f, order.Names))
	seen, err := json.Marshal(f.passwords())
	f.must(err)
	f.must(os.WriteFile(order.acknowledgement(), seen, 0o600))
	f.must(d.Close())
}

// passwords returns what callers see, by type and name in one text.
func (f *fixture) passwords() map[string]string {
	all := map[string]string{}
	for named, password := range f.listed() {
		all[string(named.Type)+" "+named.Name] = password
	}
	return all
}

// run makes a change in another process and reports whether that was killed. Otherwise it returns what
// callers saw at its end.
func (o killOrder) run(t *testing.T) (killed bool, seen map[string]string) {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledProcess$")
	cmd.Env = append(os.Environ(), killVariable+"="+string(text))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true, nil
	}
	if err != nil {
		t.Fatalf("%s: %v: %s", o.Change, err, out)
	}
	if text, err = os.ReadFile(o.acknowledgement()); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &seen); err != nil {
		t.Fatal(err)
	}
	return false, seen
}

// killWorld is a database that processes with the same files use.
type killWorld struct {
	t *testing.T
	o db.Options
	f *fixture
	// other says that another replica recovers, not the next process with the same data directory.
	other bool
}

// eachKill runs a test on both databases, with both ways of recovery: no other replica uses one of SQLite.
func eachKill(t *testing.T, test func(w *killWorld)) {
	for _, c := range []struct {
		dialect db.Dialect
		node    string
	}{{db.SQLite, "node_1"}, {db.Postgres, "node_1"}, {db.Postgres, "node_2"}} {
		t.Run(c.dialect.String()+"/"+c.node, func(t *testing.T) {
			t.Parallel()
			o := dbtest.Options(t, c.dialect)
			d, err := db.Open(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = d.Close() })
			test(&killWorld{t: t, o: o, f: newFixture(t, d, t.TempDir(), c.node), other: c.node != "node_1"})
		})
	}
}

func (w *killWorld) order(change, names string, step int) killOrder {
	return killOrder{Path: w.o.Path, URL: w.o.URL, Dir: w.f.dir, Change: change, Names: names, Step: step}
}

// recover does what the next start or another replica does, and checks that nothing is half done.
func (w *killWorld) recover() {
	w.t.Helper()
	w.f.must(w.f.restart(w.t.Context()))
	if w.other {
		w.f.now = w.f.now.Add(2 * claimTime)
		w.f.must(w.f.Recover(w.t.Context()))
	}
	w.f.checkAgreement()
}

// atEveryStep kills a change before its first step, its second and so on, until it completes. before
// prepares, and after gets what callers saw before the change and see after the recovery, and, if the
// change was acknowledged, what they saw then.
func (w *killWorld) atEveryStep(change string, before func(names string), after func(names string, was, is, acknowledged map[string]string)) {
	w.t.Helper()
	const limit = 100
	for step := 1; step < limit; step++ {
		names := fmt.Sprintf("%s-%d", change, step)
		before(names)
		was := w.f.passwords()
		killed, acknowledged := w.order(change, names, step).run(w.t)
		w.recover()
		after(names, was, w.f.passwords(), acknowledged)
		if w.t.Failed() {
			w.t.Fatalf("%s was killed before step %d", change, step)
		}
		if !killed {
			if step < 4 {
				w.t.Fatalf("%s has only %d steps", change, step-1)
			}
			return
		}
	}
	w.t.Fatalf("%s does not end", change)
}

func TestKilledCreationIsAllOrNothing(t *testing.T) {
	eachKill(t, func(w *killWorld) {
		w.atEveryStep("create", func(string) {}, func(_ string, was, is, acknowledged map[string]string) {
			all := len(is) == len(was)+5
			if !all && !maps.Equal(is, was) || acknowledged != nil && !maps.Equal(is, acknowledged) || acknowledged != nil && !all {
				w.t.Errorf("before %v, acknowledged %v, after %v", was, acknowledged, is)
			}
		})
	})
}

func TestKilledUndoLeavesNothing(t *testing.T) {
	eachKill(t, func(w *killWorld) {
		w.atEveryStep("undo", func(string) {}, func(_ string, was, is, _ map[string]string) {
			if !maps.Equal(is, was) {
				w.t.Errorf("before %v, after %v", was, is)
			}
		})
	})
}

func TestKilledDeletionIsAllOrNothing(t *testing.T) {
	eachKill(t, func(w *killWorld) {
		create := func(names string) { w.f.must(second(w.f.create(five(names)...))) }
		w.atEveryStep("delete", create, func(_ string, was, is, acknowledged map[string]string) {
			none := len(is) == len(was)-5
			if !none && !maps.Equal(is, was) || acknowledged != nil && !none {
				w.t.Errorf("before %v, acknowledged %v, after %v", was, acknowledged, is)
			}
		})
	})
}

func TestKilledRotationIsFinished(t *testing.T) {
	eachKill(t, func(w *killWorld) {
		create := func(names string) { w.f.must(second(w.f.create(five(names)...))) }
		w.atEveryStep("rotate", create, func(names string, was, is, acknowledged map[string]string) {
			if acknowledged != nil && !maps.Equal(is, acknowledged) || acknowledged != nil && is["kv "+names+"-a"] == was["kv "+names+"-a"] {
				w.t.Errorf("acknowledged %v, after %v", acknowledged, is)
			}
			for name := range was {
				if is[name] == "" || is[name] != was[name] && name != "db "+names+"-a" && name != "kv "+names+"-a" {
					w.t.Errorf("the rotation of %s changed %s", names, name)
				}
			}
		})
	})
}

// TestKilledRecoveryIsFinished kills what completes the changes of processes that were killed.
func TestKilledRecoveryIsFinished(t *testing.T) {
	dbtest.Long(t)
	eachKill(t, func(w *killWorld) {
		interrupt := func(names string) {
			w.f.must(second(w.f.create(five(names)...)))
			for change, step := range map[string]int{"delete": 6, "create": 6} {
				prefix := map[string]string{"delete": names, "create": names + "-new"}[change]
				if killed, _ := w.order(change, prefix, step).run(w.t); !killed {
					w.t.Fatalf("%s ended before step %d", change, step)
				}
			}
		}
		w.atEveryStep("recover", interrupt, func(_ string, was, is, _ map[string]string) {
			if !maps.Equal(is, was) { // the deletion had hidden them
				w.t.Errorf("before %v, after %v", was, is)
			}
		})
	})
}
