package account

import (
	"context"
	"errors"
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

// invitationLife is how long a link lets its user in.
const invitationLife = 7 * 24 * time.Hour

// Store is all SQL of this package: members here, projects in store_project.go, signing in in store_signin.go.
type Store struct {
	DB  *db.DB
	Now func() time.Time
	// Audit writes who did it, in the same transaction.
	Audit func(tx *db.Tx, action, target string) error
	// ProjectGone and MemberGone are told in the transaction that removes one, so that others remove what hangs on it.
	ProjectGone []func(tx *db.Tx, orgID, projectID string) error
	MemberGone  []func(tx *db.Tx, orgID, userID string) error
}

func (s *Store) now() stamp.Time { return stamp.Of(s.Now()) }

// First is what the first start of an empty installation makes.
type First struct {
	OrgID, UserID, ProjectID string
}

// MakeFirst makes the first organization with its owner and a default project. The owner's e-mail address and password may be empty.
func (s *Store) MakeFirst(tx *db.Tx, email, password string) (First, error) {
	now := s.now()
	f := First{OrgID: id.New(id.Org), UserID: id.New(id.User), ProjectID: id.New(id.Project)}
	var address, hash *string
	if email != "" {
		email = strings.ToLower(email)
		address = &email
	}
	if password != "" {
		h := HashPassword(password)
		hash = &h
	}
	_, err1 := tx.Exec(`INSERT INTO orgs (id, name, created_at) VALUES ($1, $2, $3)`, f.OrgID, "Default organization", now)
	_, err2 := tx.Exec(`INSERT INTO users (id, email, password_hash, version, created_at, updated_at) VALUES ($1, $2, $3, 1, $4, $4)`,
		f.UserID, address, hash, now)
	_, err3 := tx.Exec(`INSERT INTO members (org_id, user_id, role, version, created_at, updated_at) VALUES ($1, $2, $3, 1, $4, $4)`,
		f.OrgID, f.UserID, auth.Owner, now)
	_, err4 := tx.Exec(`INSERT INTO projects (org_id, id, name, created_at, version) VALUES ($1, $2, $3, $4, 1)`,
		f.OrgID, f.ProjectID, "Default project", now)
	return f, errors.Join(err1, err2, err3, err4)
}

// FirstOwner gives the longest-standing owner of the oldest organization, for the command that makes a new root key. None is NotFound.
func (s *Store) FirstOwner(ctx context.Context) (f First, err error) {
	err = s.DB.Read(ctx).Row(`SELECT m.org_id, m.user_id FROM members m JOIN orgs o ON o.id = m.org_id
		WHERE m.role = $1 ORDER BY o.created_at, o.id, m.created_at, m.user_id LIMIT 1`, auth.Owner).Scan(&f.OrgID, &f.UserID)
	if errors.Is(err, db.ErrNoRows) {
		return f, errs.New(errs.NotFound, "the installation has no owner yet; start it once with steward serve")
	}
	return f, err
}

const memberColumns = `u.id, u.first_name, u.last_name, u.email, u.photo_url, m.role, m.version`

func scanMember(row db.Row) (m Member, err error) {
	err = row.Scan(&m.ID, &m.FirstName, &m.LastName, &m.Email, &m.PhotoURL, &m.Role, &m.version)
	return m, err
}

// Members lists the members of an organization, longest-standing first.
func (s *Store) Members(ctx context.Context, orgID string) ([]Member, error) {
	return db.Collect(s.DB.Read(ctx), scanMember, `SELECT `+memberColumns+` FROM members m JOIN users u ON u.id = m.user_id
		WHERE m.org_id = $1 ORDER BY m.created_at, m.user_id`, orgID)
}

// member gives one member, or NotFound.
func member(q db.Querier, orgID, userID string) (Member, error) {
	m, err := scanMember(q.Row(`SELECT `+memberColumns+` FROM members m JOIN users u ON u.id = m.user_id
		WHERE m.org_id = $1 AND m.user_id = $2`, orgID, userID))
	if errors.Is(err, db.ErrNoRows) {
		return m, errs.Missing("member", userID)
	}
	return m, err
}

// Invite adds a member and gives the token of an invitation. An address that is a member already is a Conflict.
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
			return err
		}
		if added == 0 {
			return errs.New(errs.Conflict, "this e-mail address is a member already")
		}
		if err := s.invite(tx, orgID, userID, by, token); err != nil {
			return err
		}
		if m, err = member(tx, orgID, userID); err != nil {
			return err
		}
		return s.Audit(tx, "member.create", userID)
	})
	return m, token, err
}

