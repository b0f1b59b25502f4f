//go:build bench

package bench

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/id"
)

// fixtureAge is the age of the oldest row of a fixture. It is less than the retention.
const fixtureAge = 7 * 24 * time.Hour

// fixture is what is inserted into a database while Steward is stopped: receipts of the last week with
// one delivery each, and the counts of a year.
type fixture struct {
	in            *installation
	hook          hook
	destinationID string
	rows          int
	pending       bool  // deliveries are pending; else one in fifty has failed and the others succeeded
	feed          *feed // numbers the events, if they are to be sent

	sample []string // ids of receipts, evenly spread
	took   time.Duration
}

const (
	fixtureHeads = `{"content-length":"450","content-type":"application/json","host":"steward"}`
	fixtureReply = `{"status":200,"headers":{"content-length":"2","content-type":"text/plain; charset=utf-8","date":` +
		`"Sun, 15 Nov 2026 08:30:00 GMT"},"body":"ok","duration_ms":1}`

	receiptColumns  = "key, date, method, query, remote_addr, content_type, size, headers, body"
	deliveryColumns = "key, destination_id, receipt_id, date, retries, status, failed, finished_at, error, response"
	queueColumns    = "key, destination_id, receipt_key, date, retries, org_id, due_at, size"

	// $2 is the unit, $3 to $4 are its buckets.
	fixtureCounts = `WITH RECURSIVE b(bucket) AS (
			SELECT CAST($3 AS BIGINT) UNION ALL SELECT bucket + 1 FROM b WHERE bucket < CAST($4 AS BIGINT))
		INSERT INTO webhook_counts (org_id, unit, bucket, received, delivered, failed)
		SELECT $1, CAST($2 AS BIGINT), bucket, bucket % 1000, bucket % 900, bucket % 100 FROM b WHERE true
		ON CONFLICT DO NOTHING`
)

// load inserts the rows.
func (s *fixture) load() {
	start := time.Now()
	d, err := db.Open(s.in.t.Context(), db.Options{URL: s.in.Database, Path: filepath.Join(s.in.Dir, "steward.db")})
	s.in.Must(err)
	const atOnce = 5000
	for at := 0; at < s.rows; at += atOnce {
		receipts, deliveries := s.rowsOf(start, at, min(atOnce, s.rows-at))
		s.in.Must(d.Write(s.in.t.Context(), func(tx *db.Tx) error {
			if err := insert(tx, "webhook_receipts", receiptColumns, receipts); err != nil {
				return err
			}
			if err := insert(tx, "webhook_deliveries", deliveryColumns, deliveries); err != nil {
				return err
			}
			return s.enqueue(tx, deliveries)
		}))
	}
	s.in.Must(d.Write(s.in.t.Context(), func(tx *db.Tx) error { return s.insertCounts(tx, start) }))
	s.in.Must(d.Close())
	s.in.analyze()
	s.took = time.Since(start)
}

// rowsOf returns the columns of n receipts and their deliveries, beginning with number at.
func (s *fixture) rowsOf(now time.Time, at, n int) (receipts, deliveries [][]any) {
	for i := at; i < at+n; i++ {
		date := now.Add(-fixtureAge + time.Duration(float64(fixtureAge)*float64(i)/float64(s.rows)))
		receiptID, body, micros := id.At(id.Receipt, date), newEvent(), date.UnixMicro()
		if s.feed != nil {
			mark(body, s.feed.last.Add(1), now)
		}
		if i%max(1, s.rows/1000) == 0 {
			s.sample = append(s.sample, receiptID)
		}
		receipts = append(receipts, []any{
			s.key(receiptID), micros, "POST", "", "127.0.0.1", "application/json", int64(len(body)), fixtureHeads, body,
		})
		deliveries = append(deliveries, append(
			[]any{s.key(id.At(id.Delivery, date)), s.destinationID, receiptID, micros}, s.state(i, micros)...))
	}
	return receipts, deliveries
}

// key returns the key of a row: the ULID of the webhook and its own.
func (s *fixture) key(rowID string) string {
	_, hook, _ := strings.Cut(s.hook.id, "_")
	_, row, _ := strings.Cut(rowID, "_")
	return hook + row
}

// insert inserts rows, a hundred with each statement.
func insert(tx *db.Tx, table, columns string, rows [][]any) error {
	for chunk := range slices.Chunk(rows, 100) {
		text := "INSERT INTO " + table + " (" + columns + ") VALUES " + tuples(tx.Dialect(), len(chunk), len(chunk[0]))
		if err := tx.Send(text, slices.Concat(chunk...)...); err != nil {
			return err
		}
	}
	return nil
}

// enqueue inserts pending deliveries into the queue.
func (s *fixture) enqueue(tx *db.Tx, deliveries [][]any) error {
	if !s.pending {
		return nil
	}
	var rows [][]any
	size := int64(len(fixtureHeads) + eventSize)
	for _, d := range deliveries {
		key, destinationID, receiptID, date := d[0], d[1], d[2].(string), d[3]
		rows = append(rows, []any{key, destinationID, s.key(receiptID), date, int64(0), s.in.orgID, date, size})
	}
	return insert(tx, "webhook_queue", queueColumns, rows)
}

// state returns retries, status, failed, finished_at, error and response of the ith delivery.
func (s *fixture) state(i int, micros int64) []any {
	switch {
	case s.pending:
		return []any{int64(0), "pending", false, nil, nil, nil}
	case i%50 == 0:
		return []any{int64(0), "failed", true, micros, "the destination did not respond within 15 s", nil}
	}
	return []any{int64(0), "success", false, micros, nil, fixtureReply}
}

// tuples returns the placeholders of rows. Those of SQLite have no numbers, which it would look up one
// by one.
func tuples(dialect db.Dialect, rows, columns int) string {
	all := make([]string, rows)
	for row := range all {
		marks := make([]string, columns)
		for i := range marks {
			marks[i] = "?"
			if dialect == db.Postgres {
				marks[i] = "$" + strconv.Itoa(row*columns+i+1)
			}
		}
		all[row] = "(" + strings.Join(marks, ",") + ")"
	}
	return strings.Join(all, ",")
}

// insertCounts inserts the totals of the webhook and the counts of a year.
func (s *fixture) insertCounts(tx *db.Tx, now time.Time) error {
	pending := 0
	if s.pending {
		pending = s.rows
	}
	if _, err := tx.Exec(`INSERT INTO webhook_totals (org_id, webhook_id, receipts, deliveries, pending)
		VALUES ($1, $2, $3, $4, $5)`, s.in.orgID, s.hook.id, s.rows, s.rows, pending); err != nil {
		return err
	}
	yearAgo := now.Add(-366 * 24 * time.Hour).Unix()
	for _, unit := range []int64{60, 3600, 86400} {
		if _, err := tx.Exec(fixtureCounts, s.in.orgID, unit, yearAgo/unit, now.Unix()/unit); err != nil {
			return err
		}
	}
	return nil
}
