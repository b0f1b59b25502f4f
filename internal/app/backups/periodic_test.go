package backups

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/app/operator"
	"steward/internal/backup"
	"steward/internal/blob"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/job"
	"steward/internal/stamp"
	"steward/internal/waittest"
)

// clock is the time of a test.
type clock struct{ micros atomic.Int64 }

func (c *clock) now() time.Time          { return time.UnixMicro(c.micros.Load()).UTC() }
func (c *clock) advance(d time.Duration) { c.micros.Add(d.Microseconds()) }

// periodicFixture is an installation with a schedule.
type periodicFixture struct {
	*fixture
	clock  clock
	target string
	log    bytes.Buffer
	failed int
}

// eachPeriodic runs a test on both databases. It begins at 02:00.
func eachPeriodic(t *testing.T, test func(*testing.T, *periodicFixture)) {
	for _, dialect := range []db.Dialect{db.SQLite, db.Postgres} {
		t.Run(dialect.String(), func(t *testing.T) {
			f := &periodicFixture{fixture: newFixture(t, dialect), target: filepath.Join(t.TempDir(), "backups")}
			f.clock.micros.Store(time.Date(2026, 11, 17, 2, 0, 0, 0, time.UTC).UnixMicro())
			f.Now = f.clock.now
			test(t, f)
		})
	}
}

// start returns what a process has after its start.
func (f *periodicFixture) start(schedule backup.Schedule) *Periodic {
	return &Periodic{
		Source: f.Source, Target: f.target, Schedule: schedule, Keep: 2,
		Log: slog.New(slog.NewTextHandler(&f.log, nil)), Failed: func() { f.failed++ },
	}
}

// step does what a job does at each check, and reports whether it was time for a backup.
func (p *Periodic) step(t *testing.T) (ran bool) {
	t.Helper()
	pending, err := p.pending(t.Context())
	must(t, err)
	if !pending {
		return false
	}
	lease := p.Source.exclusive("rep_1")
	held, err := lease.TryHold(t.Context(), p.run)
	must(t, err)
	return held
}

func (p *Periodic) state(t *testing.T) State {
	t.Helper()
	s, err := p.State(t.Context())
	must(t, err)
	return s
}

// made returns the backups in the target.
func (f *periodicFixture) made(t *testing.T) []Listed {
	t.Helper()
	r, err := openDirectory(f.target)
	must(t, err)
	all, err := r.list(t.Context())
	must(t, err)
	return all
}

func TestScheduleHoldsOverRestarts(t *testing.T) {
	eachPeriodic(t, func(t *testing.T, f *periodicFixture) {
		daily := backup.Schedule{At: 3 * time.Hour}
		if f.start(daily).step(t) {
			t.Fatal("a backup was made before its time")
		}
		f.clock.advance(59 * time.Minute)
		if f.start(daily).step(t) {
			t.Fatal("a backup was made before its time, after a restart")
		}
		f.clock.advance(time.Minute)
		if !f.start(daily).step(t) || f.start(daily).step(t) {
			t.Fatal("not one backup was made at its time")
		}
		state := f.start(daily).state(t)
		if state.SucceededAt == nil || *state.SucceededAt != stamp.Of(f.clock.now()) || state.Bytes == 0 || state.Error != "" {
			t.Errorf("%+v", state)
		}
		interval := backup.Schedule{Every: 24 * time.Hour} // another setting, from now on
		f.clock.advance(24*time.Hour - time.Second)
		p := f.start(interval)
		if p.step(t) {
			t.Error("a restart began the interval anew")
		}
		if got := p.Next(p.state(t)).Sub(f.clock.now()); got != time.Second {
			t.Errorf("the next one is in %s", got)
		}
		for range 3 {
			f.clock.advance(24 * time.Hour)
			f.put(t, "new at "+f.clock.now().String())
			if !f.start(interval).step(t) {
				t.Fatal("no backup was made after the interval")
			}
		}
		made := f.made(t)
		if len(made) != 2 {
			t.Fatalf("%d backups are kept, want 2", len(made))
		}
		r, err := openDirectory(f.target)
		must(t, err)
		for _, l := range made {
			must(t, r.verify(t, l.ID))
		}
	})
}