// userByEmail finds the user of an address, or makes one. A user who is known from another organization keeps their own name.
func (s *Store) userByEmail(tx *db.Tx, n NewMember) (userID string, err error) {
	_, err = tx.Exec(`INSERT INTO users (id, email, first_name, last_name, version, created_at, updated_at)
		VALUES ($1, $2, $3, $4, 1, $5, $5) ON CONFLICT (email) DO NOTHING`, id.New(id.User), n.Email, n.FirstName, n.LastName, s.now())
	if err != nil {
		return "", err
	}
	err = tx.Row(`SELECT id FROM users WHERE email = $1`, n.Email).Scan(&userID)
	return userID, err
}

func (s *Store) invite(tx *db.Tx, orgID, userID, by, token string) error {
	_, err := tx.Exec(`INSERT INTO invitations (token_hash, org_id, user_id, created_by, created_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6)`, seal.Hash(token), orgID, userID, by, s.now(), s.now().Add(invitationLife))
	return err
}

// ChangeMember patches a member. Only owners touch owners or make them, and the last owner stays: else Forbidden or Conflict.
func (s *Store) ChangeMember(ctx context.Context, caller *auth.Caller, userID string, match page.IfMatch, p MemberPatch) (after Member, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
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
		if err := s.mayReplace(tx, caller, before.Role, after.Role); err != nil {
			return err
		}
		_, err1 := tx.Exec(`UPDATE users SET first_name = $2, last_name = $3, photo_url = $4, version = version + 1, updated_at = $5
			WHERE id = $1`, userID, after.FirstName, after.LastName, after.PhotoURL, s.now())
		_, err2 := tx.Exec(`UPDATE members SET role = $3, version = $4, updated_at = $5 WHERE org_id = $1 AND user_id = $2`,
			caller.OrgID, userID, after.Role, after.version, s.now())
		return errors.Join(err1, err2, tx.Bump(auth.Callers), s.Audit(tx, "member.update", userID))
	})
	return after, err
}

// RemoveMember takes a user out of the organization; their keys stop working with it.
func (s *Store) RemoveMember(ctx context.Context, caller *auth.Caller, userID string, match page.IfMatch) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		m, err := member(tx, caller.OrgID, userID)
		if err != nil {
			return err
		}
		if err := match.Check(m); err != nil {
			return err
		}
		if err := s.mayReplace(tx, caller, m.Role, ""); err != nil {
			return err
		}
		_, err1 := tx.Exec(`DELETE FROM members WHERE org_id = $1 AND user_id = $2`, caller.OrgID, userID)
		_, err2 := tx.Exec(`DELETE FROM invitations WHERE org_id = $1 AND user_id = $2`, caller.OrgID, userID)
		for _, gone := range s.MemberGone {
			err2 = errors.Join(err2, gone(tx, caller.OrgID, userID))
		}
		return errors.Join(err1, err2, tx.Bump(auth.Callers), s.Audit(tx, "member.delete", userID))
	})
}

// mayReplace guards the owners: one role goes, another (or none) comes in its place.
func (s *Store) mayReplace(tx *db.Tx, caller *auth.Caller, before, after auth.Role) error {
	if before != auth.Owner && after != auth.Owner {
		return nil
	}
	if caller.Role != auth.Owner {
		return errs.New(errs.Forbidden, "only an owner may change owners")
	}
	if before != auth.Owner || after == auth.Owner {
		return nil
	}
	// Locking the organization's row keeps two owners from removing each other at the same time.
	if _, err := tx.Exec(`UPDATE orgs SET name = name WHERE id = $1`, caller.OrgID); err != nil {
		return err
	}
	var owners int
	err := tx.Row(`SELECT count(*) FROM members WHERE org_id = $1 AND role = $2`, caller.OrgID, auth.Owner).Scan(&owners)
	if err == nil && owners < 2 {
		return errs.New(errs.Conflict, "the last owner of an organization must stay its owner")
	}
	return err
}

// Profile tells who a caller is.
func (s *Store) Profile(ctx context.Context, caller *auth.Caller) (Profile, error) {
	p := Profile{ID: caller.UserID, Role: caller.Role}
	q := s.DB.Read(ctx)
	if err := q.Row(`SELECT email, first_name, last_name FROM users WHERE id = $1`, caller.UserID).
		Scan(&p.Email, &p.FirstName, &p.LastName); err != nil {
		return p, err
	}
	orgs, err := s.Orgs(ctx, caller)
	p.Organizations = orgs
	return p, err
}

// Orgs lists the organizations in which a caller can act: a key acts in one.
func (s *Store) Orgs(ctx context.Context, caller *auth.Caller) ([]Org, error) {
	return db.Collect(s.DB.Read(ctx), func(row db.Row) (o Org, err error) {
		err = row.Scan(&o.ID, &o.Name)
		return o, err
	}, `SELECT id, name FROM orgs WHERE id = $1`, caller.OrgID)
}
