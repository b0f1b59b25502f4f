package oidc

import (
	"fmt"

	"steward/internal/db"
)

// ForgetUser deletes a removed user's consents in all organizations, which revokes the tokens based on
// them.
func (s *Store) ForgetUser(tx *db.Tx, userID string) error {
	orgIDs, err := db.Collect(tx, db.Value[string], `SELECT DISTINCT org_id FROM oidc_consents WHERE user_id = $1 ORDER BY org_id`, userID)
	if err != nil {
		return fmt.Errorf("list consents of user: %w", err)
	}
	for _, orgID := range orgIDs {
		if err := s.ForgetMember(tx, orgID, userID); err != nil {
			return err
		}
	}
	return nil
}
