// Package backup has the format of backups: how parts are put together into one stream, and how they are
// read and checked; and Schedule, which says when one is due.
//
// A backup is a tar in zstd, encrypted with age if the operator wants that. It begins with header.json and
// ends with manifest.json. Between them are parts, in this order: the master key, if it is in the backup;
// rows of tables; databases; key-value stores; blobs. After each few thousand parts an index lists their
// sizes and hashes, and the manifest has the hashes of all indexes. So neither side holds more than one
// index in memory, whatever the number of parts.
//
// Reader returns io.EOF only after all that it has returned was compared with the manifest. It refuses
// entries that are not regular files, other names than those of parts, names that are out of order or occur
// twice, and anything after the end.
//
// Cipher encrypts the objects of a repository one by one. They are encrypted for the recipients themselves, so
// that a server adds backups with nothing that decrypts them; a passphrase, which is slow on purpose, encrypts
// one generated identity in the repository's key file, and that identity is the recipient of the objects.
package backup

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

const (
	format = "steward-backup"
	// Version is the version of the format that is written, and the highest that is read.
	Version = 1

	headerName   = "header.json"
	manifestName = "manifest.json"
	// indexed is the number of parts of an index.
	indexed = 4096
	// maxIndex is the size of the largest index, or header. A part has less than 300 bytes in it.
	maxIndex = 2 << 20
	// maxManifest is the size of the largest manifest: that of 200 million parts.
	maxManifest = 16 << 20
	// maxTables is the number of tables that a backup may have.
	maxTables = 1000
)

// Header begins a backup.
type Header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Steward is the version of the program.
	Steward string `json:"steward"`
	// Schema is the number of the last migration.
	Schema    int64     `json:"schema"`
	CreatedAt time.Time `json:"created_at"`
	// Engine is the database that the rows are from: sqlite or postgres.
	Engine string `json:"engine"`
	// KeyID identifies the master key without revealing it.
	KeyID string `json:"key_id"`
	// Node is the id of the data directory, which the rows of embedded databases and stores have.
	Node string `json:"node"`
	// BaseURL is the public URL of the API, which tokens and passkeys are bound to; "" if it was not known.
	BaseURL string `json:"base_url,omitempty"`
	// NextNumber is a number above those of all commits.
	NextNumber int64 `json:"next_number"`
}

// Summary is what a manifest says about the whole.
type Summary struct {
	// Rows is the number of rows of each table.
	Rows map[string]int64 `json:"rows"`
	// Warnings say what is not in the backup.
	Warnings []string `json:"warnings,omitempty"`
}

// Info is a part in an index.
type Info struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// External is whether the bytes are not in this stream, but beside it.
	External bool `json:"external,omitempty"`
}

// manifest ends a backup.
type manifest struct {
	Summary
	Header  Info   `json:"header"`
	Indexes []Info `json:"indexes"`
	Parts   int64  `json:"parts"`
	Bytes   int64  `json:"bytes"`
}

// The errors of a Reader.
var (
	// ErrDamaged is returned for a backup that was changed after it was written.
	ErrDamaged = errors.New("the backup is damaged")
	// ErrIncomplete is returned for a backup that ends too early.
	ErrIncomplete = errors.New("the backup is incomplete")
)

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// Section is a kind of parts.
type Section int

// The sections, in their order.
const (
	Key Section = iota + 1
	Rows
	Databases
	Stores
	Blobs
)

// sections have the names of their parts, of which the first group is the id or the table.
var sections = map[Section]*regexp.Regexp{
	Key:       regexp.MustCompile(`^(key)$`),
	Rows:      regexp.MustCompile(`^rows/([a-z][a-z0-9_]{0,62})/([0-9]{8})$`),
	Databases: regexp.MustCompile(`^db/([a-z0-9_]{1,64})/data\.db$`),
	Stores:    regexp.MustCompile(`^kv/([a-z0-9_]{1,64})/store\.(log|db)$`),
	Blobs:     regexp.MustCompile(`^blobs/([a-z0-9]{1,64})$`),
}

// Parse returns the section of a part and the id or the table that its name has.
func Parse(name string) (section Section, id string, ok bool) {
	for section, pattern := range sections {
		if match := pattern.FindStringSubmatch(name); match != nil {
			return section, match[1], true
		}
	}
	return 0, "", false
}

// KeyName is the name of the part with the master key.
const KeyName = "key"

// RowsName returns the name of a part with rows of a table, from 0.
func RowsName(table string, n int) string { return fmt.Sprintf("rows/%s/%08d", table, n) }

// DatabaseName returns the name of the part with an embedded database.
func DatabaseName(id string) string { return "db/" + id + "/data.db" }

// StoreName returns the name of the part with a file of a key-value store: store.log or store.db.
func StoreName(id, file string) string { return "kv/" + id + "/" + file }

// BlobName returns the name of the part with a blob.
func BlobName(id string) string { return "blobs/" + id }

// order checks that the names of parts are in order, so that none occurs twice. Those of a section ascend;
// the tables of rows have an order of their own, and the parts of a table are numbered.
type order struct {
	section Section
	last    string
	table   string
	next    int
	tables  map[string]bool
}

// follows returns an error unless a name follows those before.
func (o *order) follows(name string) error {
	section, id, ok := Parse(name)
	if !ok {
		return damaged("%q is no name of a part", name)
	}
	ascending := section > o.section || section == o.section && name > o.last
	if section == Rows {
		ascending = section >= o.section && o.continues(id, name)
	}
	if !ascending {
		return damaged("the part %s is out of order or there twice", name)
	}
	o.section = section
	o.last = name
	return nil
}

// continues reports whether a part has the next rows of a table, or the first ones of another.
func (o *order) continues(table, name string) bool {
	number, err := strconv.Atoi(name[len(name)-8:])
	if err != nil {
		return false
	}
	if table != o.table {
		if o.tables[table] || len(o.tables) == maxTables {
			return false
		}
		if o.tables == nil {
			o.tables = map[string]bool{}
		}
		o.tables[table] = true
		o.table = table
		o.next = 0
	}
	o.next++
	return number == o.next-1
}
