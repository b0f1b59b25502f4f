package server

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/web"
)

// orgHeader is sent by platform SDKs; where it is sent, it must name an organization of the caller.
const orgHeader = "X-Agentuity-Orgid"

// Authenticator turns a request's bearer into a Caller and asks whether it may use a route.
type Authenticator struct {
	// Key gives the caller of an API key, or Unauthorized.
	Key func(ctx context.Context, value string) (*auth.Caller, error)
	// Token gives the caller of an access token of our own provider, or Unauthorized.
	Token func(ctx context.Context, token string) (*auth.Caller, error)
	// PerSecond limits the requests of one key; 0 means no limit.
	PerSecond float64

	limiters db.Cache[string, *rate.Limiter] // by key, or client and user
}

// Guard implements web.Guard.
func (a *Authenticator) Guard(route web.Route, w http.ResponseWriter, r *http.Request) *http.Request {
	caller, err := a.caller(r)
	if err == nil {
		meta := web.Request(r.Context())
		meta.Who, meta.Caller = caller.KeyID+caller.ClientID, caller
		err = a.limit(w.Header(), caller)
	}
	if err == nil {
		err = permit(route, r, caller)
	}
	if err != nil {
		web.Fail(w, r, err)
		return nil
	}
	return r
}

func (a *Authenticator) caller(r *http.Request) (*auth.Caller, error) {
	scheme, value, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || value == "" {
		return nil, errs.New(errs.Unauthorized, "send Authorization: Bearer <API key>")
	}
	return a.Identify(r.Context(), value)
}

// Identify gives the caller of an API key or of an access token, or Unauthorized.
func (a *Authenticator) Identify(ctx context.Context, bearer string) (*auth.Caller, error) {
	if isToken(bearer) {
		return a.Token(ctx, bearer)
	}
	return a.Key(ctx, bearer)
}

// isToken tells an access token, which is a JWT, from an API key.
func isToken(value string) bool {
	return strings.HasPrefix(value, "eyJ") && strings.Count(value, ".") == 2
}

func permit(route web.Route, r *http.Request, caller *auth.Caller) error {
	if !caller.May(route.Permission) {
		return errs.New(errs.Forbidden, "this caller may not %s", route.Permission.Name)
	}
	if org := r.Header.Get(orgHeader); org != "" && org != caller.OrgID {
		return errs.New(errs.Forbidden, "the organization of the header is not one of yours")
	}
	return nil
}

// limit counts the request against its key's rate and tells the caller where it stands.
func (a *Authenticator) limit(h http.Header, caller *auth.Caller) error {
	if a.PerSecond <= 0 {
		return nil
	}
	burst := int(math.Max(1, math.Ceil(a.PerSecond)))
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
		return &errs.Error{Kind: errs.RateLimited, Message: "too many requests with this key", RetryAfter: reset}
	}
	return nil
}
