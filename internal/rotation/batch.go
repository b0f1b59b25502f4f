package rotation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/internal/db"
)

// batches reseals a table's values, batch by batch, until the pass is complete or the deadline is
// over.
func (r *Rotation) batches(ctx context.Context, t Table, deadline time.Time) error {
	for !t.Done {
		var err error
		if t, err = r.batch(ctx, t); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
		if time.Now().After(deadline) {
			return nil
		}
	}
	return nil
}

// batch reseals the next rows' values, and returns the table's new progress.
func (r *Rotation) batch(ctx context.Context, t Table) (Table, error) {
	var after [][]byte // nil at the start
	if t.position != "" {
		if err := json.Unmarshal([]byte(t.position), &after); err != nil {
			return t, fmt.Errorf("decode position: %w", err)
		}
	}
	rows, more, err := r.list(ctx, t.source, after)
	if err != nil {
		return t, err
	}
	next := t
	next.Scanned += int64(len(rows))
	next.Done = !more
	var changes []change
	if len(rows) > 0 {
		last := rows[len(rows)-1].key
		position, err := json.Marshal(last)
		if err != nil {
			return t, fmt.Errorf("encode position: %w", err)
		}
		next.position = string(position)
		if slices.ContainsFunc(rows, func(row listed) bool { return row.stale }) {
			if changes, err = r.reseal(ctx, t.source, after, last); err != nil {
				return t, err
			}
		}
	}
	for _, c := range changes {
		if c.sealed == nil {
			next.Unreadable++
			continue
		}
		next.stale++
		next.Resealed++
	}
	err = r.DB.Write(ctx, func(tx *db.Tx) error {
		if err := r.move(tx, t.position, next); err != nil {
			return err
		}
		return t.source.write(tx, changes)
	})
	return next, err
}

// listed is a row of which we read only the start of each value.
type listed struct {
	key   [][]byte
	bytes int64
	stale bool
}

// prefixBytes is how much of a value we read to learn its key. In base64, 8 characters are 6 bytes.
const prefixBytes = 8

// list returns the rows after a position that make up the next batch, and whether there are more.
func (r *Rotation) list(ctx context.Context, s source, after [][]byte) (batch []listed, more bool, err error) {
	fields := s.names()
	if s.weight == "" {
		fields += ", 0"
	} else {
		fields += ", " + s.weight
	}
	for _, c := range s.columns {
		fields += fmt.Sprintf(", coalesce(length(%s), 0), substr(%[1]s, 1, %d)", c.name, prefixBytes)
	}
	condition, args := s.within(after, nil)
	rows, err := db.Collect(r.DB.Read(ctx), func(row db.Row) (listed, error) { return r.scanListed(s, row) },
		`SELECT `+fields+` FROM `+s.table+condition+` ORDER BY `+s.names()+` LIMIT `+strconv.Itoa(maxRows), args...)
	if err != nil {
		return nil, false, fmt.Errorf("list rows: %w", err)
	}
	n, total := 0, int64(0)
	for n < len(rows) && (n == 0 || total+rows[n].bytes <= maxBytes) {
		total += rows[n].bytes
		n++
	}
	return rows[:n], n < len(rows) || n == maxRows, nil
}

func (r *Rotation) scanListed(s source, row db.Row) (listed, error) {
	l := listed{key: make([][]byte, len(s.key))}
	dest := pointers(l.key)
	dest = append(dest, &l.bytes)
	lengths := make([]int64, len(s.columns))
	prefixes := make([][]byte, len(s.columns))
	for i := range s.columns {
		dest = append(dest, &lengths[i], &prefixes[i])
	}
	if err := row.Scan(dest...); err != nil {
		return l, err
	}
	for i, c := range s.columns {
		l.bytes += lengths[i]
		value, err := c.decode(prefixes[i])
		l.stale = l.stale || err != nil || value != nil && !r.Ring.IsCurrent(value)
	}
	return l, nil
}

func pointers(values [][]byte) []any {
	dest := make([]any, len(values))
	for i := range values {
		dest[i] = &values[i]
	}
	return dest
}

// change replaces a value, unless somebody else has changed it since we read it. sealed is nil if no
// key opens the value.
type change struct {
	key    [][]byte
	column column
	read   []byte
	sealed []byte
}

// reseal reads the rows after a position, up to and including last, and reseals values that are not
// current.
func (r *Rotation) reseal(ctx context.Context, s source, after, last [][]byte) ([]change, error) {
	fields := s.names()
	for _, c := range s.columns {
		fields += ", " + c.name
	}
	condition, args := s.within(after, last)
	rows, err := db.Collect(r.DB.Read(ctx), func(row db.Row) ([]change, error) { return r.scanChanges(s, row) },
		`SELECT `+fields+` FROM `+s.table+condition+` ORDER BY `+s.names(), args...)
	if err != nil {
		return nil, fmt.Errorf("read rows: %w", err)
	}
	var all []change
	for _, changes := range rows {
		all = append(all, changes...)
	}
	return all, nil
}

// scanChanges returns a row's values that are not current.
func (r *Rotation) scanChanges(s source, row db.Row) ([]change, error) {
	key := make([][]byte, len(s.key))
	values := make([][]byte, len(s.columns))
	if err := row.Scan(append(pointers(key), pointers(values)...)...); err != nil {
		return nil, err
	}
	var changes []change
	for i, c := range s.columns {
		value, err := c.decode(values[i])
		if err == nil && (value == nil || r.Ring.IsCurrent(value)) {
			continue
		}
		ch := change{key: key, column: c, read: values[i]}
		purpose := c.purpose(key)
		if plain, err := r.Ring.Open(purpose, value); err == nil {
			ch.sealed = r.Ring.Seal(purpose, plain)
		}
		changes = append(changes, ch)
	}
	return changes, nil
}

// write writes values unless they have changed in the meantime. Whoever changed them sealed them with
// the current key.
func (s source) write(tx *db.Tx, changes []change) error {
	for _, c := range changes {
		if c.sealed == nil {
			continue
		}
		args := append(s.args(c.key), c.column.encode(c.sealed), c.column.stored(c.read))
		var conditions strings.Builder
		for i, k := range s.key {
			fmt.Fprintf(&conditions, "%s = $%d AND ", k.name, i+1)
		}
		n := len(s.key)
		if err := tx.Send(fmt.Sprintf(`UPDATE %s SET %s = $%d WHERE %s %[2]s = $%[5]d`,
			s.table, c.column.name, n+1, conditions.String(), n+2), args...); err != nil {
			return fmt.Errorf("write value: %w", err)
		}
	}
	return nil
}

// within returns the condition for the rows after one position and up to another. Either may be nil.
func (s source) within(after, last [][]byte) (condition string, args []any) {
	var all []string
	if s.where != "" {
		all = append(all, s.where)
	}
	compare := func(operator string, key [][]byte) {
		if key == nil {
			return
		}
		var marks []string
		for _, value := range s.args(key) {
			args = append(args, value)
			marks = append(marks, "$"+strconv.Itoa(len(args)))
		}
		all = append(all, "("+s.names()+") "+operator+" ("+strings.Join(marks, ", ")+")")
	}
	compare(">", after)
	compare("<=", last)
	if len(all) == 0 {
		return "", nil
	}
	return " WHERE " + strings.Join(all, " AND "), args
}

// args returns a key as a statement's arguments.
func (s source) args(key [][]byte) []any {
	args := make([]any, len(key))
	for i, value := range key {
		if s.key[i].bytes {
			args[i] = value
		} else {
			args[i] = string(value)
		}
	}
	return args
}
