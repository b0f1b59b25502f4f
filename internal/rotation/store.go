package rotation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Take the lock lockName to look whether a rotation is under way, or to begin one.
const lockName = "master_keys"

// Admit records that a process starts and will seal with the ring's current key. checkKey is the key
// that the database was written with. It returns Conflict if the current key was replaced, or if a
// rotation to another key is under way. Otherwise it returns the IDs of the ring's keys that are no
// longer needed.
func Admit(tx *db.Tx, ring *seal.Ring, checkKey string, now stamp.Time) (unneeded []string, err error) {
	if err := tx.Lock(lockName); err != nil {
		return nil, err
	}
	all, err := keys(tx)
	if err != nil {
		return nil, err
	}
	for _, k := range all {
		switch {
		case k.ID == ring.KeyID() && k.RetiredAt != nil:
			return nil, errs.New(errs.Conflict, "the master key %s was replaced: all secrets were encrypted with another one at %v; "+
				"start with that one", k.ID, *k.RetiredAt)
		case k.ID != ring.KeyID() && k.rotating():
			return nil, errs.New(errs.Conflict, "secrets are being encrypted with the master key %s since %v; start with that one, and "+
				"name the previous one in STEWARD_OLD_MASTER_KEYS", k.ID, *k.RotationAt)
		case k.RetiredAt != nil && ring.HasKey(k.ID):
			unneeded = append(unneeded, k.ID)
		}
	}
	for _, keyID := range []string{checkKey, ring.KeyID()} {
		if _, err := tx.Exec(`INSERT INTO master_keys (id, used_at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`, keyID, now); err != nil {
			return nil, fmt.Errorf("note master key: %w", err)
		}
	}
	return unneeded, nil
}

// CheckOldKeys returns Conflict if a rotation to the ring's current key is under way, and the ring has
// none of the keys that values may still be sealed with. A command that continues the rotation may
// have been started without them.
func CheckOldKeys(q db.Querier, ring *seal.Ring) error {
	all, err := keys(q)
	if err != nil {
		return err
	}
	rotating := false
	var needed []string
	for _, k := range all {
		switch {
		case k.ID == ring.KeyID():
			rotating = k.rotating()
		case k.RetiredAt == nil:
			needed = append(needed, k.ID)
		}
	}
	if !rotating || len(needed) == 0 || slices.ContainsFunc(needed, ring.HasKey) {
		return nil
	}
	return errs.New(errs.Conflict, "not all secrets are encrypted with the master key %s yet; name the previous one (%s) in "+
		"STEWARD_OLD_MASTER_KEYS until steward secrets rotate has ended", ring.KeyID(), strings.Join(needed, ", "))
}

// Replaced reports whether nothing may be sealed with this key any more, because it was replaced or a
// rotation to another key is under way.
func Replaced(q db.Querier, keyID string) (bool, error) {
	all, err := keys(q)
	if err != nil {
		return false, err
	}
	for _, k := range all {
		if k.ID == keyID && k.RetiredAt != nil || k.ID != keyID && k.rotating() {
			return true, nil
		}
	}
	return false, nil
}

// rotating reports whether a rotation to the key is under way.
func (k Key) rotating() bool { return k.RotationAt != nil && k.RotatedAt == nil && k.RetiredAt == nil }

// keys returns the master keys that were used, in order of first use.
func keys(q db.Querier) ([]Key, error) {
	all, err := db.Collect(q, func(row db.Row) (k Key, err error) {
		return k, row.Scan(&k.ID, &k.UsedAt, &k.RotationAt, &k.RotatedAt, &k.RetiredAt)
	}, `SELECT id, used_at, rotation_at, rotated_at, retired_at FROM master_keys ORDER BY used_at, id`)
	if err != nil {
		return nil, fmt.Errorf("list master keys: %w", err)
	}
	return all, nil
}

// begin records that the rotation is under way, unless it is already. If again is set, it restarts a
// completed rotation. It returns Conflict if a process seals with another key.
func (r *Rotation) begin(tx *db.Tx, again bool) error {
	if err := tx.Lock(lockName); err != nil {
		return err
	}
	if err := r.checkProcesses(tx); err != nil {
		return err
	}
	k, err := r.key(tx)
	if err != nil {
		return err
	}
	if k.RetiredAt != nil {
		return errs.New(errs.Conflict, "the master key %s was replaced at %v", k.ID, *k.RetiredAt)
	}
	if k.RotationAt != nil && (k.RotatedAt == nil || !again) {
		return nil
	}
	if _, err := tx.Exec(`UPDATE master_keys SET rotation_at = $2, rotated_at = NULL WHERE id = $1`,
		k.ID, stamp.Of(r.Now())); err != nil {
		return fmt.Errorf("begin rotation: %w", err)
	}
	if _, err := tx.Exec(`DELETE FROM master_key_progress`); err != nil {
		return fmt.Errorf("forget an earlier rotation: %w", err)
	}
	return nil
}

// key returns the current master key.
func (r *Rotation) key(q db.Querier) (Key, error) {
	k := Key{ID: r.Ring.KeyID()}
	err := q.Row(`SELECT used_at, rotation_at, rotated_at, retired_at FROM master_keys WHERE id = $1`, k.ID).
		Scan(&k.UsedAt, &k.RotationAt, &k.RotatedAt, &k.RetiredAt)
	if errors.Is(err, db.ErrNoRows) {
		return k, nil
	}
	if err != nil {
		return k, fmt.Errorf("get master key: %w", err)
	}
	return k, nil
}

