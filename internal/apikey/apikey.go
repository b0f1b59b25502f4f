// Package apikey owns API keys: creating, listing and deleting them, and authenticating requests
// with them.
//
// The value of a key is shown once and stored as its SHA-256. Checker.Authenticate looks a value up
// in a cache, refuses it if its checksum is wrong, and then reads the database. The cache is
// invalidated by every change of a key, a role or a membership (auth.Callers): at once in this
// process, within a second on other replicas. The times of last use are collected in memory and
// written by Checker.Flush.
package apikey

import (
	"hash/crc32"
	"strings"
	"time"
	"unicode/utf8"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/page"
	"steward/internal/stamp"
)

// Type is how a key was created and what it is confined to.
type Type string

// The types of keys.
const (
	Root      Type = "root"    // created at the first start, or by `steward root-key`
	User      Type = "user"    // created by a user, for everything that the user may do
	OfProject Type = "project" // created by a user, for one project
)

// Key is an API key without its value.
type Key struct {
	ID         string      `json:"id"`
	Name       string      `json:"name"`
	OrgID      string      `json:"orgId"`
	Type       Type        `json:"type" enum:"root,user,project"`
	ExpiresAt  *stamp.Time `json:"expiresAt" format:"date-time"`
	LastUsedAt *stamp.Time `json:"lastUsedAt" format:"date-time" doc:"Accurate to a minute"`
	CreatedAt  stamp.Time  `json:"createdAt" format:"date-time"`
	Project    *Project    `json:"project"`

	userID  string
	version int64
}

// Project is the project to which a key is confined.
type Project struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// ETag returns the version of the row, which does not change when the key is used.
func (k Key) ETag() string { return page.ETag(k.version) }

// Created is the response to creating a key, the only one with its value.
type Created struct {
	ID    string `json:"id"`
	Value string `json:"value"`
}

// NewKey is a request to create a key.
type NewKey struct {
	Name      string  `json:"name" maxLength:"256" pattern:"\\S" patternDescription:"a name that is not blank"`
	ExpiresAt *string `json:"expiresAt,omitempty" format:"date-time" doc:"Time in the future; null or absent means never"`
	ProjectID *string `json:"projectId,omitempty" pattern:"^[A-Za-z0-9._:-]{1,128}$" doc:"Project to which the key is confined"`
	OrgID     *string `json:"orgId,omitempty" doc:"Must be the caller's organization, if given"`
}

// build returns the key to store. It returns Invalid with all faults of the request.
func (n NewKey) build(now time.Time) (Key, error) {
	var faults errs.Faults
	k := Key{ID: id.At(id.Key, now), Name: n.Name, Type: User, CreatedAt: stamp.Of(now), version: 1}
	faults.Check(strings.TrimSpace(n.Name) != "" && utf8.ValidString(n.Name),
		"body.name", "expected a name that is not blank")
	if n.ExpiresAt != nil {
		var at stamp.Time
		err := at.UnmarshalText([]byte(*n.ExpiresAt))
		faults.Check(err == nil && at > k.CreatedAt, "body.expiresAt", "expected an RFC 3339 time in the future, or null")
		k.ExpiresAt = &at
	}
	if n.ProjectID != nil {
		faults.Check(id.Foreign(*n.ProjectID), "body.projectId", "expected 1 to 128 characters of A-Z a-z 0-9 . _ : -")
		k.Type = OfProject
		k.Project = &Project{ID: *n.ProjectID, Name: *n.ProjectID}
	}
	return k, faults.Err()
}

const (
	valuePrefix = "sk_"
	randomSize  = 43
	sumSize     = 6
	// minRootKey is the minimum length of a root key that the operator chooses.
	minRootKey = 20
)

// NewValue returns the value of a new key: the prefix, 43 random base62 characters, and a checksum
// of 6, with which typos are refused without a lookup and scanners recognise a leaked key.
func NewValue() string {
	random := id.Secret(randomSize)
	return valuePrefix + random + checksum(random)
}

// Plausible reports whether a value can be a key: it has the form of NewValue and the right
// checksum, or another form, as a root key chosen by the operator, and is long enough.
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
