// Package admission decides which user of an organization a provider of the organization signs in. Besides
// base packages it imports oauth, oidc/upstream and upstream.
//
// Whoever manages a provider decides what it says. So a new identity never becomes that of a user who
// exists, and a known one opens no account that has another way in, unless its user has linked it.
package admission

import (
	"context"
	"errors"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc/provider/oauth"
	relying "steward/internal/oidc/provider/upstream"
	"steward/internal/oidc/upstream"
)

// Admission admits users who come back from a provider.
type Admission struct {
	Store *upstream.Store
	Members
}

// Standing is what decides whether the provider of an organization may sign a user in.
type Standing struct {
	// Password reports whether the user has a password, and Elsewhere whether they belong to another
	// organization.
	Password, Elsewhere bool
	// Member reports whether the user is a member of the organization, and Disabled whether a disabled one.
	Member, Disabled bool
}

// Newcomer is a person for whom the provider of an organization vouches.
type Newcomer struct {
	OrgID string
	// UserID is that of a former member, or "".
	UserID string
	// Email is in lower case, or "". It becomes that of the account if OwnAddress is true.
	Email               string
	OwnAddress          bool
	FirstName, LastName string
	Role                auth.Role
}

// RoleChange is a role that the provider of an organization gives a member.
type RoleChange struct {
	OrgID, UserID string
	Role          auth.Role
	// Owners reports whether the provider decides about owners too.
	Owners bool
}

// Members changes the members of organizations, which belong to another part of Steward.
type Members struct {
	// Standing locks a user and returns the standing in an organization.
	Standing func(tx *db.Tx, orgID, userID string) (Standing, error)
	// AcceptVerified uses up the invitation of a newcomer whose address was verified. It returns NotFound
	// if there is none, and Conflict if the address has an account.
	AcceptVerified func(tx *db.Tx, n Newcomer) (userID string, err error)
	// Admit creates the user and the membership of a newcomer. It returns Conflict if the address belongs
	// to a member, or to anybody if it would become that of the new user.
	Admit func(tx *db.Tx, n Newcomer) (userID string, err error)
	// SetRole gives a member another role. The last owner keeps theirs.
	SetRole func(tx *db.Tx, c RoleChange) error
}

// ErrNotAdmitted is returned if an identity opens no account.
var ErrNotAdmitted = errors.New("the identity opens no account")

// Arrival is a user who comes back from a provider.
type Arrival struct {
	upstreamID string
	claims     relying.Claims
	newcomer   Newcomer
}

// Methods returns how the user has authenticated at the provider.
func (a Arrival) Methods() oauth.Methods { return a.claims.Methods }

// Arrive returns the arrival of a user. The address becomes that of a new account only if the provider has
// verified it and the operator has granted its domain to the organization: otherwise an organization could
// take any address, and its real owner could not be invited by others.
func (d *Admission) Arrive(ctx context.Context, u upstream.Upstream, c relying.Claims) (Arrival, error) {
	granted, err := d.Store.Domains.Has(ctx, u.OrgID, upstream.DomainOf(c.Email))
	return Arrival{upstreamID: u.ID, claims: c, newcomer: Newcomer{
		OrgID: u.OrgID, Email: c.Email, OwnAddress: c.EmailVerified && granted, FirstName: c.FirstName, LastName: c.LastName,
	}}, err
}

// Enter returns the user of an identity at a provider, and whether the identity was known before. A new
// identity becomes that of an invited person by a verified address, or of a new user if the provider has a
// default role. It never becomes that of a user who exists. Nor does it sign in a user who has a password
// or belongs to another organization, unless that user has linked it. It returns ErrNotAdmitted, or
// NotFound if the provider was switched off in the meantime.
func (d *Admission) Enter(tx *db.Tx, a Arrival) (userID string, known bool, err error) {
	u, err := d.Store.ByIDIn(tx, a.upstreamID)
	if err != nil {
		return "", false, err
	}
	identity, err := d.Store.Identity(tx, u, a.claims.Subject)
	known = err == nil
	switch {
	case errs.KindOf(err) == errs.NotFound:
		userID, err = d.admitNew(tx, u, a)
	case known:
		userID, err = d.admitKnown(tx, a, identity)
	}
	if kind := errs.KindOf(err); kind == errs.NotFound || kind == errs.Conflict {
		return "", false, ErrNotAdmitted
	}
	if err != nil {
		return "", false, err
	}
	i := Identity(u, a.claims)
	i.UserID = userID
	if err := d.Store.PutIdentity(tx, i); err != nil {
		return "", false, err
	}
	if role := u.Role(a.claims.Groups); role != "" {
		change := RoleChange{OrgID: u.OrgID, UserID: userID, Role: role, Owners: u.GivesOwner()}
		if err := d.SetRole(tx, change); err != nil {
			return "", false, err
		}
	}
	return userID, known, nil
}

// admitKnown returns the user of a known identity. One who was removed comes back with an invitation
// only.
func (d *Admission) admitKnown(tx *db.Tx, a Arrival, known upstream.Identity) (userID string, err error) {
	standing, err := d.Standing(tx, known.OrgID, known.UserID)
	if err != nil {
		return "", err
	}
	if standing.Disabled || !known.Linked && (standing.Password || standing.Elsewhere) {
		return "", ErrNotAdmitted
	}
	if standing.Member {
		return known.UserID, nil
	}
	if !a.claims.EmailVerified {
		return "", ErrNotAdmitted
	}
	n := a.newcomer
	n.UserID = known.UserID
	return d.AcceptVerified(tx, n)
}

// admitNew returns the user of an identity that is not known yet.
func (d *Admission) admitNew(tx *db.Tx, u upstream.Upstream, a Arrival) (userID string, err error) {
	err = errs.New(errs.NotFound, "no verified address")
	if a.claims.EmailVerified {
		userID, err = d.AcceptVerified(tx, a.newcomer)
	}
	if errs.KindOf(err) == errs.NotFound && u.DefaultRole != nil {
		n := a.newcomer
		n.Role = *u.DefaultRole
		userID, err = d.Admit(tx, n)
	}
	return userID, err
}

// Identity returns the identity of a user of a provider, without the user here.
func Identity(u upstream.Upstream, c relying.Claims) upstream.Identity {
	return upstream.Identity{OrgID: u.OrgID, Issuer: u.Issuer, Subject: c.Subject, Groups: c.Groups}
}
