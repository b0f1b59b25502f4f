package queue

import (
	"context"
	"fmt"
	"time"

	"steward/internal/db"
	"steward/internal/stamp"
)

// changed is the topic on which replicas tell each other about new rows in the queue.
const changed = "webhook.queue"

// Store has this package's SQL, for one process.
type Store struct {
	DB  *db.DB
	Now func() time.Time
	// Owner names this process in leases.
	Owner string
	// Wake is called after rows for these destinations were committed; nil in a process that sends
	// nothing.
	Wake func(destinationIDs []string)
}

// Notify tells this process and other replicas that rows for these destinations were committed, or
// became due sooner.
func (s *Store) Notify(destinationIDs []string) {
	if s.Wake != nil {
		s.Wake(destinationIDs)
	}
	s.DB.Notify(changed)
}

// Insert adds rows to the queue.
func Insert(tx *db.Tx, rows db.Bulk[Row]) error {
	if err := rows.Send(tx, `INSERT INTO webhook_queue (key, destination_id, date, retries, receipt_key, org_id, due_at, size, replay_id)
		SELECT v.key, v.destination_id, v.date, v.retries, v.receipt_key, v.org_id, v.due_at, v.size, v.replay_id FROM {v}`); err != nil {
		return fmt.Errorf("insert into queue: %w", err)
	}
	return nil
}

// Remove deletes rows whose deliveries have ended.
func Remove(tx *db.Tx, keys db.Bulk[string]) error {
	if err := keys.Send(tx, `DELETE FROM webhook_queue WHERE key {IN v}`); err != nil {
		return fmt.Errorf("remove from queue: %w", err)
	}
	return nil
}

// Range is half-open: it includes From and excludes To.
type Range struct{ From, To string }

// RemoveRange deletes up to limit rows and returns their number. It skips rows that another
// transaction has locked.
func RemoveRange(tx *db.Tx, keys Range, limit int) (int64, error) {
	n, err := tx.Exec(`DELETE FROM webhook_queue WHERE key IN (SELECT key FROM webhook_queue WHERE key >= $1 AND key < $2
		ORDER BY key LIMIT $3`+db.SkipLocked(tx.Dialect())+`)`, keys.From, keys.To, limit)
	if err != nil {
		return 0, fmt.Errorf("remove from queue: %w", err)
	}
	return n, nil
}

// MakeDue makes a row due at a time, unless it is due earlier.
func MakeDue(tx *db.Tx, key string, at stamp.Time) error {
	if _, err := tx.Exec(`UPDATE webhook_queue SET due_at = $2 WHERE key = $1 AND due_at > $2`, key, at); err != nil {
		return fmt.Errorf("make delivery due: %w", err)
	}
	return nil
}

// Replayed is a row that a replay makes due instead of adding its own delivery.
type Replayed struct {
	Key      string
	DueAt    stamp.Time
	ReplayID string
}

// MakeReplayedDue makes rows due, unless they are due earlier, and notes the replays. It returns the
// indexes of the rows that it found in the queue.
func MakeReplayedDue(tx *db.Tx, rows db.Bulk[Replayed]) ([]int, error) {
	found, err := rows.Changed(tx, `UPDATE webhook_queue SET replays = replays || ' ' || v.replay_id,
		due_at = CASE WHEN due_at > v.due_at THEN v.due_at ELSE due_at END {FROM v} WHERE key = v.key`)
	if err != nil {
		return nil, fmt.Errorf("make waiting attempts due: %w", err)
	}
	return found, nil
}

// Replays lists the replays that made a row due.
type Replays struct {
	Key string
	IDs string // separated by blanks
}

// ReplaysOf returns rows' replays. It leaves out rows without any.
func ReplaysOf(tx *db.Tx, keys db.Bulk[string]) ([]Replays, error) {
	found, err := db.CollectBulk(tx, keys, func(row db.Row) (r Replays, err error) {
		return r, row.Scan(&r.Key, &r.IDs)
	}, `SELECT q.key, q.replays FROM {v} JOIN webhook_queue q ON q.key = v.value WHERE q.replays <> ''`)
	if err != nil {
		return nil, fmt.Errorf("find replays of attempts: %w", err)
	}
	return found, nil
}

// Head is the first row in a destination's queue.
type Head struct {
	Row          // key, destination and due time only
	Leased  bool // by another process
	noLease bool // it has no row in webhook_leases because an older version removed it
}

// Heads returns the first row in each destination's queue if it is due within the given time, the
// destination is not paused and the organization was not deleted. It jumps from one destination to the next in the index, so its cost
// grows with the destinations that have rows, not with the rows.
func (s *Store) Heads(ctx context.Context, within time.Duration) ([]Head, error) {
	now := stamp.Of(s.Now())
	heads, err := db.Collect(s.DB.Read(ctx), func(row db.Row) (h Head, err error) {
		return h, row.Scan(&h.DestinationID, &h.Key, &h.DueAt, &h.Leased, &h.noLease)
	}, `WITH RECURSIVE heads(key) AS (
			SELECT (SELECT key FROM webhook_queue ORDER BY destination_id, due_at, key LIMIT 1)
			UNION ALL
			SELECT (SELECT n.key FROM webhook_queue n WHERE n.destination_id > q.destination_id
				ORDER BY n.destination_id, n.due_at, n.key LIMIT 1)
			FROM heads JOIN webhook_queue q ON q.key = heads.key)
		SELECT q.destination_id, q.key, q.due_at, COALESCE(l.owner <> $1 AND l.expires_at > $2, false), l.owner IS NULL
		FROM heads JOIN webhook_queue q ON q.key = heads.key
		LEFT JOIN webhook_leases l ON l.destination_id = q.destination_id WHERE q.due_at <= $3
			AND NOT EXISTS (SELECT 1 FROM deleted_orgs d WHERE d.org_id = q.org_id)
			AND NOT EXISTS (SELECT 1 FROM webhook_destinations p WHERE p.id = q.destination_id AND p.paused)`, s.Owner, now, now.Add(within))
	if err != nil {
		return nil, fmt.Errorf("find due deliveries: %w", err)
	}
	return heads, nil
}

// Due returns the due rows in a destination's queue, in order, with their keys, due times and sizes
// only. It returns none if the destination is paused or the organization was deleted.
func (s *Store) Due(ctx context.Context, destinationID string, p Portion) ([]Row, error) {
	rows, err := db.Collect(s.DB.Read(ctx), func(row db.Row) (Row, error) {
		r := Row{DestinationID: destinationID}
		err := row.Scan(&r.Key, &r.DueAt, &r.Size)
		return r, err
	}, `SELECT key, due_at, size FROM webhook_queue
		WHERE destination_id = $1 AND due_at BETWEEN $2 AND $3 AND NOT EXISTS (SELECT 1 FROM webhook_destinations d
			LEFT JOIN deleted_orgs o ON o.org_id = d.org_id WHERE d.id = $1 AND (d.paused OR o.org_id IS NOT NULL))
		ORDER BY due_at, key LIMIT $4`,
		destinationID, p.Since, stamp.Of(s.Now()), p.Limit)
	if err != nil {
		return nil, fmt.Errorf("read queue of %s: %w", destinationID, err)
	}
	return rows, nil
}
