package web

import (
	"context"

	"steward/internal/db"
	"steward/internal/stamp"
)

// claim is a row of idempotency: one request that takes effect once. This file has all SQL of the package.
type claim struct {
	orgID           string
	scope, bodyHash []byte
	at              stamp.Time
}

// take makes the row, and tells whether it is new. One that is older than Keep counts as gone.
func (c claim) take(tx *db.Tx) (claimed bool, err error) {
	if _, err := tx.Exec(`DELETE FROM idempotency WHERE org_id = $1 AND scope = $2 AND created_at < $3`,
		c.orgID, c.scope, c.at.Add(-Keep)); err != nil {
		return false, err
	}
	n, err := tx.Exec(`INSERT INTO idempotency (org_id, scope, body_hash, status, answer, created_at)
		VALUES ($1, $2, $3, 0, $4, $5) ON CONFLICT (org_id, scope) DO NOTHING`, c.orgID, c.scope, c.bodyHash, []byte{}, c.at)
	return n == 1, err
}

// keep stores the answer that was given.
func (c claim) keep(tx *db.Tx, status int, sealed []byte) error {
	_, err := tx.Exec(`UPDATE idempotency SET status = $3, answer = $4 WHERE org_id = $1 AND scope = $2`, c.orgID, c.scope, status, sealed)
	return err
}

// answer gives what an earlier request of the same scope left.
func (c claim) answer(tx *db.Tx) (bodyHash []byte, status int, sealed []byte, err error) {
	err = tx.Row(`SELECT body_hash, status, answer FROM idempotency WHERE org_id = $1 AND scope = $2`, c.orgID, c.scope).
		Scan(&bodyHash, &status, &sealed)
	return bodyHash, status, sealed, err
}

// Purge forgets all answers that are older than Keep, and tells how many; each transaction takes at most `batch` of them.
func (i *Idempotency) Purge(ctx context.Context, batch int) (all int64, err error) {
	for {
		n, err := i.purge(ctx, batch)
		all += n
		if err != nil || n < int64(batch) {
			return all, err
		}
	}
}

func (i *Idempotency) purge(ctx context.Context, batch int) (n int64, err error) {
	err = i.DB.Write(ctx, func(tx *db.Tx) error {
		n, err = tx.Exec(`DELETE FROM idempotency WHERE (org_id, scope) IN
			(SELECT org_id, scope FROM idempotency WHERE created_at < $1 LIMIT $2)`, stamp.Of(i.Now()).Add(-Keep), batch)
		return err
	})
	return n, err
}
