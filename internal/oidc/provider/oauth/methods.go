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

// The values of the claim acr, from the weakest to the strongest.
const (
	LevelPassword          = "pwd"
	LevelSeveral           = "mfa"
	LevelPhishingResistant = "phr"
)

// Levels lists the values of the claim acr, from the weakest to the strongest.
func Levels() []string { return []string{LevelPassword, LevelSeveral, LevelPhishingResistant} }

// Methods is how a user has signed in: the claim amr. It is empty if that is not known.
type Methods []string

// ParseMethods returns the methods that String has written.
func ParseMethods(text string) Methods { return strings.Fields(text) }

// String returns the methods as they are stored.
func (m Methods) String() string { return strings.Join(m, " ") }

// Reach reports whether the methods have a value of the claim acr, or a stronger one. All of them, also none,
// reach "".
func (m Methods) Reach(level string) bool {
	return level == "" || slices.Index(Levels(), m.Level()) >= slices.Index(Levels(), level)
}

// Weaker returns the weaker one of two values of the claim acr. "" is the weakest.
func Weaker(a, b string) string {
	if slices.Index(Levels(), a) < slices.Index(Levels(), b) {
		return a
	}
	return b
}

// WithCode returns the methods of a user who has also given a code of an authenticator app.
func (m Methods) WithCode() Methods {
	return append(slices.Clone(m), MethodOneTimeCode, MethodSeveral)
}

// Level returns the claim acr, or "" if it is not known how the user signed in.
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
