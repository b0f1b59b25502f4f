// Package tablecopy reads all tables' rows from one database and writes them to another, which may
// be of the other kind.
//
// A row is a line of JSON, the same for both databases: an array with a number, a text, {"b":
// base64} for bytes, or null for each column; booleans are 0 and 1. Open reads a table's columns,
// Table.Read calls a function with each line, in primary key order, and Table.Insert decodes lines
// and writes them. A Sum does not depend on the order of its lines, so that you can compare tables
// in two databases.
package tablecopy

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"steward/internal/db"
	"steward/internal/encode"
)

// Tables returns the tables to copy, in that order. A row never needs one from a later table, and
// meta comes first, since it tells whether a master key is the right one.
func Tables() []string {
	return []string{
		"meta", "orgs", "users", "members", "projects", "invitations", "password_resets", "email_changes", "mails", "mail_quotas",
		"api_keys", "audit", "idempotency", "certificates", "master_keys", "master_key_progress",
		"oidc_keys", "oidc_clients", "oidc_client_states", "oidc_consents", "oidc_purges", "oidc_client_days",
		"oidc_client_day_users", "oidc_flushes", "oidc_pushed", "oidc_grants", "oidc_revoked", "oidc_devices", "oidc_sessions",
		"oidc_proofs", "oidc_logouts", "oidc_passkeys", "oidc_challenges", "oidc_authenticators", "oidc_recovery_codes",
		"oidc_upstreams", "oidc_identities", "oidc_registration_tokens",
		"threads", "thread_index_created", "thread_index_updated", "thread_term_counts", "thread_counts", "thread_purges", "sessions",
		"evals", "eval_runs", "eval_counts", "eval_relabels", "eval_purges",
		"webhooks", "webhook_destinations", "webhook_leases", "webhook_receipts", "webhook_deliveries", "webhook_queue",
		"webhook_log", "webhook_replays", "webhook_counts", "webhook_counts_each", "webhook_totals", "webhook_tombstones",
		"webhook_recoveries", "webhook_rejected", "webhook_filtered", "webhook_dedupe",
		"buckets", "bucket_states", "bucket_totals", "object_usage", "objects", "object_blocks", "object_uploads", "object_parts",
		"object_completions", "bucket_purges", "blobs",
		"resources", "alerts", "alert_notices",
	}
}

// Excluded returns the tables that we do not copy, each with the reason.
func Excluded() map[string]string {
	return map[string]string{
		"backup_schedule": "tells of the backups of one installation; the first one of another is made soon",
		"epochs":          "counts changes for the caches of running processes",
		"processes":       "lists running processes",
		"nodes":           "lists the addresses of running processes",
		"leases":          "is held by running processes; jobs run soon after a start",
		"oldest_schema":   "is written by migrations",
		"commit_numbers":  "depends on the database; see db.NextNumber and Tx.ContinueAfter",
	}
}

// page caps the rows that a statement reads.
const page = 2000

// Table is a database table. Its lines have these Columns, in this order.
type Table struct {
	Name    string
	Columns []db.Column
}

// Open returns a table with its columns.
func Open(q db.Querier, name string) (Table, error) {
	columns, err := db.Columns(q, name)
	return Table{Name: name, Columns: columns}, err
}

// Names returns the column names.
func (t Table) Names() []string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	return names
}

// Value returns a row's value in a column, or nil if there is no such column.
func (t Table) Value(row []any, column string) any {
	for i, c := range t.Columns {
		if c.Name == column {
			return row[i]
		}
	}
	return nil
}

// With returns the table with only the named columns, in that order.
func (t Table) With(names []string) (Table, error) {
	some := Table{Name: t.Name}
	for _, name := range names {
		i := slices.IndexFunc(t.Columns, func(c db.Column) bool { return c.Name == name })
		if i < 0 {
			return some, fmt.Errorf("table %s has no column %q", t.Name, name)
		}
		some.Columns = append(some.Columns, t.Columns[i])
	}
	return some, nil
}

