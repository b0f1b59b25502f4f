// Package migrate moves an installation from SQLite to PostgreSQL and back, while it serves.
//
// Rows move, and the objects' bytes if you ask for that (blobs.go). Databases and key-value stores
// stay in the data directory, which the server uses with either database, unless you name servers
// that take them over after the rows (engines.go). The command asks the running server over its
// control socket (Handler), or does the same without one. The server copies the rows, follows their
// changes and compares them (package move). Then it stops serving as at any stop, so that nobody
// writes any more, and finishes. After that it refuses all requests until it is stopped; if
// something failed, it starts again as it was.
package migrate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/app/operator"
	"steward/internal/db"
	"steward/internal/db/move"
	"steward/internal/errs"
	"steward/internal/id"
	work "steward/internal/job"
	"steward/internal/resource"
	"steward/internal/seal"
	"steward/internal/status"
)

// Request is a command's request.
type Request struct {
	// To is postgres://… or sqlite:DIR.
	To    string      `json:"to"`
	Blobs BlobRequest `json:"blobs"`
	// RegionEngine is db=postgres://…,kv=redis://…, with servers that embedded databases and stores
	// move to. It may be empty.
	RegionEngine string `json:"region_engine,omitempty"`
}

// Event reports a move's progress. The last one has Done or Error.
type Event struct {
	Stage string `json:"stage,omitempty"`
	Table string `json:"table,omitempty"`
	Rows  int64  `json:"rows,omitempty"`
	// Round and Left are as in move.Progress.
	Round int64 `json:"round,omitempty"`
	Left  int64 `json:"left,omitempty"`
	operator.Failure
	Done *Done `json:"done,omitempty"`
	// Resource is the outcome for an embedded database or store.
	Resource *Outcome `json:"resource,omitempty"`
}

// Done is a move's result.
type Done struct {
	Rows  int64 `json:"rows"`
	Blobs int64 `json:"blobs"`
	// Pause is the time from the last accepted write until all rows were in the target and compared.
	Pause time.Duration `json:"pause"`
	// Resources is nil if embedded databases and stores were to stay.
	Resources *Resources `json:"resources,omitempty"`
}

// job is a move.
type job struct {
	source *db.DB
	cfg    config.Config
	log    *slog.Logger
	report func(Event)
	// ring seals passwords for databases and stores.
	ring *seal.Ring
	// leave returns once nobody writes to the source any more.
	leave func(context.Context) error
	// moved is called when the rows are in the target.
	moved func()
	// interruptible is true if databases and stores move only as long as run's context lasts.
	interruptible bool
	// processes are those that serve the source.
	processes *status.Processes
}

// leaseFor limits how long a killed process keeps others from moving the rows.
const leaseFor = 30 * time.Second

// runAlone runs the move, unless another process does. A SQLite database's rows are locked with
// their data directory; a PostgreSQL database's could be moved by any replica.
func (j *job) runAlone(ctx context.Context, r Request) (done Done, left bool, err error) {
	if j.source.Dialect() == db.SQLite {
		return j.run(ctx, r)
	}
	// If an interrupted move had already made the source refuse changes, we cannot get a lease.
	fenced, err := move.Fenced(j.source.Read(ctx))
	if err != nil {
		return done, false, err
	}
	if fenced {
		return j.run(ctx, r)
	}
	l := &work.Lease{DB: j.source, Now: time.Now, Name: "move", Owner: id.New("mov"), TTL: leaseFor}
	var failed error
	held, err := l.TryHold(ctx, func(ctx context.Context) error {
		done, left, failed = j.run(ctx, r)
		return nil
	})
	if held {
		return done, left, failed // after a move, the lease cannot be released
	}
	if err == nil {
		err = errs.New(errs.Conflict, "another replica is moving the rows, or was until it was killed; try again in %v", leaseFor)
	}
	return done, false, err
}

