package backups

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"steward/internal/backup"
	"steward/internal/db"
	"steward/internal/db/tablecopy"
)

// verify reads a backup to its end, compares it with its manifest and with the files that its rows
// need, and returns its contents. from has the blobs that are kept outside the backup, or is nil.
func verify(ctx context.Context, r *backup.Reader, from *repository) (c *contents, err error) {
	if err := checkHeader(r.Header()); err != nil {
		return nil, err
	}
	c = newContents(r.Header())
	if err := c.openSchema(ctx, r.Header().Schema); err != nil {
		return nil, err
	}
	if from != nil {
		r.External = func(info backup.Info) error {
			if err := c.foundBeside(info); err != nil {
				return err
			}
			return from.fetch(ctx, info, func(io.Reader) error { return nil })
		}
	}
	err = readAll(r, func(p *backup.Part) error {
		if p.Section == backup.Rows {
			return c.readRows(p, func(tablecopy.Table, []byte) error { return nil })
		}
		c.found(p.Section, p.ID)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := c.check(r.Summary()); err != nil {
		return nil, err
	}
	return c, nil
}

// verifyBackup reads a repository's backup to its end, and its list if it has one.
func (r *repository) verifyBackup(ctx context.Context, archiveID string, in *backup.Reader) (*contents, error) {
	c, err := verify(ctx, in, r)
	if err != nil {
		return nil, fmt.Errorf("backup %s: %w", archiveID, err)
	}
	if !r.cipher.ForRecipients() {
		return c, nil
	}
	listed := blobSum{sha256.New()}
	if err := r.eachListed(ctx, archiveID, listed.add); err != nil {
		return nil, err
	}
	if !bytes.Equal(listed.Sum(nil), c.external.Sum(nil)) {
		return nil, fmt.Errorf("%w: the list of the blobs of backup %s is not the one that was written", backup.ErrDamaged, archiveID)
	}
	return c, nil
}

// openSchema reads a schema's columns from an empty database.
func (c *contents) openSchema(ctx context.Context, schema int64) (err error) {
	dir, err := os.MkdirTemp("", "steward-verify-")
	if err != nil {
		return fmt.Errorf("create a database: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d, err := db.Open(ctx, db.Options{Path: filepath.Join(dir, "empty.db"), Migrations: db.MigrationsUpTo(schema)})
	if err != nil {
		return err
	}
	return errors.Join(c.openTables(d.Read(ctx)), d.Close())
}
