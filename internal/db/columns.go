package db

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kind is a column's type. Both databases have the same kinds, but SQLite has integers in place of
// booleans.
type Kind int

// The kinds of columns.
const (
	Integer Kind = iota + 1
	Boolean
	Float
	Text
	Bytes
)

// Column describes a table's column.
type Column struct {
	Name string
	Kind Kind
	// Key is the column's position in the primary key, from 1, or 0.
	Key int
}

// kinds maps both databases' types.
var kinds = map[string]Kind{
	"INTEGER": Integer, "bigint": Integer, "boolean": Boolean, "REAL": Float, "double precision": Float,
	"TEXT": Text, "text": Text, "BLOB": Bytes, "bytea": Bytes,
}

var columnsText = map[Dialect]string{
	SQLite: `SELECT name, type, pk FROM pragma_table_info($1) ORDER BY cid`,
	Postgres: `SELECT a.attname::text, format_type(a.atttypid, a.atttypmod), COALESCE((
			SELECT k.position FROM pg_index i, unnest(i.indkey) WITH ORDINALITY k(number, position)
			WHERE i.indrelid = a.attrelid AND i.indisprimary AND k.number = a.attnum AND k.position <= i.indnkeyatts), 0)
		FROM pg_attribute a WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`,
}

// Columns returns a table's columns, in order.
func Columns(q Querier, table string) ([]Column, error) {
	columns, err := Collect(q, func(r Row) (c Column, err error) {
		var kind string
		var key int64
		if err := r.Scan(&c.Name, &kind, &key); err != nil {
			return c, err
		}
		c.Key = int(key)
		c.Kind = kinds[kind]
		if c.Kind == 0 {
			return c, fmt.Errorf("column %s has the unknown type %s", c.Name, kind)
		}
		return c, nil
	}, columnsText[q.Dialect()], table)
	if err != nil {
		return nil, fmt.Errorf("read the columns of %s: %w", table, err)
	}
	if len(columns) == 0 {
		return nil, fmt.Errorf("there is no table %s", table)
	}
	return columns, nil
}

var tablesText = map[Dialect]string{
	SQLite: `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name`,
	Postgres: `SELECT relname::text FROM pg_class WHERE relnamespace = to_regnamespace(current_schema())
		AND relkind = 'r' ORDER BY relname COLLATE "C"`,
}

// Tables returns the names of all tables except the one that lists the migrations, in order.
func Tables(q Querier) ([]string, error) {
	names, err := Collect(q, Value[string], tablesText[q.Dialect()])
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	var tables []string
	for _, name := range names {
		if name != versions {
			tables = append(tables, name)
		}
	}
	return tables, nil
}

// Schema returns the last applied migration's number.
func Schema(q Querier) (number int64, err error) {
	err = q.Row(`SELECT COALESCE(MAX(version_id), 0) FROM ` + versions + ` WHERE is_applied`).Scan(&number)
	if err != nil {
		return 0, fmt.Errorf("read the version of the schema: %w", err)
	}
	return number, nil
}

// NewestSchema returns the number of this binary's last migration.
func NewestSchema() (int64, error) {
	all, err := listMigrations(migrationFiles())
	if err != nil {
		return 0, err
	}
	return all[len(all)-1].number, nil
}

// MigrationsUpTo returns this binary's migrations up to a number, for Options: we write rows from an
// earlier version into that version's schema, and migrate them with it.
func MigrationsUpTo(number int64) fs.FS { return earlierMigrations{migrationFiles(), number} }

// earlierMigrations lists the migrations up to a number.
type earlierMigrations struct {
	fs.FS
	last int64
}

// ReadDir implements fs.ReadDirFS.
func (e earlierMigrations) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(e.FS, name)
	return slices.DeleteFunc(entries, func(entry fs.DirEntry) bool {
		text, _, _ := strings.Cut(entry.Name(), "_")
		number, err := strconv.ParseInt(text, 10, 64)
		return err == nil && number > e.last
	}), err
}

// ForCopy returns a context for a snapshot of all rows: you may read it for a day, and each
// statement may take 10 minutes.
func ForCopy(ctx context.Context) context.Context {
	l := longLimits
	l.respond = 24 * time.Hour
	l.idle = 10 * time.Minute
	return context.WithValue(ctx, limitsKey{}, l)
}

// Quoted returns column names for a statement. They are quoted because some are SQL keywords.
func Quoted(columns []Column) string {
	var b strings.Builder
	for i, c := range columns {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(`"` + c.Name + `"`)
	}
	return b.String()
}
