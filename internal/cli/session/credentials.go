package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"steward/internal/cli/contexts"
	"steward/internal/cli/exit"
)

// credentials adds a context's credentials to requests. It refreshes tokens that are about to
// expire, and stores the new ones.
type credentials struct {
	file contexts.File
	name string // "" if the tokens are not stored yet
	next http.RoundTripper

	mu      sync.Mutex
	context contexts.Context
}

// RoundTrip implements http.RoundTripper.
func (c *credentials) RoundTrip(req *http.Request) (*http.Response, error) {
	token, err := c.token(req.Context())
	if err != nil {
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	return c.next.RoundTrip(req)
}

// token returns the key or a fresh access token.
func (c *credentials) token(ctx context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.context.Token == nil {
		return c.context.Key, nil
	}
	if !c.context.Token.Fresh(time.Now()) && c.name != "" {
		if err := c.refresh(ctx); err != nil {
			return "", err
		}
	}
	return c.context.Token.Access, nil
}

// refresh replaces the tokens while it holds the file's lock. If several commands run at once, one
// uses the refresh token, and the others take the new tokens from the file.
func (c *credentials) refresh(ctx context.Context) error {
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Timeout: time.Minute})
	return c.file.Update(func(all *contexts.All) error {
		stored, ok := all.Contexts[c.name]
		if !ok || stored.Token == nil {
			return &exit.Error{
				Code: exit.Denied, Message: "you were signed out of " + c.context.URL,
				Advice: "Sign in with `steward login " + c.context.URL + "`.",
			}
		}
		if !stored.Token.Fresh(time.Now()) {
			expired := &oauth2.Token{RefreshToken: stored.Token.Refresh, Expiry: time.Unix(1, 0)}
			fresh, err := OAuthConfig(stored.URL).TokenSource(ctx, expired).Token()
			if err != nil {
				return OAuthFailure(err, stored.URL)
			}
			stored.Token = &contexts.Token{Access: fresh.AccessToken, Refresh: fresh.RefreshToken, Expiry: fresh.Expiry}
			all.Contexts[c.name] = stored
		}
		c.context = stored
		return nil
	})
}

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
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
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
	if urlErr, ok := errors.AsType[*url.Error](err); ok {
		err = urlErr.Err
	}
	return &exit.Error{
		Code: exit.Unavailable, Message: fmt.Sprintf("cannot reach %s: %v", origin, err), Cause: err,
		Advice: "Check the URL and that the server is running (`steward context list` shows the servers).",
	}
}
