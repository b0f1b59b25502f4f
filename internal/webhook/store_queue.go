package webhook

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/stamp"
)

var leaseMicros = strconv.FormatInt(leaseFor.Microseconds(), 10)

// Lease takes or renews the leases of destinations for this process. It returns when they expire,
// and which of them it holds: those that nobody else held, or whose lease had expired.
func (s *Store) Lease(ctx context.Context, destinationIDs []string) (until stamp.Time, held []string, err error) {
	until = stamp.Of(s.Now()).Add(leaseFor)
	wanted := db.NewBulk(db.Text, db.Text, db.Int)
	for _, destinationID := range destinationIDs {
		wanted.Add(destinationID, s.Owner, int64(until))
	}
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		held, err = db.CollectBulk(tx, wanted, scanText, `INSERT INTO webhook_leases (destination_id, owner, expires_at)
			SELECT v.column1, v.column2, v.column3 FROM {v} WHERE true ON CONFLICT (destination_id) DO UPDATE
			SET owner = excluded.owner, expires_at = excluded.expires_at
			WHERE webhook_leases.owner = excluded.owner OR webhook_leases.expires_at <= excluded.expires_at - `+leaseMicros+`
			RETURNING destination_id`)
		return err
	})
	if err != nil {
		return 0, nil, fmt.Errorf("take leases: %w", err)
	}
	return until, held, nil
}

// ReleaseLeases gives up all leases of this process, so that others need not wait until they expire.
func (s *Store) ReleaseLeases(ctx context.Context) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(`DELETE FROM webhook_leases WHERE owner = $1`, s.Owner)
		return err
	})
}

// DropLeases removes all leases. No other process may use the database.
func (s *Store) DropLeases(ctx context.Context) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(`DELETE FROM webhook_leases`)
		return err
	})
}

// purgeLeases removes leases that expired long ago.
func (s *Store) purgeLeases(ctx context.Context) error {
	before := stamp.Of(s.Now()).Add(-time.Hour)
	var one int
	err := s.DB.Read(ctx).Row(`SELECT 1 FROM webhook_leases WHERE expires_at < $1 LIMIT 1`, before).Scan(&one)
	if errors.Is(err, db.ErrNoRows) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find expired leases: %w", err)
	}
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(`DELETE FROM webhook_leases WHERE expires_at < $1`, before)
		return err
	})
}

// head is the first due row of a destination's queue.
type head struct {
	destinationID string
	key           string
	due           stamp.Time
	leased        bool // by another process
}

// Heads returns the first row of the queue of each destination, if it is due. It jumps from one
// destination to the next in the index, so its cost is the number of destinations with rows, not
// the number of rows.
func (s *Store) Heads(ctx context.Context) ([]head, error) {
	heads, err := db.Collect(s.DB.Read(ctx), func(row db.Row) (h head, err error) {
		return h, row.Scan(&h.destinationID, &h.key, &h.due, &h.leased)
	}, `WITH RECURSIVE heads(key) AS (
			SELECT (SELECT key FROM webhook_queue ORDER BY destination_id, due_at, key LIMIT 1)
			UNION ALL
			SELECT (SELECT n.key FROM webhook_queue n WHERE n.destination_id > q.destination_id
				ORDER BY n.destination_id, n.due_at, n.key LIMIT 1)
			FROM heads JOIN webhook_queue q ON q.key = heads.key)
		SELECT q.destination_id, q.key, q.due_at, EXISTS (SELECT 1 FROM webhook_leases l
			WHERE l.destination_id = q.destination_id AND l.owner <> $1 AND l.expires_at > $2)
		FROM heads JOIN webhook_queue q ON q.key = heads.key WHERE q.due_at <= $2`, s.Owner, stamp.Of(s.Now()))
	if err != nil {
		return nil, fmt.Errorf("find due deliveries: %w", err)
	}
	return heads, nil
}

// dueRow is a row of the queue as a read finds it.
type dueRow struct {
	key  string
	due  stamp.Time
	size int64 // of the receipt's headers and body
}

// Due returns the first due rows of a destination's queue, in order.
func (s *Store) Due(ctx context.Context, destinationID string, limit int) ([]dueRow, error) {
	rows, err := db.Collect(s.DB.Read(ctx), func(row db.Row) (d dueRow, err error) {
		return d, row.Scan(&d.key, &d.due, &d.size)
	}, `SELECT key, due_at, size FROM webhook_queue
		WHERE destination_id = $1 AND due_at <= $2 ORDER BY due_at, key LIMIT $3`,
		destinationID, stamp.Of(s.Now()), limit)
	if err != nil {
		return nil, fmt.Errorf("read queue of %s: %w", destinationID, err)
	}
	return rows, nil
}

// loadedRow is a row of the queue with what is needed of its receipt to send it.
type loadedRow struct {
	delivery           Delivery
	receiptKey         string
	method, headerText *string
	body               []byte
}

// load reads the deliveries and receipts of tasks. A task whose receipt is no longer kept has none. A
// task whose row is gone or malformed keeps an empty ID: it must not keep others back.
func (s *Store) load(ctx context.Context, tasks []*task) error {
	keys := db.NewBulk(db.Text)
	byKey := make(map[string]*task, len(tasks))
	for _, t := range tasks {
		keys.Add(t.key)
		byKey[t.key] = t
	}
	rows, err := db.CollectBulk(s.DB.Read(ctx), keys, func(row db.Row) (r loadedRow, err error) {
		return r, row.Scan(&r.delivery.key, &r.receiptKey, &r.delivery.orgID, &r.delivery.Date, &r.delivery.Retries, &r.delivery.ReplayID,
			&r.method, &r.headerText, &r.body)
	}, `SELECT q.key, q.receipt_key, q.org_id, q.date, q.retries, q.replay_id, r.method, r.headers, r.body
		FROM {v} JOIN webhook_queue q ON q.key = v.column1 LEFT JOIN webhook_receipts r ON r.key = q.receipt_key`)
	if err != nil {
		return fmt.Errorf("read deliveries: %w", err)
	}
	for _, r := range rows {
		t := byKey[r.delivery.key]
		if err := t.fill(r); err != nil {
			s.Log.Error("malformed row in the queue", "destination", t.lane.id, "key", t.key, "error", err)
		}
	}
	return nil
}

// fill sets what a task needs to be sent.
func (t *task) fill(r loadedRow) error {
	webhookID, deliveryID, err := splitKey(t.key, id.Delivery)
	if err != nil {
		return err
	}
	if _, t.ReceiptID, err = splitKey(r.receiptKey, id.Receipt); err != nil {
		return err
	}
	t.ID = deliveryID
	t.WebhookID = webhookID
	t.Status = Pending
	t.DestinationID = t.lane.id
	t.orgID = r.delivery.orgID
	t.Date = r.delivery.Date
	t.Retries = r.delivery.Retries
	t.ReplayID = r.delivery.ReplayID
	if r.method != nil {
		t.receipt = &Receipt{Method: *r.method, headerText: *r.headerText, body: r.body}
	}
	return nil
}

func scanText(row db.Row) (text string, err error) { return text, row.Scan(&text) }
