package account

import (
	"context"
	"errors"
	"fmt"

	"steward/internal/db"
	"steward/internal/errs"
)

// OrgName returns the name of an organization, or NotFound.
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
