package account

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/name"
)

// An organization's provider can vouch for people: it lets in those who are invited, or everybody it knows.
// It never takes over an existing account, because the organization's managers decide what the provider says.

// Standing has the facts that decide whether an organization's provider may sign a user in.
type Standing struct {
	// Password reports whether the user has a password, and Elsewhere whether they belong to another
	// organization.
	Password, Elsewhere bool
	// Member reports whether the user is a member, and Disabled whether they are disabled.
	Member, Disabled bool
}

// Standing locks a user and returns their standing in an organization.
func (s *Store) Standing(tx *db.Tx, orgID, userID string) (Standing, error) {
	m, err := lockMember(tx, orgID, userID)
	if err != nil && errs.KindOf(err) != errs.NotFound {
		return Standing{}, err
	}
	st := Standing{Member: err == nil, Disabled: m.Disabled}
	if err := tx.Row(`SELECT password_hash IS NOT NULL,
		EXISTS (SELECT 1 FROM members m WHERE m.user_id = users.id AND m.org_id <> $2) FROM users WHERE id = $1`,
		userID, orgID).Scan(&st.Password, &st.Elsewhere); err != nil {
		return Standing{}, fmt.Errorf("get standing of user: %w", err)
	}
	return st, nil
}

// Newcomer is a person an organization's provider vouches for.
type Newcomer struct {
	OrgID string
	// UserID is set for a former member; otherwise it is "".
	UserID string
	// Email is in lower case, or "". If OwnAddress is true, it becomes the account's address. Set
	// OwnAddress only if the provider is in charge of the address's domain, because an address belongs to
	// one account across all organizations.
	Email               string
	OwnAddress          bool
	FirstName, LastName string
	Role                auth.Role // the role in the organization, for Admit
}

// address returns the address for the newcomer's account, or nil.
func (n Newcomer) address() *string {
	if !n.OwnAddress {
		return nil
	}
	return &n.Email
}

// names returns the newcomer's names as we store them: nil if invalid.
func (n Newcomer) names() (first, last *string) { return validName(n.FirstName), validName(n.LastName) }

func validName(s string) *string {
	if !name.Valid(s) || utf8.RuneCountInString(s) > maxName {
		return nil
	}
	return &s
}

// errNewcomer reports that the newcomer's address has an account.
var errNewcomer = errs.New(errs.Conflict, "this e-mail address has an account")

// checkOpen returns NotFound if an organization is deleted: nobody joins it until it is restored.
func checkOpen(tx *db.Tx, orgID string) error {
	var deleted bool
	err := tx.Row(`SELECT EXISTS (SELECT 1 FROM deleted_orgs WHERE org_id = $1)`, orgID).Scan(&deleted)
	if err != nil {
		return fmt.Errorf("find deleted organization: %w", err)
	}
	if deleted {
		return errs.Missing("organization", orgID)
	}
	return nil
}

// AcceptVerified uses up a newcomer's invitation and adds the membership. The address must be verified.
// If n.OwnAddress is true, it becomes the new account's address. AcceptVerified returns NotFound if there
// is no invitation, if it is for an owner, who must use its link, or if the organization is deleted. It
// returns Conflict if another user's account has the address; that user must sign in to accept.
func (s *Store) AcceptVerified(tx *db.Tx, n Newcomer) (userID string, err error) {
	if err := checkOpen(tx, n.OrgID); err != nil {
		return "", err
	}
	var i takenInvitation
	err = tx.Row(`DELETE FROM invitations WHERE org_id = $1 AND email = $2 AND role <> $3 AND expires_at > $4
		RETURNING id, org_id, email, first_name, last_name, role`, n.OrgID, n.Email, auth.Owner, s.now()).
		Scan(&i.id, &i.orgID, &i.email, &i.firstName, &i.lastName, &i.role)
	if errors.Is(err, db.ErrNoRows) {
		return "", errNoInvitation
	}
	if err != nil {
		return "", fmt.Errorf("use invitation: %w", err)
	}
	owner, _, err := addressee(tx, n)
	if err != nil {
		return "", err
	}
	if owner != "" && owner != n.UserID {
		return "", errNewcomer
	}
	if n.UserID != "" {
		return n.UserID, s.join(tx, i, n.UserID)
	}
	first, last := n.names()
	if first == nil && last == nil {
		first, last = i.firstName, i.lastName
	}
	userID = id.New(id.User)
	if err := s.insertUser(tx, newUser{userID, n.address(), first, last}); err != nil {
		return "", err
	}
	return userID, s.join(tx, i, userID)
}

