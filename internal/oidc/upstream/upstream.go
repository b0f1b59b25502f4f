// Package upstream owns the OpenID Connect providers that an organization's members sign in with, and
// the users' identities there.
//
// An upstream belongs to one organization, and that organization's owners and admins manage it. They
// control everything the provider says, so we trust none of it outside the organization: we look an
// identity up by organization, issuer and subject, and it opens that organization only. E-mail domains
// concern everybody, so the operator grants them (Domains).
//
// RelyingParty signs users in at an upstream: AuthURL returns the URL to send a browser to, and Finish
// checks the response that the browser brings back: its issuer (RFC 9207), the code with PKCE, and the ID
// token's signature, issuer, audience, nonce and times. Package provider/signin decides who an identity
// signs in.
package upstream

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/name"
	"steward/internal/page"
	"steward/internal/stamp"
)

const (
	prefix = "ups"

	// maxUpstreams caps an organization's upstreams, because one page shows a button for each.
	maxUpstreams  = 20
	maxName       = 64
	maxText       = 2048
	maxScopes     = 50
	maxDomains    = 50
	maxGroupRoles = 200
)

// Upstream is an organization's OpenID Connect provider. We never show its client secret.
type Upstream struct {
	ID          string      `json:"id" example:"ups_01jcq3w7y2b5d8f1h4k7n0q3st"`
	Name        string      `json:"name" doc:"What the button on the sign-in page says" example:"Acme"`
	Issuer      string      `json:"issuer" example:"https://login.acme.example"`
	ClientID    string      `json:"client_id" example:"steward"`
	Scopes      []string    `json:"scopes" example:"openid,profile,email"`
	Domains     []string    `json:"domains" doc:"Domains of e-mail addresses that lead to this provider" example:"acme.example"`
	DefaultRole *auth.Role  `json:"default_role" enum:"admin,member,viewer" doc:"Role of users who sign in for the first time; null if only invited members may" example:"member"`
	GroupsClaim string      `json:"groups_claim" doc:"Claim with the groups of a user; empty if groups are not used" example:"groups"`
	GroupRoles  []GroupRole `json:"group_roles" doc:"Roles of the members of groups, applied at each sign-in; the most powerful counts"`
	Only        bool        `json:"only" doc:"Whether members with an address of the domains sign in here and not with a password"`
	Enabled     bool        `json:"enabled" doc:"Whether users can sign in"`
	HasSecret   bool        `json:"has_secret" doc:"Whether a client secret is stored"`
	RedirectURI string      `json:"redirect_uri" doc:"Redirect URI to register at the provider" example:"https://steward.example.com/sign-in/upstream/callback"`
	SignInURL   string      `json:"sign_in_url" doc:"Link with which members sign in" example:"https://steward.example.com/sign-in/upstream/ups_01jcq3w7y2b5d8f1h4k7n0q3st"`
	CreatedAt   stamp.Time  `json:"created_at" format:"date-time"`
	UpdatedAt   stamp.Time  `json:"updated_at" format:"date-time"`

	// OrgID is the organization that owns the upstream.
	OrgID   string `json:"-"`
	sealed  []byte // the client secret
	version int64
}

// ETag returns the row's version.
func (u Upstream) ETag() string { return page.ETag(u.version) }

// GroupRole gives members of a group at the provider a role.
type GroupRole struct {
	_ struct{} `goName:"UpstreamGroupRole"`

	Group string    `json:"group" minLength:"1" maxLength:"256" example:"engineering"`
	Role  auth.Role `json:"role" enum:"owner,admin,member,viewer" doc:"Only an owner can name owner"`
}

// Role returns the most powerful role that the upstream's table gives to members of the groups, or ""
// if it has none of them.
func (u Upstream) Role(groups []string) auth.Role {
	for _, role := range auth.Roles {
		for _, entry := range u.GroupRoles {
			if entry.Role == role && slices.Contains(groups, entry.Group) {
				return role
			}
		}
	}
	return ""
}

// GivesOwner reports whether the table can make owners.
func (u Upstream) GivesOwner() bool {
	return slices.ContainsFunc(u.GroupRoles, func(g GroupRole) bool { return g.Role == auth.Owner })
}

