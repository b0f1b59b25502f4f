// Package admission decides which of an organization's users its provider may sign in.
//
// The provider's administrator controls everything that it says. So we never give a new identity to a
// user who exists, and a known identity opens no account that has another way in, unless its user has
// linked the two.
package admission

import (
	"context"
	"errors"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc/provider/oauth"
	relying "steward/internal/oidc/provider/upstream"
	"steward/internal/oidc/upstream"
)

// Admission admits users who come back from a provider.
type Admission struct {
	Store    *upstream.Store
	Accounts *account.Store
}

// ErrNotAdmitted is the error for an identity that opens no account.
var ErrNotAdmitted = errors.New("the identity opens no account")

// Arrival is a user who comes back from a provider.
type Arrival struct {
	upstreamID string
	claims     relying.Claims
	newcomer   account.Newcomer
}

// Methods returns how the user authenticated at the provider.
func (a Arrival) Methods() oauth.Methods { return a.claims.Methods }

// Arrive returns a user's arrival. A new account gets the address only if the provider has verified it
// and the operator has granted its domain to the organization. Otherwise an organization could take any
// address, and nobody else could invite its real owner.
func (d *Admission) Arrive(ctx context.Context, u upstream.Upstream, c relying.Claims) (Arrival, error) {
	granted, err := d.Store.Domains.Has(ctx, u.OrgID, upstream.DomainOf(c.Email))
	return Arrival{upstreamID: u.ID, claims: c, newcomer: account.Newcomer{
		OrgID: u.OrgID, Email: c.Email, OwnAddress: c.EmailVerified && granted, FirstName: c.FirstName, LastName: c.LastName,
	}}, err
}

// Enter returns the user whom a provider's identity belongs to, and reports whether we knew the identity
// before. A new identity goes to the person who was invited with its verified address, or to a new user
// if the provider has a default role. It never goes to a user who exists. Nor does an identity sign in a
// user who has a password or belongs to another organization, unless that user has linked it. It returns
// ErrNotAdmitted, or NotFound if somebody has switched the provider off meanwhile.
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
		change := account.RoleChange{OrgID: u.OrgID, UserID: userID, Role: role, Owners: u.GivesOwner()}
		if err := d.Accounts.SetRole(tx, change); err != nil {
			return "", false, err
		}
	}
	return userID, known, nil
}

// admitKnown returns a known identity's user. Users who were removed need a new invitation to come back.
func (d *Admission) admitKnown(tx *db.Tx, a Arrival, known upstream.Identity) (userID string, err error) {
	standing, err := d.Accounts.Standing(tx, known.OrgID, known.UserID)
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
	return d.Accounts.AcceptVerified(tx, n)
}

// admitNew returns the user for an identity that we see for the first time.
func (d *Admission) admitNew(tx *db.Tx, u upstream.Upstream, a Arrival) (userID string, err error) {
	err = errs.New(errs.NotFound, "no verified address")
	if a.claims.EmailVerified {
		userID, err = d.Accounts.AcceptVerified(tx, a.newcomer)
	}
	if errs.KindOf(err) == errs.NotFound && u.DefaultRole != nil {
		n := a.newcomer
		n.Role = *u.DefaultRole
		userID, err = d.Accounts.Admit(tx, n)
	}
	return userID, err
}

// Identity returns an identity without the user that it belongs to here.
func Identity(u upstream.Upstream, c relying.Claims) upstream.Identity {
	return upstream.Identity{OrgID: u.OrgID, Issuer: u.Issuer, Subject: c.Subject, Groups: c.Groups}
}
