package db

import (
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Counters are sums by key, in a table whose primary key is the key columns, with a BIGINT column
// for each sum. For example:
//
//	totals := db.NewCounters("webhook_totals", []string{"org_id", "webhook_id"}, []string{"receipts", "deliveries"})
//
//	err := d.Write(ctx, func(tx *db.Tx) error {
//		// … insert a receipt and three deliveries …
//		return totals.Add(tx, []any{orgID, webhookID}, 1, 3)
//	})
//	sums, err := totals.Sum(d.Read(ctx), orgID, webhookID)
//
// A key loses its row once its sums fall back to zero, unless the counters keep zeros.
type Counters struct {
	table string
	keys  []string
	sums  []string

	keepsZeros bool

	upsert     string
	deleteZero string
}

// NewCounters returns the counters in a table. Give the keys in the primary key's order.
func NewCounters(table string, keys, sums []string) *Counters {
	c := &Counters{table: table, keys: keys, sums: sums}
	columns := slices.Concat(keys, sums)
	c.upsert = "INSERT INTO " + table + " (" + strings.Join(columns, ", ") + ")" +
		" SELECT " + each(columns, ", ", "v.column%[2]d") + " FROM {v} WHERE true" +
		" ON CONFLICT (" + strings.Join(keys, ", ") + ") DO UPDATE SET " +
		each(sums, ", ", "%[1]s = "+table+".%[1]s + excluded.%[1]s")
	c.deleteZero = "DELETE FROM " + table + " AS t {USING v} WHERE " +
		each(keys, " AND ", "t.%[1]s = v.column%[2]d") + each(sums, "", " AND t.%[1]s = 0")
	return c
}

// KeepZeros keeps rows whose sums fell back to zero, because it matters that there was something. It
// returns c.
func (c *Counters) KeepZeros() *Counters {
	c.keepsZeros = true
	return c
}

// delta is a transaction's change to one key's sums.
type delta struct {
	key []any
	by  []int64
}

// Add adds to a key's sums when the transaction ends. One statement then writes all additions to a
// table, so that the shared rows are locked only briefly and in the same order everywhere. Reads in
// the same transaction do not see them. Key values are string, int64, []byte or bool.
func (c *Counters) Add(tx *Tx, key []any, by ...int64) error {
	if len(key) != len(c.keys) || len(by) != len(c.sums) {
		return fmt.Errorf("db: %s has %d keys and %d sums, not %d and %d", c.table, len(c.keys), len(c.sums), len(key), len(by))
	}
	if err := tx.ready(); err != nil {
		return err
	}
	if err := checkText(key); err != nil {
		return err
	}
	tx.add(c, key, by)
	return nil
}

// add keeps a delta until the transaction ends.
func (t *Tx) add(c *Counters, key []any, by []int64) {
	if t.deltas == nil {
		t.deltas = map[*Counters]map[string]delta{}
	}
	if t.deltas[c] == nil {
		t.deltas[c] = map[string]delta{}
	}
	id := encodeKey(key)
	d, ok := t.deltas[c][id]
	if !ok {
		d = delta{key: key, by: make([]int64, len(by))}
		t.deltas[c][id] = d
	}
	for i, n := range by {
		d.by[i] += n
	}
}

// Sum returns the sums over all keys that begin with prefix.
func (c *Counters) Sum(q Querier, prefix ...any) ([]int64, error) {
	sums := make([]int64, len(c.sums))
	dest := make([]any, len(c.sums))
	for i := range sums {
		dest[i] = &sums[i]
	}
	text := "SELECT " + each(c.sums, ", ", "CAST(COALESCE(SUM(%[1]s), 0) AS BIGINT)") + " FROM " + c.table +
		" WHERE true" + each(c.keys[:len(prefix)], "", " AND %[1]s = $%[2]d")
	if err := q.Row(text, prefix...).Scan(dest...); err != nil {
		return nil, fmt.Errorf("sum %s: %w", c.table, err)
	}
	return sums, nil
}

// write adds deltas in key order, then deletes reduced rows that are zero.
func (c *Counters) write(tx *Tx, deltas map[string]delta) error {
	var keyKinds []kind
	var changed, reduced []any // row by row
	for _, id := range slices.Sorted(maps.Keys(deltas)) {
		d := deltas[id]
		if keyKinds == nil {
			for _, value := range d.key {
				keyKinds = append(keyKinds, kindOf(reflect.TypeOf(value)))
			}
		}
		if slices.Min(d.by) == 0 && slices.Max(d.by) == 0 {
			continue
		}
		changed = append(changed, d.key...)
		for _, n := range d.by {
			changed = append(changed, n)
		}
		if slices.Min(d.by) < 0 && !c.keepsZeros {
			reduced = append(reduced, d.key...)
		}
	}
	send := func(text string, args []any) error { return tx.Send(text, args...) }
	kinds := slices.Concat(keyKinds, slices.Repeat([]kind{kindInt}, len(c.sums)))
	if err := tx.plans().ofKinds(tx.Dialect(), kinds, c.upsert).each(changed, send); err != nil {
		return fmt.Errorf("add to %s: %w", c.table, err)
	}
	if err := tx.plans().ofKinds(tx.Dialect(), keyKinds, c.deleteZero).each(reduced, send); err != nil {
		return fmt.Errorf("delete from %s: %w", c.table, err)
	}
	return nil
}

// each formats each name with its number, counted from 1, and joins the results.
func each(names []string, separator, format string) string {
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = fmt.Sprintf(format, name, i+1)
	}
	return strings.Join(parts, separator)
}

// encodeKey returns the same text for equal keys, and different ones for others. Values contain no
// NUL.
func encodeKey(key []any) string {
	var id []byte
	for _, value := range key {
		switch v := value.(type) {
		case string:
			id = append(id, v...)
		case []byte:
			id = hex.AppendEncode(id, v)
		default:
			id = fmt.Append(id, v)
		}
		id = append(id, 0)
	}
	return string(id)
}