// addressee returns the user with the newcomer's address, or "". member reports whether that user is a
// member of the organization.
func addressee(tx *db.Tx, n Newcomer) (userID string, member bool, err error) {
	err = tx.Row(`SELECT id, EXISTS (SELECT 1 FROM members m WHERE m.user_id = users.id AND m.org_id = $2)
		FROM users WHERE email = $1`, n.Email, n.OrgID).Scan(&userID, &member)
	if errors.Is(err, db.ErrNoRows) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("find user by address: %w", err)
	}
	return userID, member, nil
}

// Admit creates a user for a newcomer, with the role in n. It returns Conflict if a member has the address,
// who must link the account, or if the new account would get an address that anybody else has. Otherwise it
// does not reveal whether the address has an account. It returns NotFound if the organization is deleted.
func (s *Store) Admit(tx *db.Tx, n Newcomer) (userID string, err error) {
	if err := checkOpen(tx, n.OrgID); err != nil {
		return "", err
	}
	owner, member, err := addressee(tx, n)
	if err != nil {
		return "", err
	}
	if member || owner != "" && n.OwnAddress {
		return "", errNewcomer
	}
	userID = id.New(id.User)
	first, last := n.names()
	if err := s.insertUser(tx, newUser{userID, n.address(), first, last}); err != nil {
		return "", err
	}
	if _, err := tx.Exec(`INSERT INTO members (org_id, user_id, role, version, created_at, updated_at)
		VALUES ($1, $2, $3, 1, $4, $4)`, n.OrgID, userID, n.Role, s.now()); err != nil {
		return "", fmt.Errorf("insert member: %w", err)
	}
	if err := tx.Invalidate(auth.Callers); err != nil {
		return "", err
	}
	return userID, s.auditAs(tx, &auth.Caller{OrgID: n.OrgID, UserID: userID}, "member.join", userID)
}

// newUser is a user without a password.
type newUser struct {
	id                         string
	email, firstName, lastName *string
}

// insertUser inserts a user. It returns Conflict if the address has an account.
func (s *Store) insertUser(tx *db.Tx, u newUser) error {
	_, err := tx.Exec(`INSERT INTO users (id, email, first_name, last_name, version, created_at, updated_at)
		VALUES ($1, $2, $3, $4, 1, $5, $5)`, u.id, u.email, u.firstName, u.lastName, s.now())
	if db.IsUnique(err) {
		return errNewcomer
	}
	if err != nil {
		return fmt.Errorf("insert user: %w", err)
	}
	return nil
}

// RoleChange is a role that an organization's provider gives a member.
type RoleChange struct {
	OrgID, UserID string
	Role          auth.Role
	// Owners reports whether the provider also decides who is an owner.
	Owners bool
}

// SetRole gives a member another role. Owners keep theirs unless the provider decides about them, and the
// last enabled owner always does.
func (s *Store) SetRole(tx *db.Tx, c RoleChange) error {
	before, err := lockMember(tx, c.OrgID, c.UserID)
	if err != nil {
		return err
	}
	if before.Role == c.Role || before.Role == auth.Owner && !c.Owners {
		return nil
	}
	after := before
	after.Role = c.Role
	after.version++
	err = checkOwners(tx, &auth.Caller{OrgID: c.OrgID, Role: auth.Owner}, before, after)
	if errs.KindOf(err) == errs.Conflict {
		return nil
	}
	if err != nil {
		return err
	}
	if err := s.update(tx, c.OrgID, after); err != nil {
		return err
	}
	return s.auditAs(tx, &auth.Caller{OrgID: c.OrgID}, "member.update", c.UserID)
}

// FirstOrg returns the oldest organization, and reports whether it is the only one.
func (s *Store) FirstOrg(ctx context.Context) (orgID string, only bool, err error) {
	first, err := db.Collect(s.DB.Read(ctx), db.Value[string], `SELECT id FROM orgs ORDER BY created_at, id LIMIT 2`)
	if err != nil {
		return "", false, fmt.Errorf("find the first organization: %w", err)
	}
	if len(first) == 0 {
		return "", false, nil
	}
	return first[0], len(first) == 1, nil
}
