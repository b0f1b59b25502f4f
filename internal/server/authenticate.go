package server

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"steward/internal/account"
	"steward/internal/account/organization"
	"steward/internal/auth"
	"steward/internal/console"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/web"
)

// orgHeader is sent by platform SDKs. If present, it must name the caller's organization.
const orgHeader = "X-Agentuity-Orgid"

// Keys authenticates by API keys. It is an apikey.Checker.
type Keys interface {
	// Authenticate returns an API key's caller, or Unauthorized.
	Authenticate(ctx context.Context, value string) (*auth.Caller, error)
}

// Tokens authenticates by access tokens. It is our own provider.Provider.
type Tokens interface {
	// Caller returns the caller for an access token that is not bound to a key, or Unauthorized.
	Caller(ctx context.Context, token string) (*auth.Caller, error)
	// BoundCaller returns the caller for an access token that is bound to a key, if the request has that
	// key's DPoP proof, or Unauthorized. It may add to the response's headers.
	BoundCaller(h http.Header, r *http.Request, token string) (*auth.Caller, error)
}

// Authenticator authenticates requests by their Authorization header, which has an API key or an
// access token, and authorizes them.
type Authenticator struct {
	Keys   Keys
	Tokens Tokens
	// Console knows the callers who are signed in to it.
	Console *console.Console
	// Active refuses the callers from deleted organizations.
	Active *organization.Active
	// Accounts knows the first organization, which alone has the installation's permissions.
	Accounts *account.Store
	// Seen, if not nil, notes who uses which organization.
	Seen *account.Seen
	// PerSecond limits each caller's requests; 0 means no limit.
	PerSecond float64
	// ResourceMetadata is the URL of this API's metadata (RFC 9728), which challenges name. It may
	// be empty.
	ResourceMetadata string

	limiters db.Cache[string, *rate.Limiter] // by caller
}

// identify returns a request's caller, or Unauthorized. It may add to the response's headers.
type identify func(h http.Header, r *http.Request) (*auth.Caller, error)

// Guard implements web.Guard for requests with an Authorization header.
func (a *Authenticator) Guard(route web.Route, w http.ResponseWriter, r *http.Request) *http.Request {
	return a.guard(a.caller)(route, w, r)
}

// guard returns a web.Guard that learns a request's caller from who.
func (a *Authenticator) guard(who identify) web.Guard {
	return func(route web.Route, w http.ResponseWriter, r *http.Request) *http.Request {
		caller, err := who(w.Header(), r)
		if err == nil {
			err = a.authorize(route, w, r, caller)
		}
		if err != nil {
			web.Fail(w, r, a.challenge(err))
			return nil
		}
		return r
	}
}

// challenge adds this API's metadata to an Unauthorized challenge, so that OAuth clients find the
// provider. It returns any other error unchanged.
func (a *Authenticator) challenge(err error) error {
	var e *errs.Error
	if a.ResourceMetadata == "" || !errors.As(err, &e) || e.Kind != errs.Unauthorized {
		return err
	}
	challenged := *e
	metadata := `resource_metadata="` + a.ResourceMetadata + `"`
	if e.Challenge == "" {
		challenged.Challenge = "Bearer " + metadata
	} else {
		challenged.Challenge = e.Challenge + ", " + metadata
	}
	return &challenged
}

// authorize puts the caller into the request's Meta and checks its rate limit and permission.
func (a *Authenticator) authorize(route web.Route, w http.ResponseWriter, r *http.Request, caller *auth.Caller) error {
	meta := web.Request(r.Context())
	meta.Who = cmp.Or(caller.KeyID, caller.ClientID, caller.UserID)
	meta.OrgID = caller.OrgID
	meta.Caller = caller
	if err := a.limit(w.Header(), caller); err != nil {
		return err
	}
	if err := caller.Require(route.Permission); err != nil {
		return err
	}
	if route.Permission.Installation {
		if err := a.inFirst(r.Context(), route.Permission, caller); err != nil {
			return err
		}
	}
	if route.NeedsRecentSignIn() {
		if err := caller.RequireRecent(); err != nil {
			return err
		}
	}
	if org := r.Header.Get(orgHeader); org != "" && org != caller.OrgID {
		return errs.New(errs.Forbidden, "%s names an organization that you are not a member of", orgHeader)
	}
	if !route.Permission.Deleted {
		if err := a.Active.Check(r.Context(), caller.OrgID); err != nil {
			return err
		}
	}
	if a.Seen != nil {
		a.Seen.Note(caller)
	}
	return nil
}