// Settings holds the optional fields of create and update.
type Settings struct {
	ClientSecret page.Opt[string]      `json:"client_secret,omitempty" maxLength:"4096" doc:"Stored encrypted and never shown; null for a public client" example:"4fVq0hXz7Lr2mTb9KcW1sYpD6uJ3nEa8GiO5vRkB2dM"`
	Scopes       page.Opt[[]string]    `json:"scopes,omitempty" maxItems:"50" nullable:"false" doc:"By default openid, profile and email" example:"openid,profile,email"`
	Domains      page.Opt[[]string]    `json:"domains,omitempty" maxItems:"50" nullable:"false" doc:"Domains that the operator has granted to the organization" example:"acme.example"`
	DefaultRole  page.Opt[auth.Role]   `json:"default_role,omitempty" doc:"admin, member or viewer" example:"member"`
	GroupsClaim  page.Opt[string]      `json:"groups_claim,omitempty" maxLength:"256" nullable:"false" example:"groups"`
	GroupRoles   page.Opt[[]GroupRole] `json:"group_roles,omitempty" maxItems:"200" nullable:"false" example:"[{\"group\":\"engineering\",\"role\":\"admin\"}]"`
	Only         page.Opt[bool]        `json:"only,omitempty" nullable:"false"`
	Enabled      page.Opt[bool]        `json:"enabled,omitempty" nullable:"false" doc:"By default true"`
}

// NewUpstream is a request to add an upstream.
type NewUpstream struct {
	_ struct{} `goName:"NewUpstream"`

	Name     string `json:"name" minLength:"1" maxLength:"64" example:"Acme"`
	Issuer   string `json:"issuer" maxLength:"2048" doc:"Issuer URL, whose discovery document is read" example:"https://login.acme.example"`
	ClientID string `json:"client_id" minLength:"1" maxLength:"2048" example:"steward"`
	Settings
}

// Patch is a request to update an upstream. Absent fields stay as they are. Null clears the client
// secret and the default role.
type Patch struct {
	_ struct{} `goName:"UpstreamPatch"`

	Name     page.Opt[string] `json:"name,omitempty" minLength:"1" maxLength:"64" nullable:"false" example:"Acme"`
	Issuer   page.Opt[string] `json:"issuer,omitempty" maxLength:"2048" nullable:"false" doc:"A change must be sent with the client secret" example:"https://login.acme.example"`
	ClientID page.Opt[string] `json:"client_id,omitempty" minLength:"1" maxLength:"2048" nullable:"false" example:"steward"`
	Settings
}

// Check adds a fault for each rule that the request breaks.
func (n NewUpstream) Check(faults *errs.Faults) { n.upstream(time.Time{}).validate(faults) }

// upstream returns the requested upstream, which may be invalid.
func (n NewUpstream) upstream(now time.Time) Upstream {
	created := stamp.Of(now)
	u := Upstream{
		ID: id.At(prefix, now), Name: n.Name, Issuer: n.Issuer, ClientID: n.ClientID,
		Scopes: []string{"openid", "profile", "email"}, Domains: []string{}, GroupRoles: []GroupRole{},
		Enabled: true, CreatedAt: created, UpdatedAt: created, version: 1,
	}
	n.Settings.set(&u)
	return u
}

// Check adds a fault for each rule that the patch breaks for any upstream.
func (p Patch) Check(faults *errs.Faults) {
	valid := NewUpstream{Name: "unchanged", Issuer: "https://unchanged.example", ClientID: "unchanged"}
	u := p.set(valid.upstream(time.Time{}))
	if !p.Domains.Sent {
		u.Domains = []string{"unchanged.example"}
	}
	u.validate(faults)
}

func (p Patch) set(u Upstream) Upstream {
	p.Name.Set(&u.Name)
	p.Issuer.Set(&u.Issuer)
	p.ClientID.Set(&u.ClientID)
	p.Settings.set(&u)
	return u
}

// apply returns the upstream with the patch applied. It returns Invalid, listing all faults in the
// request. A new issuer needs the secret again, because we only ever send a secret to the issuer it was
// given for.
func (p Patch) apply(before Upstream, now time.Time) (Upstream, error) {
	u := p.set(before)
	u.UpdatedAt = max(stamp.Of(now), before.UpdatedAt)
	u.version = before.version + 1
	var faults errs.Faults
	u.validate(&faults)
	faults.Check(u.Issuer == before.Issuer || before.sealed == nil || p.ClientSecret.Sent, "body.client_secret",
		"expected with another issuer")
	return u, faults.Err()
}

func (s Settings) set(u *Upstream) {
	s.DefaultRole.SetPtr(&u.DefaultRole)
	setSent(s.Scopes, &u.Scopes)
	setSent(s.Domains, &u.Domains)
	setSent(s.GroupsClaim, &u.GroupsClaim)
	setSent(s.GroupRoles, &u.GroupRoles)
	setSent(s.Only, &u.Only)
	setSent(s.Enabled, &u.Enabled)
	domains := make([]string, len(u.Domains))
	for i, d := range u.Domains {
		domains[i] = strings.ToLower(d)
	}
	u.Domains = domains
}

