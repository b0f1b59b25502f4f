// Package audittest reads the audit log in tests.
package audittest

import (
	"context"
	"testing"

	"steward/internal/db"
)

// Log is the audit log for all organizations in a database.
type Log struct {
	t    testing.TB
	db   *db.DB
	skip int
}

// New returns a database's log, including the entries it already has.
func New(t testing.TB, d *db.DB) *Log { return &Log{t: t, db: d} }

// Skip makes the log begin after its current entries.
func (l *Log) Skip() { l.skip += len(l.Read("action")) }

// Read evaluates an SQL expression, such as "action || ' ' || target", for each entry, oldest first.
func (l *Log) Read(expression string) []string {
	l.t.Helper()
	lines, err := db.Collect(l.db.Read(context.Background()), func(row db.Row) (line string, err error) {
		return line, row.Scan(&line)
	}, `SELECT `+expression+` FROM audit ORDER BY id`)
	if err != nil {
		l.t.Fatal(err)
	}
	return lines[l.skip:]
}
