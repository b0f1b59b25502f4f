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

// Store is the SQL of this package: organizations here, members in store_member.go and
// store_invite.go, projects in store_project.go, sign-in in store_signin.go and store_reset.go,
// mailed links in store_mail.go and store_email.go.
type Store struct {
	DB  *db.DB
	Now func() time.Time
	// Audit records an action in its transaction.
	Audit *audit.Store
	// Mail queues mail. It is nil if the server sends none.
	Mail *mail.Store
	// ProjectGone is called in the transaction that removes a project, to remove what belongs to it.
	ProjectGone []func(tx *db.Tx, orgID, projectID string) error
	// MemberGone is called in the transaction that removes or disables a member, to remove what the
	// user has in the organization. It is also called when the member is enabled again.
	MemberGone []func(tx *db.Tx, orgID, userID string) error
	// UserGone is called in the transaction that ends the last enabled membership of a user, to end
	// the user's sessions.
	UserGone []func(tx *db.Tx, userID string) error
	// FactorsGone is called in the transaction that removes the second factors of a user, who may have
	// lost them.
	FactorsGone []func(tx *db.Tx, userID string) error
	// SignInsGone is called in the transaction in which a user claims an account that somebody else may have
	// opened with the user's address, to remove how that one acts as the user. An authenticator app stays.
	SignInsGone []func(tx *db.Tx, userID string) error
}

func (s *Store) now() stamp.Time { return stamp.Of(s.Now()) }

// First holds the ids of an organization, its first owner and its first project.
type First struct {
	OrgID, UserID, ProjectID string
}

// NewFirst returns ids for an organization that is to be created.
func NewFirst() First {
	return First{OrgID: id.New(id.Org), UserID: id.New(id.User), ProjectID: id.New(id.Project)}
}

// Bootstrap creates the first organization with its owner and a default project. E-mail address and
// password of the owner may be empty. It returns Invalid if the password is too easy to guess.
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

// CreateOrg creates another organization with an owner, who has neither e-mail address nor password,
// and a default project. It returns Invalid if the name is.
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

// newOrg is an organization to be created. Its owner may have neither e-mail address nor password.
type newOrg struct {
	name                string
	email, passwordHash *string
}

// insertOrg inserts an organization, its owner and its project.
func (s *Store) insertOrg(tx *db.Tx, f First, o newOrg) error {
	if _, err := tx.Exec(`INSERT INTO users (id, email, password_hash, version, created_at, updated_at)
		VALUES ($1, $2, $3, 1, $4, $4)`, f.UserID, o.email, o.passwordHash, s.now()); err != nil {
		return fmt.Errorf("insert user: %w", err)
	}
	return s.InsertOwned(tx, f, o.name)
}

// InsertOwned inserts an organization that an existing user owns, and its default project.
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

// FirstOwner returns the longest-standing enabled owner of the oldest organization. It returns
// NotFound if there is none.
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

// Profile returns the description of a caller, with the organizations in which it can act: that of its key
// or token, that of the provider with which a user has signed in to the console, or all of another user there.
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
