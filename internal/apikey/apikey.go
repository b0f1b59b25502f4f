// Package apikey owns API keys: creating, listing and deleting them, and authenticating requests with them.
//
// We show a key's value once and store its SHA-256. Checker.Authenticate looks a value up in a cache,
// refuses it if its checksum is wrong, and then reads the database. Every change to a key, a role or a
// membership invalidates the cache (auth.Callers): at once in this process, within a second on other
// replicas. Times of last use are collected in memory, and Checker.Flush writes them.
//
// A key never has more rights than its maker: its scopes are a subset of the maker's, and it does not
// outlive a key that created it. If an OAuth client created it with an access token, it is deleted when
// the user withdraws consent to that client.
package apikey

import (
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/name"
	"steward/internal/page"
	"steward/internal/stamp"
)

// Type says how a key was created and what it is confined to.
type Type string

// The key types.
const (
	Root      Type = "root"    // created at the first start, or by `steward root-key`
	User      Type = "user"    // created by a user, with all the user's rights
	OfProject Type = "project" // created by a user, for one project
)

// Key is an API key without its value.
type Key struct {
	_ struct{} `goName:"APIKey"`

	ID         string      `json:"id" example:"key_01jcq3t2f5h8k1n4q7s0v3y6bd"`
	Name       string      `json:"name" example:"Deployment"`
	OrgID      string      `json:"orgId" example:"org_01jcq3r0b3d6g9j2m5p8s1v4xz"`
	Type       Type        `json:"type" enum:"root,user,project"`
	ExpiresAt  *stamp.Time `json:"expiresAt" format:"date-time"`
	LastUsedAt *stamp.Time `json:"lastUsedAt" format:"date-time" doc:"Accurate to a minute"`
	CreatedAt  stamp.Time  `json:"createdAt" format:"date-time"`
	Project    *Project    `json:"project"`
	Scopes     []string    `json:"scopes,omitempty" doc:"Scopes that the key is restricted to; absent if it has all rights of its user" example:"openid,profile,thread:read"`

	userID   string
	clientID string // the OAuth client that created it, or ""
	version  int64
}

// Project is the project that a key is confined to.
type Project struct {
	_ struct{} `goName:"APIKeyProject"`

	ID   string `json:"id" example:"prj_01jcq3q9z1b4d7g0j3m6p9s2vw"`
	Name string `json:"name" example:"Shop"`
}

// ETag returns the row's version, which does not change when the key is used.
func (k Key) ETag() string { return page.ETag(k.version) }

// MovesWithoutVersion implements page.Moving, for LastUsedAt.
func (Key) MovesWithoutVersion() {}

// Created is the response to creating a key, the only one with its value.
type Created struct {
	_ struct{} `goName:"CreatedAPIKey"`

	ID    string `json:"id" example:"key_01jcq3t2f5h8k1n4q7s0v3y6bd"`
	Value string `json:"value" example:"sk_4fVq0hXz7Lr2mTb9KcW1sYpD6uJ3nEa8GiO5vRkB2dM1aB3cD"`
}

// NewKey is a request to create a key.
type NewKey struct {
	_ struct{} `goName:"NewAPIKey"`

	Name      string  `json:"name" maxLength:"256" pattern:"\\S" patternDescription:"a name that is not blank" example:"Deployment"`
	ExpiresAt *string `json:"expiresAt,omitempty" format:"date-time" doc:"Time in the future; null or absent means never, or when the key that creates it expires" example:"2027-11-15T08:30:00.000Z"`
	ProjectID *string `json:"projectId,omitempty" pattern:"^[A-Za-z0-9._:-]{1,128}$" doc:"Project to which the key is confined" example:"prj_01jcq3q9z1b4d7g0j3m6p9s2vw"`
	OrgID     *string `json:"orgId,omitempty" doc:"Must be the caller's organization, if given" example:"org_01jcq3r0b3d6g9j2m5p8s1v4xz"`
	// Scopes is nil if it is absent or null.
	Scopes []string `json:"scopes,omitempty" nullable:"true" minItems:"1" maxItems:"100" doc:"Scopes of the API (see GET /oidc/scopes) that the key is restricted to, among those of the caller; null or absent means those of the caller" example:"openid,profile,thread:read"`
}

// Check adds a fault for each rule that the request breaks.
func (n NewKey) Check(faults *errs.Faults) { n.key(time.Now(), faults) }

