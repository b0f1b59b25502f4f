package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"syscall"
	"time"

	"steward/internal/backup"
	"steward/internal/cli/session"
	"steward/internal/job"
)

// checkEvery is the interval at which a replica checks whether a backup is due.
const checkEvery = 10 * time.Second

// Periodic makes scheduled backups, on one replica at a time and not while a command makes one. The
// replicas share a row with the backups' state, so that the schedule survives restarts.
type Periodic struct {
	Source *Source
	// Environ has the credentials for an S3 server, in the AWS tools' variables.
	Environ []string
	// Target is a directory or an s3:// URL.
	Target string
	// Encryption names the backups' recipients, if they are encrypted.
	Encryption backup.Encryption
	Schedule   backup.Schedule
	// Keep is the number of backups to keep.
	Keep int
	Log  *slog.Logger
	// Failed is called when a backup fails, or older ones cannot be removed. It may be nil.
	Failed func()

	// logged is the last problem that this process has logged.
	logged string
}

// Job returns the job that makes a replica's backups.
func (p *Periodic) Job(owner string) *job.Job {
	return &job.Job{
		Lease: p.Source.exclusive(owner), Log: p.Log, Title: "make backups", Interval: checkEvery,
		Pending: p.pending, Do: p.run,
	}
}

// Due returns when a backup is or was due by the schedule.
func (p *Periodic) Due(s State) time.Time { return s.due(p.Schedule, p.Source.Now()) }

// Next returns when we make or try the next backup.
func (p *Periodic) Next(s State) time.Time { return s.next(p.Schedule, p.Source.Now()) }

// pending reports whether it is time for a backup.
func (p *Periodic) pending(ctx context.Context) (bool, error) {
	s, err := p.State(ctx)
	return err == nil && !p.Next(s).After(p.Source.Now()), err
}

// run makes a backup if it is still time for one. The lease is held.
func (p *Periodic) run(ctx context.Context) error {
	before, err := p.State(ctx)
	if err != nil || p.Next(before).After(p.Source.Now()) { // another replica has made it
		return err
	}
	m, err := p.create(ctx)
	if ctx.Err() != nil {
		return ctx.Err() // the process stops or has lost the lease; another attempt follows
	}
	if err != nil {
		p.report(before, "the backup failed", err)
		return p.failed(ctx, explain("the backup failed", err))
	}
	if err := p.succeeded(ctx, m, ""); err != nil {
		return err
	}
	p.Log.Info("a backup was made", "backup", m.id, "bytes", m.bytes)
	if m.elsewhere > 0 && m.elsewhere != before.Elsewhere {
		p.Log.Warn("the backup has no databases and key-value stores of other nodes", "missing", m.elsewhere)
	}
	if _, err := m.to.prune(ctx, p.Keep); err != nil && ctx.Err() == nil {
		const problem = "older backups were not removed"
		p.report(before, problem, err)
		return p.succeeded(ctx, m, explain(problem, err))
	}
	return nil
}

// report counts a problem, and logs it unless this process has logged the same one already.
func (p *Periodic) report(before State, problem string, err error) {
	if p.Failed != nil {
		p.Failed()
	}
	level := slog.LevelError
	text := explain(problem, err)
	if before.Error == text && p.logged == text {
		level = slog.LevelDebug
	}
	p.logged = text
	p.Log.Log(context.Background(), level, problem, "error", err)
}

// made describes a new backup.
type made struct {
	id               string
	to               *repository
	began            time.Time
	bytes, elsewhere int64
}

// create makes a backup.
func (p *Periodic) create(ctx context.Context) (made, error) {
	m := made{began: p.Source.Now()}
	if err := checkTarget(p.Target, p.Source.Config.Data); err != nil {
		return m, err
	}
	to, err := openForAdding(ctx, session.Program{Environ: p.Environ}, p.Target, p.Encryption)
	if err != nil {
		return m, fmt.Errorf("open the target of backups: %w", err)
	}
	m.to = to
	count := &counter{}
	added, err := to.create(ctx, m.began, func(ctx context.Context, w io.Writer, r Request) error {
		r.elsewhere = &m.elsewhere
		return p.Source.Write(ctx, io.MultiWriter(w, count), r)
	})
	m.id = added.ID
	m.bytes = count.n
	return m, err
}

// explain returns a problem with its cause if the operating system tells it, without names and
// addresses, since all organizations see it.
func explain(problem string, err error) string {
	if cause, ok := errors.AsType[syscall.Errno](err); ok {
		return problem + ": " + strings.ToLower(cause.Error())
	}
	return problem + "; the log of the server says why"
}
