package account

import (
	"context"
	"fmt"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/stamp"
)

// Membership is a user's organization, with the user's role there.
type Membership struct {
	OrgID, OrgName string
	Role           auth.Role
}

// maxMemberships caps the organizations that we list for a user.
const maxMemberships = 100

// Memberships returns, by name, the organizations where a user is an enabled member. It leaves out
// deleted ones.
func (s *Store) Memberships(ctx context.Context, userID string) ([]Membership, error) {
	scan := func(row db.Row) (m Membership, err error) {
		err = row.Scan(&m.OrgID, &m.OrgName, &m.Role)
		return m, err
	}
	list, err := db.Collect(s.DB.Read(ctx), scan, `SELECT o.id, o.name, m.role
		FROM members m JOIN orgs o ON o.id = m.org_id WHERE m.user_id = $1 AND NOT m.disabled AND o.deleted_at IS NULL
		ORDER BY o.name, o.id LIMIT $2`,
		userID, maxMemberships)
	if err != nil {
		return nil, fmt.Errorf("list memberships: %w", err)
	}
	return list, nil
}

// touch writes the times when members were last seen. If another replica has written a later time, it
// keeps that.
func (s *Store) touch(ctx context.Context, keys []membershipKey, at map[membershipKey]stamp.Time) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		for _, key := range keys {
			if _, err := tx.Exec(`UPDATE members SET last_seen_at = $3
				WHERE org_id = $1 AND user_id = $2 AND (last_seen_at IS NULL OR last_seen_at < $3)`,
				key.orgID, key.userID, at[key]); err != nil {
				return fmt.Errorf("update when a member was seen: %w", err)
			}
		}
		return nil
	})
}