func TestReplicasMakeOneBackup(t *testing.T) {
	eachPeriodic(t, func(t *testing.T, f *periodicFixture) {
		var replicas job.Group
		defer replicas.Stop()
		for range 2 {
			p := f.start(backup.Schedule{Every: time.Hour})
			p.Keep = 10
			p.Log = slog.New(slog.DiscardHandler)
			j := p.Job(id.New("rep"))
			j.Interval = time.Millisecond
			replicas.Go(j.Run)
		}
		for n := range 2 {
			waittest.True(t, "a backup", func() bool {
				state, err := f.start(backup.Schedule{}).State(t.Context())
				must(t, err)
				return state.SucceededAt != nil && *state.SucceededAt == stamp.Of(f.clock.now())
			})
			if n == 0 {
				f.clock.advance(time.Hour)
			}
		}
		replicas.Stop()
		if made := f.made(t); len(made) != 2 {
			t.Errorf("%d backups were made, want 2", len(made))
		}
	})
}

// TestScheduledBackupWaitsForTheCommand has each of them find the other.
func TestScheduledBackupWaitsForTheCommand(t *testing.T) {
	eachPeriodic(t, func(t *testing.T, f *periodicFixture) {
		p := f.start(backup.Schedule{Every: time.Hour})
		lease := f.exclusive("bak_1") // of a command
		held, err := lease.TryHold(t.Context(), func(context.Context) error {
			if p.step(t) {
				t.Error("a second backup was made at the same time")
			}
			return nil
		})
		must(t, err)
		if !held {
			t.Error("the command did not get the lease")
		}
		dir, err := os.MkdirTemp("", "steward-") // its path must be short
		must(t, err)
		t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
		o := operator.New(f.DB, nil, "")
		o.Backup = &Handler{Source: f.Source, Log: p.Log}
		t.Cleanup(o.Serve(dir, p.Log).Stop)
		scheduled := p.Source.exclusive("rep_1")
		held, err = scheduled.TryHold(t.Context(), func(ctx context.Context) error {
			if err := ask(ctx, dir, io.Discard, Request{}); errs.KindOf(err) != errs.Conflict || !strings.Contains(err.Error(), "another backup is being made") {
				t.Errorf("the command meanwhile: %v", err)
			}
			return nil
		})
		must(t, err)
		if !held || !p.step(t) {
			t.Error("no backup was made afterwards")
		}
		must(t, ask(t.Context(), dir, io.Discard, Request{}))
	})
}

// TestFailuresAreToldAndRetried has targets that cannot be used, and then one that can.
func TestFailuresAreToldAndRetried(t *testing.T) {
	for name, test := range map[string]struct{ url, want string }{
		"directory": {"", "the backup failed: not a directory"},
		"S3":        {"s3://bucket?endpoint=http://127.0.0.1:1", "the backup failed: connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			eachPeriodic(t, func(t *testing.T, f *periodicFixture) {
				p := f.start(backup.Schedule{Every: 24 * time.Hour})
				if test.url != "" {
					p.Target = test.url
				} else {
					must(t, os.WriteFile(f.target, nil, 0o600))
				}
				p.Environ = []string{"AWS_ACCESS_KEY_ID=planted", "AWS_SECRET_ACCESS_KEY=planted"}
				for _, pause := range []time.Duration{time.Minute, 2 * time.Minute} {
					if !p.step(t) || p.step(t) {
						t.Fatal("not one attempt was made")
					}
					if state := p.state(t); state.Error != test.want || state.SucceededAt != nil || p.Next(state).Sub(f.clock.now()) != pause {
						t.Errorf("%+v, next at %s", state, p.Next(state))
					}
					f.clock.advance(pause)
				}
				if n := strings.Count(f.log.String(), "level=ERROR"); n != 1 || f.failed != 2 || strings.Contains(f.log.String(), "planted") {
					t.Errorf("%d failures, %d lines in the log:\n%s", f.failed, n, &f.log)
				}
				if test.url == "" {
					must(t, os.Remove(f.target))
				}
				p = f.start(p.Schedule) // with another target if that was a URL
				if !p.step(t) || len(f.made(t)) != 1 {
					t.Error("no backup was made when the target could be used")
				}
				if state := p.state(t); state.Error != "" || state.Failures != 0 || p.Next(state).Sub(f.clock.now()) != 24*time.Hour {
					t.Errorf("%+v", state)
				}
			})
		})
	}
}

// TestKnownFailureIsLoggedAfterARestart has a target that cannot be used by two processes, one after the other.
func TestKnownFailureIsLoggedAfterARestart(t *testing.T) {
	eachPeriodic(t, func(t *testing.T, f *periodicFixture) {
		must(t, os.WriteFile(f.target, nil, 0o600))
		for range 2 {
			f.log.Reset()
			p := f.start(backup.Schedule{Every: 24 * time.Hour})
			for range 2 {
				p.step(t)
				f.clock.advance(time.Hour)
			}
			if n := strings.Count(f.log.String(), "level=ERROR"); n != 1 {
				t.Errorf("%d lines in the log:\n%s", n, &f.log)
			}
		}
	})
}

