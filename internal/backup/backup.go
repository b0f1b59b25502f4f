// Package backup defines the backup format: how parts make up one stream, and how a reader checks them.
// Schedule says when a backup is due.
//
// A backup is a tar in zstd, and age encrypts it if the operator asks for it. It begins with header.json and
// ends with manifest.json. Between them are parts in this order: the master key, if the backup includes it;
// table rows; databases; key-value stores; blobs. After every few thousand parts, an index lists their
// sizes and hashes, and the manifest lists the hashes of all indexes. Both sides therefore hold only one
// index in memory, however many parts there are.
//
// Reader returns io.EOF only after it has compared everything it returned with the manifest. It refuses
// entries that are not regular files, names that are unknown, out of order or repeated, and anything after
// the end.
//
// Cipher encrypts a repository's objects one by one. With recipients, it encrypts each object for them
// directly, so a server can add backups without holding anything that decrypts them. A passphrase is slow
// on purpose, so it encrypts only a generated identity, which we keep in the repository's key file; the
// objects are then encrypted for this identity.
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
	// Version is the format version that we write, and the highest that we read.
	Version = 1

	headerName   = "header.json"
	manifestName = "manifest.json"
	// An index lists up to indexed parts.
	indexed = 4096
	// maxIndex caps an index or the header, in bytes. Each part takes less than 300.
	maxIndex = 2 << 20
	// maxManifest caps the manifest, in bytes. It suffices for 200 million parts.
	maxManifest = 16 << 20
	// maxTables caps the tables in a backup.
	maxTables = 1000
)

// Header begins a backup.
type Header struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Steward is the program's version.
	Steward string `json:"steward"`
	// Schema is the last migration's number.
	Schema    int64     `json:"schema"`
	CreatedAt time.Time `json:"created_at"`
	// Engine is the database that the rows come from: sqlite or postgres.
	Engine string `json:"engine"`
	// KeyID identifies the master key without revealing it.
	KeyID string `json:"key_id"`
	// Node is the data directory's id, as the rows of embedded databases and stores refer to it.
	Node string `json:"node"`
	// BaseURL is the API's public URL, which tokens and passkeys are bound to, or "" if it was unknown.
	BaseURL string `json:"base_url,omitempty"`
	// NextNumber is higher than every commit's number.
	NextNumber int64 `json:"next_number"`
}

// Summary describes the whole backup in its manifest.
type Summary struct {
	// Rows counts the rows in each table.
	Rows map[string]int64 `json:"rows"`
	// Warnings say what is missing from the backup.
	Warnings []string `json:"warnings,omitempty"`
}

// Info is a part in an index.
type Info struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// External reports whether the bytes are kept outside this stream and not in it.
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

// Errors that a Reader returns.
var (
	// ErrDamaged means that the backup was changed after it was written.
	ErrDamaged = errors.New("the backup is damaged")
	// ErrIncomplete means that the backup ends too early.
	ErrIncomplete = errors.New("the backup is incomplete")
)

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// Section is a kind of part.
type Section int

// Sections, in the order in which they appear.
const (
	Key Section = iota + 1
	Rows
	Databases
	Stores
	Blobs
)

// sections maps sections to their parts' names. The first group matches the id or the table.
var sections = map[Section]*regexp.Regexp{
	Key:       regexp.MustCompile(`^(key)$`),
	Rows:      regexp.MustCompile(`^rows/([a-z][a-z0-9_]{0,62})/([0-9]{8})$`),
	Databases: regexp.MustCompile(`^db/([a-z0-9_]{1,64})/data\.db$`),
	Stores:    regexp.MustCompile(`^kv/([a-z0-9_]{1,64})/store\.log$`),
	Blobs:     regexp.MustCompile(`^blobs/([a-z0-9]{1,64})$`),
}

// Parse returns a part's section, and the id or the table in its name.
func Parse(name string) (section Section, id string, ok bool) {
	for section, pattern := range sections {
		if match := pattern.FindStringSubmatch(name); match != nil {
			return section, match[1], true
		}
	}
	return 0, "", false
}

// KeyName names the part with the master key.
const KeyName = "key"

// RowsName names a part with a table's rows. Numbers begin at 0.
func RowsName(table string, n int) string { return fmt.Sprintf("rows/%s/%08d", table, n) }

// DatabaseName names the part with an embedded database.
func DatabaseName(id string) string { return "db/" + id + "/data.db" }

// StoreName names the part with a key-value store's log.
func StoreName(id string) string { return "kv/" + id + "/store.log" }

// BlobName names the part with a blob.
func BlobName(id string) string { return "blobs/" + id }

// order checks that part names are in order, so that none occurs twice. Names ascend within a section,
// except for rows: tables come in any order, and a table's parts are numbered.
type order struct {
	section Section
	last    string
	table   string
	next    int
	tables  map[string]bool
}

// follows returns an error unless a name may come next.
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

// continues reports whether a part has a table's next rows, or a new table's first ones.
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

// day is a day in UTC, which has no daylight saving time.
const day = 24 * time.Hour

// Schedule says when to make backups: Every interval, or daily At a time after midnight UTC if Every is 0.
type Schedule struct {
	Every time.Duration
	At    time.Duration
}

// First returns when the first backup is due if the schedule was set at the given time.
func (s Schedule) First(set time.Time) time.Time {
	if s.Every > 0 {
		return set
	}
	return s.Next(set)
}

// Next returns when the next backup is due after one that began at the given time.
func (s Schedule) Next(began time.Time) time.Time {
	if s.Every > 0 {
		return began.Add(s.Every)
	}
	next := began.UTC().Truncate(day).Add(s.At)
	if !next.After(began) {
		next = next.Add(day)
	}
	return next
}

const (
	firstRetry = time.Minute
	maxRetry   = time.Hour
)

// Retry returns the time for another try after a number of failures in a row, the last of which ended at
// failed. The pause doubles up to an hour, but never goes past the next scheduled backup.
func (s Schedule) Retry(failed time.Time, failures int) time.Time {
	pause := maxRetry
	if failures < 7 {
		pause = min(firstRetry<<max(failures-1, 0), maxRetry)
	}
	retry := failed.Add(pause)
	if next := s.Next(failed); next.Before(retry) {
		return next
	}
	return retry
}
