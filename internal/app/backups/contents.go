package backups

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"steward/internal/app/inventory"
	"steward/internal/backup"
	"steward/internal/db"
	"steward/internal/db/tablecopy"
)

// contents compares a backup's parts with the inventory of its rows.
type contents struct {
	// tables has the columns of a schema's tables.
	tables map[string]tablecopy.Table
	needs  inventory.Inventory
	// Blob ids come in order in the rows and in the parts, so that we can compare their hashes.
	neededBlobs, foundBlobs hash.Hash
	blobs                   int64
	// external hashes the list of the blobs that are kept outside the backup.
	external          hash.Hash
	databases, stores []string
}

func newContents(h backup.Header) *contents {
	return &contents{
		needs: inventory.New(h.Node), tables: map[string]tablecopy.Table{},
		neededBlobs: sha256.New(), foundBlobs: sha256.New(), external: sha256.New(),
	}
}

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
	return c, c.check(r.Summary())
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
	listed := sha256.New()
	if err := r.eachListed(ctx, archiveID, func(info backup.Info) error { return addInfo(listed, info) }); err != nil {
		return nil, err
	}
	if !bytes.Equal(listed.Sum(nil), c.external.Sum(nil)) {
		return nil, fmt.Errorf("%w: the list of the blobs of backup %s is not the one that was written", backup.ErrDamaged, archiveID)
	}
	return c, nil
}

// schemas has the columns of each schema that was read, by its number. Schemas never change.
var schemas sync.Map

// openSchema reads a schema's columns from an empty database.
func (c *contents) openSchema(ctx context.Context, schema int64) (err error) {
	if known, ok := schemas.Load(schema); ok {
		c.tables = maps.Clone(known.(map[string]tablecopy.Table))
		return nil
	}
	dir, err := os.MkdirTemp("", "steward-verify-")
	if err != nil {
		return fmt.Errorf("create a database: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	d, err := db.Open(ctx, db.Options{Path: filepath.Join(dir, "empty.db"), Migrations: db.MigrationsUpTo(schema)})
	if err != nil {
		return err
	}
	if err := errors.Join(c.openTables(d.Read(ctx)), d.Close()); err != nil {
		return err
	}
	schemas.Store(schema, maps.Clone(c.tables))
	return nil
}

// openTables reads the columns of the tables that we copy, as far as a schema has them.
func (c *contents) openTables(q db.Querier) error {
	names, err := db.Tables(q)
	if err != nil {
		return err
	}
	for _, name := range tablecopy.Tables() {
		if !slices.Contains(names, name) {
			continue // the schema is an earlier one
		}
		if c.tables[name], err = tablecopy.Open(q, name); err != nil {
			return err
		}
	}
	return nil
}

// readAll calls part with each part of a backup up to its end, and checks the backup.
func readAll(r *backup.Reader, part func(*backup.Part) error) error {
	for {
		p, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := part(p); err != nil {
			return err
		}
	}
}

// maxLine is the size of the largest row.
const maxLine = 256 << 20

// readRows calls f with each line in a part with rows, and with the table that has the columns named
// in the part's first line.
func (c *contents) readRows(p *backup.Part, f func(table tablecopy.Table, line []byte) error) error {
	lines := bufio.NewScanner(p)
	lines.Buffer(make([]byte, 64<<10), maxLine)
	table, known := c.tables[p.ID]
	if !known {
		return fmt.Errorf("%w: it has rows of the table %s, which its schema does not have", backup.ErrDamaged, p.ID)
	}
	var names []string
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &names) != nil {
		if err := lines.Err(); err != nil {
			return err
		}
		return fmt.Errorf("%w: %s does not begin with its columns", backup.ErrDamaged, p.Name)
	}
	table, err := table.With(names)
	if err != nil {
		return fmt.Errorf("%w: %w", backup.ErrDamaged, err)
	}
	c.tables[p.ID] = table // with the columns in this order
	for lines.Scan() {
		blobID, err := c.needs.Add(table, lines.Bytes())
		if err != nil {
			return fmt.Errorf("%w: %w", backup.ErrDamaged, err)
		}
		if blobID != "" {
			_, _ = io.WriteString(c.neededBlobs, blobID+"\n") // a hash never fails
		}
		if err := f(table, lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// found adds a part other than rows.
func (c *contents) found(section backup.Section, id string) {
	switch section {
	case backup.Databases:
		c.databases = append(c.databases, id)
	case backup.Stores:
		c.stores = append(c.stores, id)
	case backup.Blobs:
		c.blobs++
		_, _ = io.WriteString(c.foundBlobs, id+"\n")
	}
}

// foundBeside adds a blob that is kept outside the backup.
func (c *contents) foundBeside(info backup.Info) error {
	section, blobID, _ := backup.Parse(info.Name)
	c.found(section, blobID)
	return addInfo(c.external, info)
}

// addInfo adds the next blob in a list to the list's hash.
func addInfo(sum hash.Hash, info backup.Info) error {
	_, err := fmt.Fprintln(sum, info.Name, info.Size, info.SHA256)
	return err
}

// check returns an error unless everything is there.
func (c *contents) check(s backup.Summary) error {
	for _, name := range tablecopy.Tables() {
		if _, known := s.Rows[name]; c.needs.Rows[name] != s.Rows[name] && known {
			return fmt.Errorf("%w: %s has %d rows instead of %d", backup.ErrDamaged, name, c.needs.Rows[name], s.Rows[name])
		}
	}
	if !bytes.Equal(c.neededBlobs.Sum(nil), c.foundBlobs.Sum(nil)) {
		return fmt.Errorf("%w: it does not have the bytes of all objects", backup.ErrDamaged)
	}
	slices.Sort(c.needs.Databases)
	if !slices.Equal(c.needs.Databases, c.databases) {
		return fmt.Errorf("%w: it has %d databases instead of %d", backup.ErrDamaged, len(c.databases), len(c.needs.Databases))
	}
	slices.Sort(c.needs.Stores)
	if !slices.Equal(c.needs.Stores, c.stores) {
		return fmt.Errorf("%w: it has %d key-value stores instead of %d", backup.ErrDamaged, len(c.stores), len(c.needs.Stores))
	}
	return nil
}

// maxNumber bounds commit numbers: beyond it, none would be left for the installation.
const maxNumber = 1 << 62

// checkHeader returns an error for a backup from a later version, or with values that no
// installation has.
func checkHeader(h backup.Header) error {
	newest, err := db.NewestSchema()
	if err != nil {
		return err
	}
	if h.Schema < 1 || h.NextNumber < 0 || h.NextNumber > maxNumber {
		return fmt.Errorf("%w: its header has values that cannot be", backup.ErrDamaged)
	}
	if h.Schema > newest {
		return fmt.Errorf("the backup has version %d of the schema, and this program supports versions up to %d: "+
			"it was written by Steward %q, so use that or a newer one", h.Schema, newest, h.Steward)
	}
	return nil
}
