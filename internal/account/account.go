// Package account owns organizations, their members and projects, invitations, and passwords.
//
// A user belongs to an organization by a row in members, which has the role. Every change of a
// membership invalidates the cache of callers (auth.Callers), so that keys act with the current
// role. A member is added with an invitation: a link that can be used once, whose token is stored
// as a hash, and with which the user sets a first password. A project is created by a request, or
// by EnsureProject when a runtime names one that does not exist.
package account

import (
	"net/mail"
	"slices"
	"strings"
	"unicode/utf8"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
)

// Org is an organization.
type Org struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Project is a part of an organization to which keys, threads and evaluations can be confined.
type Project struct {
	ID   string `json:"id"`
	Name string `json:"name"`

	createdAt stamp.Time
	version   int64
}

// ETag returns the version of the row.
func (p Project) ETag() string { return page.ETag(p.version) }

// Member is a user with a role in the caller's organization.
type Member struct {
	ID        string    `json:"id"`
	FirstName *string   `json:"first_name"`
	LastName  *string   `json:"last_name"`
	Email     *string   `json:"email"`
	PhotoURL  *string   `json:"photo_url"`
	Role      auth.Role `json:"role" enum:"owner,admin,member,viewer"`

	version int64
}

// ETag returns the version of the membership.
func (m Member) ETag() string { return page.ETag(m.version) }

// Invited is a new member with an invitation link, which is shown once.
type Invited struct {
	Member
	Link string `json:"link" doc:"One-time link where the member sets a first password; valid for 7 days"`
}

// Profile describes the caller.
type Profile struct {
	ID            string    `json:"id"`
	Email         *string   `json:"email"`
	FirstName     *string   `json:"firstName"`
	LastName      *string   `json:"lastName"`
	Role          auth.Role `json:"role"`
	Organizations []Org     `json:"organizations"`
}

// NewMember is a request to add a member.
type NewMember struct {
	Email     string    `json:"email" maxLength:"254" pattern:"^\\S+@\\S+$" patternDescription:"an e-mail address"`
	FirstName *string   `json:"first_name,omitempty" maxLength:"256"`
	LastName  *string   `json:"last_name,omitempty" maxLength:"256"`
	Role      auth.Role `json:"role" enum:"owner,admin,member,viewer"`
}

// check validates the request and puts the e-mail address into lower case, as it is stored.
func (n *NewMember) check() error {
	var faults errs.Faults
	address, err := mail.ParseAddress(n.Email)
	faults.Check(err == nil && address.Address == n.Email, "body.email", "expected an e-mail address")
	faults.Check(slices.Contains(auth.Roles, n.Role), "body.role", "expected owner, admin, member or viewer")
	n.Email = strings.ToLower(n.Email)
	return faults.Err()
}

// MemberPatch is a partial update of a member.
type MemberPatch struct {
	FirstName page.Opt[string]    `json:"first_name,omitempty" maxLength:"256"`
	LastName  page.Opt[string]    `json:"last_name,omitempty" maxLength:"256"`
	PhotoURL  page.Opt[string]    `json:"photo_url,omitempty" maxLength:"2048"`
	Role      page.Opt[auth.Role] `json:"role,omitempty" enum:"owner,admin,member,viewer"`
}

// apply returns the patched member. It returns Invalid if the role is unknown.
func (p MemberPatch) apply(m Member) (Member, error) {
	p.FirstName.SetPtr(&m.FirstName)
	p.LastName.SetPtr(&m.LastName)
	p.PhotoURL.SetPtr(&m.PhotoURL)
	p.Role.Set(&m.Role)
	if !slices.Contains(auth.Roles, m.Role) {
		return m, errs.InvalidField("body.role", "expected owner, admin, member or viewer")
	}
	m.version++
	return m, nil
}

// NewProject is a request to create a project.
type NewProject struct {
	Name string `json:"name" maxLength:"256" pattern:"\\S" patternDescription:"a name that is not blank"`
}

func (n NewProject) check() error {
	if strings.TrimSpace(n.Name) == "" || !utf8.ValidString(n.Name) {
		return errs.InvalidField("body.name", "expected a name that is not blank")
	}
	return nil
}
