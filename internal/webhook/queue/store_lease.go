package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"steward/internal/db"
	"steward/internal/stamp"
)

// LeaseFor is how long a process may be silent before another one may take over its destinations.
const LeaseFor = 30 * time.Second

var leaseMicros = strconv.FormatInt(LeaseFor.Microseconds(), 10)

// A destination gets its row in webhook_leases when it is created. Taking a lease is therefore an
// UPDATE, which can skip rows that somebody else has locked; an INSERT would wait for them. While a
// row has no owner, nobody holds the lease.

// leaseRow is a destination's lease.
type leaseRow struct {
	DestinationID, Owner string
	ExpiresAt            stamp.Time
}

// Lease takes or renews destinations' leases for this process, and returns their expiry and the
// destinations it got. It gets a lease that it holds already, that nobody holds, or that its holder
// let expire, but never one whose row is locked.
func (s *Store) Lease(ctx context.Context, destinationIDs []string) (until stamp.Time, held []string, err error) {
	until = stamp.Of(s.Now()).Add(LeaseFor)
	wanted := make(db.Bulk[leaseRow], len(destinationIDs))
	for i, destinationID := range destinationIDs {
		wanted[i] = leaseRow{DestinationID: destinationID, Owner: s.Owner, ExpiresAt: until}
	}
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		return wanted.SendInto(tx, db.Into(&held, db.Value[string]), `WITH free AS (
				SELECT l.destination_id AS id, v.owner AS taker, v.expires_at AS until
				FROM {v} JOIN webhook_leases l ON l.destination_id = v.destination_id
				WHERE l.owner = v.owner OR l.expires_at <= v.expires_at - `+leaseMicros+db.SkipLocked(tx.Dialect())+`)
			UPDATE webhook_leases SET owner = free.taker, expires_at = free.until,
				others_until = CASE WHEN owner = free.taker THEN others_until ELSE expires_at END FROM free
			WHERE destination_id = free.id RETURNING destination_id`)
	})
	if err != nil {
		return 0, nil, fmt.Errorf("take leases: %w", err)
	}
	return until, held, nil
}

// addLeases adds rows for destinations that have none.
func (s *Store) addLeases(ctx context.Context, destinationIDs []string) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error { return AddLeases(tx, destinationIDs) })
}

// OthersUntil returns until when another process may have sent to a destination that this one has leased,
// or 0.
func (s *Store) OthersUntil(ctx context.Context, destinationID string) (until stamp.Time, err error) {
	err = s.DB.Read(ctx).Row(`SELECT others_until FROM webhook_leases WHERE destination_id = $1`, destinationID).Scan(&until)
	if errors.Is(err, db.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read lease: %w", err)
	}
	return until, nil
}

// AddLeases adds lease rows, held by nobody, for destinations that have none.
func AddLeases(tx *db.Tx, destinationIDs db.Bulk[string]) error {
	if err := destinationIDs.Send(tx, `INSERT INTO webhook_leases (destination_id, owner, expires_at)
		SELECT v.value, '', 0 FROM {v} WHERE true ON CONFLICT (destination_id) DO NOTHING`); err != nil {
		return fmt.Errorf("add leases: %w", err)
	}
	return nil
}

// Held returns the destinations, among these, that are leased to this process.
func (s *Store) Held(tx *db.Tx, destinationIDs []string) (map[string]bool, error) {
	wanted := make(db.Bulk[leaseRow], len(destinationIDs))
	for i, destinationID := range destinationIDs {
		wanted[i] = leaseRow{DestinationID: destinationID, Owner: s.Owner}
	}
	found, err := db.CollectBulk(tx, wanted, db.Value[string], `SELECT l.destination_id
		FROM {v} JOIN webhook_leases l ON l.destination_id = v.destination_id AND l.owner = v.owner`)
	if err != nil {
		return nil, fmt.Errorf("check leases: %w", err)
	}
	held := map[string]bool{}
	for _, destinationID := range found {
		held[destinationID] = true
	}
	return held, nil
}

// ReleaseLeases gives up all leases this process holds, so that others need not wait until they
// expire. The rows say when.
func (s *Store) ReleaseLeases(ctx context.Context) error {
	if _, err := s.DB.Exec(ctx, `UPDATE webhook_leases SET owner = '', expires_at = $2 WHERE destination_id IN (
		SELECT destination_id FROM webhook_leases WHERE owner = $1`+db.SkipLocked(s.DB.Dialect())+`)`, s.Owner, stamp.Of(s.Now())); err != nil {
		return fmt.Errorf("release leases: %w", err)
	}
	return nil
}

// DropLeases ends all leases. Call it only while no other process uses the database.
func (s *Store) DropLeases(ctx context.Context) error {
	if _, err := s.DB.Exec(ctx, `UPDATE webhook_leases SET owner = '', expires_at = CASE WHEN expires_at < $1 THEN expires_at ELSE $1 END
		WHERE owner <> ''`, stamp.Of(s.Now())); err != nil {
		return fmt.Errorf("drop leases: %w", err)
	}
	return nil
}

// unusedLeases selects the leases of deleted destinations that have nothing left in the queue.
const unusedLeases = `SELECT l.destination_id FROM webhook_leases l WHERE l.expires_at < $1
	AND NOT EXISTS (SELECT 1 FROM webhook_destinations d WHERE d.id = l.destination_id)
	AND NOT EXISTS (SELECT 1 FROM webhook_queue q WHERE q.destination_id = l.destination_id)`

// PurgeLeases removes deleted destinations' leases long after they expired.
func (s *Store) PurgeLeases(ctx context.Context) error {
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
