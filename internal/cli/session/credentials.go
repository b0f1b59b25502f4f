package session

import (
	"context"
	"net/http"
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
