package db

import (
	"context"
	"errors"
	"fmt"
)

// Once stores a value for the whole installation, unless the key has one. It returns the stored
// value, and reports whether this call stored it; if several replicas try at once, one of them does.
func (t *Tx) Once(key, value string) (stored string, first bool, err error) {
	n, err := t.Exec(`INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING`, key, value)
	if err != nil {
		return "", false, fmt.Errorf("insert %s: %w", key, err)
	}
	if n == 1 {
		return value, true, nil
	}
	if err := t.Row(`SELECT value FROM meta WHERE key = $1`, key).Scan(&stored); err != nil {
		return "", false, fmt.Errorf("read %s: %w", key, err)
	}
	return stored, false, nil
}

// Stored returns the value that Once has stored for a key, if there is one.
func Stored(q Querier, key string) (value string, ok bool, err error) {
	err = q.Row(`SELECT value FROM meta WHERE key = $1`, key).Scan(&value)
	if errors.Is(err, ErrNoRows) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read %s: %w", key, err)
	}
	return value, true, nil
}

// Lock makes transactions that lock the same name run one after the other.
func (t *Tx) Lock(name string) error {
	_, err := t.Exec(`INSERT INTO meta (key, value) VALUES ($1, '1') ON CONFLICT (key) DO UPDATE SET value = meta.value`, name)
	if err != nil {
		return fmt.Errorf("lock %s: %w", name, err)
	}
	return nil
}

// restoring is the key in meta while rows are being restored or moved into a database. Its value is
// byRestore, or the move's id.
const (
	restoring = "restoring"
	byRestore = "1"
)

// errRestoring is returned by Open for a database that has only some of its rows.
var errRestoring = errors.New("a restore into this database did not end; restore again, into an empty one")

// errMoving is returned by Open for a database that rows are being moved into.
var errMoving = errors.New("rows are being moved into this database; if the move was interrupted, run the same " +
	"`steward migrate` again, or take an empty database")

// checkRestored returns an error if a restore or a move did not end.
func (d *DB) checkRestored(ctx context.Context) error {
	by, begun, err := Stored(d.Read(ctx), restoring)
	switch {
	case err != nil:
		return err
	case begun && by != byRestore:
		return errMoving
	case begun:
		return errRestoring
	}
	return nil
}

// BeginRestore makes Open refuse the database until EndRestore, unless Options.Restoring is set.
func (t *Tx) BeginRestore() error {
	_, first, err := t.Once(restoring, byRestore)
	if err == nil && !first {
		return errRestoring
	}
	return err
}

// EndRestore declares the database complete.
func (t *Tx) EndRestore() error {
	if _, err := t.Exec(`DELETE FROM meta WHERE key = $1`, restoring); err != nil {
		return fmt.Errorf("end the restore: %w", err)
	}
	return nil
}
