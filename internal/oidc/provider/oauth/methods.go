package oauth

import (
	"slices"
	"strings"
)

// The methods that prove a user's identity (RFC 8176).
const (
	MethodPassword     = "pwd"
	MethodOneTimeCode  = "otp"
	MethodPossession   = "pop"  // a passkey
	MethodUserVerified = "user" // the passkey's device has verified the user
	MethodSeveral      = "mfa"
)

// The values of the acr claim, from the weakest to the strongest.
const (
	LevelPassword          = "pwd"
	LevelSeveral           = "mfa"
	LevelPhishingResistant = "phr"
)

// Levels lists the values of the acr claim, from the weakest to the strongest.
func Levels() []string { return []string{LevelPassword, LevelSeveral, LevelPhishingResistant} }

// Methods lists the methods that a user has signed in with: the amr claim. It is empty if unknown.
type Methods []string

// ParseMethods returns the methods that String has written.
func ParseMethods(text string) Methods { return strings.Fields(text) }

// String returns the methods as text for the database.
func (m Methods) String() string { return strings.Join(m, " ") }

// Reach reports whether the methods reach a level or a stronger one. All methods, even none, reach "".
func (m Methods) Reach(level string) bool {
	return level == "" || slices.Index(Levels(), m.Level()) >= slices.Index(Levels(), level)
}

// Weaker returns the weaker level. "" is the weakest.
func Weaker(a, b string) string {
	if slices.Index(Levels(), a) < slices.Index(Levels(), b) {
		return a
	}
	return b
}

// WithCode returns the methods plus a code from an authenticator app.
func (m Methods) WithCode() Methods {
	return append(slices.Clone(m), MethodOneTimeCode, MethodSeveral)
}

// Level returns the level that the methods reach, or "" if there are none.
func (m Methods) Level() string {
	switch {
	case len(m) == 0:
		return ""
	case slices.Contains(m, MethodPossession):
		return LevelPhishingResistant
	case slices.Contains(m, MethodSeveral):
		return LevelSeveral
	case slices.Contains(m, MethodPassword):
		return LevelPassword
	}
	return ""
}
