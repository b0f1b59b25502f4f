package account

import (
	"context"
	"fmt"

	"steward/internal/auth"
	"steward/internal/db"
)

// Membership is an organization of a user, with the user's role there.
type Membership struct {
	OrgID, OrgName string
	Role           auth.Role
}

// maxMemberships bounds the organizations that are listed for a user.
const maxMemberships = 100

// Memberships returns the organizations in which a user is an enabled member, by name.
func (s *Store) Memberships(ctx context.Context, userID string) ([]Membership, error) {
	scan := func(row db.Row) (m Membership, err error) {
		err = row.Scan(&m.OrgID, &m.OrgName, &m.Role)
		return m, err
	}
	list, err := db.Collect(s.DB.Read(ctx), scan, `SELECT o.id, o.name, m.role
		FROM members m JOIN orgs o ON o.id = m.org_id WHERE m.user_id = $1 AND NOT m.disabled ORDER BY o.name, o.id LIMIT $2`,
		userID, maxMemberships)
	if err != nil {
		return nil, fmt.Errorf("list memberships: %w", err)
	}
	return list, nil
}
