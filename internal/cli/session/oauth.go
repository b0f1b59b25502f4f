package session

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"golang.org/x/oauth2"

	"steward/internal/cli/exit"
)

// OAuthConfig returns the built-in client's configuration.
func OAuthConfig(origin string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: "steward-cli",
		Endpoint: oauth2.Endpoint{
			DeviceAuthURL: origin + "/device_authorization", TokenURL: origin + "/oauth/token",
			AuthStyle: oauth2.AuthStyleInParams,
		},
	}
}

// OAuthFailure returns an OAuth request's error for people.
func OAuthFailure(err error, origin string) error {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) {
		message := map[string]string{
			"access_denied": "the request was denied in the browser",
			"expired_token": "the code was not confirmed in time",
			"invalid_grant": "the sign-in has expired or was revoked",
		}[refused.ErrorCode]
		if message == "" {
			message = fmt.Sprintf("%s refuses to sign in: %s %s", origin, refused.ErrorCode, refused.ErrorDescription)
		}
		return &exit.Error{Code: exit.Denied, Message: message, Advice: "Sign in with `steward login " + origin + "`.", Cause: err}
	}
	return Unreachable(err, origin)
}

// Unreachable returns the failure for a request that got no response.
func Unreachable(err error, origin string) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		err = urlErr.Err
	}
	return &exit.Error{
		Code: exit.Unavailable, Message: fmt.Sprintf("cannot reach %s: %v", origin, err), Cause: err,
		Advice: "Check the URL and that the server is running (`steward context list` shows the servers).",
	}
}