// Build returns the key that a caller asks for. It returns Invalid with all faults in the request, and
// Forbidden if it names an organization other than the caller's.
func (n NewKey) Build(caller *auth.Caller, now time.Time) (Key, error) {
	var faults errs.Faults
	k := n.key(now, &faults)
	if err := faults.Err(); err != nil {
		return Key{}, err
	}
	if n.OrgID != nil && *n.OrgID != caller.OrgID {
		return Key{}, errs.New(errs.Forbidden, "orgId is not the organization of the caller")
	}
	return k, nil
}

// key returns the requested key and adds the request's faults.
func (n NewKey) key(now time.Time, faults *errs.Faults) Key {
	k := Key{ID: id.At(id.Key, now), Name: n.Name, Type: User, CreatedAt: stamp.Of(now), version: 1}
	faults.Check(name.Valid(n.Name), "body.name", "expected %s", name.Expected)
	if n.ExpiresAt != nil {
		var at stamp.Time
		err := at.UnmarshalText([]byte(*n.ExpiresAt))
		faults.Check(err == nil && at > k.CreatedAt, "body.expiresAt", "expected an RFC 3339 time in the future, or null")
		k.ExpiresAt = &at
	}
	if n.ProjectID != nil {
		faults.Check(id.Foreign(*n.ProjectID), "body.projectId", "expected %s", id.ExpectedForeign)
		k.Type = OfProject
		k.Project = &Project{ID: *n.ProjectID, Name: *n.ProjectID}
	}
	k.Scopes = n.scopes(faults)
	return k
}

// maxScopes is more than the API has.
const maxScopes = 100

// scopes returns the requested scopes without duplicates, or nil if there are none.
func (n NewKey) scopes(faults *errs.Faults) []string {
	if n.Scopes != nil && (len(n.Scopes) == 0 || len(n.Scopes) > maxScopes) {
		faults.Add("body.scopes", "expected 1 to %d scopes; leave it out for all that the caller has", maxScopes)
		return nil
	}
	var scopes []string
	for i, s := range n.Scopes {
		faults.Check(auth.IsScope(s), fmt.Sprintf("body.scopes[%d]", i), "expected a scope of the API, such as webhook:read")
		if !slices.Contains(scopes, s) {
			scopes = append(scopes, s)
		}
	}
	return scopes
}

// restrict limits a new key to its maker's scopes, project and lifetime. It returns Forbidden if the
// request asks for more rights than the maker has.
func (k *Key) restrict(maker *auth.Caller) error {
	k.OrgID = maker.OrgID
	k.userID = maker.UserID
	k.clientID = maker.ClientID
	if maker.ProjectID != "" && (k.Project == nil || k.Project.ID != maker.ProjectID) {
		return errs.New(errs.Forbidden, "a key of a project can create keys of that project only")
	}
	if until := maker.KeyExpires; until != nil {
		if k.ExpiresAt == nil {
			k.ExpiresAt = until
		}
		if *k.ExpiresAt > *until {
			return errs.New(errs.Forbidden, "a key that expires cannot create one that expires later")
		}
	}
	if k.Scopes == nil && maker.Restricted() {
		k.Scopes = []string{} // not nil, which means all
		for _, s := range maker.Scopes {
			if auth.IsScope(s) {
				k.Scopes = append(k.Scopes, s)
			}
		}
	}
	return maker.RequireGrantable(k.Scopes, "create a key with it")
}

const (
	valuePrefix = "sk_"
	randomSize  = 43
	sumSize     = 6
	// minRootKey is the minimum length of a root key that the operator chooses.
	minRootKey = 20
)

// NewValue returns a new key's value: the prefix, 43 random base62 characters, and a 6-character
// checksum. The checksum lets us refuse typos without a lookup, and lets scanners recognise leaked keys.
func NewValue() string {
	random := id.Secret(randomSize)
	return valuePrefix + random + checksum(random)
}

// Plausible reports whether a value can be a key. It either has NewValue's form and the right checksum,
// or is a long enough text in another form, which an operator may have chosen as the root key.
func Plausible(value string) bool {
	rest, found := strings.CutPrefix(value, valuePrefix)
	if !found || len(rest) != randomSize+sumSize || strings.Trim(rest, id.Base62) != "" {
		return len(value) >= minRootKey
	}
	return checksum(rest[:randomSize]) == rest[randomSize:]
}

func checksum(s string) string {
	sum := crc32.ChecksumIEEE([]byte(s))
	out := make([]byte, sumSize)
	for i := sumSize - 1; i >= 0; i-- {
		out[i] = id.Base62[sum%62]
		sum /= 62
	}
	return string(out)
}
