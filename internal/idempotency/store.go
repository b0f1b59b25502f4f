package idempotency

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/db"
	"steward/internal/stamp"
)

// claim is the row for a request that takes effect once.
type claim struct {
	orgID    string
	scope    []byte
	bodyHash []byte
	// owner tells this request from others with the same scope. It stands in the response's place
	// until there is one.
	owner []byte
	// now is when the request began.
	now stamp.Time
}

// stored is a row. Its status is 0 while there is no response; then createdAt is the claim's last
// renewal.
type stored struct {
	bodyHash  []byte
	status    int
	answer    []byte
	createdAt stamp.Time
}

// insert inserts the claim, unless another request has the key, and reports whether it did. It
// replaces a row older than TTL, a claim without a response that was last renewed at dead, and an
// error that an earlier version stored.
func (c claim) insert(tx *db.Tx, dead stamp.Time) (inserted bool, err error) {
	n, err := tx.Exec(`INSERT INTO idempotency (org_id, scope, body_hash, status, answer, created_at)
		VALUES (@org_id, @scope, @body_hash, 0, @owner, @created_at) ON CONFLICT (org_id, scope) DO UPDATE
		SET body_hash = excluded.body_hash, status = 0, answer = excluded.answer, created_at = excluded.created_at
		WHERE idempotency.created_at < @expired OR idempotency.status = 0 AND idempotency.created_at = @dead
		OR idempotency.status >= 300`,
		db.Args{
			"org_id": c.orgID, "scope": c.scope, "body_hash": c.bodyHash, "owner": c.owner,
			"created_at": max(c.now, dead+1), "expired": c.now.Add(-TTL), "dead": dead,
		})
	if err != nil {
		return false, fmt.Errorf("claim idempotency key: %w", err)
	}
	return n == 1, nil
}

// renew shows that the request is alive. The row's time moves even if the clock does not.
func (c claim) renew(tx *db.Tx, now stamp.Time) error {
	if _, err := tx.Exec(`UPDATE idempotency SET created_at = CASE WHEN created_at < $4 THEN $4 ELSE created_at + 1 END
		WHERE org_id = $1 AND scope = $2 AND status = 0 AND answer = $3`, c.orgID, c.scope, c.owner, now); err != nil {
		return fmt.Errorf("renew claim of idempotency key: %w", err)
	}
	return nil
}

// store stores the claim's sealed response. It returns Conflict if another request has taken the
// claim over.
func (c claim) store(tx *db.Tx, status int, sealed []byte) error {
	n, err := tx.Exec(`UPDATE idempotency SET status = @status, answer = @answer
		WHERE org_id = @org_id AND scope = @scope AND status = 0 AND answer = @owner`,
		db.Args{"org_id": c.orgID, "scope": c.scope, "owner": c.owner, "status": status, "answer": sealed})
	if err != nil {
		return fmt.Errorf("store response: %w", err)
	}
	if n == 0 {
		return errStored
	}
	return nil
}

// delete deletes the claim, if it has no response.
func (c claim) delete(tx *db.Tx) error {
	if _, err := tx.Exec(`DELETE FROM idempotency WHERE org_id = $1 AND scope = $2 AND status = 0 AND answer = $3`,
		c.orgID, c.scope, c.owner); err != nil {
		return fmt.Errorf("delete claim of idempotency key: %w", err)
	}
	return nil
}

// get returns the scope's row, whichever request inserted it, or nil. It skips an error that an
// earlier version stored.
func (c claim) get(q db.Querier) (*stored, error) {
	var s stored
	err := q.Row(`SELECT body_hash, status, answer, created_at FROM idempotency
		WHERE org_id = $1 AND scope = $2 AND status < 300`, c.orgID, c.scope).Scan(&s.bodyHash, &s.status, &s.answer, &s.createdAt)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read stored response: %w", err)
	}
	return &s, nil
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
	deleted, err = s.DB.Exec(ctx, `DELETE FROM idempotency WHERE (org_id, scope) IN
		(SELECT org_id, scope FROM idempotency WHERE created_at < $1 LIMIT $2`+db.SkipLocked(s.DB.Dialect())+`)`,
		stamp.Of(s.Now()).Add(-TTL), batch)
	if err != nil {
		return 0, fmt.Errorf("purge stored responses: %w", err)
	}
	return deleted, nil
}
