package move

import (
	"context"
	"errors"

	"steward/internal/db"
	"steward/internal/errs"
)

// errReplaced is returned to a Mover after another one has taken over its move.
var errReplaced = errors.New("another process moves these rows now")

// movedError tells where the rows were moved.
func movedError(to string) error {
	return errs.New(errs.Conflict, "the rows of this database were moved to %s; use that one", to)
}

// CheckHere returns Conflict if a database's rows were moved.
func CheckHere(q db.Querier) error {
	to, err := Moved(q)
	if err == nil && to != "" {
		err = movedError(to)
	}
	return err
}

// checkMoved returns an error if the source's rows were moved, unless this same move still lacks its
// last steps on this target.
func (m *Mover) checkMoved(ctx context.Context, id string) error {
	to, err := Moved(m.Source.Read(ctx))
	if err != nil || to == "" {
		return err
	}
	going, err := stored(m.Target.Read(ctx), "restoring")
	if err == nil && going != id {
		err = movedError(to)
	}
	return err
}

// writeSource writes to the source, unless another Mover has replaced this one.
func (m *Mover) writeSource(ctx context.Context, f func(*db.Tx) error) error {
	return m.Source.Write(ctx, func(tx *db.Tx) error {
		if err := m.check(tx, `SELECT value FROM meta WHERE key = '`+keyOwner+`'`); err != nil {
			return err
		}
		return f(tx)
	})
}

// writeTarget writes to the target, unless another Mover has replaced this one.
func (m *Mover) writeTarget(ctx context.Context, f func(*db.Tx) error) error {
	return m.Target.Write(ctx, func(tx *db.Tx) error {
		if err := m.check(tx, `SELECT state FROM move_copied WHERE name = ''`); err != nil {
			return err
		}
		return f(tx)
	})
}

// check returns errReplaced unless a statement finds this Mover. Nobody can replace it until the
// transaction ends: its row is locked, and SQLite has one writer.
func (m *Mover) check(tx *db.Tx, statement string) error {
	if tx.Dialect() == db.Postgres {
		statement += " FOR UPDATE"
	}
	var owner string
	err := tx.Row(statement).Scan(&owner)
	if errors.Is(err, db.ErrNoRows) || err == nil && owner != m.owner {
		return errReplaced
	}
	return err
}
