package backups

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"steward/internal/backup"
	"steward/internal/db"
	"steward/internal/db/tablecopy"
)

// resourceRow identifies a database's or key-value store's files, as its row does.
type resourceRow struct{ id, node string }

// needed collects the files that rows refer to.
type needed struct {
	databases, stores []resourceRow
}

// add adds the files that a row refers to. It calls blob with each blob.
func (n *needed) add(table tablecopy.Table, line []byte, blob func(id string) error) error {
	if table.Name != "blobs" && table.Name != "resources" {
		return nil
	}
	row, err := table.Decode(line)
	if err != nil {
		return err
	}
	text := func(column string) string {
		for i, c := range table.Columns {
			if c.Name == column {
				value, _ := row[i].(string)
				return value
			}
		}
		return ""
	}
	if table.Name == "blobs" {
		if isNull(table, row, "garbage_at") {
			return blob(text("id"))
		}
		return nil
	}
	state := text("state")
	if text("node") == "" || state != "active" && state != "rotating" {
		return nil // on another server, or changing
	}
	r := resourceRow{id: text("id"), node: text("node")}
	if text("type") == "db" {
		n.databases = append(n.databases, r)
	} else {
		n.stores = append(n.stores, r)
	}
	return nil
}

// isNull reports whether a column is NULL. A column that the backup lacks will be NULL in the
// database.
func isNull(table tablecopy.Table, row []any, column string) bool {
	i := slices.Index(table.Names(), column)
	return i < 0 || row[i] == nil
}

// contents compares a backup's parts with the files that its rows need.
type contents struct {
	node string
	// tables has the columns of a schema's tables.
	tables map[string]tablecopy.Table
	rows   map[string]int64
	needs  needed
	// Blob ids come in order in the rows and in the parts, so that we can compare their hashes.
	neededBlobs, foundBlobs hash.Hash
	blobs                   int64
	// external has the blobs that are kept outside the backup.
	external          blobSum
	databases, stores []string
}

func newContents(h backup.Header) *contents {
	return &contents{
		node: h.Node, rows: map[string]int64{}, tables: map[string]tablecopy.Table{},
		neededBlobs: sha256.New(), foundBlobs: sha256.New(), external: blobSum{sha256.New()},
	}
}

// blobSum hashes a list of blobs.
type blobSum struct{ hash.Hash }

// add adds the next blob.
func (s blobSum) add(info backup.Info) error {
	_, err := fmt.Fprintln(s, info.Name, info.Size, info.SHA256)
	return err
}

func (c *contents) row(table tablecopy.Table, line []byte) error {
	c.rows[table.Name]++
	return c.needs.add(table, line, func(blobID string) error {
		_, err := io.WriteString(c.neededBlobs, blobID+"\n")
		return err
	})
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
		_, _ = io.WriteString(c.foundBlobs, id+"\n") // a hash never fails
	}
}

// foundBeside adds a blob that is kept outside the backup.
func (c *contents) foundBeside(info backup.Info) error {
	section, blobID, _ := backup.Parse(info.Name)
	c.found(section, blobID)
	return c.external.add(info)
}

// check returns an error unless everything is there.
func (c *contents) check(s backup.Summary) error {
	for _, name := range tablecopy.Tables() {
		if _, known := s.Rows[name]; c.rows[name] != s.Rows[name] && known {
			return fmt.Errorf("%w: %s has %d rows instead of %d", backup.ErrDamaged, name, c.rows[name], s.Rows[name])
		}
	}
	if string(c.neededBlobs.Sum(nil)) != string(c.foundBlobs.Sum(nil)) {
		return fmt.Errorf("%w: it does not have the bytes of all objects", backup.ErrDamaged)
	}
	if err := c.sameFiles("databases", c.needs.databases, c.databases); err != nil {
		return err
	}
	return c.sameFiles("key-value stores", c.needs.stores, c.stores)
}

// sameFiles compares the resources in the rows with the files found.
func (c *contents) sameFiles(what string, rows []resourceRow, found []string) error {
	var want []string
	for _, r := range rows {
		if r.node == c.node {
			want = append(want, r.id)
		}
	}
	slices.Sort(want)
	if !slices.Equal(want, found) {
		return fmt.Errorf("%w: it has %d %s instead of %d", backup.ErrDamaged, len(found), what, len(want))
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
		return lineError(p, lines.Err())
	}
	table, err := table.With(names)
	if err != nil {
		return fmt.Errorf("%w: %w", backup.ErrDamaged, err)
	}
	c.tables[p.ID] = table // with the columns in this order
	for lines.Scan() {
		if err := c.row(table, lines.Bytes()); err != nil {
			return fmt.Errorf("%w: %w", backup.ErrDamaged, err)
		}
		if err := f(table, lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}

func lineError(p *backup.Part, err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: %s does not begin with its columns", backup.ErrDamaged, p.Name)
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

func compareRows(a, b resourceRow) int { return strings.Compare(a.id, b.id) }

// total returns the number of all rows.
func total(rows map[string]int64) (n int64) {
	for _, count := range rows {
		n += count
	}
	return n
}
