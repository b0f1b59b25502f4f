package webhook

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"steward/internal/db"
)

// Counters are read from two tables: webhook_counts has the rows that transactions add to, webhook_days has the minutes and hours of days
// that are long over, packed. Packing moves counts from the one to the other in a transaction, and every reading is one statement, so that
// it sees all counts once, whenever it comes.

// stretch is a run of buckets of one unit: from one to before another.
type stretch struct{ unit, from, to int64 }

// stretches covers a run of buckets by as few as there are: whole days where it has them, whole hours before and after, then minutes. Units
// are written together, so that they add up to the same.
func stretches(unit, from, to int64) (all []stretch) {
	for _, longer := range units {
		if longer <= unit {
			continue
		}
		n := longer / unit
		first, last := (from+n-1)/n, to/n
		if first >= last {
			break
		}
		all = append(all, stretch{unit, from, first * n}, stretch{unit, last * n, to})
		unit, from, to = longer, first, last
	}
	return append(all, stretch{unit, from, to})
}

// Counts gives the counts of an organization's buckets from one to before another.
func (s *Store) Counts(ctx context.Context, orgID string, unit, from, to int64) ([]Count, error) {
	counts := make([]Count, to-from)
	err := s.tallied(ctx, orgID, []stretch{{unit, from, to}}, false, func(bucket int64, c Count) {
		counts[bucket-from] = counts[bucket-from].plus(c)
	})
	return counts, err
}

// Sum adds up the counts of an organization's buckets from one to before another.
func (s *Store) Sum(ctx context.Context, orgID string, unit, from, to int64) (Summary, error) {
	var sum Count
	err := s.tallied(ctx, orgID, stretches(unit, from, to), true, func(_ int64, c Count) { sum = sum.plus(c) })
	return Summary(sum), err
}

// tallied calls fn with what buckets of some stretches have; for one bucket it may come in several parts. If added, then all that is not
// packed of a stretch comes with its first bucket.
func (s *Store) tallied(ctx context.Context, orgID string, all []stretch, added bool, fn func(bucket int64, c Count)) error {
	text, args := tallyQuery(s.DB.Dialect(), orgID, all, added)
	rows, err := s.DB.Read(ctx).Query(text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var i int
		var packed bool
		var data []byte
		if err := rows.Scan(&i, &packed, &data); err != nil {
			return err
		}
		if !packed {
			readLists(s.DB.Dialect(), data, func(place int64, c Count) { fn(all[i].from+place, c) })
		} else if err := readDays(s.DB.Dialect(), data, all[i], fn); err != nil {
			return err
		}
	}
	return rows.Err()
}

// tallyQuery asks for stretches by one statement: for each, one row with the rows of the counters, and one with the packed days. Row by row
// they would cost three times as much.
func tallyQuery(dialect db.Dialect, orgID string, all []stretch, added bool) (string, []any) {
	var parts []string
	args := []any{orgID}
	for i, st := range all {
		if st.from >= st.to {
			continue
		}
		n := len(args)
		args = append(args, st.unit, st.from, st.to)
		columns := listColumns(dialect, fmt.Sprintf("bucket - $%d", n+2))
		if added {
			columns = sumColumns(dialect)
		}
		parts = append(parts, fmt.Sprintf(`SELECT %d, false, %s FROM webhook_counts
			WHERE org_id = $1 AND unit = $%d AND bucket >= $%d AND bucket < $%d`, i, columns, n+1, n+2, n+3))
		if st.unit == aDay {
			continue
		}
		perDay := aDay / st.unit
		args = append(args, st.from/perDay, (st.to-1)/perDay)
		parts = append(parts, fmt.Sprintf(`SELECT %d, true, %s FROM webhook_days
			WHERE org_id = $1 AND unit = $%d AND day >= $%d AND day <= $%d`, i, dayColumns(dialect), n+1, n+4, n+5))
	}
	return strings.Join(parts, " UNION ALL "), args
}

// listColumns gives rows of the counters as four lists, all in the same order: places, received, delivered, failed.
func listColumns(dialect db.Dialect, place string) string {
	if dialect == db.SQLite {
		return joined(`COALESCE(group_concat(%s, ' '), '')`, ` || ';' || `, place)
	}
	return joined(`COALESCE(string_agg(int8send(%s), ''), '')`, ` || `, place)
}

