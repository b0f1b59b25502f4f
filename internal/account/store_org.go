package account

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/db"
	"steward/internal/errs"
)

// LockOrg locks an organization until the transaction ends, so that counts of its rows stay valid.
func LockOrg(tx *db.Tx, orgID string) error {
	if _, err := tx.Exec(`UPDATE orgs SET name = name WHERE id = $1`, orgID); err != nil {
		return fmt.Errorf("lock organization: %w", err)
	}
	return nil
}

// OrgName returns an organization's name, or NotFound.
func (s *Store) OrgName(ctx context.Context, orgID string) (name string, err error) {
	err = s.DB.Read(ctx).Row(`SELECT name FROM orgs WHERE id = $1`, orgID).Scan(&name)
	if errors.Is(err, db.ErrNoRows) {
		return "", errs.Missing("organization", orgID)
	}
	if err != nil {
		return "", fmt.Errorf("read organization: %w", err)
	}
	return name, nil
}
