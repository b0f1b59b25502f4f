package upstream

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"steward/internal/id"
	"steward/internal/oidc/provider/oauth"
)

const (
	// timeout bounds each request to a provider.
	timeout = 10 * time.Second
	// maxResponse caps the bytes we read from a response.
	maxResponse = 1 << 20
	// metadataLifetime limits how long we keep discovery documents. We read keys again when they
	// change.
	metadataLifetime = time.Hour
	// maxProviders bounds the discovery documents in memory.
	maxProviders = 1000
)

// RelyingParty signs users in at providers. It is safe for concurrent use.
type RelyingParty struct {
	Now         func() time.Time
	RedirectURI string

	http *http.Client

	mu        sync.Mutex
	providers map[string]*provider // by issuer
}

// NewRelyingParty returns a client that sends its requests with transport. The transport decides which addresses
// they may reach. The client follows no redirects.
func NewRelyingParty(transport http.RoundTripper, redirectURI string, now func() time.Time) *RelyingParty {
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &RelyingParty{
		Now: now, RedirectURI: redirectURI, providers: map[string]*provider{},
		http: &http.Client{Transport: limited{transport}, Timeout: timeout, CheckRedirect: stay},
	}
}

// limited bounds responses' size.
type limited struct{ http.RoundTripper }

func (l limited) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxResponse)
	return resp, nil
}

// Registration is Steward's registration at a provider.
type Registration struct {
	Issuer, ClientID, ClientSecret string
	Scopes                         []string
	// GroupsClaim is the claim that has a user's groups, or "".
	GroupsClaim string
}

// Attempt is a sign-in's state while the browser is at the provider. It is secret.
type Attempt struct {
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	// Fresh demands that the user authenticate at the provider now.
	Fresh bool `json:"fresh,omitempty"`
	// Started is the time when the attempt began, in seconds.
	Started int64 `json:"started"`
}

// NewAttempt returns an attempt with new secrets.
func (c *RelyingParty) NewAttempt(fresh bool) Attempt {
	return Attempt{Nonce: id.Secret(32), Verifier: oauth2.GenerateVerifier(), Fresh: fresh, Started: c.Now().Unix()}
}

// provider is a provider whose discovery document we have read.
type provider struct {
	*oidc.Provider
	metadata
	expires time.Time
}

// metadata has the fields in a discovery document that package go-oidc does not use.
type metadata struct {
	SendsIssuer bool     `json:"authorization_response_iss_parameter_supported"`
	AuthMethods []string `json:"token_endpoint_auth_methods_supported"`
}

func (c *RelyingParty) discover(ctx context.Context, issuer string) (*provider, error) {
	c.mu.Lock()
	known := c.providers[issuer]
	c.mu.Unlock()
	if known != nil && c.Now().Before(known.expires) {
		return known, nil
	}
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, c.http), issuer)
	if err != nil {
		return nil, unreachable(err)
	}
	p := &provider{Provider: found, expires: c.Now().Add(metadataLifetime)}
	if err := p.Claims(&p.metadata); err != nil {
		return nil, errDiscovery
	}
	if !sameScheme(issuer, p.Endpoint().AuthURL) {
		return nil, errDiscovery
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.providers) >= maxProviders {
		clear(c.providers)
	}
	c.providers[issuer] = p
	return p, nil
}

// sameScheme reports whether a URL that we send browsers to has the issuer's scheme. That is https,
// unless the issuer is on this machine.
func sameScheme(issuer, target string) bool {
	from, err := url.Parse(issuer)
	if err != nil {
		return false
	}
	to, err := url.Parse(target)
	return err == nil && to.Host != "" && (to.Scheme == from.Scheme || to.Scheme == "https")
}

