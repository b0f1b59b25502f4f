package db

import (
	"embed"
	"io/fs"
	"regexp"
	"strings"
)

// There is one file per slice at first; since then, files are only added. They are written once, in
// the words of PostgreSQL, and WITHOUT ROWID, which stores a table of SQLite by its primary key.
//
//go:embed migrations/*.sql
var embedded embed.FS

// migrationFiles returns the migrations of this binary, for translate.
func migrationFiles() fs.FS {
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return files
}

// sqliteWords maps what SQLite has other words for. Its text is compared byte by byte unless a
// collation is named.
var sqliteWords = strings.NewReplacer(
	"BIGINT", "INTEGER",
	"BOOLEAN", "INTEGER",
	"BYTEA", "BLOB",
	"DOUBLE PRECISION", "REAL",
	` COLLATE "C"`, "",
	"\n);", "\n) STRICT;",
	"\n) WITHOUT ROWID;", "\n) STRICT, WITHOUT ROWID;",
)

// postgresWords maps what PostgreSQL does not have.
var postgresWords = strings.NewReplacer(") WITHOUT ROWID;", ");")

// A line that ends in the name of an engine is for that engine alone.
var (
	onlySQLite   = regexp.MustCompile(`(?m)^.* -- sqlite\n`)
	onlyPostgres = regexp.MustCompile(`(?m)^.* -- postgres\n`)
)

// included matches the columns that an index of PostgreSQL holds beside its key. SQLite has no such
// columns.
var included = regexp.MustCompile(` INCLUDE \([^)]*\)`)

// translate returns the text of a migration as the engine understands it.
func translate(dialect Dialect, text string) string {
	if dialect == Postgres {
		return postgresWords.Replace(onlySQLite.ReplaceAllString(text, ""))
	}
	return sqliteWords.Replace(included.ReplaceAllString(onlyPostgres.ReplaceAllString(text, ""), ""))
}
