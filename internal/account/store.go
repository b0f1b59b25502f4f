package account

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/mail"
	"steward/internal/name"
	"steward/internal/stamp"
)

// Store holds this package's SQL: organizations here, members in store_member.go and store_invite.go,
// projects in store_project.go, sign-in in store_signin.go and store_reset.go, mailed links in
// store_mail.go and store_email.go.
type Store struct {
	DB  *db.DB
	Now func() time.Time
	// Audit records an action in the action's transaction.
	Audit *audit.Store
	// Mail queues mail. It is nil if the server cannot send mail.
	Mail *mail.Store
	// ProjectGone is called in the transaction that removes a project, to remove everything in it.
	ProjectGone []func(tx *db.Tx, orgID, projectID string) error
	// MemberGone is called in the transaction that removes or disables a member, to remove the user's
	// belongings in the organization. It is also called when the member is enabled again.
	MemberGone []func(tx *db.Tx, orgID, userID string) error
	// UserGone is called in the transaction that ends a user's last enabled membership, to end the user's
	// sessions.
	UserGone []func(tx *db.Tx, userID string) error
	// FactorsGone is called in the transaction that removes a user's second factors, which may be lost.
	FactorsGone []func(tx *db.Tx, userID string) error
	// SignInsGone is called in the transaction in which a user claims an account. Somebody else may have
	// opened it with the user's address, so SignInsGone removes every way in which that person could act
	// as the user. An authenticator app stays.
	SignInsGone []func(tx *db.Tx, userID string) error
}

func (s *Store) now() stamp.Time { return stamp.Of(s.Now()) }

// First holds the ids for an organization, its first owner and its first project.
type First struct {
	OrgID, UserID, ProjectID string
}

// NewFirst returns ids for a new organization.
func NewFirst() First {
	return First{OrgID: id.New(id.Org), UserID: id.New(id.User), ProjectID: id.New(id.Project)}
}

// Bootstrap creates the first organization with its owner and a default project. The owner's e-mail
// address and password may be empty. It returns Invalid if the password is too easy to guess.
func (s *Store) Bootstrap(tx *db.Tx, email, password string) (First, error) {
	var address, hash *string
	if email != "" {
		address = new(strings.ToLower(email))
	}
	if password != "" {
		if problem := PasswordProblem(email, password); problem != "" {
			return First{}, errs.New(errs.Invalid, "the password of the first owner is refused: %s", problem)
		}
		hash = new(HashPassword(password))
	}
	f := NewFirst()
	return f, s.insertOrg(tx, f, newOrg{name: "Default organization", email: address, passwordHash: hash})
}

// CreateOrg creates another organization with a default project and an owner who has neither e-mail
// address nor password. It returns Invalid if the name is invalid.
func (s *Store) CreateOrg(tx *db.Tx, f First, orgName string) error {
	if !name.Valid(orgName) || utf8.RuneCountInString(orgName) > maxOrgName {
		return errs.New(errs.Invalid, "the name of an organization must be %s, and at most %d characters long",
			name.Expected, maxOrgName)
	}
	if err := s.insertOrg(tx, f, newOrg{name: orgName}); err != nil {
		return err
	}
	return s.Audit.Record(tx, "organization.create", f.OrgID)
}

// newOrg is a new organization. Its owner may have neither e-mail address nor password.
type newOrg struct {
	name                string
	email, passwordHash *string
}

func (s *Store) insertOrg(tx *db.Tx, f First, o newOrg) error {
	if _, err := tx.Exec(`INSERT INTO users (id, email, password_hash, version, created_at, updated_at)
		VALUES ($1, $2, $3, 1, $4, $4)`, f.UserID, o.email, o.passwordHash, s.now()); err != nil {
		return fmt.Errorf("insert user: %w", err)
	}
	return s.InsertOwned(tx, f, o.name)
}

// InsertOwned inserts an organization and its default project for an existing user, who becomes its owner.
func (s *Store) InsertOwned(tx *db.Tx, f First, orgName string) error {
	now := s.now()
	if _, err := tx.Exec(`INSERT INTO orgs (id, name, created_at) VALUES ($1, $2, $3)`, f.OrgID, orgName, now); err != nil {
		return fmt.Errorf("insert organization: %w", err)
	}
	if _, err := tx.Exec(`INSERT INTO members (org_id, user_id, role, version, created_at, updated_at)
		VALUES ($1, $2, $3, 1, $4, $4)`, f.OrgID, f.UserID, auth.Owner, now); err != nil {
		return fmt.Errorf("insert member: %w", err)
	}
	if _, err := tx.Exec(`INSERT INTO projects (org_id, id, name, created_at, version) VALUES ($1, $2, $3, $4, 1)`,
		f.OrgID, f.ProjectID, "Default project", now); err != nil {
		return fmt.Errorf("insert project: %w", err)
	}
	return nil
}

// FirstOwner returns the oldest organization's longest-standing enabled owner, or NotFound.
func (s *Store) FirstOwner(ctx context.Context) (First, error) {
	return firstOwner(s.DB.Read(ctx))
}

func firstOwner(q db.Querier) (First, error) {
	var f First
	err := q.Row(`SELECT m.org_id, m.user_id FROM members m JOIN orgs o ON o.id = m.org_id
		WHERE m.role = $1 AND NOT m.disabled ORDER BY o.created_at, o.id, m.created_at, m.user_id LIMIT 1`, auth.Owner).
		Scan(&f.OrgID, &f.UserID)
	if errors.Is(err, db.ErrNoRows) {
		return First{}, errs.New(errs.NotFound, "the installation is empty; start it once with steward serve")
	}
	if err != nil {
		return First{}, fmt.Errorf("find first owner: %w", err)
	}
	return f, nil
}

// Profile describes the caller and lists the organizations where the caller can act. For a key, a token
// or a user who has signed in with an organization's provider, that is only their own organization; for
// other users it is every one they belong to.
func (s *Store) Profile(ctx context.Context, caller *auth.Caller) (Profile, error) {
	p := Profile{ID: caller.UserID, Role: caller.Role}
	err := s.DB.Read(ctx).Row(`SELECT email, first_name, last_name FROM users WHERE id = $1`, caller.UserID).
		Scan(&p.Email, &p.FirstName, &p.LastName)
	if err != nil {
		return Profile{}, fmt.Errorf("get user: %w", err)
	}
	if caller.KeyID == "" && caller.ClientID == "" && !caller.Confined {
		p.Organizations, err = s.OrgsOfUser(ctx, caller.UserID)
		return p, err
	}
	own, err := s.Org(ctx, caller)
	p.Organizations = []Org{own}
	return p, err
}
