package db

import (
	"embed"
	"io/fs"
	"regexp"
	"strings"
)

// The first version has one file per slice; after it, we only add files. They are written once, in
// PostgreSQL's words, and WITHOUT ROWID, which makes SQLite store a table by its primary key.
//
//go:embed migrations/*.sql
var embedded embed.FS

// migrationFiles returns this binary's migrations, for translate.
func migrationFiles() fs.FS {
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return files
}

// sqliteWords maps the words that SQLite spells differently. SQLite compares text byte by byte
// unless you name a collation.
var sqliteWords = strings.NewReplacer(
	"BIGINT", "INTEGER",
	"BOOLEAN", "INTEGER",
	"BYTEA", "BLOB",
	"DOUBLE PRECISION", "REAL",
	` COLLATE "C"`, "",
	"\n);", "\n) STRICT;",
	"\n) WITHOUT ROWID;", "\n) STRICT, WITHOUT ROWID;",
)

// postgresWords drops words that PostgreSQL does not have.
var postgresWords = strings.NewReplacer(") WITHOUT ROWID;", ");")

// A line that ends in an engine's name is for that engine alone.
var (
	onlySQLite   = regexp.MustCompile(`(?m)^.* -- sqlite\n`)
	onlyPostgres = regexp.MustCompile(`(?m)^.* -- postgres\n`)
)

// included matches the columns that a PostgreSQL index holds in addition to its key. SQLite has no
// such columns.
var included = regexp.MustCompile(` INCLUDE \([^)]*\)`)

// translate returns a migration's text as the engine understands it.
func translate(dialect Dialect, text string) string {
	if dialect == Postgres {
		return postgresWords.Replace(onlySQLite.ReplaceAllString(text, ""))
	}
	return sqliteWords.Replace(included.ReplaceAllString(onlyPostgres.ReplaceAllString(text, ""), ""))
}