// Read calls f with each row's line, in primary key order. A line is valid until f returns; f must
// not use q. If q is a snapshot, all rows are from one moment.
func (t Table) Read(q db.Querier, f func(line []byte) error) error {
	if len(t.key()) == 0 {
		return fmt.Errorf("table %s has no primary key", t.Name)
	}
	var line []byte
	var after []any
	for n := page; n == page; {
		n = 0
		var last Row
		err := t.each(q, t.pageText(after, page), after, func(row Row) (err error) {
			n++
			last = row
			if line, err = appendLine(line[:0], row); err != nil {
				return err
			}
			return f(line)
		})
		if err != nil {
			return fmt.Errorf("read %s: %w", t.Name, err)
		}
		if n > 0 {
			after = t.KeyOf(last)
		}
	}
	return nil
}

// key returns the positions of the primary key's columns.
func (t Table) key() []int {
	var key []int
	for i, c := range t.Columns {
		if c.Key > 0 {
			key = append(key, i)
		}
	}
	slices.SortFunc(key, func(a, b int) int { return t.Columns[a].Key - t.Columns[b].Key })
	return key
}

// pageText selects at most limit rows after the one with a key, in primary key order. A nil key is
// before all rows.
func (t Table) pageText(after []any, limit int) string {
	key := db.Quoted(t.KeyColumns())
	where := ""
	if len(after) > 0 {
		where = " WHERE (" + key + ") > (" + placeholders(len(after)) + ")"
	}
	return "SELECT " + db.Quoted(t.Columns) + " FROM " + t.Name + where + " ORDER BY " + key + " LIMIT " + strconv.Itoa(limit)
}

