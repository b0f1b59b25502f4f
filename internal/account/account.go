// Package account owns organizations, their members and projects, invitations, and passwords.
//
// A user belongs to an organization through a row in members, which has the role. Every change to a
// membership invalidates the cache of callers (auth.Callers), so that keys act with the current role. A
// member who is disabled or removed loses all access to the organization, and a user without an enabled
// membership cannot sign in.
//
// Members join by invitation. An invitation is for one organization, one address and one role. Until it
// is accepted it is a separate row that is listed as a pending member, and it does not reveal whether the
// address has an account. Its link works once: a new person registers with it and sets a password, while
// an existing user accepts or declines after signing in. A second kind of link, valid for an hour, resets
// a password. We store only hashes of the links' tokens. A link becomes void when the facts it was made
// for change.
//
// Projects are created by a request, or by EnsureProject when a runtime names one that does not exist.
package account

import (
	"cmp"
	"net/mail"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/name"
	"steward/internal/page"
	"steward/internal/stamp"
)

// maxOrgName caps an organization's name, in characters.
const maxOrgName = 256

// maxEmail caps an e-mail address, in characters.
const maxEmail = 254

// Org is an organization.
type Org struct {
	_ struct{} `goName:"Organization"`

	ID   string `json:"id" example:"org_01jcq3r0b3d6g9j2m5p8s1v4xz"`
	Name string `json:"name" example:"Acme"`
	// RequireMFA is set in responses that list or change organizations.
	RequireMFA *RequireMFA `json:"require_mfa,omitempty" doc:"Second factor that members must sign in with; absent if there is none. API keys and tokens are not affected"`

	version int64

	Role      auth.Role   `json:"role,omitempty" enum:"owner,admin,member,viewer" doc:"Role of the current user there; absent for OAuth clients that act as themselves" example:"admin"`
	DeletedAt *stamp.Time `json:"deleted_at,omitempty" format:"date-time" doc:"When the organization was deleted: it cannot be used, and owners can restore it" example:"2026-11-15T09:30:00.123Z"`
	RemovedAt *stamp.Time `json:"removed_at,omitempty" format:"date-time" doc:"When all that the deleted organization holds will be removed for good, 7 days after the deletion" example:"2026-11-22T09:30:00.123Z"`
}

// Project is a part of an organization. Keys, threads and evaluations can be confined to one.
type Project struct {
	ID   string `json:"id" example:"prj_01jcq3q9z1b4d7g0j3m6p9s2vw"`
	Name string `json:"name" example:"Shop"`

	createdAt stamp.Time
	version   int64
}

// ETag returns the row's version.
func (p Project) ETag() string { return page.ETag(p.version) }

// Projects is a page of projects.
type Projects struct {
	page.Page[Project]
	org Org // set for SDKs
}

// sdkProject is a project in the form that SDKs list. Steward has no deployments.
type sdkProject struct {
	Project
	OrgID            string  `json:"orgId"`
	OrgName          string  `json:"orgName"`
	LatestDeployment *string `json:"latestDeploymentId"`
}

// SDK returns the value's form in an envelope.
func (p Projects) SDK() any {
	shown := make([]sdkProject, len(p.Items))
	for i, item := range p.Items {
		shown[i] = sdkProject{Project: item, OrgID: p.org.ID, OrgName: p.org.Name}
	}
	return shown
}

// Member is a user with a role in the caller's organization, or an invitation to it.
type Member struct {
	ID         string      `json:"id" doc:"Id of the user, or of the invitation of a pending member" example:"usr_01jcq3s1d4f8k2m6p9r3t7v0wx"`
	FirstName  *string     `json:"first_name" example:"Ada"`
	LastName   *string     `json:"last_name" example:"Lovelace"`
	Email      *string     `json:"email" example:"ada@example.com"`
	PhotoURL   *string     `json:"photo_url" example:"https://example.com/ada.png"`
	Role       auth.Role   `json:"role" enum:"owner,admin,member,viewer"`
	Disabled   bool        `json:"disabled" doc:"Whether the member has no access to the organization"`
	Pending    bool        `json:"pending" doc:"Whether the invitation has not been accepted"`
	JoinedAt   *stamp.Time `json:"joined_at,omitempty" format:"date-time" doc:"When the member accepted"`
	LastSeenAt *stamp.Time `json:"last_seen_at,omitempty" format:"date-time" doc:"When the member last used the organization, accurate to a minute"`
	ExpiresAt  *stamp.Time `json:"expires_at,omitempty" format:"date-time" doc:"When the link of a pending member ends or has ended; absent if the link is void because the role was changed" example:"2026-11-15T09:30:00.123Z"`

	version int64
}

