package webhook

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/stamp"
)

var leaseMicros = strconv.FormatInt(leaseFor.Microseconds(), 10)

// A destination has a row in webhook_leases from its creation on, so that taking a lease is an UPDATE
// that leaves out rows which somebody else has locked: an INSERT would wait for them. Nobody holds the
// lease of a row without an owner.

// leaseRow is the lease of a destination.
type leaseRow struct {
	DestinationID, Owner string
	ExpiresAt            stamp.Time
}

// Lease takes or renews the leases of destinations for this process. It returns when they expire,
// and which of them it holds: those that nobody else held, or whose lease had expired, and whose row
// is not locked.
func (s *Store) Lease(ctx context.Context, destinationIDs []string) (until stamp.Time, held []string, err error) {
	until = stamp.Of(s.Now()).Add(leaseFor)
	wanted := make(db.Bulk[leaseRow], len(destinationIDs))
	for i, destinationID := range destinationIDs {
		wanted[i] = leaseRow{DestinationID: destinationID, Owner: s.Owner, ExpiresAt: until}
	}
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		return wanted.SendInto(tx, db.Into(&held, db.Value[string]), `WITH free AS (
				SELECT l.destination_id AS id, v.owner AS taker, v.expires_at AS until
				FROM {v} JOIN webhook_leases l ON l.destination_id = v.destination_id
				WHERE l.owner = v.owner OR l.expires_at <= v.expires_at - `+leaseMicros+db.SkipLocked(tx.Dialect())+`)
			UPDATE webhook_leases SET owner = free.taker, expires_at = free.until FROM free
			WHERE destination_id = free.id RETURNING destination_id`)
	})
	if err != nil {
		return 0, nil, fmt.Errorf("take leases: %w", err)
	}
	return until, held, nil
}

// addLeases adds the rows of destinations that have none.
func (s *Store) addLeases(ctx context.Context, destinationIDs []string) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error { return sendLeases(tx, destinationIDs) })
}

// sendLeases adds rows of leases that nobody holds.
func sendLeases(tx *db.Tx, destinationIDs db.Bulk[string]) error {
	if err := destinationIDs.Send(tx, `INSERT INTO webhook_leases (destination_id, owner, expires_at)
		SELECT v.value, '', 0 FROM {v} WHERE true ON CONFLICT (destination_id) DO NOTHING`); err != nil {
		return fmt.Errorf("add leases: %w", err)
	}
	return nil
}

// ReleaseLeases gives up all leases of this process, so that others need not wait until they expire.
func (s *Store) ReleaseLeases(ctx context.Context) error {
	if _, err := s.DB.Exec(ctx, `UPDATE webhook_leases SET owner = '', expires_at = 0 WHERE destination_id IN (
		SELECT destination_id FROM webhook_leases WHERE owner = $1`+db.SkipLocked(s.DB.Dialect())+`)`, s.Owner); err != nil {
		return fmt.Errorf("release leases: %w", err)
	}
	return nil
}

// DropLeases ends all leases. No other process may use the database.
func (s *Store) DropLeases(ctx context.Context) error {
	if _, err := s.DB.Exec(ctx, `UPDATE webhook_leases SET owner = '', expires_at = 0 WHERE owner <> ''`); err != nil {
		return fmt.Errorf("drop leases: %w", err)
	}
	return nil
}

// unusedLeases are those of deleted destinations that have nothing in the queue any more.
const unusedLeases = `SELECT l.destination_id FROM webhook_leases l WHERE l.expires_at < $1
	AND NOT EXISTS (SELECT 1 FROM webhook_destinations d WHERE d.id = l.destination_id)
	AND NOT EXISTS (SELECT 1 FROM webhook_queue q WHERE q.destination_id = l.destination_id)`

// purgeLeases removes the leases of deleted destinations that expired long ago.
func (s *Store) purgeLeases(ctx context.Context) error {
	before := stamp.Of(s.Now()).Add(-time.Hour)
	found, err := db.Collect(s.DB.Read(ctx), db.Value[string], unusedLeases+` LIMIT 1`, before)
	if err != nil {
		return fmt.Errorf("find unused leases: %w", err)
	}
	if len(found) == 0 {
		return nil
	}
	if _, err := s.DB.Exec(ctx, `DELETE FROM webhook_leases WHERE destination_id IN (`+unusedLeases+
		db.SkipLocked(s.DB.Dialect())+`)`, before); err != nil {
		return fmt.Errorf("delete unused leases: %w", err)
	}
	return nil
}

// head is the first due row of a destination's queue.
type head struct {
	destinationID string
	key           string
	due           stamp.Time
	leased        bool // by another process
	noLease       bool // it has no row in webhook_leases, which an older version has removed
}

// Heads returns the first row of the queue of each destination, if it is due. It jumps from one
// destination to the next in the index, so its cost is the number of destinations with rows, not
// the number of rows.
func (s *Store) Heads(ctx context.Context) ([]head, error) {
	heads, err := db.Collect(s.DB.Read(ctx), func(row db.Row) (h head, err error) {
		return h, row.Scan(&h.destinationID, &h.key, &h.due, &h.leased, &h.noLease)
	}, `WITH RECURSIVE heads(key) AS (
			SELECT (SELECT key FROM webhook_queue ORDER BY destination_id, due_at, key LIMIT 1)
			UNION ALL
			SELECT (SELECT n.key FROM webhook_queue n WHERE n.destination_id > q.destination_id
				ORDER BY n.destination_id, n.due_at, n.key LIMIT 1)
			FROM heads JOIN webhook_queue q ON q.key = heads.key)
		SELECT q.destination_id, q.key, q.due_at, COALESCE(l.owner <> $1 AND l.expires_at > $2, false), l.owner IS NULL
		FROM heads JOIN webhook_queue q ON q.key = heads.key
		LEFT JOIN webhook_leases l ON l.destination_id = q.destination_id WHERE q.due_at <= $2`, s.Owner, stamp.Of(s.Now()))
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
	keys := make(db.Bulk[string], len(tasks))
	byKey := make(map[string]*task, len(tasks))
	for i, t := range tasks {
		keys[i] = t.key
		byKey[t.key] = t
	}
	rows, err := db.CollectBulk(s.DB.Read(ctx), keys, func(row db.Row) (r loadedRow, err error) {
		return r, row.Scan(&r.delivery.key, &r.receiptKey, &r.delivery.orgID, &r.delivery.Date, &r.delivery.Retries, &r.delivery.ReplayID,
			&r.method, &r.headerText, &r.body)
	}, `SELECT q.key, q.receipt_key, q.org_id, q.date, q.retries, q.replay_id, r.method, r.headers, r.body
		FROM {v} JOIN webhook_queue q ON q.key = v.value LEFT JOIN webhook_receipts r ON r.key = q.receipt_key`)
	if err != nil {
		return fmt.Errorf("read deliveries: %w", err)
	}
	for _, r := range rows {
		t := byKey[r.delivery.key]
		if err := t.fill(r); err != nil {
			s.Log.Error("malformed row in the queue", "destination", t.lane.id, "key", t.key, "error", err)
			continue
		}
		if t.receipt == nil {
			continue
		}
		if t.receipt.headerText, err = s.openHeaders(t.WebhookID, t.receipt.headerText); err != nil {
			s.Log.Error("read receipt", "webhook", t.WebhookID, "receipt", t.ReceiptID, "error", err)
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
