package signin

import (
	"context"
	"errors"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/upstream"
)

// Upstreams knows the organizations' providers, and decides which user in an organization an identity
// at its provider signs in.
//
// Whoever manages a provider controls everything it says. So a new identity never attaches to an
// existing user, and a known one opens no account that has another way in, unless the user has linked
// it.
type Upstreams struct {
	Store    *upstream.Store
	Accounts *account.Store
}

// ErrNotAdmitted means that an identity opens no account.
var ErrNotAdmitted = errors.New("the identity opens no account")

// Arrival is a user who comes back from a provider.
type Arrival struct {
	upstreamID string
	claims     upstream.Claims
	newcomer   account.Newcomer
}

// Methods returns the methods that the user has authenticated with at the provider.
func (a Arrival) Methods() oauth.Methods { return a.claims.Methods }

// Arrive returns a user's arrival. A new account gets the address only if the provider has verified it
// and the operator has granted its domain to the organization. Otherwise an organization could take any
// address, and others could not invite its real owner.
func (s *Upstreams) Arrive(ctx context.Context, u upstream.Upstream, c upstream.Claims) (Arrival, error) {
	granted, err := s.Store.Domains.Has(ctx, u.OrgID, upstream.DomainOf(c.Email))
	return Arrival{upstreamID: u.ID, claims: c, newcomer: account.Newcomer{
		OrgID: u.OrgID, Email: c.Email, OwnAddress: c.EmailVerified && granted, FirstName: c.FirstName, LastName: c.LastName,
	}}, err
}

// Enter returns the user for an identity at a provider, and whether we knew the identity. A new
// identity attaches to an invited person by a verified address, or to a new user if the provider has a
// default role. It never attaches to an existing user. Nor does an identity sign in a user who has a
// password or belongs to another organization, unless that user has linked it. Enter returns
// ErrNotAdmitted, or NotFound if the provider was switched off in the meantime.
func (s *Upstreams) Enter(tx *db.Tx, a Arrival) (userID string, known bool, err error) {
	u, err := s.Store.ByIDIn(tx, a.upstreamID)
	if err != nil {
		return "", false, err
	}
	identity, err := s.Store.Identity(tx, u, a.claims.Subject)
	known = err == nil
	switch {
	case errs.KindOf(err) == errs.NotFound:
		userID, err = s.admitNew(tx, u, a)
	case known:
		userID, err = s.admitKnown(tx, a, identity)
	}
	if kind := errs.KindOf(err); kind == errs.NotFound || kind == errs.Conflict {
		return "", false, ErrNotAdmitted
	}
	if err != nil {
		return "", false, err
	}
	i := Identity(u, a.claims)
	i.UserID = userID
	if err := s.Store.PutIdentity(tx, i); err != nil {
		return "", false, err
	}
	if role := u.Role(a.claims.Groups); role != "" {
		change := account.RoleChange{OrgID: u.OrgID, UserID: userID, Role: role, Owners: u.GivesOwner()}
		if err := s.Accounts.SetRole(tx, change); err != nil {
			return "", false, err
		}
	}
	return userID, known, nil
}

// admitKnown returns the user for a known identity. A user who was removed needs an invitation to come
// back.
func (s *Upstreams) admitKnown(tx *db.Tx, a Arrival, known upstream.Identity) (userID string, err error) {
	standing, err := s.Accounts.Standing(tx, known.OrgID, known.UserID)
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
	return s.Accounts.AcceptVerified(tx, n)
}

// admitNew returns the user for an identity that we do not know yet.
func (s *Upstreams) admitNew(tx *db.Tx, u upstream.Upstream, a Arrival) (userID string, err error) {
	err = errs.New(errs.NotFound, "no verified address")
	if a.claims.EmailVerified {
		userID, err = s.Accounts.AcceptVerified(tx, a.newcomer)
	}
	if errs.KindOf(err) == errs.NotFound && u.DefaultRole != nil {
		n := a.newcomer
		n.Role = *u.DefaultRole
		userID, err = s.Accounts.Admit(tx, n)
	}
	return userID, err
}

// Identity returns the identity of a provider's user, without a UserID.
func Identity(u upstream.Upstream, c upstream.Claims) upstream.Identity {
	return upstream.Identity{OrgID: u.OrgID, Issuer: u.Issuer, Subject: c.Subject, Groups: c.Groups}
}
