package upstream

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"steward/internal/oidc/provider/oauth"
)

// unreachable returns the error for a discovery document that we cannot read. If our own egress rules
// refused the connection, it says why: that text has no address in it.
func unreachable(err error) *oauth.Error {
	var mismatch *oidc.IssuerMismatchError
	var failed *url.Error
	switch {
	case errors.As(err, &mismatch):
		return failure(http.StatusBadGateway, "the discovery document of the sign-in provider has another issuer")
	case !errors.As(err, &failed):
		return errDiscovery
	}
	text := "the sign-in provider cannot be reached"
	var refused interface {
		error
		Refused() string
	}
	if errors.As(err, &refused) {
		text += ": its address is not allowed: " + refused.Refused()
	}
	return failure(http.StatusBadGateway, text)
}

// exchangeFailed returns the error for a code that could not be exchanged.
func exchangeFailed(err error) *oauth.Error {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) {
		return errCode
	}
	return unreachable(err)
}
