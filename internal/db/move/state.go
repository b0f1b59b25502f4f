package move

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"steward/internal/db"
	"steward/internal/db/tablecopy"
)

// move_copied, in the target, records each table's progress.
const (
	createCopied = `CREATE TABLE IF NOT EXISTS move_copied (name TEXT NOT NULL PRIMARY KEY, state TEXT NOT NULL)`
	dropCopied   = `DROP TABLE IF EXISTS move_copied`
)

// beginTarget closes the target to others, and returns an error if it has rows from elsewhere.
func (m *Mover) beginTarget(ctx context.Context, id string) error {
	return m.Target.Write(ctx, func(tx *db.Tx) error {
		stored, first, err := tx.Once("restoring", id)
		if err != nil {
			return err
		}
		if !first && stored != id {
			return errors.New("the target has rows of another move or restore; take an empty one")
		}
		if _, err := tx.Exec(createCopied); err != nil {
			return fmt.Errorf("create move_copied: %w", err)
		}
		// The target has this Mover under an empty table name.
		if _, err := tx.Exec(`INSERT INTO move_copied (name, state) VALUES ('', $1)
			ON CONFLICT (name) DO UPDATE SET state = excluded.state`, m.owner); err != nil {
			return err
		}
		if !first {
			return m.checkStore(tx)
		}
		if m.Store != "" {
			if _, _, err := tx.Once(keyStore, m.Store); err != nil {
				return err
			}
		}
		for _, t := range m.tables {
			n, err := count(tx, t)
			if err != nil {
				return err
			}
			if n > 0 && t.Name != "meta" {
				return fmt.Errorf("the target has rows in %s; take an empty one", t.Name)
			}
		}
		return nil
	})
}

// checkStore returns an error if the move began with another Store: it would lack the bytes for the
// rows copied so far.
func (m *Mover) checkStore(q db.Querier) error {
	begun, err := Store(q)
	if err != nil || begun == m.Store {
		return err
	}
	with := "without --blob-url"
	if begun != "" {
		with = "with --blob-url " + begun
	}
	return fmt.Errorf("the move was begun %s; go on like that, or begin anew with an empty target after `steward migrate --abort`", with)
}

// beginSource creates the logs.
func (m *Mover) beginSource(ctx context.Context, id string) error {
	var stored string
	var first bool
	err := m.Source.Write(ctx, func(tx *db.Tx) (err error) {
		if stored, first, err = tx.Once(keyMoving, id); err != nil || stored != id {
			return err
		}
		_, err = tx.Exec(`INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
			keyOwner, m.owner)
		return err
	})
	if err != nil {
		return err
	}
	if !first && stored != id {
		return fmt.Errorf("the rows are being moved already, by the move %s; `steward migrate --abort` ends it", stored)
	}
	there, err := db.Tables(m.Source.Read(ctx))
	if err != nil {
		return err
	}
	for _, t := range m.tables {
		if slices.Contains(there, t.log) {
			continue
		}
		// One transaction each: on PostgreSQL it locks the table, and others write meanwhile.
		if err := run(ctx, m.Source, t.statements(m.Source.Dialect())); err != nil {
			return fmt.Errorf("create the log of %s: %w", t.Name, err)
		}
	}
	return nil
}

// progress records how far we have copied a table. move_copied has it as JSON.
type progress struct {
	after    []any           // the last row's key
	Key      json.RawMessage `json:",omitempty"` // after, as a line
	Rows     int64
	Complete bool
}

// copied returns a table's progress.
func (m *Mover) copied(ctx context.Context, t *table) (p progress, err error) {
	var text string
	err = m.Target.Read(ctx).Row(`SELECT state FROM move_copied WHERE name = $1`, t.Name).Scan(&text)
	if errors.Is(err, db.ErrNoRows) {
		return p, nil
	}
	if err != nil {
		return p, fmt.Errorf("read how far %s was copied: %w", t.Name, err)
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return p, fmt.Errorf("decode how far %s was copied: %w", t.Name, err)
	}
	if len(p.Key) > 0 {
		p.after, err = t.Keys().Decode(p.Key)
	}
	return p, err
}

// store stores a table's progress.
func (p progress) store(tx *db.Tx, t *table) error {
	if len(p.after) > 0 {
		line, err := tablecopy.Line(p.after)
		if err != nil {
			return err
		}
		p.Key = json.RawMessage(line)
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`INSERT INTO move_copied (name, state) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET state = excluded.state`,
		t.Name, string(text))
	return err
}

// endTarget opens the target, and numbers its commits from number on.
func (m *Mover) endTarget(ctx context.Context, number int64) error {
	err := m.writeTarget(ctx, func(tx *db.Tx) error {
		if err := tx.ContinueAfter(number); err != nil {
			return err
		}
		if _, err := tx.Exec(dropCopied); err != nil {
			return err
		}
		_, err := tx.Exec(`DELETE FROM meta WHERE key = 'restoring'`)
		return err
	})
	if err != nil {
		return fmt.Errorf("open the target: %w", err)
	}
	return nil
}

// markSource marks the source as moved, if nobody else could write to it since fence.
func (m *Mover) markSource(ctx context.Context, to string) error {
	err := m.writeSource(ctx, func(tx *db.Tx) error {
		if err := m.checkFence(tx); err != nil {
			return err
		}
		_, _, err := tx.Once(keyMoved, to)
		return err
	})
	if err != nil {
		return fmt.Errorf("mark the source as moved: %w", err)
	}
	return nil
}

// removeLogs removes the source's logs.
func (m *Mover) removeLogs(ctx context.Context) error {
	for _, t := range m.tables {
		if err := run(ctx, m.Source, t.removals(m.Source.Dialect())); err != nil {
			return fmt.Errorf("remove the log of %s: %w", t.Name, err)
		}
	}
	_, err := m.Source.Exec(ctx, `DELETE FROM meta WHERE key IN ($1, $2)`, keyMoving, keyOwner)
	return err
}

// Abort ends a move: the source stops logging its changes. It returns an error if the rows were
// moved already.
func Abort(ctx context.Context, source *db.DB) error {
	m := &Mover{Source: source}
	for _, name := range tablecopy.Tables() {
		m.tables = append(m.tables, &table{Table: tablecopy.Table{Name: name}, log: logName(name)})
	}
	if err := unfence(ctx, source, false); err != nil {
		return err
	}
	return m.removeLogs(ctx)
}

// Moving returns the id of the move under way from this database, or "".
func Moving(q db.Querier) (id string, err error) { return stored(q, keyMoving) }

// Moved returns where a database's rows are now, or "" if they are here.
func Moved(q db.Querier) (to string, err error) { return stored(q, keyMoved) }

// Store returns Mover.Store from the move that brought a database's rows, or "".
func Store(q db.Querier) (name string, err error) { return stored(q, keyStore) }

// ForgetStore makes Store return "".
func ForgetStore(ctx context.Context, d *db.DB) error {
	_, err := d.Exec(ctx, `DELETE FROM meta WHERE key = $1`, keyStore)
	return err
}

// Revive reopens a database whose rows were about to be moved; with force, even one whose rows were
// moved.
func Revive(ctx context.Context, d *db.DB, force bool) error {
	if err := unfence(ctx, d, force); err != nil {
		return err
	}
	_, err := d.Exec(ctx, `DELETE FROM meta WHERE key = $1`, keyMoved)
	return err
}

func stored(q db.Querier, key string) (value string, err error) {
	err = q.Row(`SELECT value FROM meta WHERE key = $1`, key).Scan(&value)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return value, err
}