// owns reports whether the member has an owner's rights.
func (m Member) owns() bool { return m.Role == auth.Owner && !m.Disabled }

// label returns the member's name, or the e-mail address if there is none.
func (m Member) label() string {
	name := strings.TrimSpace(text(m.FirstName) + " " + text(m.LastName))
	return cmp.Or(name, text(m.Email))
}

// matches reports whether the text is the member's id, begins the e-mail address, or consists of words in
// the name or in the address's local part.
func (m Member) matches(wanted string) bool {
	email := strings.ToLower(text(m.Email))
	if m.ID == wanted || strings.HasPrefix(email, strings.ToLower(wanted)) {
		return true
	}
	local, _, _ := strings.Cut(email, "@")
	words := db.NewWords(wanted)
	return words.In(text(m.FirstName)+" "+text(m.LastName)) || words.In(local)
}

// text dereferences an optional text. It returns "" for nil.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// ETag returns the membership's version.
func (m Member) ETag() string { return page.ETag(m.version) }

// sameProfile reports whether two members have the same names and photo.
func (m Member) sameProfile(other Member) bool {
	return text(m.FirstName) == text(other.FirstName) && text(m.LastName) == text(other.LastName) &&
		text(m.PhotoURL) == text(other.PhotoURL)
}

// Invited is a pending member with an invitation link. We show the link only once.
type Invited struct {
	_ struct{} `goName:"InvitedMember"`

	Member
	Link string `json:"link" doc:"One-time link where a new person sets a password, and an existing user accepts or declines; valid for 7 days" example:"https://steward.example.com/invite/8Kd0sPq2"`
}

// TransformSchema sets an invitation's id as the example.
func (Invited) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	s.Properties["id"].Examples = []any{"inv_01jcq3s1d4f8k2m6p9r3t7v0wx"}
	return s
}

// Reset is a link for setting a new password. We show it only once.
type Reset struct {
	_ struct{} `goName:"PasswordReset"`

	Link      string     `json:"link" doc:"One-time link where the member sets a new password" example:"https://steward.example.com/reset/4fVq0hXz7Lr2mTb9KcW1sYpD6uJ3nEa8GiO5vRkB2dM"`
	ExpiresAt stamp.Time `json:"expires_at" doc:"An hour after the request" example:"2026-11-15T09:30:00.123Z"`
}

// ResetLink returns the link for a password reset token.
func ResetLink(baseURL, token string) string { return baseURL + "/reset/" + token }

// Profile describes the caller.
type Profile struct {
	ID            string    `json:"id" example:"usr_01jcq3s1d4f8k2m6p9r3t7v0wx"`
	Email         *string   `json:"email" example:"ada@example.com"`
	FirstName     *string   `json:"firstName" example:"Ada"`
	LastName      *string   `json:"lastName" example:"Lovelace"`
	Role          auth.Role `json:"role" example:"admin"`
	Organizations []Org     `json:"organizations"`
	CreatesOrgs   bool      `json:"can_create_organizations" doc:"Whether the caller may create organizations"`
	InFirstOrg    bool      `json:"in_first_organization" doc:"Whether the caller acts in the first organization, which manages the installation and cannot be deleted"`
}

// SDK replaces null with empty strings, because SDKs cannot read null here.
func (p Profile) SDK() any {
	for _, field := range []**string{&p.Email, &p.FirstName, &p.LastName} {
		if *field == nil {
			*field = new(string)
		}
	}
	return p
}

// NewMember is a request to add a member.
type NewMember struct {
	Email     string    `json:"email" maxLength:"254" pattern:"^\\S+@\\S+$" patternDescription:"an e-mail address" example:"ada@example.com"`
	FirstName *string   `json:"first_name,omitempty" maxLength:"256" example:"Ada"`
	LastName  *string   `json:"last_name,omitempty" maxLength:"256" example:"Lovelace"`
	Role      auth.Role `json:"role" enum:"owner,admin,member,viewer"`
}

