package blobs

import (
	"context"
	"fmt"
	"sync"

	"github.com/dustin/go-humanize"

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

// maxFailures ends a copy after this many failures: the store is most likely down.
const maxFailures = 100

// request tells which way to copy the blobs.
type request struct {
	Config config.Config // with the S3 store
	ToDisk bool          // from S3 to files, and not the other way round
}

// copyBlobs copies all objects' bytes from the files in the data directory to the configured S3 store, or
// back. It reports on standard error, and prints a summary.
func copyBlobs(ctx context.Context, p session.Program, r request) error {
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
	c := &copier{
		Copier: blob.Copier{From: from, To: to, Needed: blobs.Referred}, total: total,
		shown: session.NewProgress(p, "copying", total, ""), counts: map[blob.Copied]int64{},
	}
	err = blobs.References(ctx, func(refs []object.Reference) error { return blob.Each(ctx, refs, c.copy) })
	if failed := c.counts[blob.CopyFailed]; err == nil && failed > 0 {
		err = fmt.Errorf("%d blobs could not be copied; run the command again to retry", failed)
	}
	c.shown.End()
	if _, err := fmt.Fprintln(p.Out, c.summary()); err != nil {
		return err
	}
	return exit.IfInterrupted(ctx, err, "the copy was interrupted; run the command again to continue")
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

// copier copies blobs and counts the outcomes.
type copier struct {
	blob.Copier
	shown *session.Progress
	total int64

	mu          sync.Mutex
	counts      map[blob.Copied]int64
	bytes, done int64 // bytes were copied, and done are dealt with
}

var errTooManyFailures = fmt.Errorf("more than %d blobs could not be copied", maxFailures)

// copy copies a blob. It returns an error if all others should stop.
func (c *copier) copy(ctx context.Context, r object.Reference) error {
	copied, err := c.Copy(ctx, r.ID, r.Size)
	if err != nil && ctx.Err() != nil {
		return ctx.Err() // interrupted, which says nothing about the blob
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[copied]++
	c.done += r.Size
	if copied == blob.CopyDone {
		c.bytes += r.Size
	}
	if err != nil {
		c.shown.Note("steward: blob %s: %v", r.ID, err)
	}
	c.shown.Set("copying", c.done, c.total)
	if c.counts[blob.CopyFailed] > maxFailures {
		return errTooManyFailures
	}
	return nil
}

func (c *copier) summary() string {
	text := fmt.Sprintf("%d blobs were copied (%s), %d were there already, %d failed.", c.counts[blob.CopyDone],
		humanize.Bytes(uint64(c.bytes)), c.counts[blob.CopySkipped], c.counts[blob.CopyFailed])
	if gone := c.counts[blob.CopyGone]; gone > 0 {
		text += fmt.Sprintf(" %d were deleted meanwhile.", gone)
	}
	return text
}
