package account

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"

	"golang.org/x/crypto/argon2"
)

// PasswordCost is the cost of a password's hash: argon2id's memory in KiB, and its passes over it.
type PasswordCost struct{ Memory, Passes uint32 }

// UsualCost is what OWASP recommends, about 20 ms on one core.
var UsualCost = PasswordCost{Memory: 19 * 1024, Passes: 2}

const argonKey = 32

// Hash returns a password's salted hash in PHC string format.
func (c PasswordCost) Hash(password string) string {
	salt := make([]byte, 16)
	rand.Read(salt)
	key := argon2.IDKey([]byte(password), salt, c.Passes, c.Memory, 1, argonKey)
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=1$%s$%s", argon2.Version, c.Memory, c.Passes,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(key))
}

// HashPassword returns a password's hash with the usual cost.
func HashPassword(password string) string { return UsualCost.Hash(password) }

// CheckPassword reports whether a password matches a hash. An empty hash matches nothing, but takes as
// long to check as any other.
func CheckPassword(hash, password string) bool {
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[1] != "argon2id" {
		HashPassword(password)
		return false
	}
	var version, memory, passes, threads int
	if _, err := fmt.Sscanf(parts[2], "v=%d", &version); err != nil || version != argon2.Version {
		return false
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &memory, &passes, &threads); err != nil {
		return false
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[4])
	if err != nil {
		return false
	}
	want, err := base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil {
		return false
	}
	got := argon2.IDKey([]byte(password), salt, uint32(passes), uint32(memory), uint8(threads), uint32(len(want)))
	return subtle.ConstantTimeCompare(got, want) == 1
}