// config returns the settings for package oauth2.
func (c *RelyingParty) config(p *provider, reg Registration) *oauth2.Config {
	endpoint := p.Endpoint()
	endpoint.AuthStyle = oauth2.AuthStyleInHeader
	basic := len(p.AuthMethods) == 0 || slices.Contains(p.AuthMethods, "client_secret_basic")
	if reg.ClientSecret == "" || !basic {
		endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{
		ClientID: reg.ClientID, ClientSecret: reg.ClientSecret, Endpoint: endpoint, RedirectURL: c.RedirectURI,
		Scopes: reg.Scopes,
	}
}

// AuthURL returns the URL for an attempt's authorization request.
func (c *RelyingParty) AuthURL(ctx context.Context, reg Registration, a Attempt, state string) (string, error) {
	p, err := c.discover(ctx, reg.Issuer)
	if err != nil {
		return "", err
	}
	params := []oauth2.AuthCodeOption{oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)}
	if a.Fresh {
		params = append(params, oauth2.SetAuthURLParam("prompt", "login"), oauth2.SetAuthURLParam("max_age", "0"))
	}
	return c.config(p, reg).AuthCodeURL(state, params...), nil
}

// Finish checks the parameters that the browser brings back, and returns the provider's claims about
// the user. The caller must have checked the state. It returns an *oauth.Error if the sign-in failed.
func (c *RelyingParty) Finish(ctx context.Context, reg Registration, a Attempt, params url.Values) (Claims, error) {
	p, err := c.discover(ctx, reg.Issuer)
	if err != nil {
		return Claims{}, err
	}
	issuers := params["iss"]
	if p.SendsIssuer && len(issuers) == 0 || len(issuers) > 0 && !slices.Equal(issuers, []string{reg.Issuer}) {
		return Claims{}, errMixUp
	}
	if params.Get("error") != "" {
		return Claims{}, errDenied
	}
	ctx = oidc.ClientContext(ctx, c.http)
	token, err := c.config(p, reg).Exchange(ctx, params.Get("code"), oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return Claims{}, exchangeFailed(err)
	}
	claims, err := c.verify(ctx, p, reg, token)
	if err != nil {
		return Claims{}, err
	}
	if claims.nonce != a.Nonce {
		return Claims{}, errIDToken
	}
	if a.Fresh && claims.AuthTime < a.Started-int64(maxSkew.Seconds()) {
		return Claims{}, errNotFresh
	}
	return claims, nil
}

// maxSkew is the difference we allow between our clock and a provider's.
const maxSkew = time.Minute

// verify returns the claims in a response's ID token, and adds those from the userinfo endpoint if the
// ID token has no e-mail address or no groups.
func (c *RelyingParty) verify(ctx context.Context, p *provider, reg Registration, token *oauth2.Token) (Claims, error) {
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return Claims{}, errIDToken
	}
	skewed := func() time.Time { return c.Now().Add(-maxSkew) }
	idToken, err := p.Verifier(&oidc.Config{ClientID: reg.ClientID, Now: skewed}).Verify(ctx, raw)
	if err != nil {
		return Claims{}, errIDToken
	}
	var all document
	if err := idToken.Claims(&all); err != nil {
		return Claims{}, errIDToken
	}
	if len(idToken.Audience) > 1 && all.text("azp") != reg.ClientID {
		return Claims{}, errIDToken
	}
	if p.UserInfoEndpoint() != "" && !all.complete(reg) {
		if err := all.addUserInfo(ctx, p, token); err != nil {
			return Claims{}, err
		}
	}
	return all.claims(reg)
}

// Errors that users see. They name the step that failed, for the organization's administrator.
var (
	errDiscovery = failure(http.StatusBadGateway, "the discovery document of the sign-in provider is not valid")
	errMixUp     = failure(http.StatusBadRequest, "the response does not come from the provider where you signed in")
	errDenied    = failure(http.StatusForbidden, "the sign-in provider has refused: start again")
	errCode      = failure(http.StatusBadGateway, "the sign-in provider has refused the code or the client secret")
	errIDToken   = failure(http.StatusBadGateway, "the sign-in provider has sent an ID token that is not valid")
	errUserInfo  = failure(http.StatusBadGateway, "the userinfo endpoint of the sign-in provider cannot be used")
	errNotFresh  = failure(http.StatusForbidden, "the sign-in provider did not ask you to sign in again, which is required")
)

func failure(status int, description string) *oauth.Error {
	return &oauth.Error{Status: status, Code: oauth.AccessDenied, Description: description}
}

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
