// Package admission decides which user of an organization a provider of the organization signs in.
//
// Whoever manages a provider decides what it says. So a new identity never becomes that of a user who
// exists, and a known one opens no account that has another way in, unless its user has linked it.
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

// ErrNotAdmitted is returned if an identity opens no account.
var ErrNotAdmitted = errors.New("the identity opens no account")

// Arrival is a user who comes back from a provider.
type Arrival struct {
	upstreamID string
	claims     relying.Claims
	newcomer   account.Newcomer
}

// Methods returns how the user has authenticated at the provider.
func (a Arrival) Methods() oauth.Methods { return a.claims.Methods }

// Arrive returns the arrival of a user. The address becomes that of a new account only if the provider has
// verified it and the operator has granted its domain to the organization: otherwise an organization could
// take any address, and its real owner could not be invited by others.
func (d *Admission) Arrive(ctx context.Context, u upstream.Upstream, c relying.Claims) (Arrival, error) {
	granted, err := d.Store.Domains.Has(ctx, u.OrgID, upstream.DomainOf(c.Email))
	return Arrival{upstreamID: u.ID, claims: c, newcomer: account.Newcomer{
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
		change := account.RoleChange{OrgID: u.OrgID, UserID: userID, Role: role, Owners: u.GivesOwner()}
		if err := d.Accounts.SetRole(tx, change); err != nil {
			return "", false, err
		}
	}
	return userID, known, nil
}

// admitKnown returns the user of a known identity. One who was removed comes back with an invitation
// only.
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

// admitNew returns the user of an identity that is not known yet.
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

// Identity returns the identity of a user of a provider, without the user here.
func Identity(u upstream.Upstream, c relying.Claims) upstream.Identity {
	return upstream.Identity{OrgID: u.OrgID, Issuer: u.Issuer, Subject: c.Subject, Groups: c.Groups}
}
