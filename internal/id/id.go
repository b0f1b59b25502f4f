// Package id generates identifiers and secrets. An identifier is a lower-case prefix, `_` and a ULID in
// lower case: it sorts by time, may be listed and logged, and is never a credential. Secrets are random
// base62 text.
package id

import (
	"crypto/rand"
	"encoding/binary"
	mathrand "math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
)

// Prefixes of identifiers.
const (
	Org         = "org"
	User        = "usr"
	Invitation  = "inv"
	Project     = "prj"
	Key         = "key"
	Client      = "oac"
	Webhook     = "wh"
	Destination = "whds"
	Receipt     = "whrc"
	Delivery    = "whdv"
	Replay      = "whrp"
	Rejected    = "whrj"
	Request     = "req"
	Audit       = "aud"
	Bucket      = "bkt"
	Upload      = "upl"
	Database    = "db"
	KVStore     = "kv"
	Node        = "node"
	Alert       = "alr"
	AlertNotice = "alrn"
)

// counter starts at a random number and advances in random steps. It is the high part of the random
// bits of each ULID, so that identifiers of the same millisecond sort in the order of their
// creation.
var counter atomic.Uint64

// counterBits is the number of random bits of a ULID, out of 80, that the counter takes: enough for
// 10^12 identifiers per process.
const counterBits = 48

// New returns an identifier for the current time. Those that a process creates with one prefix sort
// in the order of their creation.
func New(prefix string) string { return At(prefix, time.Now()) }

// At returns an identifier for a given time. Those for the same millisecond sort in the order of
// their creation.
func At(prefix string, t time.Time) string {
	counter.CompareAndSwap(0, 1+mathrand.Uint64N(1<<(counterBits-1)))
	var u ulid.ULID
	_ = u.SetTime(ulid.Timestamp(t)) // fails after the year 10889
	var count [8]byte
	binary.BigEndian.PutUint64(count[:], counter.Add(1+mathrand.Uint64N(256)))
	copy(u[6:12], count[2:])
	binary.BigEndian.PutUint32(u[12:], mathrand.Uint32())
	text := make([]byte, len(prefix)+1+ulid.EncodedSize)
	copy(text, prefix)
	text[len(prefix)] = '_'
	ulidPart := text[len(prefix)+1:]
	_ = u.MarshalTextTo(ulidPart) // fails only if the slice is too short
	for i, c := range ulidPart {
		if c >= 'A' {
			ulidPart[i] = c | 0x20
		}
	}
	return string(text)
}

// Is reports whether s is an identifier with a prefix.
func Is(prefix, s string) bool {
	rest, ok := strings.CutPrefix(s, prefix+"_")
	if !ok || len(rest) != ulid.EncodedSize || strings.ToLower(rest) != rest {
		return false
	}
	_, err := ulid.ParseStrict(rest)
	return err == nil
}

// Valid reports whether s is an identifier with any prefix, of lower-case letters.
func Valid(s string) bool {
	prefix, _, found := strings.Cut(s, "_")
	if !found || prefix == "" || strings.Trim(prefix, "abcdefghijklmnopqrstuvwxyz") != "" {
		return false
	}
	return Is(prefix, s)
}

// Blob returns an identifier for the bytes of an object: a ULID in lower case without a prefix.
func Blob(t time.Time) string { return At("", t)[1:] }

// BlobTime returns the time of an identifier that Blob returned, and whether it is one.
func BlobTime(s string) (time.Time, bool) {
	u, err := ulid.ParseStrict(s)
	return u.Timestamp(), err == nil && strings.ToLower(s) == s
}

// ExpectedForeign says what Foreign accepts, for error messages.
const ExpectedForeign = "1 to 128 characters of A-Z a-z 0-9 . _ : -"

// Foreign reports whether s is valid as an identifier that a runtime chose: 1–128 characters of
// [A-Za-z0-9._:-], not only dots.
func Foreign(s string) bool {
	if len(s) > 128 || strings.Trim(s, ".") == "" {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !isAlnum(c) && c != '.' && c != '_' && c != ':' && c != '-' {
			return false
		}
	}
	return true
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// Base62 is the alphabet of secrets, which need no escaping in headers, URLs, shells and forms.
const Base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Secret returns n random base62 characters, of 5.95 bits each.
func Secret(n int) string {
	out := make([]byte, 0, n)
	buf := make([]byte, n+n/4+8)
	for len(out) < n {
		rand.Read(buf) // never fails
		for _, b := range buf {
			// 248 is a multiple of 62: higher bytes would make some characters more likely.
			if b < 248 && len(out) < n {
				out = append(out, Base62[b%62])
			}
		}
	}
	return string(out)
}