// Reauthorize checks again, during a long request, that its sender may make it. It returns the
// sender with the current role, or an error if the permission is gone: the key was deleted, the
// token has expired, the session has ended, the role has changed.
func (a *Authenticator) Reauthorize(r *http.Request, p auth.Permission) (*auth.Caller, error) {
	caller, err := a.again(r)
	if err != nil {
		return nil, err
	}
	if caller.OrgID != auth.From(r.Context()).OrgID {
		return nil, errs.New(errs.Forbidden, "the organization has changed")
	}
	if err := a.Active.Check(r.Context(), caller.OrgID); err != nil {
		return nil, err
	}
	return caller, caller.Require(p)
}

// inFirst returns Forbidden unless the caller acts in the first organization.
func (a *Authenticator) inFirst(ctx context.Context, p auth.Permission, caller *auth.Caller) error {
	first, _, err := a.Accounts.FirstOrg(ctx)
	if err != nil || caller.OrgID == first {
		return err
	}
	return errs.New(errs.Forbidden, "the role %s in the first organization of this installation is required to %s", p.RoleNames(), p.Name)
}

// IdentifyActive is Identify, but returns Forbidden if the caller's organization was deleted.
func (a *Authenticator) IdentifyActive(ctx context.Context, bearer string) (*auth.Caller, error) {
	caller, err := a.Identify(ctx, bearer)
	if err != nil {
		return nil, err
	}
	return caller, a.Active.Check(ctx, caller.OrgID)
}

// again returns the caller of a request that we accepted earlier. A DPoP proof works only once, so
// its sender has to send a new request. A request without credentials in its header comes from the
// console.
func (a *Authenticator) again(r *http.Request) (*auth.Caller, error) {
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case scheme == "":
		return a.Console.Caller(http.Header{}, r)
	case strings.EqualFold(scheme, "Bearer"):
		return a.Identify(r.Context(), value)
	}
	return nil, errs.New(errs.Unauthorized, "a new proof is required")
}

func (a *Authenticator) caller(h http.Header, r *http.Request) (*auth.Caller, error) {
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case value == "":
	case strings.EqualFold(scheme, "Bearer"):
		return a.Identify(r.Context(), value)
	case strings.EqualFold(scheme, "DPoP"):
		return a.Tokens.BoundCaller(h, r, value)
	}
	return nil, errs.New(errs.Unauthorized, "authentication required: send the header Authorization: Bearer <API key>")
}

// Identify returns the caller for an API key or an access token that is not bound to a key, or
// Unauthorized.
func (a *Authenticator) Identify(ctx context.Context, bearer string) (*auth.Caller, error) {
	if isToken(bearer) {
		return a.Tokens.Caller(ctx, bearer)
	}
	return a.Keys.Authenticate(ctx, bearer)
}

// isToken reports whether a bearer token is an access token, which is a JWT, and not an API key.
func isToken(value string) bool {
	return strings.HasPrefix(value, "eyJ") && strings.Count(value, ".") == 2
}

// limit takes a token from the caller's bucket and sets the RateLimit headers. It returns
// RateLimited if the bucket is empty.
func (a *Authenticator) limit(h http.Header, caller *auth.Caller) error {
	if a.PerSecond <= 0 {
		return nil
	}
	burst := int(max(1, math.Ceil(a.PerSecond)))
	limiter, _ := a.limiters.Get(caller.KeyID+caller.ClientID+caller.UserID, func() (*rate.Limiter, error) {
		return rate.NewLimiter(rate.Limit(a.PerSecond), burst), nil
	})
	allowed := limiter.Allow()
	tokens := limiter.Tokens()
	missing := max(0, 1-tokens)
	reset := time.Duration(missing / a.PerSecond * float64(time.Second))
	h.Set("RateLimit-Limit", strconv.Itoa(burst))
	h.Set("RateLimit-Remaining", strconv.Itoa(max(0, int(tokens))))
	h.Set("RateLimit-Reset", strconv.Itoa(int(math.Ceil(reset.Seconds()))))
	if !allowed {
		return &errs.Error{Kind: errs.RateLimited, Message: "rate limit exceeded", RetryAfter: reset}
	}
	return nil
}
