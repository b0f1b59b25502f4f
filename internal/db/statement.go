package db

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// A statement that takes a lease or claims a row must not leave it locked when its process freezes
// midway: with Exec and SendCount nothing is locked before COMMIT has been sent too, and with
// SkipLocked we do not wait for a row that somebody else has locked nevertheless.

// SkipLocked returns the clause that ends a SELECT whose rows you want to change: it leaves out rows
// that another transaction has locked, and locks the others. SQLite has one writer, so nobody else
// holds locks there.
func SkipLocked(d Dialect) string {
	if d == Postgres {
		return " FOR UPDATE SKIP LOCKED"
	}
	return ""
}

// Exec runs one statement in its own transaction and returns the number of affected rows. On
// PostgreSQL it takes one round trip: COMMIT is sent with the statement. Errors are Write's.
func (d *DB) Exec(ctx context.Context, sql string, args ...any) (affected int64, err error) {
	err = d.Write(ctx, func(tx *Tx) error { return tx.SendCount(&affected, sql, args...) })
	return affected, err
}

// SendCount runs a statement as Send does. The count of affected rows is valid once Write has
// returned nil.
func (t *Tx) SendCount(affected *int64, sql string, args ...any) error {
	*affected = 0
	return t.sendFor(&Result{count: affected}, sql, args)
}

// SendInto runs a statement with RETURNING over all rows, as Send does. The returned rows are valid
// once Write has returned nil.
func (b Bulk[T]) SendInto(tx *Tx, into *Result, text string) error {
	return b.each(tx, text, func(text string, args []any) error { return tx.sendFor(into, text, args) })
}

// Into collects rows into a slice, which it empties first.
func Into[T any](all *[]T, scan func(Row) (T, error)) *Result {
	*all = nil
	return &Result{row: func(row Row) error {
		one, err := scan(row)
		*all = append(*all, one)
		return err
	}}
}

// Result receives a sent statement's result: the number of affected rows, or each row.
type Result struct {
	count *int64
	row   func(Row) error
}

func (t *Tx) sendFor(r *Result, sql string, args []any) error {
	sql, args, err := t.prepare(sql, args)
	if err != nil {
		return err
	}
	return t.check(t.s.send(t.ctx, r, sql, args))
}

// collect reads rows to their end, even if scan fails, and returns scan's first error. COMMIT may
// have been sent already, and a mistake in scan must not hide its outcome.
func (r *Result) collect(rows Rows) (scanned, err error) {
	defer rows.Close()
	for rows.Next() {
		if err := r.row(rows); err != nil && scanned == nil {
			scanned = err
		}
	}
	return scanned, rows.Err()
}

// collect runs a statement and reads its rows.
func (s *writeSession) collect(ctx context.Context, r *Result, sql string, args []any) error {
	rows, err := s.query(ctx, sql, args)
	if err != nil {
		return err
	}
	scanned, err := r.collect(rows)
	if err != nil {
		return err
	}
	return scanned
}

// read reads a statement's result from a batch.
func (s *postgresSession) read(ctx context.Context, p statement, results pgx.BatchResults) error {
	if p.into == nil || p.into.row == nil {
		tag, err := results.Exec()
		if p.into != nil {
			*p.into.count = tag.RowsAffected()
		}
		return err
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	scanned, err := p.into.collect(&postgresRows{Rows: rows, ctx: ctx, cancel: func() {}})
	if s.scanned == nil {
		s.scanned = scanned
	}
	return err
}
