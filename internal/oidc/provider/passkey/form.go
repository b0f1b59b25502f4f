package passkey

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"steward/internal/account"
	"steward/internal/name"
	"steward/internal/oidc/provider/browser"
	"steward/internal/oidc/provider/oauth"
)

// maxName bounds a passkey's name, in characters.
const maxName = 64

// answer is a page's answer in a ceremony: the sealed challenge, and the authenticator's signed
// credential as JSON.
type answer struct{ challenge, credential string }

func answerOf(r *http.Request) answer {
	return answer{challenge: r.PostForm.Get("challenge"), credential: r.PostForm.Get("credential")}
}

// NameOf returns the name that a form gives to a passkey, or one that names the browser. It returns
// ErrName if we cannot store the name.
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
	if found := browser.Name(userAgent); found != "" {
		return "Passkey of " + found
	}
	return "Passkey"
}

// Methods returns the methods that a passkey sign-in proves: the user has the key, and the authenticator
// has verified the user.
func Methods() oauth.Methods {
	return oauth.Methods{oauth.MethodPossession, oauth.MethodUserVerified, oauth.MethodSeveral}
}

// OwnerOf returns a user who wants to create a passkey, with the ones in list already theirs.
func OwnerOf(user account.User, list []Passkey) Owner {
	return Owner{
		ID: user.ID, Email: user.Email, Passkeys: list, Name: strings.TrimSpace(user.FirstName + " " + user.LastName),
	}
}
