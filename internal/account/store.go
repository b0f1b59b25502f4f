package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// invitationLifetime is how long an invitation link is valid.
const invitationLifetime = 7 * 24 * time.Hour

// Store is the SQL of this package: members here, projects in store_project.go, sign-in in
// store_signin.go.
type Store struct {
	DB  *db.DB
	Now func() time.Time
	// Audit records an action in its transaction.
	Audit func(tx *db.Tx, action, target string) error
	// ProjectGone and MemberGone are called in the transaction that removes one, to remove what
	// belongs to it.
	ProjectGone []func(tx *db.Tx, orgID, projectID string) error
	MemberGone  []func(tx *db.Tx, orgID, userID string) error
}

func (s *Store) now() stamp.Time { return stamp.Of(s.Now()) }

// First holds the ids of the first organization, its owner and its project.
type First struct {
	OrgID, UserID, ProjectID string
}

// Bootstrap creates the first organization with its owner and a default project. E-mail address and
// password of the owner may be empty.
func (s *Store) Bootstrap(tx *db.Tx, email, password string) (First, error) {
	now := s.now()
	f := First{OrgID: id.New(id.Org), UserID: id.New(id.User), ProjectID: id.New(id.Project)}
	var address, hash *string
	if email != "" {
		address = new(strings.ToLower(email))
	}
	if password != "" {
		hash = new(HashPassword(password))
	}
	if _, err := tx.Exec(`INSERT INTO orgs (id, name, created_at) VALUES ($1, $2, $3)`,
		f.OrgID, "Default organization", now); err != nil {
		return First{}, fmt.Errorf("insert organization: %w", err)
	}
	if _, err := tx.Exec(`INSERT INTO users (id, email, password_hash, version, created_at, updated_at)
		VALUES ($1, $2, $3, 1, $4, $4)`, f.UserID, address, hash, now); err != nil {
		return First{}, fmt.Errorf("insert user: %w", err)
	}
	if _, err := tx.Exec(`INSERT INTO members (org_id, user_id, role, version, created_at, updated_at)
		VALUES ($1, $2, $3, 1, $4, $4)`, f.OrgID, f.UserID, auth.Owner, now); err != nil {
		return First{}, fmt.Errorf("insert member: %w", err)
	}
	if _, err := tx.Exec(`INSERT INTO projects (org_id, id, name, created_at, version) VALUES ($1, $2, $3, $4, 1)`,
		f.OrgID, f.ProjectID, "Default project", now); err != nil {
		return First{}, fmt.Errorf("insert project: %w", err)
	}
	return f, nil
}

// FirstOwner returns the longest-standing owner of the oldest organization. It returns NotFound if
// there is none.
func (s *Store) FirstOwner(ctx context.Context) (First, error) {
	var f First
	err := s.DB.Read(ctx).Row(`SELECT m.org_id, m.user_id FROM members m JOIN orgs o ON o.id = m.org_id
		WHERE m.role = $1 ORDER BY o.created_at, o.id, m.created_at, m.user_id LIMIT 1`, auth.Owner).
		Scan(&f.OrgID, &f.UserID)
	if errors.Is(err, db.ErrNoRows) {
		return First{}, errs.New(errs.NotFound, "the installation is empty; start it once with steward serve")
	}
	if err != nil {
		return First{}, fmt.Errorf("find first owner: %w", err)
	}
	return f, nil
}

const selectMember = `SELECT u.id, u.first_name, u.last_name, u.email, u.photo_url, m.role, m.version
	FROM members m JOIN users u ON u.id = m.user_id `

func scanMember(row db.Row) (m Member, err error) {
	err = row.Scan(&m.ID, &m.FirstName, &m.LastName, &m.Email, &m.PhotoURL, &m.Role, &m.version)
	return m, err
}

