package audit

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/db"
)

const (
	// purgeBatch caps the entries that one transaction removes, so that others hardly wait for it.
	// purgeRounds caps the transactions for one organization before the next has its turn.
	purgeBatch  = 500
	purgeRounds = 100
)

// Purge removes entries older than the retention, in batches. It leaves the rest for the next call.
func (s *Store) Purge(ctx context.Context) error {
	before := firstID(s.Now().Add(-s.Retention))
	for orgID := ""; ; {
		var err error
		orgID, err = s.nextOrg(ctx, orgID)
		if err != nil || orgID == "" {
			return err
		}
		if err := s.purgeOrg(ctx, orgID, before); err != nil {
			return fmt.Errorf("delete old audit entries: %w", err)
		}
	}
}

// nextOrg returns the next organization in the log, or "".
func (s *Store) nextOrg(ctx context.Context, after string) (orgID string, err error) {
	err = s.DB.Read(ctx).Row(`SELECT org_id FROM audit WHERE org_id > $1 ORDER BY org_id LIMIT 1`, after).Scan(&orgID)
	if err != nil && !errors.Is(err, db.ErrNoRows) {
		return "", fmt.Errorf("list organizations of the audit log: %w", err)
	}
	return orgID, nil
}

// purgeOrg removes an organization's old entries.
func (s *Store) purgeOrg(ctx context.Context, orgID, before string) error {
	for range purgeRounds {
		var n int64
		err := s.DB.Write(ctx, func(tx *db.Tx) (err error) {
			n, err = tx.Exec(`DELETE FROM audit WHERE org_id = $1 AND id IN (SELECT id FROM audit
				WHERE org_id = $1 AND id < $2 ORDER BY id LIMIT $3)`, orgID, before, purgeBatch)
			return err
		})
		if err != nil || n < purgeBatch {
			return err
		}
	}
	return nil
}