// sumColumns gives them added up, as lists of one.
func sumColumns(dialect db.Dialect) string {
	if dialect == db.SQLite {
		return joined(`COALESCE(SUM(%s), 0)`, ` || ';' || `, "0")
	}
	return joined(`int8send(CAST(COALESCE(SUM(%s), 0) AS BIGINT))`, ` || `, "0")
}

func joined(list, by, place string) string {
	return fmt.Sprintf(strings.Join([]string{list, list, list, list}, by), place, "received", "delivered", "failed")
}

// readLists calls fn with the counts that lists have.
func readLists(dialect db.Dialect, data []byte, fn func(place int64, c Count)) {
	var lists [4]numbers
	rest := data
	for i := range lists {
		if dialect == db.SQLite {
			lists[i], rest, _ = bytes.Cut(rest, []byte(";"))
		} else {
			lists[i], rest = rest[:len(data)/4], rest[len(data)/4:]
		}
	}
	for len(lists[0]) > 0 {
		fn(lists[0].next(dialect), Count{lists[1].next(dialect), lists[2].next(dialect), lists[3].next(dialect)})
	}
}

// numbers is a list of numbers, none below zero: with a space between two on SQLite, of eight bytes each on PostgreSQL.
type numbers []byte

// next takes the first number off the list.
func (l *numbers) next(dialect db.Dialect) (n int64) {
	if dialect == db.Postgres {
		n = int64(binary.BigEndian.Uint64(*l))
		*l = (*l)[8:]
		return n
	}
	for i, c := range *l {
		if c == ' ' {
			*l = (*l)[i+1:]
			return n
		}
		n = n*10 + int64(c-'0')
	}
	*l = nil
	return n
}

// dayColumns gives packed days one after the other, each behind its number.
func dayColumns(dialect db.Dialect) string {
	if dialect == db.SQLite {
		return `COALESCE(group_concat(day || ';' || hex(counts), ' '), '')`
	}
	return `COALESCE(string_agg(int8send(day) || int8send(length(counts)) || counts, ''), '')`
}

