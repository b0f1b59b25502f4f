package account

import (
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
)

const (
	// MinPassword is a new password's minimum length in characters.
	MinPassword = 10
	// MaxPassword is a password's maximum length in bytes. It bounds the work of hashing.
	MaxPassword = 1024
)

//go:embed common_passwords.txt
var commonText string

// commonPasswords returns the set of common passwords.
var commonPasswords = sync.OnceValue(func() map[string]bool {
	set := map[string]bool{}
	for line := range strings.Lines(commonText) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		for password := range strings.FieldsSeq(line) {
			set[password] = true
		}
	}
	return set
})

// PasswordProblem explains in a sentence why a user with this e-mail address cannot choose the password.
// It returns "" if the password is acceptable. The sentence does not contain the password.
func PasswordProblem(email, password string) string {
	switch {
	case utf8.RuneCountInString(password) < MinPassword:
		return fmt.Sprintf("The password must have at least %d characters.", MinPassword)
	case len(password) > MaxPassword:
		return "The password is too long."
	case !utf8.ValidString(password):
		return "The password contains invalid characters."
	case isAddress(email, password):
		return "The password must not be your email address."
	case isCommon(password):
		return "This password is easy to guess. Choose another one, such as a few words that do not belong together."
	}
	return ""
}

// isAddress reports whether a password is the e-mail address or its local part, even with digits and
// punctuation around it.
func isAddress(email, password string) bool {
	email = strings.ToLower(email)
	password = strings.ToLower(strings.TrimSpace(password))
	local, _, _ := strings.Cut(email, "@")
	if password == email || password == local {
		return true
	}
	return len(local) >= MinPassword/2 && letters(local) != "" && letters(password) == letters(local)
}

// isCommon reports whether guessers would try a password early: a common password, even with digits and
// punctuation around it, a short text that is repeated, or a run such as 0123456789.
func isCommon(password string) bool {
	password = strings.ToLower(strings.TrimSpace(password))
	if isRun(password) {
		return true
	}
	for _, text := range []string{password, letters(password), letters(unsubstitute(password))} {
		unit := repeated(text)
		if text != "" && (commonPasswords()[text] || commonPasswords()[unit]) {
			return true
		}
	}
	return utf8.RuneCountInString(repeated(password)) < MinPassword
}

// letters trims everything but letters from both ends.
func letters(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return !unicode.IsLetter(r) })
}

// substitutions undoes the usual replacements of letters in passwords.
var substitutions = strings.NewReplacer("0", "o", "1", "i", "3", "e", "4", "a", "5", "s", "7", "t", "@", "a", "$", "s", "!", "i")

// unsubstitute undoes the usual replacements of letters, except at the end, where digits and punctuation
// are more often additions than replacements.
func unsubstitute(s string) string {
	return substitutions.Replace(strings.TrimRightFunc(s, func(r rune) bool { return !unicode.IsLetter(r) }))
}

// repeated returns the shortest text that s repeats. For most texts that is s itself.
func repeated(s string) string {
	if s == "" {
		return s
	}
	// s occurs in s+s at its start and again after each unit.
	return s[:strings.Index((s + s)[1:], s)+1]
}

// isRun reports whether each character follows the previous one, upwards or downwards, as in abcdefghij
// and 9876543210.
func isRun(s string) bool {
	runes := []rune(s)
	for _, step := range []rune{1, -1} {
		run := true
		for i := 1; i < len(runes) && run; i++ {
			run = runes[i] == runes[i-1]+step || isWrap(runes[i-1], runes[i], step)
		}
		if run {
			return true
		}
	}
	return false
}

// isWrap reports whether a run of digits continues from 9 to 0, or downwards from 0 to 9.
func isWrap(from, to, step rune) bool {
	return step == 1 && from == '9' && to == '0' || step == -1 && from == '0' && to == '9'
}

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