// run moves the rows. Its context may end until leave is called; after that the move goes on.
func (j *job) run(ctx context.Context, r Request) (done Done, left bool, err error) {
	bytes, err := j.openBlobs(ctx, r.Blobs)
	if err != nil {
		return done, false, err
	}
	servers, err := j.openServers(ctx, r.RegionEngine)
	if err != nil {
		return done, false, err
	}
	defer servers.close()
	target, err := openTarget(ctx, j.cfg, r.To)
	if err != nil {
		return done, false, err
	}
	defer func() { err = errors.Join(err, target.db.Close()) }()
	target.blobs = bytes
	m, err := j.mover(ctx, target)
	if err != nil {
		return done, false, err
	}
	if err := prepare(ctx, m); err != nil {
		return done, false, err
	}
	if err := j.waitForOthers(ctx, m, target); err != nil {
		return done, false, err
	}
	limited := ctx
	ctx = context.WithoutCancel(ctx)
	began := time.Now()
	j.report(Event{Stage: "stop"})
	if err := j.leave(ctx); err != nil {
		return done, true, err
	}
	if err := m.Finish(ctx, target.name); err != nil {
		return done, true, err
	}
	done.Pause = time.Since(began)
	done.Blobs = bytes.count()
	if done.Rows, err = m.Count(ctx); err != nil {
		j.log.Warn("the rows that were moved cannot be counted", "error", err)
	}
	j.moved()
	if servers != nil {
		if j.interruptible && j.source.Dialect() == db.SQLite { // otherwise limited ends with the source's lease
			ctx = limited
		}
		j.report(Event{Stage: stageResources})
		done.Resources = servers.moveAll(ctx, target.db, m.ToNode)
	}
	return done, true, nil
}

// mover returns the Mover for the rows. It resumes an interrupted move.
func (j *job) mover(ctx context.Context, target *target) (*move.Mover, error) {
	name, err := move.Moving(j.source.Read(ctx))
	if err != nil {
		return nil, err
	}
	if name == "" {
		name = id.New("mov")
	}
	m := &move.Mover{Source: j.source, Target: target.db}
	if m.FromNode, err = datadir.Node(j.cfg.Data, j.source.Dialect()); err != nil {
		return nil, err
	}
	if m.ToNode, err = datadir.Node(j.cfg.Data, target.db.Dialect()); err != nil {
		return nil, err
	}
	if target.blobs != nil {
		m.Before = target.blobs.before
		m.Store = target.blobs.store
	}
	m.Report = func(p move.Progress) {
		j.report(Event{Stage: p.Stage, Table: p.Table, Rows: p.Rows, Round: p.Round, Left: p.Left})
	}
	return m, m.Begin(ctx, name)
}

const (
	// fewChanges is how long it takes to follow a few changes.
	fewChanges = time.Second
	// maxRounds bounds how often prepare follows.
	maxRounds = 20
)

// prepare does everything that can be done while others write. In the end it follows the changes until
// few are left; those are copied in the pause. It gives up if they come as fast as it follows them.
func prepare(ctx context.Context, m *move.Mover) error {
	for _, step := range []func(context.Context) error{m.Copy, m.Follow, m.Verify} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	before := time.Duration(math.MaxInt64)
	for range maxRounds {
		began := time.Now()
		if err := m.Follow(ctx); err != nil {
			return err
		}
		took := time.Since(began)
		if took < fewChanges || took >= before {
			return nil
		}
		before = took
	}
	return nil
}

// othersInterval is the time between two checks in waitForOthers.
const othersInterval = time.Second

// waitForOthers waits until this process is the only one that serves the source, and follows changes
// meanwhile. On SQLite it always is.
func (j *job) waitForOthers(ctx context.Context, m *move.Mover, target *target) error {
	if target.db.Dialect() == db.SQLite {
		elsewhere, err := resource.CountElsewhere(j.source.Read(ctx), m.FromNode)
		if err != nil {
			return err
		}
		if elsewhere > 0 {
			return errs.New(errs.Conflict, "%d databases and key-value stores are in the data directories of other replicas: delete them first", elsewhere)
		}
	}
	for {
		n, err := j.processes.Count(ctx)
		if err != nil || n == 1 {
			return err
		}
		j.report(Event{Stage: "wait", Rows: int64(n - 1)})
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(othersInterval):
		}
		if err := m.Follow(ctx); err != nil {
			return err
		}
	}
}

