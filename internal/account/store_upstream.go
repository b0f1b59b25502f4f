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

// The provider of an organization can vouch for people: it lets in those who are invited, or everybody
// whom it knows. It never takes over an account that exists, since whoever manages the organization
// decides what the provider says.

// Standing is what decides whether the provider of an organization may sign a user in.
type Standing struct {
	// Password reports whether the user has a password, and Elsewhere whether they belong to another
	// organization.
	Password, Elsewhere bool
	// Member reports whether the user is a member of the organization, and Disabled whether a disabled one.
	Member, Disabled bool
}

// Standing locks a user and returns the standing in an organization.
func (s *Store) Standing(tx *db.Tx, orgID, userID string) (Standing, error) {
	m, err := lockMember(tx, orgID, userID)
	if err != nil && errs.KindOf(err) != errs.NotFound {
		return Standing{}, err
	}
	st := Standing{Member: err == nil, Disabled: m.Disabled}
	err = tx.Row(`SELECT password_hash IS NOT NULL,
		EXISTS (SELECT 1 FROM members m WHERE m.user_id = users.id AND m.org_id <> $2) FROM users WHERE id = $1`,
		userID, orgID).Scan(&st.Password, &st.Elsewhere)
	if err != nil {
		return Standing{}, fmt.Errorf("get standing of user: %w", err)
	}
	return st, nil
}

// Newcomer is a person for whom the provider of an organization vouches.
type Newcomer struct {
	OrgID string
	// UserID is that of a former member, or "".
	UserID string
	// Email is in lower case, or "". It becomes that of the account if OwnAddress is true, which must not be
	// set unless the provider decides about its domain: an address belongs to one account of all organizations.
	Email               string
	OwnAddress          bool
	FirstName, LastName string
	Role                auth.Role // in the organization, for Admit
}

// address returns the address of the account of a newcomer, or nil.
func (n Newcomer) address() *string {
	if !n.OwnAddress {
		return nil
	}
	return &n.Email
}

// names returns the names of a newcomer as they are stored: nil if they are not valid.
func (n Newcomer) names() (first, last *string) { return validName(n.FirstName), validName(n.LastName) }

func validName(s string) *string {
	if !name.Valid(s) || utf8.RuneCountInString(s) > maxName {
		return nil
	}
	return &s
}

// errNewcomer is returned for a newcomer whose address has an account.
var errNewcomer = errs.New(errs.Conflict, "this e-mail address has an account")

// checkOpen returns NotFound if an organization is deleted: nobody joins it before it is restored.
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

// AcceptVerified uses up the invitation of a newcomer whose address was verified, and adds the membership. The
// address becomes that of a new account if n.OwnAddress is true.
// It returns NotFound if there is none, or one as owner, which takes its link, or if the organization is deleted;
// and Conflict if the address has an account of another user, who must sign in to accept.
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

// addressee returns the user with the address of a newcomer, or "", and whether that is a member of the
// organization.
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

// Admit creates the user of a newcomer, with the role that n has. It returns Conflict if the address belongs to a
// member, who must link the account, or to anybody if it would become that of the new user. Otherwise it
// says nothing about whether the address has an account. It returns NotFound if the organization is deleted.
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

// RoleChange is a role that the provider of an organization gives a member.
type RoleChange struct {
	OrgID, UserID string
	Role          auth.Role
	// Owners reports whether the provider decides about owners too.
	Owners bool
}

// SetRole gives a member another role. Owners keep theirs unless the provider decides about them, and the
// last enabled one always.
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

// FirstOrg returns the oldest organization, and whether it is the only one.
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