// setSent copies a value if the request has it and it is not null.
func setSent[T any](sent page.Opt[T], dst *T) {
	if sent.Ptr() != nil {
		*dst = sent.Value
	}
}

// validate adds a fault for each rule that the upstream breaks.
func (u Upstream) validate(faults *errs.Faults) {
	faults.Check(name.Valid(u.Name) && utf8.RuneCountInString(u.Name) <= maxName, "body.name", "expected %s", name.Expected)
	faults.Check(validIssuer(u.Issuer), "body.issuer", "expected an https URL without query and fragment")
	faults.Check(visible(u.ClientID, maxText), "body.client_id", "expected 1 to %d characters without spaces", maxText)
	faults.Check(slices.Contains(u.Scopes, "openid") && len(u.Scopes) <= maxScopes, "body.scopes", "expected openid among the scopes")
	for _, s := range u.Scopes {
		faults.Check(visible(s, maxText), "body.scopes", "expected scopes without spaces")
	}
	for _, d := range u.Domains {
		faults.Check(ValidDomain(d), "body.domains", "expected domains such as example.com")
	}
	faults.Check(len(u.Domains) <= maxDomains, "body.domains", "expected at most %d domains", maxDomains)
	faults.Check(!u.Only || len(u.Domains) > 0, "body.only", "expected false without domains")
	role := u.DefaultRole
	faults.Check(role == nil || *role != auth.Owner && slices.Contains(auth.Roles, *role), "body.default_role",
		"expected admin, member, viewer or null")
	faults.Check(utf8.ValidString(u.GroupsClaim) && !strings.ContainsRune(u.GroupsClaim, 0), "body.groups_claim", "expected text")
	faults.Check(len(u.GroupRoles) == 0 || u.GroupsClaim != "", "body.groups_claim", "expected with group_roles")
	faults.Check(len(u.GroupRoles) <= maxGroupRoles, "body.group_roles", "expected at most %d groups", maxGroupRoles)
	for _, g := range u.GroupRoles {
		faults.Check(name.Valid(g.Group) && slices.Contains(auth.Roles, g.Role), "body.group_roles", "expected groups with roles")
	}
}

// visible reports whether a text has 1 to n visible ASCII characters and no others.
func visible(s string, n int) bool {
	return s != "" && len(s) <= n && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

// validIssuer reports whether a URL can be an issuer. Plain HTTP is only for this machine.
func validIssuer(issuer string) bool {
	u, err := url.Parse(issuer)
	if err != nil || !visible(issuer, maxText) || u.Host == "" || u.User != nil || strings.ContainsAny(issuer, "?#") {
		return false
	}
	return u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname())
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// ValidDomain reports whether a text can be the domain in e-mail addresses: a lower-case host name with
// a dot.
func ValidDomain(d string) bool {
	if len(d) > 253 || !strings.Contains(d, ".") || net.ParseIP(d) != nil || d != strings.ToLower(d) {
		return false
	}
	for label := range strings.SplitSeq(d, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "-") != label || strings.ContainsFunc(label, isNotLetter) {
			return false
		}
	}
	return true
}

// isNotLetter reports whether a character cannot be part of a domain's label.
func isNotLetter(r rune) bool {
	return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
}

// DomainOf returns an e-mail address's domain in lower case, or "".
func DomainOf(email string) string {
	at := strings.LastIndexByte(email, '@')
	return strings.ToLower(email[at+1:])
}

// Domains records the organization that the operator granted each domain to.
type Domains struct {
	// Granted maps domains to organization ids. "" stands for the first organization.
	Granted  map[string]string
	Accounts *account.Store
}

// Org returns the organization that a domain was granted to, or "".
func (d Domains) Org(ctx context.Context, domain string) (string, error) {
	orgID, ok := d.Granted[domain]
	if !ok || orgID != "" {
		return orgID, nil
	}
	first, _, err := d.Accounts.FirstOrg(ctx)
	return first, err
}

// Has reports whether a domain was granted to an organization.
func (d Domains) Has(ctx context.Context, orgID, domain string) (bool, error) {
	owner, err := d.Org(ctx, domain)
	return err == nil && owner == orgID && orgID != "", err
}

// check returns Invalid if an upstream has a domain that was not granted to its organization.
func (d Domains) check(ctx context.Context, u Upstream) error {
	for _, domain := range u.Domains {
		granted, err := d.Has(ctx, u.OrgID, domain)
		if err != nil {
			return err
		}
		if !granted {
			return errs.InvalidField("body.domains",
				"expected domains that the operator of the server has granted to the organization with --upstream-domains")
		}
	}
	return nil
}
