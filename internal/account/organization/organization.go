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
	"unicode/utf8"

	"steward/internal/errs"
	"steward/internal/name"
)

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
