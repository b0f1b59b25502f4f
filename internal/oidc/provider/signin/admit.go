package signin

import (
	"context"
	"errors"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc"
	relying "steward/internal/oidc/provider/upstream"
	"steward/internal/oidc/upstream"
)

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

// notAdmitted is the same whether the user is not invited, is disabled, or has an account that is not
// linked: who manages a provider must not learn which addresses have accounts.
const notAdmitted = "This account does not open the organization. Sign in another way and link it on your account page, or ask for an invitation."

var errNotAdmitted = errors.New("the identity opens no account")

// arrival is a user who comes back from a provider.
type arrival struct {
	upstreamID string
	claims     relying.Claims
	newcomer   Newcomer
}

// arrive returns the arrival of a user. The address becomes that of a new account only if the provider has
// verified it and the operator has granted its domain to the organization: otherwise an organization could
// take any address, and its real owner could not be invited by others.
func (h *Handler) arrive(ctx context.Context, u upstream.Upstream, c relying.Claims) (arrival, error) {
	granted, err := h.Upstreams.Store.Domains.Has(ctx, u.OrgID, upstream.DomainOf(c.Email))
	return arrival{upstreamID: u.ID, claims: c, newcomer: Newcomer{
		OrgID: u.OrgID, Email: c.Email, OwnAddress: c.EmailVerified && granted, FirstName: c.FirstName, LastName: c.LastName,
	}}, err
}

// admit returns the user of an identity at a provider. A new identity becomes that of an invited person
// by a verified address, or of a new user if the provider has a default role. It never becomes that of a
// user who exists. Nor does it sign in a user who has a password or belongs to another organization,
// unless that user has linked it.
func (h *Handler) admit(tx *db.Tx, a arrival) (userID string, err error) {
	u, err := h.Upstreams.Store.ByIDIn(tx, a.upstreamID)
	if errs.KindOf(err) == errs.NotFound {
		return "", errNoUpstream // it was switched off in the meantime
	}
	if err != nil {
		return "", err
	}
	known, err := h.Upstreams.Store.Identity(tx, u, a.claims.Subject)
	switch {
	case errs.KindOf(err) == errs.NotFound:
		userID, err = h.admitNew(tx, u, a)
	case err == nil:
		userID, err = h.admitKnown(tx, a, known)
	}
	if kind := errs.KindOf(err); kind == errs.NotFound || kind == errs.Conflict {
		return "", errNotAdmitted
	}
	if err != nil {
		return "", err
	}
	if role := u.Role(a.claims.Groups); role != "" {
		change := RoleChange{OrgID: u.OrgID, UserID: userID, Role: role, Owners: u.GivesOwner()}
		if err := h.Upstreams.SetRole(tx, change); err != nil {
			return "", err
		}
	}
	return userID, nil
}

// admitKnown returns the user of a known identity. One who was removed comes back with an invitation
// only.
func (h *Handler) admitKnown(tx *db.Tx, a arrival, known upstream.Identity) (userID string, err error) {
	standing, err := h.Upstreams.Standing(tx, known.OrgID, known.UserID)
	if err != nil {
		return "", err
	}
	if standing.Disabled || !known.Linked && (standing.Password || standing.Elsewhere) {
		return "", errNotAdmitted
	}
	if standing.Member {
		return known.UserID, nil
	}
	if !a.claims.EmailVerified {
		return "", errNotAdmitted
	}
	n := a.newcomer
	n.UserID = known.UserID
	return h.Upstreams.AcceptVerified(tx, n)
}

// admitNew returns the user of an identity that is not known yet.
func (h *Handler) admitNew(tx *db.Tx, u upstream.Upstream, a arrival) (userID string, err error) {
	err = errs.New(errs.NotFound, "no verified address")
	if a.claims.EmailVerified {
		userID, err = h.Upstreams.AcceptVerified(tx, a.newcomer)
	}
	if errs.KindOf(err) == errs.NotFound && u.DefaultRole != nil {
		n := a.newcomer
		n.Role = *u.DefaultRole
		userID, err = h.Upstreams.Admit(tx, n)
	}
	if err != nil {
		return "", err
	}
	i := identity(u, a.claims)
	i.UserID = userID
	return userID, h.Upstreams.Store.AddIdentity(tx, i)
}

// noPassword tells users of a domain without passwords what to do.
const noPassword = "Your organization does not use passwords. Sign in with its provider."

// refusesPassword reports whether a user must sign in with the provider of their domain: it is set to be
// the only way, and the user has an identity there. Owners can always use their password, so that a
// provider that fails locks nobody out. So can users who have a password and have not linked an identity,
// and those of several organizations.
func (h *Handler) refusesPassword(ctx context.Context, user oidc.User) (bool, error) {
	u, err := h.upstreamOf(ctx, user.Email)
	if errs.KindOf(err) == errs.NotFound || err == nil && !u.Only {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	memberships, err := h.Users.Memberships(ctx, user.ID)
	if err != nil {
		return false, err
	}
	if len(memberships) != 1 || memberships[0].OrgID != u.OrgID || memberships[0].Role == auth.Owner {
		return false, nil
	}
	identities, err := h.Upstreams.Store.Identities(ctx, user.ID)
	if err != nil {
		return false, err
	}
	for _, i := range identities {
		if i.OrgID == u.OrgID && i.Issuer == u.Issuer && (i.Linked || user.PasswordHash == "") {
			return true, nil
		}
	}
	return false, nil
}

// onlyUpstream reports whether a new person must accept an invitation with the provider of their domain.
func (h *Handler) onlyUpstream(ctx context.Context, i Invitation) (bool, error) {
	u, err := h.upstreamOf(ctx, i.Email)
	if errs.KindOf(err) == errs.NotFound {
		return false, nil
	}
	return err == nil && u.Only && u.OrgID == i.OrgID && i.Role != auth.Owner, err
}
