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

// resourceRow is what a row of a database or a key-value store says about its files.
type resourceRow struct{ id, node string }

// needed is what rows need besides themselves.
type needed struct {
	databases, stores []resourceRow
}

// add adds what a row needs. It calls blob with each blob that is referred to.
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

// isNull reports whether a column is NULL, as it is in the database if the backup does not have it.
func isNull(table tablecopy.Table, row []any, column string) bool {
	i := slices.Index(table.Names(), column)
	return i < 0 || row[i] == nil
}

// contents compares the parts of a backup with what its rows need.
type contents struct {
	node string
	// tables has the columns of the tables, of a schema.
	tables map[string]tablecopy.Table
	rows   map[string]int64
	needs  needed
	// The ids of blobs are in order in the rows and in the parts, so that their hashes can be compared.
	neededBlobs, foundBlobs hash.Hash
	blobs                   int64
	// external has the blobs that are kept beside the backup.
	external          blobSum
	databases, stores []string
}

func newContents(h backup.Header) *contents {
	return &contents{
		node: h.Node, rows: map[string]int64{}, tables: map[string]tablecopy.Table{},
		neededBlobs: sha256.New(), foundBlobs: sha256.New(), external: blobSum{sha256.New()},
	}
}

// blobSum is a hash of a list of blobs.
type blobSum struct{ hash.Hash }

// add adds the next blob.
func (s blobSum) add(info backup.Info) error {
	_, err := fmt.Fprintln(s, info.Name, info.Size, info.SHA256)
	return err
}

// row adds a row.
func (c *contents) row(table tablecopy.Table, line []byte) error {
	c.rows[table.Name]++
	return c.needs.add(table, line, func(blobID string) error {
		_, err := io.WriteString(c.neededBlobs, blobID+"\n")
		return err
	})
}

// found adds a part that is not rows.
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

// foundBeside adds a blob that is kept beside the backup.
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

// sameFiles compares the resources of the rows with the files that were found.
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

// readAll reads the parts of a backup up to its end, and checks it. part is called with each.
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

// readRows calls f with each line of a part with rows, and the table with the columns that its first line
// names.
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

// openTables reads the columns of the tables that are copied, as far as a schema has them.
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

// maxNumber bounds the numbers of commits: beyond it, none would be left for the installation.
const maxNumber = 1 << 62

// checkHeader returns an error for a backup of a later version, or with values that no installation has.
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