// readDays calls fn with what packed days have of a stretch.
func readDays(dialect db.Dialect, data []byte, of stretch, fn func(bucket int64, c Count)) error {
	perDay := aDay / of.unit
	for list := numbers(data); len(list) > 0; {
		day, packed, err := list.nextDay(dialect)
		if err != nil {
			return err
		}
		if err := unpack(packed, perDay, func(place int64, c Count) {
			if bucket := day*perDay + place; bucket >= of.from && bucket < of.to {
				fn(bucket, c)
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// nextDay takes the first packed day off the list.
func (l *numbers) nextDay(dialect db.Dialect) (day int64, packed []byte, err error) {
	if dialect == db.Postgres {
		day, size := l.next(dialect), l.next(dialect)
		packed, *l = (*l)[:size], (*l)[size:]
		return day, packed, nil
	}
	first, rest, _ := bytes.Cut(*l, []byte(" "))
	number, digits, _ := bytes.Cut(first, []byte(";"))
	size, err := hex.Decode(digits, digits)
	*l = rest
	return (*numbers)(&number).next(dialect), digits[:size], err
}

// pack writes the counts of a day's buckets in the form of webhook_days.
func pack(counts []Count) []byte {
	packed, gap := []byte{}, uint64(0)
	for _, c := range counts {
		if c == (Count{}) {
			gap++
			continue
		}
		for _, n := range []uint64{gap, uint64(c.Received), uint64(c.Delivered), uint64(c.Failed)} {
			packed = binary.AppendUvarint(packed, n)
		}
		gap = 0
	}
	return packed
}

var errPacked = errors.New("webhook: a packed day cannot be read")

// unpack calls fn with the counts of a packed day, by the place of their bucket among all buckets of it.
func unpack(packed []byte, buckets int64, fn func(place int64, c Count)) error {
	for place := int64(0); len(packed) > 0; place++ {
		var fields [4]int64
		for i := range fields {
			n, size := binary.Uvarint(packed)
			if size <= 0 {
				return errPacked
			}
			fields[i], packed = int64(n), packed[size:]
		}
		if place += fields[0]; place < 0 || place >= buckets {
			return errPacked
		}
		fn(place, Count{Received: fields[1], Delivered: fields[2], Failed: fields[3]})
	}
	return nil
}

// unpacked gives the first day before another that has rows of hours and so of minutes, or -1.
func (s *Store) unpacked(ctx context.Context, orgID string, before int64) (day int64, err error) {
	const perDay = aDay / anHour
	err = s.DB.Read(ctx).Row(`SELECT COALESCE(MIN(bucket), -1) FROM webhook_counts WHERE org_id = $1 AND unit = $2 AND bucket < $3`,
		orgID, anHour, before*perDay).Scan(&day)
	if day < 0 {
		return day, err
	}
	return day / perDay, err
}

// counted gives the first organization after another that has counts, or ErrNoRows.
func (s *Store) counted(ctx context.Context, after string) (orgID string, err error) {
	return orgID, s.DB.Read(ctx).Row(`SELECT org_id FROM webhook_counts WHERE org_id > $1 ORDER BY org_id LIMIT 1`, after).Scan(&orgID)
}

// Pack moves what the rows have of a day's minutes and hours to its packed form, and joins the parts of the day itself, in one
// transaction. A count that comes later, by whatever clock, makes a row again, which the next Pack adds. Several may do so at once: a row
// is added by who deletes it, and the packed form is read only when its lock is held. Rows are locked in the order of tally.write.
func (s *Store) Pack(ctx context.Context, orgID string, day int64) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		for _, unit := range []int64{aMinute, anHour} {
			if err := packUnit(tx, orgID, unit, day); err != nil {
				return err
			}
		}
		return joinDay(tx, orgID, day)
	})
}

func packUnit(tx *db.Tx, orgID string, unit, day int64) error {
	buckets := aDay / unit
	counts, first := make([]Count, buckets), day*buckets
	add := func(place int64, c Count) { counts[place] = counts[place].plus(c) }
	if err := takeRows(tx, orgID, stretch{unit, first, first + buckets}, add); err != nil {
		return err
	}
	var before []byte // read by an update that changes nothing, since that locks the row
	if err := tx.Row(`INSERT INTO webhook_days (org_id, unit, day, counts) VALUES ($1, $2, $3, $4)
		ON CONFLICT (org_id, unit, day) DO UPDATE SET counts = webhook_days.counts RETURNING counts`,
		orgID, unit, day, []byte{}).Scan(&before); err != nil {
		return err
	}
	if err := unpack(before, buckets, add); err != nil {
		return err
	}
	return tx.Send(`UPDATE webhook_days SET counts = $4 WHERE org_id = $1 AND unit = $2 AND day = $3`, orgID, unit, day, pack(counts))
}

// takeRows deletes the rows of some buckets and calls fn with what they had. The engines have a text each: to return the rows one by one
// takes SQLite three times as long, and all other writers wait for that.
func takeRows(tx *db.Tx, orgID string, st stretch, fn func(place int64, c Count)) error {
	const those = ` FROM webhook_counts WHERE org_id = $1 AND unit = $2 AND bucket >= $3 AND bucket < $4`
	columns, args := listColumns(tx.Dialect(), "bucket - $3"), []any{orgID, st.unit, st.from, st.to}
	text := `SELECT ` + columns + those
	if tx.Dialect() == db.Postgres {
		text = `WITH gone AS (DELETE` + those + ` RETURNING bucket, received, delivered, failed) SELECT ` + columns + ` FROM gone`
	}
	var data []byte
	if err := tx.Row(text, args...).Scan(&data); err != nil {
		return err
	}
	readLists(tx.Dialect(), data, fn)
	if tx.Dialect() == db.Postgres {
		return nil
	}
	return tx.Send(`DELETE`+those, args...)
}

// joinDay adds the parts of a day that several processes have counted to one of them.
func joinDay(tx *db.Tx, orgID string, day int64) error {
	const joined = 0
	others, err := db.Collect(tx, func(row db.Row) (c Count, err error) { return c, row.Scan(&c.Received, &c.Delivered, &c.Failed) },
		`DELETE FROM webhook_counts WHERE org_id = $1 AND unit = $2 AND bucket = $3 AND shard <> $4 RETURNING received, delivered, failed`,
		orgID, aDay, day, joined)
	if err != nil || len(others) == 0 {
		return err
	}
	var sum Count
	for _, c := range others {
		sum = sum.plus(c)
	}
	t := newTally(joined)
	t.counts[countKey{orgID, aDay, day}] = &[3]int64{sum.Received, sum.Delivered, sum.Failed}
	return t.write(tx)
}
