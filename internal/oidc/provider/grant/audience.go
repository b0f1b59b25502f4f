package grant

import (
	"context"
	"net/url"
	"strings"

	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
)

// Audiences finds the audience for access tokens, which clients choose with the resource parameter (RFC
// 8707). It is this server, or a URI that a client has registered. A token has one audience, so that no
// API can use a token at another one.
type Audiences struct {
	// Issuer is this server's audience, and the default.
	Issuer  string
	Clients *oidc.Store
}

// Requested returns the audience that a form's resource parameter names, or "" if there is none. The
// parameter may repeat the same value. It returns invalid_target if no client has registered the
// audience.
func (a *Audiences) Requested(ctx context.Context, form url.Values) (string, error) {
	var resource string
	for _, value := range form["resource"] {
		if value == "" {
			continue
		}
		if resource != "" && value != resource {
			return "", oauth.NewError(oauth.InvalidTarget, "only one resource can be requested: a token has one audience")
		}
		resource = value
	}
	if resource == "" {
		return "", nil
	}
	if strings.TrimSuffix(resource, "/") == a.Issuer {
		return a.Issuer, nil
	}
	if !oidc.IsAudience(resource) {
		return "", oauth.NewError(oauth.InvalidTarget, "resource must be an absolute URI without a fragment")
	}
	return resource, a.check(ctx, resource)
}

// Granted returns a grant's audience. resource is the one in its request, or nil. It returns
// invalid_target if no client registers the audience any more.
func (a *Audiences) Granted(ctx context.Context, resource *string) (string, error) {
	audience := a.of(resource)
	if audience == a.Issuer {
		return audience, nil
	}
	return audience, a.check(ctx, audience)
}

// CheckSame returns invalid_target if a token request names another audience than its grant.
func (a *Audiences) CheckSame(requested string, resource *string) error {
	if requested != "" && requested != a.of(resource) {
		return oauth.NewError(oauth.InvalidTarget, "resource is not the one that was granted")
	}
	return nil
}

func (a *Audiences) of(resource *string) string {
	if resource == nil {
		return a.Issuer
	}
	return *resource
}

// Admit returns invalid_target if a client may not get tokens for an audience without a user's consent.
func (a *Audiences) Admit(ctx context.Context, c *oidc.Registered, audience string) error {
	if audience == a.Issuer {
		return nil
	}
	registered, err := a.find(ctx, audience)
	if err != nil {
		return err
	}
	if !registered.Admits(c) {
		return oauth.NewError(oauth.InvalidTarget, "the resource belongs to another organization, which does not allow this client")
	}
	return nil
}

func (a *Audiences) check(ctx context.Context, audience string) error {
	_, err := a.find(ctx, audience)
	return err
}

func (a *Audiences) find(ctx context.Context, audience string) (*oidc.Audience, error) {
	registered, err := a.Clients.Audience(ctx, audience)
	if errs.KindOf(err) == errs.NotFound {
		return nil, oauth.NewError(oauth.InvalidTarget, "no client has registered this resource as its audience")
	}
	return registered, err
}