// Check adds a fault for each rule that the request breaks.
func (n NewMember) Check(faults *errs.Faults) {
	address, err := mail.ParseAddress(n.Email)
	faults.Check(err == nil && address.Address == n.Email, "body.email", "expected an e-mail address")
	checkName(faults, "body.first_name", n.FirstName)
	checkName(faults, "body.last_name", n.LastName)
	faults.Check(slices.Contains(auth.Roles, n.Role), "body.role", "expected owner, admin, member or viewer")
}

// check validates the request and lowers the e-mail address, as we store it.
func (n *NewMember) check() error {
	var faults errs.Faults
	n.Check(&faults)
	n.Email = strings.ToLower(n.Email)
	return faults.Err()
}

// checkName adds a fault unless the name is absent, empty or valid.
func checkName(faults *errs.Faults, location string, s *string) {
	faults.Check(s == nil || *s == "" || name.Valid(*s), location, "expected %s", name.Expected)
}

// MemberPatch is a partial update of a member. Once a member has accepted, names and photo belong to the
// user; a patch may repeat them but not change them.
type MemberPatch struct {
	FirstName page.Opt[string]    `json:"first_name,omitempty" maxLength:"256" doc:"Of a pending member only" example:"Ada"`
	LastName  page.Opt[string]    `json:"last_name,omitempty" maxLength:"256" doc:"Of a pending member only" example:"Lovelace"`
	PhotoURL  page.Opt[string]    `json:"photo_url,omitempty" maxLength:"2048" doc:"Belongs to the user and cannot be changed here" example:"https://example.com/ada.png"`
	Role      page.Opt[auth.Role] `json:"role,omitempty" enum:"owner,admin,member,viewer" nullable:"false" doc:"A change voids the links of the member"`
	Disabled  page.Opt[bool]      `json:"disabled,omitempty" nullable:"false" doc:"true ends the member's access, tokens and API keys in the organization"`
}

// apply returns the patched member, or Invalid.
func (p MemberPatch) apply(m Member) (Member, error) {
	p.FirstName.SetPtr(&m.FirstName)
	p.LastName.SetPtr(&m.LastName)
	p.PhotoURL.SetPtr(&m.PhotoURL)
	p.Role.Set(&m.Role)
	p.Disabled.Set(&m.Disabled)
	m.version++
	var faults errs.Faults
	p.Check(&faults)
	return m, faults.Err()
}

// Check adds a fault for each rule that the patch breaks.
func (p MemberPatch) Check(faults *errs.Faults) {
	checkName(faults, "body.first_name", p.FirstName.Ptr())
	checkName(faults, "body.last_name", p.LastName.Ptr())
	faults.Check(!p.Role.Sent || slices.Contains(auth.Roles, p.Role.Value), "body.role", "expected owner, admin, member or viewer")
	faults.Check(!p.Disabled.Null, "body.disabled", "expected true or false")
}

// NewProject is a request to create a project.
type NewProject struct {
	Name string `json:"name" maxLength:"256" pattern:"\\S" patternDescription:"a name that is not blank" example:"Shop"`
}

// Check adds a fault for each rule that the request breaks.
func (n NewProject) Check(faults *errs.Faults) {
	faults.Check(name.Valid(n.Name), "body.name", "expected %s", name.Expected)
}

func (n NewProject) check() error {
	var faults errs.Faults
	n.Check(&faults)
	return faults.Err()
}

const (
	maxName  = 256
	maxPhoto = 2048
)

// UserProfile is a user's description of themselves. Fields may be empty.
type UserProfile struct {
	FirstName, LastName, PhotoURL string
}

// Problem explains in a sentence why the profile is invalid, or returns "".
func (p UserProfile) Problem() string {
	for _, n := range []string{p.FirstName, p.LastName} {
		if n != "" && (!name.Valid(n) || utf8.RuneCountInString(n) > maxName) {
			return "A name must have at most 256 characters, and no invisible ones."
		}
	}
	if p.PhotoURL != "" && !isPhotoURL(p.PhotoURL) {
		return "The photo must be an https address, or an http address on this device."
	}
	return ""
}

// isPhotoURL reports whether browsers may load a photo from this URL: either over https, or over http
// from a loopback host.
func isPhotoURL(text string) bool {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxPhoto || u.Hostname() == "" || u.User != nil {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && isLocal(u.Hostname())
}

// isLocal reports whether host is a loopback address or localhost.
func isLocal(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback() || strings.EqualFold(host, "localhost")
}