// stopping is a store that stops the process when it is read.
type stopping struct {
	blob.Store
	stop context.CancelFunc
}

func (s stopping) Open(ctx context.Context, blobID string, offset, length int64) (io.ReadCloser, error) {
	s.stop()
	return s.Store.Open(ctx, blobID, offset, length)
}

// TestStopIsNoFailure stops a process while it makes a backup.
func TestStopIsNoFailure(t *testing.T) {
	eachPeriodic(t, func(t *testing.T, f *periodicFixture) {
		p := f.start(backup.Schedule{Every: time.Hour})
		p.state(t)
		ctx, stop := context.WithCancel(t.Context())
		source := *f.Source
		source.Blobs = stopping{f.Blobs, stop}
		p.Source = &source
		if err := p.run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		p = f.start(p.Schedule)
		if state := p.state(t); state.Failures != 0 || state.SucceededAt != nil {
			t.Errorf("%+v", state)
		}
		if !p.step(t) {
			t.Error("the next process made no backup")
		}
	})
}

func TestWrongClocksDoNotStopBackups(t *testing.T) {
	now := time.Date(2026, 11, 17, 2, 0, 0, 0, time.UTC)
	schedule := backup.Schedule{Every: 24 * time.Hour}
	future := stamp.Of(now.Add(1000 * time.Hour))
	skewed := stamp.Of(now.Add(time.Minute))
	if got := (State{BeganAt: &future}).next(schedule, now); !got.Equal(now) {
		t.Errorf("with a time in the far future: %s", got)
	}
	if got := (State{BeganAt: &skewed}).next(schedule, now); !got.Equal(now.Add(24*time.Hour + time.Minute)) {
		t.Errorf("with the time of a replica whose clock is ahead: %s", got)
	}
}

// TestElsewhereIsCounted has databases and stores of another node.
func TestElsewhereIsCounted(t *testing.T) {
	eachPeriodic(t, func(t *testing.T, f *periodicFixture) {
		f.Node = id.New(id.Node)
		p := f.start(backup.Schedule{Every: time.Hour})
		if !p.step(t) || p.state(t).Elsewhere != 2 || strings.Count(f.log.String(), "level=WARN") != 1 {
			t.Errorf("%+v\n%s", p.state(t), &f.log)
		}
	})
}

// TestBackupWithoutItsBaseIsRefused removes the backup that a new one shares blobs with.
func TestBackupWithoutItsBaseIsRefused(t *testing.T) {
	f := newFixture(t, db.SQLite)
	r, err := openDirectory(t.TempDir())
	must(t, err)
	base, _ := f.add(t, r)
	_, err = r.create(t.Context(), time.Now(), func(ctx context.Context, w io.Writer, request Request) error {
		must(t, r.remove(ctx, base.ID, nil))
		return f.Write(ctx, w, request)
	})
	if errs.KindOf(err) != errs.Conflict {
		t.Errorf("got %v", err)
	}
	if all, err := r.list(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("listed %v, %v", all, err)
	}
}

// TestScheduledBackupsNeedNoSecret has backups for a recipient, and then for another one.
func TestScheduledBackupsNeedNoSecret(t *testing.T) {
	eachPeriodic(t, func(t *testing.T, f *periodicFixture) {
		s := newRecipient(t)
		p := f.start(backup.Schedule{Every: time.Hour})
		p.Encryption = s.encryption
		for range 3 {
			f.put(t, "new at "+f.clock.now().String())
			if !p.step(t) || p.state(t).Error != "" {
				t.Fatalf("%+v\n%s", p.state(t), &f.log)
			}
			f.clock.advance(time.Hour)
		}
		from := reading(t, f.target, s)
		made, err := from.list(t.Context())
		must(t, err)
		if len(made) != 2 {
			t.Errorf("%d backups are kept, want 2", len(made))
		}
		for _, l := range made {
			must(t, from.verify(t, l.ID))
		}
		p.Encryption = newRecipient(t).encryption
		if !p.step(t) || p.state(t).Failures != 1 || !strings.Contains(f.log.String(), "encrypted for other recipients") {
			t.Errorf("%+v\n%s", p.state(t), &f.log)
		}
	})
}
