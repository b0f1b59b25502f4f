package move

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"steward/internal/db"
	"steward/internal/db/tablecopy"
)

// The fence is a trigger on each table in a PostgreSQL database that refuses changes. SQLite needs
// none: the data directory's lock keeps other processes out.
const createFence = `CREATE OR REPLACE FUNCTION move_fence() RETURNS trigger LANGUAGE plpgsql AS $function$
	BEGIN RAISE EXCEPTION 'the rows were moved to another database' USING ERRCODE = '25006'; END $function$`

// fenced returns the tables that get the fence. It leaves out meta, which the mover writes to, and
// master_keys, which a starting process writes to before it knows about the move.
func (m *Mover) fenced() []*table {
	return slices.DeleteFunc(slices.Clone(m.tables), func(t *table) bool { return t.Name == "meta" || t.Name == "master_keys" })
}

// fence makes the source refuse changes.
func (m *Mover) fence(ctx context.Context) error {
	if m.Source.Dialect() != db.Postgres {
		return nil
	}
	statements := []string{createFence}
	for _, t := range m.fenced() {
		statements = append(statements, "CREATE OR REPLACE TRIGGER move_fence BEFORE INSERT OR UPDATE OR DELETE ON "+t.Name+
			" FOR EACH STATEMENT EXECUTE FUNCTION move_fence()")
	}
	if err := run(ctx, m.Source, statements); err != nil {
		return fmt.Errorf("have the source refuse changes: %w", err)
	}
	return nil
}

// checkFence returns an error if the source may have accepted changes since fence: a starting
// process removes the fence, unless the rows were moved. Nobody can remove it until the transaction
// ends.
func (m *Mover) checkFence(tx *db.Tx) error {
	if tx.Dialect() != db.Postgres {
		return nil
	}
	var missing int64
	for _, t := range m.fenced() {
		if _, err := tx.Exec("LOCK TABLE " + t.Name + " IN ACCESS SHARE MODE"); err != nil {
			return err
		}
		var n int64
		err := tx.Row(`SELECT count(*) FROM pg_trigger WHERE tgrelid = to_regclass($1) AND tgname = 'move_fence'`, t.Name).Scan(&n)
		if err != nil {
			return err
		}
		missing += 1 - n
	}
	if missing > 0 {
		return errors.New("a process has started on the source meanwhile; stop it and try again")
	}
	return nil
}

// unfence lets a database accept changes again. It returns an error if the rows were moved, unless
// force is set.
func unfence(ctx context.Context, d *db.DB, force bool) error {
	var moved string
	err := persist(ctx, d, func(tx *db.Tx) (err error) {
		if err := dropFence(tx); err != nil {
			return err
		}
		// Read only after dropFence has its locks, since checkFence waits for them or has held them.
		if moved, err = stored(tx, keyMoved); err == nil && moved != "" && !force {
			err = movedError(moved)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("have the source accept changes again: %w", err)
	}
	return nil
}

// Fenced reports whether a PostgreSQL database refuses changes because its rows were moved, or are
// about to be.
func Fenced(q db.Querier) (fenced bool, err error) {
	err = q.Row(`SELECT to_regprocedure('move_fence()') IS NOT NULL`).Scan(&fenced)
	return fenced, err
}

// dropFence removes the fence, if there is one.
func dropFence(tx *db.Tx) error {
	if tx.Dialect() != db.Postgres {
		return nil
	}
	if fenced, err := Fenced(tx); err != nil || !fenced {
		return err
	}
	for _, name := range tablecopy.Tables() {
		if _, err := tx.Exec("DROP TRIGGER IF EXISTS move_fence ON " + name); err != nil {
			return err
		}
	}
	_, err := tx.Exec(`DROP FUNCTION IF EXISTS move_fence()`)
	return err
}
