// Package id owns identifiers: a lower-case prefix, `_`, and a ULID in lower case. They sort by time of making, they may be listed and
// logged, and they are never a credential. Credentials are random base62 text from Secret.
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

// Prefixes of the identifiers that Steward makes.
const (
	Org         = "org"
	User        = "usr"
	Project     = "prj"
	Key         = "key"
	Client      = "oac"
	Webhook     = "wh"
	Destination = "whds"
	Receipt     = "whrc"
	Delivery    = "whdv"
	Request     = "req"
	Audit       = "aud"
)

// made counts identifiers, from a random start and in random steps. It leads the random part of each, so that of two with the same
// millisecond the later one sorts later, whatever was made for other times in between.
var made atomic.Uint64

// counterBits is how many of the 80 random bits of a ULID the counter takes: enough for a million million identifiers of one process.
const counterBits = 48

// New makes an identifier for now. Those made by one process, with one prefix, sort in the order of their making.
func New(prefix string) string { return At(prefix, time.Now()) }

// At makes an identifier for a given time. Those for the same millisecond sort in the order of their making.
func At(prefix string, t time.Time) string {
	made.CompareAndSwap(0, 1+mathrand.Uint64N(1<<(counterBits-1)))
	var u ulid.ULID
	_ = u.SetTime(ulid.Timestamp(t)) // fails after the year 10889
	var count [8]byte
	binary.BigEndian.PutUint64(count[:], made.Add(1+mathrand.Uint64N(256)))
	copy(u[6:12], count[2:])
	binary.BigEndian.PutUint32(u[12:], mathrand.Uint32())
	text := make([]byte, len(prefix)+1+ulid.EncodedSize)
	copy(text, prefix)
	text[len(prefix)] = '_'
	ulidPart := text[len(prefix)+1:]
	_ = u.MarshalTextTo(ulidPart) // fails only when there is no room
	for i, c := range ulidPart {
		if c >= 'A' {
			ulidPart[i] = c | 0x20
		}
	}
	return string(text)
}

// Is tells whether s has the form of an identifier with that prefix.
func Is(prefix, s string) bool {
	rest, ok := strings.CutPrefix(s, prefix+"_")
	if !ok || len(rest) != ulid.EncodedSize || strings.ToLower(rest) != rest {
		return false
	}
	_, err := ulid.ParseStrict(rest)
	return err == nil
}

// Foreign tells whether s may serve as an identifier that a runtime chose: 1–128 characters of [A-Za-z0-9._:-].
func Foreign(s string) bool {
	if len(s) == 0 || len(s) > 128 {
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

// Base62 is the alphabet of secrets: nothing in it needs escaping in a header, a URL, a shell or a form.
const Base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Secret makes n random base62 characters (5.95 bits each).
func Secret(n int) string {
	out := make([]byte, 0, n)
	buf := make([]byte, n+n/4+8)
	for len(out) < n {
		rand.Read(buf) // never fails (crypto/rand)
		for _, b := range buf {
			// 248 is the largest multiple of 62 in a byte: what lies above would make some characters likelier.
			if b < 248 && len(out) < n {
				out = append(out, Base62[b%62])
			}
		}
	}
	return string(out)
}
