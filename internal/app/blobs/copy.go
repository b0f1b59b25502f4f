package blobs

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"

	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/app/operator"
	"steward/internal/blob"
	"steward/internal/cli/exit"
	"steward/internal/cli/session"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/object"
)

const (
	// CopiesAtOnce caps the blobs that we copy at the same time. Each takes up to 16 MiB.
	CopiesAtOnce = 8
	// maxFailures ends a copy after this many failures: the store is most likely down.
	maxFailures = 100
)

// Request tells which way to copy the blobs.
type Request struct {
	Config config.Config // with the S3 store
	ToDisk bool          // from S3 to files, and not the other way round
}

// Copy copies all objects' bytes from the files in the data directory to the configured S3 store, or
// back. It reports on standard error, and prints a summary.
func Copy(ctx context.Context, p session.Program, r Request) error {
	ctx = db.Long(ctx)
	blobs, closeAll, err := openReferences(ctx, r.Config, p.Version)
	if err != nil {
		return err
	}
	defer closeAll()
	from, err := openFiles(r.Config)
	if err != nil {
		return err
	}
	to, err := Open(ctx, r.Config)
	if err != nil {
		return err
	}
	if r.ToDisk {
		from, to = to, from
	}
	total, err := blobs.ReferredBytes(ctx)
	if err != nil {
		return err
	}
	c := &copying{
		blobs: blobs, copier: blob.Copier{From: from, To: to, Needed: blobs.Referred}, stderr: p.Err,
		progress: newProgress(p.Err, total),
	}
	err = c.run(ctx)
	c.progress.finish()
	if _, printErr := fmt.Fprintln(p.Out, c.summary()); printErr != nil && err == nil {
		return printErr
	}
	return err
}

// openReferences opens the database, to read nothing but the references to blobs. A server may be
// using it. It returns NotFound if there is no installation.
func openReferences(ctx context.Context, cfg config.Config, version string) (blobs *object.Blobs, closeAll func(), err error) {
	release := func() {}
	if cfg.DatabaseURL == "" {
		release, err = operator.LockInstallation(cfg.Data)
		if errs.KindOf(err) == errs.Conflict {
			release = func() {}
			err = checkVersion(cfg.Data, version)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	d, err := db.Open(ctx, cfg.Database())
	if err != nil {
		release()
		return nil, nil, err
	}
	return &object.Blobs{DB: d}, func() {
		_ = d.Close() // we wrote nothing
		release()
	}, nil
}

// checkVersion returns an error unless the data directory's server has this program's version:
// another one might change the running server's tables.
func checkVersion(dir, version string) error {
	a, err := datadir.ReadAddresses(dir)
	if err != nil {
		return err
	}
	if a.Version != version {
		return errs.New(errs.Conflict, "the server that is running has version %s and this program has %s; stop the server, or use its program",
			a.Version, version)
	}
	return nil
}

// copying is a run of Copy.
type copying struct {
	blobs    *object.Blobs
	copier   blob.Copier
	stderr   io.Writer
	progress *progress

	mu     sync.Mutex
	counts map[blob.Copied]int64
	bytes  int64 // copied
}

var errTooManyFailures = fmt.Errorf("more than %d blobs could not be copied", maxFailures)

// run copies all blobs. It returns an error unless all are there.
func (c *copying) run(ctx context.Context) error {
	c.counts = map[blob.Copied]int64{}
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(CopiesAtOnce)
	listing := c.blobs.References(running, func(refs []object.Reference) error {
		for _, r := range refs {
			if err := running.Err(); err != nil {
				return err
			}
			group.Go(func() error { return c.copy(running, r) })
		}
		return nil
	})
	err := group.Wait()
	switch {
	case ctx.Err() != nil:
		return &exit.Error{Code: exit.Interrupted, Message: "the copy was interrupted; run the command again to continue"}
	case err != nil:
		return err
	case listing != nil:
		return listing
	case c.counts[blob.CopyFailed] > 0:
		return fmt.Errorf("%d blobs could not be copied; run the command again to retry", c.counts[blob.CopyFailed])
	}
	return nil
}

// copy copies a blob and counts the outcome. It returns an error if all others should stop.
func (c *copying) copy(ctx context.Context, r object.Reference) error {
	copied, err := c.copier.Copy(ctx, r.ID, r.Size)
	if err != nil && ctx.Err() != nil {
		return ctx.Err() // interrupted, which says nothing about the blob
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[copied]++
	if copied == blob.CopyDone {
		c.bytes += r.Size
	}
	if err != nil {
		c.progress.clear()
		_, _ = fmt.Fprintf(c.stderr, "steward: blob %s: %v\n", r.ID, err) // for people
	}
	c.progress.add(r.Size)
	if c.counts[blob.CopyFailed] > maxFailures {
		return errTooManyFailures
	}
	return nil
}

func (c *copying) summary() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := fmt.Sprintf("%d blobs were copied (%s), %d were there already, %d failed.", c.counts[blob.CopyDone],
		humanize.Bytes(uint64(c.bytes)), c.counts[blob.CopySkipped], c.counts[blob.CopyFailed])
	if gone := c.counts[blob.CopyGone]; gone > 0 {
		text += fmt.Sprintf(" %d were deleted meanwhile.", gone)
	}
	return text
}
