package account

import (
	"slices"
	"unicode/utf8"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/name"
	"steward/internal/page"
)

// Factor is a second factor that an organization can require.
type Factor string

// The factors.
const (
	AnyFactor Factor = "any" // an authenticator app in addition to the password, or a passkey
	Passkey   Factor = "passkey"
)

// level returns the acr claim of a sign-in with the factor.
func (f Factor) level() string {
	if f == Passkey {
		return "phr"
	}
	return "mfa"
}

// RequireMFA says which second factor an organization requires, and from whom.
type RequireMFA struct {
	Factor Factor    `json:"factor" enum:"any,passkey" doc:"any is an authenticator app or a passkey"`
	From   auth.Role `json:"from" enum:"owner,admin,member,viewer" doc:"The least powerful role of which it is required"`
}

// covers reports whether members with this role need the factor.
func (r RequireMFA) covers(role auth.Role) bool {
	return slices.Index(auth.Roles, role) <= slices.Index(auth.Roles, r.From)
}

// ETag returns the row's version.
func (o Org) ETag() string { return page.ETag(o.version) }

// OrgPatch is a partial update of an organization.
type OrgPatch struct {
	_ struct{} `goName:"OrganizationPatch"`

	Name       page.Opt[string]     `json:"name,omitempty" maxLength:"256" nullable:"false" example:"Acme"`
	RequireMFA page.Opt[RequireMFA] `json:"require_mfa,omitempty" doc:"Second factor that members must sign in with, or null for none. Members who are signed in without it are asked to sign in again"`
}

func (p OrgPatch) apply(o Org) Org {
	p.Name.Set(&o.Name)
	p.RequireMFA.SetPtr(&o.RequireMFA)
	o.version++
	return o
}

// Check adds a fault for each rule that the patch breaks.
func (p OrgPatch) Check(faults *errs.Faults) {
	if p.Name.Sent {
		valid := !p.Name.Null && name.Valid(p.Name.Value) && utf8.RuneCountInString(p.Name.Value) <= maxOrgName
		faults.Check(valid, "body.name", "expected %s", name.Expected)
	}
	if required := p.RequireMFA.Ptr(); required != nil {
		faults.Check(required.Factor == AnyFactor || required.Factor == Passkey,
			"body.require_mfa.factor", "expected any or passkey")
		faults.Check(slices.Contains(auth.Roles, required.From),
			"body.require_mfa.from", "expected owner, admin, member or viewer")
	}
}
