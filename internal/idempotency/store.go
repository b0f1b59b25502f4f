package idempotency

import (
	"context"
	"fmt"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/stamp"
)

// claim is the row of a request that takes effect once.
type claim struct {
	orgID     string
	scope     []byte
	bodyHash  []byte
	createdAt stamp.Time
}

// insert reports whether the claim is new. A row older than TTL is replaced.
func (c claim) insert(tx *db.Tx) (claimed bool, err error) {
	if _, err := tx.Exec(`DELETE FROM idempotency WHERE org_id = $1 AND scope = $2 AND created_at < $3`,
		c.orgID, c.scope, c.createdAt.Add(-TTL)); err != nil {
		return false, fmt.Errorf("delete expired response: %w", err)
	}
	n, err := tx.Exec(`INSERT INTO idempotency (org_id, scope, body_hash, status, answer, created_at)
		VALUES ($1, $2, $3, 0, $4, $5) ON CONFLICT (org_id, scope) DO NOTHING`,
		c.orgID, c.scope, c.bodyHash, []byte{}, c.createdAt)
	if err != nil {
		return false, fmt.Errorf("claim idempotency key: %w", err)
	}
	return n == 1, nil
}

// update stores the sealed response of the claim. It returns Conflict if another request has taken it
// over.
func (c claim) update(tx *db.Tx, status int, sealed []byte) error {
	n, err := tx.Exec(`UPDATE idempotency SET status = $4, answer = $5 WHERE org_id = $1 AND scope = $2 AND created_at = $3`,
		c.orgID, c.scope, c.createdAt, status, sealed)
	if err != nil {
		return fmt.Errorf("store response: %w", err)
	}
	if n == 0 {
		return errs.New(errs.Conflict, "the Idempotency-Key was used by another request in the meantime")
	}
	return nil
}

// abandon deletes the claims of a scope that have no response and are at least as old as a time.
func (c claim) abandon(tx *db.Tx, before stamp.Time) error {
	if _, err := tx.Exec(`DELETE FROM idempotency WHERE org_id = $1 AND scope = $2 AND status = 0 AND created_at <= $3`,
		c.orgID, c.scope, before); err != nil {
		return fmt.Errorf("delete claim of idempotency key: %w", err)
	}
	return nil
}

// get returns what an earlier request with the same scope stored.
func (c claim) get(tx *db.Tx) (bodyHash []byte, status int, sealed []byte, err error) {
	err = tx.Row(`SELECT body_hash, status, answer FROM idempotency WHERE org_id = $1 AND scope = $2`, c.orgID, c.scope).
		Scan(&bodyHash, &status, &sealed)
	if err != nil {
		return nil, 0, nil, fmt.Errorf("read stored response: %w", err)
	}
	return bodyHash, status, sealed, nil
}

// Purge deletes the responses older than TTL, at most batch of them in each transaction, and
// returns how many it deleted.
func (s *Store) Purge(ctx context.Context, batch int) (deleted int64, err error) {
	for {
		n, err := s.purge(ctx, batch)
		deleted += n
		if err != nil || n < int64(batch) {
			return deleted, err
		}
	}
}

func (s *Store) purge(ctx context.Context, batch int) (deleted int64, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		var err error
		deleted, err = tx.Exec(`DELETE FROM idempotency WHERE (org_id, scope) IN
			(SELECT org_id, scope FROM idempotency WHERE created_at < $1 LIMIT $2)`, stamp.Of(s.Now()).Add(-TTL), batch)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("purge stored responses: %w", err)
	}
	return deleted, nil
}