// checkProcesses returns Conflict if a live process does not seal with the current key.
func (r *Rotation) checkProcesses(q db.Querier) error {
	alive, err := r.Alive(q)
	if err != nil {
		return err
	}
	for _, p := range alive {
		switch p.KeyID {
		case r.Ring.KeyID():
		case "":
			return errs.New(errs.Conflict, "the process %s is of an earlier version, which does not tell its master key; "+
				"upgrade it, or wait 30 seconds if it has ended", p.ID)
		default:
			return errs.New(errs.Conflict, "the process %s has the master key %s, and not %s; restart it with the new key, "+
				"or wait 30 seconds if it has ended", p.ID, p.KeyID, r.Ring.KeyID())
		}
	}
	return nil
}

// insertProgress inserts tables with their row counts. It keeps those that another process has
// inserted.
func (r *Rotation) insertProgress(tx *db.Tx, added []source, totals []int64) error {
	for i, s := range added {
		if err := tx.Send(`INSERT INTO master_key_progress
			(key_id, source, pass, position, done, total, scanned, stale, unreadable, resealed)
			VALUES ($1, $2, 1, '', FALSE, $3, 0, 0, 0, 0) ON CONFLICT (key_id, source) DO NOTHING`,
			r.Ring.KeyID(), s.table, totals[i]); err != nil {
			return fmt.Errorf("insert progress: %w", err)
		}
	}
	return nil
}

// insertPass begins a pass, unless another process already has.
func (r *Rotation) insertPass(tx *db.Tx, pass int64) error {
	if _, err := tx.Exec(`UPDATE master_key_progress SET pass = $2, position = '', done = FALSE, scanned = 0, stale = 0, unreadable = 0
		WHERE key_id = $1 AND pass < $2`, r.Ring.KeyID(), pass); err != nil {
		return fmt.Errorf("begin pass: %w", err)
	}
	return nil
}

// finish completes the rotation and retires the other keys, unless another process has restarted it in
// the meantime.
func (r *Rotation) finish(tx *db.Tx) error {
	if err := tx.Lock(lockName); err != nil {
		return err
	}
	if err := r.checkProcesses(tx); err != nil {
		return err
	}
	p, err := r.progressOf(tx)
	if err != nil {
		return err
	}
	if _, found := p.next(); found || len(p.missing()) > 0 {
		return nil
	}
	now := stamp.Of(r.Now())
	if _, err := tx.Exec(`UPDATE master_keys SET rotated_at = $2 WHERE id = $1 AND rotated_at IS NULL`, r.Ring.KeyID(), now); err != nil {
		return fmt.Errorf("complete rotation: %w", err)
	}
	if _, err := tx.Exec(`UPDATE master_keys SET retired_at = $2 WHERE id <> $1 AND retired_at IS NULL`, r.Ring.KeyID(), now); err != nil {
		return fmt.Errorf("retire master keys: %w", err)
	}
	return nil
}

// progress returns the rotation's progress.
func (r *Rotation) progress(ctx context.Context) (p Progress, err error) {
	err = r.DB.Snapshot(ctx, func(q db.Querier) error {
		p, err = r.progressOf(q)
		return err
	})
	return p, err
}

// progressOf returns the rotation's progress, with the tables in the order of sources.
func (r *Rotation) progressOf(q db.Querier) (Progress, error) {
	k, err := r.key(q)
	if err != nil {
		return Progress{}, err
	}
	p := Progress{KeyID: k.ID, Done: k.RotatedAt != nil, Tables: []Table{}}
	rows, err := db.Collect(q, func(row db.Row) (t Table, err error) {
		return t, row.Scan(&t.Name, &t.Pass, &t.position, &t.Done, &t.Total, &t.Scanned, &t.stale, &t.Unreadable, &t.Resealed)
	}, `SELECT source, pass, position, done, total, scanned, stale, unreadable, resealed
		FROM master_key_progress WHERE key_id = $1`, k.ID)
	if err != nil {
		return Progress{}, fmt.Errorf("read progress: %w", err)
	}
	for _, s := range sources() {
		for _, t := range rows {
			if t.Name == s.table {
				t.source = s
				p.Tables = append(p.Tables, t)
			}
		}
	}
	return p, nil
}

// errMoved means that another process has continued with the table.
var errMoved = errors.New("rotation: another process has continued")

// move saves a table's progress. It returns errMoved if another process got there first.
func (r *Rotation) move(tx *db.Tx, from string, to Table) error {
	n, err := tx.Exec(`UPDATE master_key_progress SET position = @position, done = @done, scanned = @scanned, stale = @stale,
		unreadable = @unreadable, resealed = @resealed
		WHERE key_id = @key_id AND source = @source AND pass = @pass AND position = @from AND NOT done`, db.Args{
		"key_id": r.Ring.KeyID(), "source": to.Name, "pass": to.Pass, "from": from, "position": to.position, "done": to.Done,
		"scanned": to.Scanned, "stale": to.stale, "unreadable": to.Unreadable, "resealed": to.Resealed,
	})
	if err != nil {
		return fmt.Errorf("store progress: %w", err)
	}
	if n == 0 {
		return errMoved
	}
	return nil
}
