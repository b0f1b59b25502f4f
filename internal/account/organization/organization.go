// Package organization owns how organizations begin and end: users create them, owners delete and restore
// them, and what a deleted one holds is removed.
//
// A deletion sets deleted_at. From then on Active refuses the organization's callers and clients on every
// protocol, its webhooks take nothing in and nothing is sent, and an owner can restore it. After the grace
// period (account.Grace) the Remover sets removing, so that it cannot be restored any more, and removes
// all that it holds: first by the steps of other packages, which have more than rows, then the rows of
// tables with a column org_id, then members with the users who belong to no other organization, and the
// row of the organization at last. Each step can be repeated: after a crash the next run goes on.
package organization

import (
	"unicode/utf8"

	"steward/internal/errs"
	"steward/internal/name"
)

// maxName is the number of characters that the name of an organization may have.
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

func (n New) check() error {
	var faults errs.Faults
	n.Check(&faults)
	return faults.Err()
}
