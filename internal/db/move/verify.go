package move

import (
	"context"
	"fmt"
	"slices"

	"steward/internal/db"
	"steward/internal/db/tablecopy"
)

// differing returns the keys of rows that are not the same in two lists. A row may be in a list more than
// once.
func differing(t *table, a, b []tablecopy.Row) ([][]any, error) {
	inA, err := linesOf(t, a)
	if err != nil {
		return nil, err
	}
	inB, err := linesOf(t, b)
	if err != nil {
		return nil, err
	}
	var keys [][]any
	for key, line := range inA {
		if inB[key].text != line.text {
			keys = append(keys, line.key)
		}
	}
	for key, line := range inB {
		if inA[key].text == "" {
			keys = append(keys, line.key)
		}
	}
	return keys, nil
}

// line is a row in the form of a line.
type line struct {
	key  []any
	text string
}

// linesOf returns rows by their keys.
func linesOf(t *table, rows []tablecopy.Row) (map[string]line, error) {
	lines := make(map[string]line, len(rows))
	for _, row := range rows {
		key := t.KeyOf(row)
		name, err := tablecopy.Line(key)
		if err != nil {
			return nil, err
		}
		text, err := tablecopy.Line(row)
		if err != nil {
			return nil, err
		}
		lines[name] = line{key, text}
	}
	return lines, nil
}

// Verify compares each row of the source with that of the target, and looks for rows that are in the target
// alone. Rows that differ are compared again by Finish.
func (m *Mover) Verify(ctx context.Context) error {
	for _, t := range m.tables {
		t.suspects = nil
		if err := m.verifyTable(ctx, t); err != nil {
			return fmt.Errorf("verify %s: %w", t.Name, err)
		}
		if err := m.verifyKeys(ctx, t); err != nil {
			return fmt.Errorf("verify %s: %w", t.Name, err)
		}
	}
	return nil
}

func (m *Mover) verifyTable(ctx context.Context, t *table) error {
	var after []any
	for total := int64(0); ; {
		next, err := m.read(ctx, t, after)
		if err != nil || len(next.rows) == 0 {
			return err
		}
		after = t.KeyOf(next.rows[len(next.rows)-1])
		different, err := m.verifyRows(ctx, t, m.changed(t, next.rows))
		if err != nil {
			return err
		}
		if err := t.suspect(different); err != nil {
			return err
		}
		total += int64(len(next.rows))
		m.report("verify", t.Name, total)
		if next.last {
			return nil
		}
	}
}

// verifyKeys looks for rows of the target that the source does not have.
func (m *Mover) verifyKeys(ctx context.Context, t *table) error {
	var after []any
	for {
		p, err := t.target.Keys().Page(m.Target.Read(db.ForCopy(ctx)), after, page)
		if err != nil || len(p.Rows) == 0 {
			return err
		}
		after = p.Rows[len(p.Rows)-1]
		var keys [][]any
		for _, row := range p.Rows {
			if t.Name != "meta" || !ofMove(row) {
				keys = append(keys, row)
			}
		}
		found, err := t.Keys().Find(m.Source.Read(db.ForCopy(ctx)), keys)
		if err != nil {
			return err
		}
		extra, err := differing(t.keysOnly(), found.Rows, rowsOf(keys))
		if err != nil {
			return err
		}
		if err := t.suspect(extra); err != nil {
			return err
		}
	}
}

// keysOnly returns the table with the columns of its primary key.
func (t *table) keysOnly() *table { return &table{Table: t.Keys()} }

// rowsOf returns keys as rows of a table that has no other columns.
func rowsOf(keys [][]any) []tablecopy.Row {
	rows := make([]tablecopy.Row, len(keys))
	for i, key := range keys {
		rows[i] = key
	}
	return rows
}

// suspect notes keys of rows that differ.
func (t *table) suspect(keys [][]any) error {
	t.suspects = append(t.suspects, keys...)
	if len(t.suspects) > maxSuspects {
		return fmt.Errorf("%w: %d rows differ", ErrChanged, len(t.suspects))
	}
	return nil
}

// verifyRows returns the keys of rows that are not the same in the target.
func (m *Mover) verifyRows(ctx context.Context, t *table, rows []tablecopy.Row) ([][]any, error) {
	keys := make([][]any, len(rows))
	for i, row := range rows {
		keys[i] = t.KeyOf(row)
	}
	found, err := t.target.Find(m.Target.Read(db.ForCopy(ctx)), keys)
	if err != nil {
		return nil, err
	}
	return differing(t, rows, found.Rows)
}

// compareSuspects compares the rows that differed when they were compared first. Those that changed
// since were copied again.
func (m *Mover) compareSuspects(ctx context.Context, t *table) error {
	for keys := range slices.Chunk(t.suspects, t.limit) {
		current, err := t.Find(m.Source.Read(ctx), keys)
		if err != nil {
			return err
		}
		found, err := t.target.Find(m.Target.Read(ctx), keys)
		if err != nil {
			return err
		}
		different, err := differing(t, m.changed(t, current.Rows), found.Rows)
		if err != nil {
			return err
		}
		if len(different) > 0 {
			return fmt.Errorf("%w: %d rows of %s differ", ErrChanged, len(different), t.Name)
		}
	}
	return nil
}