// each calls f with the rows of a statement that selects all columns. A row is valid until f returns.
func (t Table) each(q db.Querier, text string, args []any, f func(Row) error) error {
	rows, err := q.Query(text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	row := make(Row, len(t.Columns))
	into := make([]any, len(row))
	for i := range row {
		into[i] = &row[i]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		if err := f(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// appendLine appends a row as a line, without a newline.
func appendLine(line []byte, row []any) ([]byte, error) {
	line = append(line, '[')
	for i, value := range row {
		if i > 0 {
			line = append(line, ',')
		}
		switch v := value.(type) {
		case nil:
			line = append(line, "null"...)
		case int64:
			line = strconv.AppendInt(line, v, 10)
		case bool:
			line = append(line, '0'+boolDigit(v))
		case float64:
			line = strconv.AppendFloat(line, v, 'g', -1, 64)
		case string:
			line = encode.String(line, v)
		case []byte:
			line = append(line, `{"b":"`...)
			line = base64.StdEncoding.AppendEncode(line, v)
			line = append(line, `"}`...)
		default:
			return nil, fmt.Errorf("a column has the unexpected type %T", value)
		}
	}
	return append(line, ']'), nil
}

func boolDigit(v bool) byte {
	if v {
		return 1
	}
	return 0
}

// Decode returns a line's values, in their columns' kinds.
func (t Table) Decode(line []byte) ([]any, error) {
	var cells []json.RawMessage
	if err := json.Unmarshal(line, &cells); err != nil {
		return nil, fmt.Errorf("decode a row of %s: %w", t.Name, err)
	}
	if len(cells) != len(t.Columns) {
		return nil, fmt.Errorf("a row of %s has %d values for %d columns", t.Name, len(cells), len(t.Columns))
	}
	row := make([]any, len(cells))
	for i, cell := range cells {
		value, err := decodeCell(t.Columns[i].Kind, cell)
		if err != nil {
			return nil, fmt.Errorf("decode %s of a row of %s: %w", t.Columns[i].Name, t.Name, err)
		}
		row[i] = value
	}
	return row, nil
}

// errKind is returned for a value that its column cannot hold.
var errKind = errors.New("the value has another type than the column")

func decodeCell(kind db.Kind, cell json.RawMessage) (any, error) {
	if string(cell) == "null" {
		return nil, nil
	}
	switch kind {
	case db.Integer:
		return decodeInto[int64](cell)
	case db.Boolean:
		n, err := decodeInto[int64](cell)
		if err == nil && n != 0 && n != 1 {
			return nil, errKind
		}
		return n == 1, err
	case db.Float:
		return decodeInto[float64](cell)
	case db.Text:
		return decodeInto[string](cell)
	case db.Bytes:
		v, err := decodeInto[struct {
			B []byte `json:"b"`
		}](cell)
		if err == nil && v.B == nil {
			return nil, errKind
		}
		return v.B, err
	}
	return nil, errKind
}

func decodeInto[T any](cell json.RawMessage) (value T, err error) {
	if err := json.Unmarshal(cell, &value); err != nil {
		return value, errKind
	}
	return value, nil
}

// Insert inserts rows that Decode has returned.
func (t Table) Insert(tx *db.Tx, rows [][]any) error {
	insert := t.insertEach
	if tx.Dialect() == db.Postgres {
		insert = t.insertArrays
	}
	if err := insert(tx, rows); err != nil {
		return fmt.Errorf("insert into %s: %w", t.Name, err)
	}
	return nil
}

// insertEach inserts rows one by one.
func (t Table) insertEach(tx *db.Tx, rows [][]any) error {
	text := "INSERT INTO " + t.Name + " (" + db.Quoted(t.Columns) + ") VALUES (" + placeholders(len(t.Columns)) + ")"
	for _, row := range rows {
		if _, err := tx.Exec(text, row...); err != nil {
			return err
		}
	}
	return nil
}

// arrayTypes maps kinds to PostgreSQL's array types.
var arrayTypes = map[db.Kind]string{db.Integer: "bigint[]", db.Boolean: "boolean[]", db.Float: "float8[]", db.Text: "text[]", db.Bytes: "bytea[]"}

// insertArrays inserts rows in one statement, with an array for each column.
func (t Table) insertArrays(tx *db.Tx, rows [][]any) error {
	params := make([]string, len(t.Columns))
	arrays := make([]any, len(t.Columns))
	for i, c := range t.Columns {
		params[i] = "$" + strconv.Itoa(i+1) + "::" + arrayTypes[c.Kind]
		arrays[i] = arrayOf(c.Kind, rows, i)
	}
	_, err := tx.Exec("INSERT INTO "+t.Name+" ("+db.Quoted(t.Columns)+") SELECT * FROM unnest("+strings.Join(params, ", ")+")", arrays...)
	return err
}

// columnOf returns one column from all rows, with nil for NULL.
func columnOf[T any](rows [][]any, i int) []*T {
	column := make([]*T, len(rows))
	for n, row := range rows {
		if v, ok := row[i].(T); ok {
			column[n] = &v
		}
	}
	return column
}

func bytesOf(rows [][]any, i int) [][]byte {
	column := make([][]byte, len(rows))
	for n, row := range rows {
		if v, ok := row[i].([]byte); ok {
			column[n] = v
		}
	}
	return column
}

// Sum is a checksum of lines in any order.
type Sum struct {
	Rows      int64
	High, Low uint64
}

// Add adds a line.
func (s *Sum) Add(line []byte) {
	hash := sha256.Sum256(line)
	s.Rows++
	s.High += binary.BigEndian.Uint64(hash[:8])
	s.Low += binary.BigEndian.Uint64(hash[8:16])
}

// AddTo adds rows that Decode has returned to a sum.
func (t Table) AddTo(s *Sum, rows [][]any) error {
	var line []byte
	for _, row := range rows {
		var err error
		if line, err = appendLine(line[:0], row); err != nil {
			return fmt.Errorf("encode a row of %s: %w", t.Name, err)
		}
		s.Add(line)
	}
	return nil
}

// SumOf returns the checksum of a whole table.
func (t Table) SumOf(q db.Querier) (s Sum, err error) {
	err = t.Read(q, func(line []byte) error {
		s.Add(line)
		return nil
	})
	return s, err
}