// target is a database that rows move to.
type target struct {
	db *db.DB
	// name tells where it is, without a password.
	name string
	// blobs copies the objects' bytes; nil if they stay where they are.
	blobs *blobMove
}

// isPostgres reports whether a target is a PostgreSQL database.
func isPostgres(to string) bool {
	return strings.HasPrefix(to, "postgres://") || strings.HasPrefix(to, "postgresql://")
}

// isSQLite reports whether a target is a data directory's SQLite database.
func isSQLite(to string) bool { return strings.HasPrefix(to, "sqlite:") }

// openTarget opens the database that to names, and creates its tables.
func openTarget(ctx context.Context, cfg config.Config, to string) (*target, error) {
	switch {
	case isPostgres(to):
		if _, err := url.Parse(to); err != nil {
			return nil, errs.New(errs.Invalid, "--to is not a URL")
		}
		d, err := db.Open(ctx, db.Options{URL: to, Restoring: true})
		if err != nil {
			return nil, fmt.Errorf("open the target: %w", err)
		}
		return &target{db: d, name: config.WithoutPassword(to)}, nil
	case isSQLite(to):
		return openSQLite(ctx, cfg, strings.TrimPrefix(to, "sqlite:"))
	}
	return nil, errs.New(errs.Invalid, "--to must be postgres://… or sqlite:DIR")
}

// openSQLite opens the database in the data directory. If there is one whose rows were moved away
// earlier, it keeps that under another name.
func openSQLite(ctx context.Context, cfg config.Config, dir string) (*target, error) {
	if cfg.DatabaseURL == "" {
		return nil, errs.New(errs.Invalid, "the rows are in SQLite already")
	}
	if !datadir.Same(dir, cfg.Data) {
		return nil, errs.New(errs.Invalid, "--to must name the data directory of this process, sqlite:%s: databases and stores stay there", cfg.Data)
	}
	file := datadir.DatabaseFile(cfg.Data)
	if err := setAside(ctx, file); err != nil {
		return nil, err
	}
	d, err := db.Open(ctx, db.Options{Path: file, Restoring: true})
	if err != nil {
		return nil, fmt.Errorf("open the target: %w", err)
	}
	return &target{db: d, name: "sqlite:" + cfg.Data}, nil
}

// setAside renames a database whose rows were moved away.
func setAside(ctx context.Context, file string) error {
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	d, err := db.Open(ctx, db.Options{Path: file, Restoring: true})
	if err != nil {
		return fmt.Errorf("open the target: %w", err)
	}
	moved, err := move.Moved(d.Read(ctx))
	if err := errors.Join(err, d.Close()); err != nil {
		return err
	}
	if moved == "" {
		return nil // empty, or left by an interrupted move
	}
	aside := filepath.Join(filepath.Dir(file), "steward-moved-"+time.Now().UTC().Format("20060102T150405Z")+".db")
	if err := os.Rename(file, aside); err != nil {
		return fmt.Errorf("keep the old database under another name: %w", err)
	}
	return nil
}

// CheckMoved returns Conflict if a database's rows were moved away. With force the database is used
// again all the same.
func CheckMoved(ctx context.Context, d *db.DB, force bool) error {
	to, err := move.Moved(d.Read(ctx))
	if err != nil {
		return err
	}
	moving, err := move.Moving(d.Read(ctx))
	if err != nil || to == "" && moving == "" {
		return err
	}
	if to != "" && moving != "" && !force {
		return errs.New(errs.Conflict, "the last step of moving the rows of this database to %s is missing: "+
			"run the same `steward migrate` again, or start with --force to go on with this database", to)
	}
	if to != "" && !force {
		return errs.New(errs.Conflict, "the rows of this database were moved to %s: start with that one, or with --force if what happened there is to be lost", to)
	}
	return move.Revive(ctx, d, force) // a move may have ended just before its last step
}
