package oauth

import (
	"slices"
	"strings"
)

// The ways in which users prove who they are (RFC 8176).
const (
	MethodPassword     = "pwd"
	MethodOneTimeCode  = "otp"
	MethodPossession   = "pop"  // a passkey
	MethodUserVerified = "user" // the passkey's device has verified the user
	MethodSeveral      = "mfa"
)

// Values of the acr claim, from the weakest to the strongest.
const (
	LevelPassword          = "pwd"
	LevelSeveral           = "mfa"
	LevelPhishingResistant = "phr"
)

// Levels lists the values of the acr claim, from the weakest to the strongest.
func Levels() []string { return []string{LevelPassword, LevelSeveral, LevelPhishingResistant} }

// Methods says how a user has signed in: the amr claim. It is empty if we do not know.
type Methods []string

// ParseMethods parses a String.
func ParseMethods(text string) Methods { return strings.Fields(text) }

// String returns the methods in the form that we store.
func (m Methods) String() string { return strings.Join(m, " ") }

// Reach reports whether the methods have the given acr level or a stronger one. Any methods reach "",
// even none.
func (m Methods) Reach(level string) bool {
	return level == "" || slices.Index(Levels(), m.Level()) >= slices.Index(Levels(), level)
}

// Weaker returns the weaker of two acr levels. "" is the weakest.
func Weaker(a, b string) string {
	if slices.Index(Levels(), a) < slices.Index(Levels(), b) {
		return a
	}
	return b
}

// WithCode returns the methods after the user has also entered a code from an authenticator app.
func (m Methods) WithCode() Methods {
	return append(slices.Clone(m), MethodOneTimeCode, MethodSeveral)
}

// Level returns the acr claim, or "" if we do not know how the user signed in.
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