// Members returns the members of an organization, longest-standing first.
func (s *Store) Members(ctx context.Context, orgID string) ([]Member, error) {
	members, err := db.Collect(s.DB.Read(ctx), scanMember, selectMember+`
		WHERE m.org_id = $1 ORDER BY m.created_at, m.user_id`, orgID)
	if err != nil {
		return nil, fmt.Errorf("list members: %w", err)
	}
	return members, nil
}

// member returns a member. It returns NotFound if the user is none.
func member(q db.Querier, orgID, userID string) (Member, error) {
	m, err := scanMember(q.Row(selectMember+`WHERE m.org_id = $1 AND m.user_id = $2`, orgID, userID))
	if errors.Is(err, db.ErrNoRows) {
		return Member{}, errs.Missing("member", userID)
	}
	if err != nil {
		return Member{}, fmt.Errorf("get member: %w", err)
	}
	return m, nil
}

// Invite adds a member and returns the token of an invitation. It returns Conflict if the address
// belongs to a member.
func (s *Store) Invite(ctx context.Context, orgID, by string, n NewMember) (m Member, token string, err error) {
	token = id.Secret(43)
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		userID, err := s.userByEmail(tx, n)
		if err != nil {
			return err
		}
		added, err := tx.Exec(`INSERT INTO members (org_id, user_id, role, version, created_at, updated_at)
			VALUES ($1, $2, $3, 1, $4, $4) ON CONFLICT (org_id, user_id) DO NOTHING`, orgID, userID, n.Role, s.now())
		if err != nil {
			return fmt.Errorf("insert member: %w", err)
		}
		if added == 0 {
			return errs.New(errs.Conflict, "this e-mail address already belongs to a member")
		}
		if err := s.insertInvitation(tx, orgID, userID, by, token); err != nil {
			return err
		}
		if m, err = member(tx, orgID, userID); err != nil {
			return err
		}
		return s.Audit(tx, "member.create", userID)
	})
	return m, token, err
}

// userByEmail returns the id of the user with an address, and creates the user if there is none. A
// user of another organization keeps their name.
func (s *Store) userByEmail(tx *db.Tx, n NewMember) (userID string, err error) {
	if _, err := tx.Exec(`INSERT INTO users (id, email, first_name, last_name, version, created_at, updated_at)
		VALUES ($1, $2, $3, $4, 1, $5, $5) ON CONFLICT (email) DO NOTHING`,
		id.New(id.User), n.Email, n.FirstName, n.LastName, s.now()); err != nil {
		return "", fmt.Errorf("insert user: %w", err)
	}
	if err := tx.Row(`SELECT id FROM users WHERE email = $1`, n.Email).Scan(&userID); err != nil {
		return "", fmt.Errorf("find user by e-mail: %w", err)
	}
	return userID, nil
}

func (s *Store) insertInvitation(tx *db.Tx, orgID, userID, by, token string) error {
	now := s.now()
	if _, err := tx.Exec(`INSERT INTO invitations (token_hash, org_id, user_id, created_by, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6)`,
		seal.Hash(token), orgID, userID, by, now, now.Add(invitationLifetime)); err != nil {
		return fmt.Errorf("insert invitation: %w", err)
	}
	return nil
}

