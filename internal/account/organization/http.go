// Package organization owns the beginning and end of organizations: users create them, owners delete and
// restore them, and a Remover removes deleted ones with everything they hold.
//
// A deletion sets deleted_at. From then on Active refuses the organization's callers and clients on every
// protocol, its webhooks receive and send nothing, and an owner can restore it. After the grace period
// (account.Grace) the Remover sets removing, which rules out a restore, and removes everything: first the
// steps of other packages, which have more than rows, then the rows in tables with a column org_id, then
// the members, with all users who belong to no other organization, and finally the organization's own
// row. Each step can be repeated, so the next run continues after a crash.
package organization

import (
	"context"
	"unicode/utf8"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/idempotency"
	"steward/internal/name"
)

// Handler serves the routes of this package.
type Handler struct {
	Store *Store
	// Open lets every user create organizations, not only the first organization's owners.
	Open bool
}

// WhoAmI serves GET /cli/auth/user.
func (h *Handler) WhoAmI(ctx context.Context, _ *struct{}) (account.Profile, error) {
	caller := auth.From(ctx)
	p, err := h.Store.Accounts.Profile(ctx, caller)
	if err != nil {
		return account.Profile{}, err
	}
	firstID, err := first(h.Store.db().Read(ctx))
	if err != nil {
		return account.Profile{}, err
	}
	p.InFirstOrg = caller.OrgID == firstID
	err = caller.Require(auth.CreateOrgs)
	if err == nil {
		err = h.mayCreate(ctx, caller)
	}
	p.CreatesOrgs = err == nil
	if errs.KindOf(err) == errs.Forbidden {
		err = nil
	}
	return p, err
}

// Create serves POST /cli/organization.
func (h *Handler) Create(ctx context.Context, in *struct{ Body New }) (account.Org, error) {
	caller := auth.From(ctx)
	var faults errs.Faults
	in.Body.Check(&faults)
	if err := faults.Err(); err != nil {
		return account.Org{}, err
	}
	if err := h.mayCreate(ctx, caller); err != nil {
		return account.Org{}, err
	}
	return idempotency.Once(ctx, func(ctx context.Context) (account.Org, error) {
		return h.Store.Create(ctx, caller, in.Body)
	})
}

// mayCreate returns Forbidden if a caller may not create organizations. Users who have signed in with an
// organization's provider may not: they could not enter a second organization, and the provider cannot
// sign in users who belong to another one.
func (h *Handler) mayCreate(ctx context.Context, caller *auth.Caller) error {
	if caller.Confined {
		return errs.New(errs.Forbidden, "you have signed in with the provider of an organization: "+
			"sign in with a password or a passkey to create another organization")
	}
	if h.Open {
		return nil
	}
	owns, err := h.Store.ownsFirst(ctx, caller)
	if err != nil {
		return err
	}
	if !owns {
		return errs.New(errs.Forbidden, "the role owner in the first organization of this installation is required to create organizations")
	}
	return nil
}

// ownOrg names the caller's organization.
type ownOrg struct {
	ID string `path:"id" doc:"Id of the caller's organization" example:"org_01jcq3r0b3d6g9j2m5p8s1v4xz"`
}

// own returns the caller if the path names the caller's organization. It returns NotFound for any other
// organization. It returns Forbidden for an application, because the user it acts for has not agreed to this.
func (in *ownOrg) own(ctx context.Context) (*auth.Caller, error) {
	caller := auth.From(ctx)
	if in.ID != caller.OrgID {
		return nil, errs.Missing("organization", in.ID)
	}
	if caller.ClientID != "" {
		return nil, errs.New(errs.Forbidden, "an application cannot delete or restore an organization: use an API key or the console")
	}
	return caller, nil
}

// Delete serves DELETE /cli/organization/{id}.
func (h *Handler) Delete(ctx context.Context, in *ownOrg) (account.Org, error) {
	caller, err := in.own(ctx)
	if err != nil {
		return account.Org{}, err
	}
	return h.Store.Delete(ctx, caller)
}

// Restore serves POST /cli/organization/{id}/restore.
func (h *Handler) Restore(ctx context.Context, in *ownOrg) (account.Org, error) {
	caller, err := in.own(ctx)
	if err != nil {
		return account.Org{}, err
	}
	return idempotency.Once(ctx, func(ctx context.Context) (account.Org, error) { return h.Store.Restore(ctx, caller) })
}

// maxName caps an organization's name, in characters.
const maxName = 256

// New is a request to create an organization.
type New struct {
	_ struct{} `goName:"NewOrganization"`

	Name string `json:"name" maxLength:"256" pattern:"\\S" patternDescription:"a name that is not blank" example:"Acme"`
}

// Check adds a fault for each rule that the request breaks.
func (n New) Check(faults *errs.Faults) {
	faults.Check(name.Valid(n.Name) && utf8.RuneCountInString(n.Name) <= maxName, "body.name", "expected %s", name.Expected)
}
