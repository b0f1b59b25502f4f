// Package apikey owns API keys: making, listing and deleting them, and telling who a key belongs to.
//
// A key's value is shown once and stored as a SHA-256. A request's key is checked by Checker.Authenticate: first the cache; then a value of
// our own shape with a wrong checksum is refused at sight; then one read. The cache is emptied by every change of a key, a role or a
// membership (auth.Callers), here at once and on other replicas within a second. Uses are noted in memory and written by Flush.
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

// Type says how a key came to be and what it is confined to.
type Type string

// The types of keys.
const (
	Root      Type = "root"    // made at first start, or by `steward root-key`
	User      Type = "user"    // made by a user, for everything that the user may do
	OfProject Type = "project" // made by a user, for one project
)

// Key is an entry of the list; its value is not in it.
type Key struct {
	ID         string      `json:"id"`
	Name       string      `json:"name"`
	OrgID      string      `json:"orgId"`
	Type       Type        `json:"type" enum:"root,user,project"`
	ExpiresAt  *stamp.Time `json:"expiresAt" format:"date-time"`
	LastUsedAt *stamp.Time `json:"lastUsedAt" format:"date-time" doc:"True within a minute"`
	CreatedAt  stamp.Time  `json:"createdAt" format:"date-time"`
	Project    *Project    `json:"project"`

	userID  string
	version int64
}

// Project is the project that a key is confined to.
type Project struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// ETag is the row's version; uses do not count.
func (k Key) ETag() string { return page.ETag(k.version) }

// Created is the answer to making a key: the only time its value is shown.
type Created struct {
	ID    string `json:"id"`
	Value string `json:"value"`
}

// NewKey is what it takes to make a key.
type NewKey struct {
	Name      string  `json:"name" maxLength:"256" pattern:"\\S" patternDescription:"a name that is not blank"`
	ExpiresAt *string `json:"expiresAt,omitempty" format:"date-time" doc:"A time in the future; null or absent means never"`
	ProjectID *string `json:"projectId,omitempty" pattern:"^[A-Za-z0-9._:-]{1,128}$" doc:"Confines the key to a project"`
	OrgID     *string `json:"orgId,omitempty" doc:"The caller's organization, or null"`
}

// build makes the key's row, or Invalid.
func (n NewKey) build(now time.Time) (Key, error) {
	var faults errs.Faults
	k := Key{ID: id.At(id.Key, now), Name: n.Name, Type: User, CreatedAt: stamp.Of(now), version: 1}
	faults.Check(strings.TrimSpace(n.Name) != "" && utf8.ValidString(n.Name), "body.name", "expected a name that is not blank")
	if n.ExpiresAt != nil {
		var at stamp.Time
		err := at.UnmarshalText([]byte(*n.ExpiresAt))
		faults.Check(err == nil && at > k.CreatedAt, "body.expiresAt", "expected an RFC 3339 time in the future, or null")
		k.ExpiresAt = &at
	}
	if n.ProjectID != nil {
		faults.Check(id.Foreign(*n.ProjectID), "body.projectId", "expected 1 to 128 characters of A-Z a-z 0-9 . _ : -")
		k.Type, k.Project = OfProject, &Project{ID: *n.ProjectID, Name: *n.ProjectID}
	}
	return k, faults.Err()
}

const (
	valuePrefix = "sk_"
	randomSize  = 43
	sumSize     = 6
	// minRootKey is the least length of a root key that the operator chooses.
	minRootKey = 20
)

// NewValue makes a key's value: the prefix, 43 random base62 characters, and 6 of checksum, by which typos are refused without a look-up
// and scanners recognise a leaked key.
func NewValue() string {
	random := id.Secret(randomSize)
	return valuePrefix + random + checksum(random)
}

// Plausible is false for a value of exactly our shape whose checksum is wrong, and for what is too short to be any key.
func Plausible(value string) bool {
	rest, ours := strings.CutPrefix(value, valuePrefix)
	if !ours || len(rest) != randomSize+sumSize || strings.Trim(rest, id.Base62) != "" {
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
