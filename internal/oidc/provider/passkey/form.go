package passkey

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"steward/internal/account"
	"steward/internal/name"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
)

// maxName caps a passkey's name, in characters.
const maxName = 64

// answer is sent by a page after a ceremony: the sealed challenge, and the credential that the
// authenticator has signed, as JSON.
type answer struct{ challenge, credential string }

func answerOf(r *http.Request) answer {
	return answer{challenge: r.PostForm.Get("challenge"), credential: r.PostForm.Get("credential")}
}

// NameOf returns the name that a form gives to a passkey, or else one after the browser. It returns
// ErrName if the name cannot be stored.
func NameOf(r *http.Request) (string, error) {
	chosen := strings.TrimSpace(r.PostForm.Get("name"))
	if chosen == "" {
		return defaultName(r.UserAgent()), nil
	}
	if !name.Valid(chosen) || utf8.RuneCountInString(chosen) > maxName {
		return "", ErrName
	}
	return chosen, nil
}

// defaultName names a passkey after the browser that created it.
func defaultName(userAgent string) string {
	if found := pages.BrowserName(userAgent); found != "" {
		return "Passkey of " + found
	}
	return "Passkey"
}

// Methods returns the methods that a passkey stands for: a key that the user has, and that the
// authenticator lets only the user use.
func Methods() oauth.Methods {
	return oauth.Methods{oauth.MethodPossession, oauth.MethodUserVerified, oauth.MethodSeveral}
}

// OwnerOf returns a user as the owner for a new passkey, with the passkeys the user already has.
func OwnerOf(user account.User, list []Passkey) Owner {
	return Owner{
		ID: user.ID, Email: user.Email, Passkeys: list, Name: strings.TrimSpace(user.FirstName + " " + user.LastName),
	}
}