// ChangeMember updates a member. It returns Forbidden if someone other than an owner changes or
// makes an owner, and Conflict if the last owner would lose the role.
func (s *Store) ChangeMember(
	ctx context.Context, caller *auth.Caller, userID string, match page.IfMatch, p MemberPatch,
) (Member, error) {
	var after Member
	err := s.DB.Write(ctx, func(tx *db.Tx) error {
		before, err := member(tx, caller.OrgID, userID)
		if err != nil {
			return err
		}
		if err := match.Check(before); err != nil {
			return err
		}
		if after, err = p.apply(before); err != nil {
			return err
		}
		if err := checkOwners(tx, caller, before.Role, after.Role); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE users SET first_name = $2, last_name = $3, photo_url = $4,
			version = version + 1, updated_at = $5 WHERE id = $1`,
			userID, after.FirstName, after.LastName, after.PhotoURL, s.now()); err != nil {
			return fmt.Errorf("update user: %w", err)
		}
		if _, err := tx.Exec(`UPDATE members SET role = $3, version = $4, updated_at = $5
			WHERE org_id = $1 AND user_id = $2`, caller.OrgID, userID, after.Role, after.version, s.now()); err != nil {
			return fmt.Errorf("update member: %w", err)
		}
		if err := tx.Invalidate(auth.Callers); err != nil {
			return err
		}
		return s.Audit(tx, "member.update", userID)
	})
	return after, err
}

// RemoveMember removes a user from the caller's organization, with all that belongs to them there.
// Errors are those of ChangeMember.
func (s *Store) RemoveMember(ctx context.Context, caller *auth.Caller, userID string, match page.IfMatch) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		m, err := member(tx, caller.OrgID, userID)
		if err != nil {
			return err
		}
		if err := match.Check(m); err != nil {
			return err
		}
		if err := checkOwners(tx, caller, m.Role, ""); err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM members WHERE org_id = $1 AND user_id = $2`, caller.OrgID, userID); err != nil {
			return fmt.Errorf("delete member: %w", err)
		}
		if _, err := tx.Exec(`DELETE FROM invitations WHERE org_id = $1 AND user_id = $2`,
			caller.OrgID, userID); err != nil {
			return fmt.Errorf("delete invitations: %w", err)
		}
		for _, gone := range s.MemberGone {
			if err := gone(tx, caller.OrgID, userID); err != nil {
				return err
			}
		}
		if err := tx.Invalidate(auth.Callers); err != nil {
			return err
		}
		return s.Audit(tx, "member.delete", userID)
	})
}

// checkOwners checks a change of a member's role; after is "" if the member is removed. Only owners
// can change owners or make new ones (Forbidden), and the last one must stay (Conflict).
func checkOwners(tx *db.Tx, caller *auth.Caller, before, after auth.Role) error {
	if before != auth.Owner && after != auth.Owner {
		return nil
	}
	if caller.Role != auth.Owner {
		return errs.New(errs.Forbidden, "only an owner can change owners")
	}
	if before != auth.Owner || after == auth.Owner {
		return nil
	}
	// The lock on the organization's row prevents two owners from removing each other at the same
	// time.
	if _, err := tx.Exec(`UPDATE orgs SET name = name WHERE id = $1`, caller.OrgID); err != nil {
		return fmt.Errorf("lock organization: %w", err)
	}
	var owners int
	if err := tx.Row(`SELECT count(*) FROM members WHERE org_id = $1 AND role = $2`,
		caller.OrgID, auth.Owner).Scan(&owners); err != nil {
		return fmt.Errorf("count owners: %w", err)
	}
	if owners < 2 {
		return errs.New(errs.Conflict, "an organization must keep at least one owner")
	}
	return nil
}

// Profile returns the description of a caller.
func (s *Store) Profile(ctx context.Context, caller *auth.Caller) (Profile, error) {
	p := Profile{ID: caller.UserID, Role: caller.Role}
	err := s.DB.Read(ctx).Row(`SELECT email, first_name, last_name FROM users WHERE id = $1`, caller.UserID).
		Scan(&p.Email, &p.FirstName, &p.LastName)
	if err != nil {
		return Profile{}, fmt.Errorf("get user: %w", err)
	}
	if p.Organizations, err = s.Orgs(ctx, caller); err != nil {
		return Profile{}, err
	}
	return p, nil
}

// Orgs returns the organizations in which a caller can act: that of its key.
func (s *Store) Orgs(ctx context.Context, caller *auth.Caller) ([]Org, error) {
	scan := func(row db.Row) (o Org, err error) {
		err = row.Scan(&o.ID, &o.Name)
		return o, err
	}
	orgs, err := db.Collect(s.DB.Read(ctx), scan, `SELECT id, name FROM orgs WHERE id = $1`, caller.OrgID)
	if err != nil {
		return nil, fmt.Errorf("list organizations: %w", err)
	}
	return orgs, nil
}
