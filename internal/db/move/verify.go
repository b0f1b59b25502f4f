package move

import (
	"context"
	"fmt"
	"slices"

	"steward/internal/db"
	"steward/internal/db/tablecopy"
)

// differing returns the keys of rows that differ between two lists. A row may be in a list more than
// once.
func differing(t *table, a, b []tablecopy.Row) (different [][]any, err error) {
	keys := map[string][]any{}
	lines := [2]map[string]string{{}, {}}
	for i, rows := range [][]tablecopy.Row{a, b} {
		for _, row := range rows {
			key := t.KeyOf(row)
			name, err := tablecopy.Line(key)
			if err != nil {
				return nil, err
			}
			keys[name] = key
			if lines[i][name], err = tablecopy.Line(row); err != nil {
				return nil, err
			}
		}
	}
	for name, key := range keys {
		if lines[0][name] != lines[1][name] {
			different = append(different, key)
		}
	}
	return different, nil
}

// Verify compares each source row with the target's, and looks for rows that only the target has.
// Finish compares rows that differ again.
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
		rows := m.changed(t, next.rows)
		keys := make([][]any, len(rows))
		for i, row := range rows {
			keys[i] = t.KeyOf(row)
		}
		found, err := t.target.Find(m.Target.Read(db.ForCopy(ctx)), keys)
		if err != nil {
			return err
		}
		different, err := differing(t, rows, found.Rows)
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

// verifyKeys looks for target rows that the source does not have.
func (m *Mover) verifyKeys(ctx context.Context, t *table) error {
	var after []any
	for {
		p, err := t.target.Keys().Page(m.Target.Read(db.ForCopy(ctx)), after, page)
		if err != nil || len(p.Rows) == 0 {
			return err
		}
		after = p.Rows[len(p.Rows)-1]
		var rows []tablecopy.Row
		var keys [][]any
		for _, row := range p.Rows {
			if t.Name != "meta" || !ofMove(row) {
				rows = append(rows, row)
				keys = append(keys, row)
			}
		}
		found, err := t.Keys().Find(m.Source.Read(db.ForCopy(ctx)), keys)
		if err != nil {
			return err
		}
		extra, err := differing(&table{Table: t.Keys()}, found.Rows, rows)
		if err != nil {
			return err
		}
		if err := t.suspect(extra); err != nil {
			return err
		}
	}
}

// suspect keeps the keys of rows that differ.
func (t *table) suspect(keys [][]any) error {
	t.suspects = append(t.suspects, keys...)
	if len(t.suspects) > maxSuspects {
		return fmt.Errorf("%w: %d rows differ", ErrChanged, len(t.suspects))
	}
	return nil
}

// compareSuspects compares again the rows that differed at first. If they changed since, we have
// copied them again.
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
