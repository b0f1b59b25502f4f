// Package audience owns the audience of access tokens, which clients choose with resource (RFC 8707).
//
// An audience is this server, or a URI that a client has registered. A token has one audience, so that no
// API can use a token at another one.
package audience

import (
	"context"
	"net/url"
	"strings"

	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
)

// Resolver finds the audience of tokens.
type Resolver struct {
	// Issuer is the audience of this server, and the default.
	Issuer  string
	Clients *oidc.Store
}

// Requested returns the audience that the parameter resource of a form names, or "" if there is none. The
// parameter may be repeated with the same value. It returns invalid_target for an audience that no client
// has registered.
func (r *Resolver) Requested(ctx context.Context, form url.Values) (string, error) {
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
	if strings.TrimSuffix(resource, "/") == r.Issuer {
		return r.Issuer, nil
	}
	if !oidc.IsAudience(resource) {
		return "", oauth.NewError(oauth.InvalidTarget, "resource must be an absolute URI without a fragment")
	}
	return resource, r.check(ctx, resource)
}

// Granted returns the audience of a grant, which names the resource of its request or nil. It returns
// invalid_target if no client has registered it any more.
func (r *Resolver) Granted(ctx context.Context, resource *string) (string, error) {
	audience := r.of(resource)
	if audience == r.Issuer {
		return audience, nil
	}
	return audience, r.check(ctx, audience)
}

// CheckSame returns invalid_target if a token request names another audience than that of its grant.
func (r *Resolver) CheckSame(requested string, resource *string) error {
	if requested != "" && requested != r.of(resource) {
		return oauth.NewError(oauth.InvalidTarget, "resource is not the one that was granted")
	}
	return nil
}

func (r *Resolver) of(resource *string) string {
	if resource == nil {
		return r.Issuer
	}
	return *resource
}

func (r *Resolver) check(ctx context.Context, audience string) error {
	registered, err := r.Clients.Serves(ctx, audience)
	if err != nil {
		return err
	}
	if !registered {
		return oauth.NewError(oauth.InvalidTarget, "no client has registered this resource as its audience")
	}
	return nil
}
