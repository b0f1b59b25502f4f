// Package provider wires the OpenID Connect provider together and mounts its endpoints and pages.
//
// A sign-in moves through the packages below it like this. GET /authorize validates the request and
// shows the pages that are missing (authorize, signin, grant); between pages the request travels sealed
// (flow). When nothing is missing, we store a grant and send its code (grant). POST /oauth/token
// authenticates the client (clientauth), redeems the code in one transaction and signs the tokens after
// the commit (token, jwt).
//
// Every way to sign in ends in signin: its own page, another provider (federation), and the links for
// invitations, resets and the setup (links). The account page is in selfservice.
//
// An access token names its grant, the client's epoch and the epoch of the user's consent. Whoever
// accepts the token checks these three in memory (token), so revoking any number of tokens takes
// one small write.
//
// The rules come from RFC 6749 with RFC 9700, OpenID Connect Core, and RFCs 7009, 7523, 7591, 7592,
// 7636, 7662, 8252, 8414, 8628, 8693, 8707, 9068, 9126, 9207, 9449 and 9728, the OpenID Connect logout
// specifications, and draft-ietf-oauth-client-id-metadata-document.
package provider

import (
	"cmp"
	"context"
	"net/http"
	"runtime"
	"time"

	"steward/internal/apikey"
	"steward/internal/auth"
	"steward/internal/oidc/keys"
	"steward/internal/oidc/provider/authorize"
	"steward/internal/oidc/provider/clientauth"
	"steward/internal/oidc/provider/device"
	"steward/internal/oidc/provider/federation"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/jwt"
	"steward/internal/oidc/provider/logout"
	"steward/internal/oidc/provider/metadata"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/passkey"
	"steward/internal/oidc/provider/register"
	"steward/internal/oidc/provider/session"
	"steward/internal/oidc/provider/signin"
	"steward/internal/oidc/provider/token"
	"steward/internal/oidc/registration"
	"steward/internal/webhook/send"
)

// Provider is the OpenID Connect provider. Call Open before it serves.
type Provider struct {
	*Stores
	APIKeys *apikey.Store
	// Issuer is the installation's base URL, without a slash at the end.
	Issuer string
	// RequirePKCE makes PKCE mandatory for confidential clients too.
	RequirePKCE bool
	// DPoPNonce makes DPoP proofs carry a nonce from this server.
	DPoPNonce bool
	Passwords *signin.Hasher
	// Registration says who may register clients; empty means nobody.
	Registration registration.Mode
	// SessionIdle is the time after which an unused session ends, and SessionMax caps a session's total
	// lifetime. 0 means the default.
	SessionIdle, SessionMax time.Duration
	Observer                *oauth.Observer
	// Sender sends logout tokens to clients.
	Sender send.Sender
	// Egress sends requests to other providers and for clients' keys, and decides which addresses they may
	// reach.
	Egress http.RoundTripper

	pages      *pages.Renderer
	passkeys   *passkey.Manager
	sessions   *session.Manager
	auth       *clientauth.Authenticator
	proofs     *clientauth.ProofVerifier
	metadata   *metadata.Handler
	authorize  *authorize.Handler
	signin     *signin.Handler
	federation *federation.Handler
	links      linkPages
	account    accountPages
	logout     *logout.Handler
	device     *device.Handler
	token      *token.Handler
	logouts    *session.LogoutWorker
	register   *register.Handler // nil if nobody may register clients
}

// New returns a provider that nobody observes. The caller sets the other fields.
func New(stores *Stores, issuer string) *Provider {
	return &Provider{Stores: stores, Issuer: issuer, Passwords: signin.NewHasher(runtime.GOMAXPROCS(0)), Observer: oauth.NewObserver()}
}

// Open reads the installation's secret, connects the provider's parts and registers its caches. Call it
// once.
func (p *Provider) Open(ctx context.Context) error {
	key, err := p.loadKey(ctx)
	if err != nil {
		return err
	}
	p.pages, err = pages.New(p.Issuer, key)
	if err != nil {
		return err
	}
	p.register = p.newRegister()
	p.metadata, err = metadata.New(p.Issuer, p.Keys, p.register != nil)
	if err != nil {
		return err
	}
	p.passkeys = &passkey.Manager{DB: p.DB, Ring: p.Ring, Now: p.Now}
	if err := p.passkeys.Open(p.Issuer); err != nil {
		return err
	}
	p.connect(key)
	p.DB.Watch(grant.Cache, p.token.Grants.Forget)
	p.DB.Watch(auth.Callers, p.token.Forget)
	p.DB.Watch(session.Cache, p.sessions.Forget)
	p.DB.Watch(auth.Callers, p.sessions.ForgetLevels)
	return nil
}

// connect builds the parts, starting with those that depend on no others.
func (p *Provider) connect(key oauth.Key) {
	flows := &flow.Sealer{Ring: p.Ring, Now: p.Now}
	tokens := jwt.NewIssuer(p.Issuer, p.Now, p.Keys)
	p.DB.Watch(keys.Cache, tokens.Forget)
	p.proofs = &clientauth.ProofVerifier{DB: p.DB, Now: p.Now, Issuer: p.Issuer}
	if p.DPoPNonce {
		p.proofs.NonceKey = key
	}
	sessions := &session.Manager{
		DB: p.DB, Now: p.Now, Cookies: p.pages.Cookies, Accounts: p.Accounts,
		IdleTimeout: cmp.Or(p.SessionIdle, session.IdleTimeout), MaxAge: cmp.Or(p.SessionMax, session.MaxAge),
	}
	p.sessions = sessions
	audiences := &grant.Audiences{Issuer: p.Issuer, Clients: p.Clients}
	consents := &grant.ConsentPage{Clients: p.Clients, Pages: p.pages, Accounts: p.Accounts}
	grants := &grant.Store{
		DB: p.DB, Now: p.Now, Key: key, Clients: p.Clients, Sessions: sessions, Accounts: p.Accounts,
	}
	p.auth = &clientauth.Authenticator{
		DB: p.DB, Now: p.Now, Clients: p.Clients, Issuer: p.Issuer, Keys: clientauth.NewKeys(p.Egress, p.Now),
	}
	frontChannel := &logout.FrontChannel{Issuer: p.Issuer, Clients: p.Clients, Sessions: sessions}
	p.signin = &signin.Handler{
		DB: p.DB, Now: p.Now, Key: key, Accounts: p.Accounts, Clients: p.Clients, Sessions: sessions, Flows: flows, Pages: p.pages,
		Passwords: p.Passwords,
		Browsers:  &signin.Recognizer{Now: p.Now, Key: key, Cookies: p.pages.Cookies},
		Attempts:  &signin.Limiter{Now: p.Now},
		Passkeys:  p.passkeys,
		Factors:   &signin.Factors{DB: p.DB, Ring: p.Ring, Now: p.Now, Installation: installationName(p.Issuer)},
		Upstreams: p.Upstreams,
	}
	p.links = p.newLinks()
	p.federation = p.newFederation()
	p.account = p.newAccount(frontChannel)
	p.federation.Linked = p.account.providers.Linked
	p.logout = &logout.Handler{
		Clients: p.Clients, Tokens: tokens, Sessions: sessions, Flows: flows, Pages: p.pages,
		FrontChannel: frontChannel,
	}
	p.authorize = &authorize.Handler{
		DB: p.DB, Now: p.Now, Issuer: p.Issuer, RequirePKCE: p.RequirePKCE, Clients: p.Clients, Tokens: tokens,
		Proofs: p.proofs, Sessions: sessions, Consents: consents, Flows: flows, Pages: p.pages,
		Audiences: audiences, SignIn: p.signin,
	}
	if p.register != nil {
		p.authorize.Documents = p.auth.Keys
	}
	p.device = &device.Handler{
		DB: p.DB, Now: p.Now, Issuer: p.Issuer, Clients: p.Clients, Sessions: sessions, Consents: consents,
		Flows: flows, Pages: p.pages, Audiences: audiences, SignIn: p.signin,
	}
	p.token = &token.Handler{
		DB: p.DB, Now: p.Now, Issuer: p.Issuer, Clients: p.Clients, Auth: p.auth, Proofs: p.proofs, Tokens: tokens,
		Audiences: audiences, Grants: grants, Accounts: p.Accounts, Upstreams: p.Upstreams.Store, Activity: p.Activity,
		Observer: p.Observer,
	}
	p.logouts = &session.LogoutWorker{
		DB: p.DB, Now: p.Now, Log: p.Log, Clients: p.Clients, Tokens: tokens, Sender: p.Sender, Observer: p.Observer,
	}
}

// Caller returns the management API's caller who presents an access token as Bearer. It returns
// Unauthorized if the token is not valid there or is bound to a key.
func (p *Provider) Caller(ctx context.Context, token string) (*auth.Caller, error) {
	return p.token.Caller(ctx, token)
}

// BoundCaller returns the management API's caller who presents an access token with a DPoP proof. It
// adds to the response headers. It returns Unauthorized if the token is not valid there or is not bound
// to the proof's key.
func (p *Provider) BoundCaller(h http.Header, r *http.Request, token string) (*auth.Caller, error) {
	return p.token.BoundCaller(h, r, token)
}

// ResourceMetadata returns the URL where the management API's metadata are (RFC 9728).
func (p *Provider) ResourceMetadata() string { return p.Issuer + oauth.PathResourceMetadata }

// RunLogouts sends logout tokens to clients until ctx ends.
func (p *Provider) RunLogouts(ctx context.Context) { p.logouts.Run(ctx) }

// SendLogouts sends the logout tokens that are due now.
func (p *Provider) SendLogouts(ctx context.Context) error { return p.logouts.SendDue(ctx) }

// RecordFailures writes the failed sign-ins since the last call to the audit log.
func (p *Provider) RecordFailures(ctx context.Context) error { return p.signin.RecordFailures(ctx) }

// Mount passes all the provider's patterns to handle.
func (p *Provider) Mount(handle func(pattern string, h http.Handler)) {
	cors, preflight := metadata.CORS, metadata.CORS(metadata.Preflight)
	client := p.auth
	page, form := p.pages.Page, p.pages.Form
	nonce := p.proofs.WithNonce
	for pattern, handler := range map[string]http.HandlerFunc{
		"GET " + oauth.PathDiscovery:            cors(p.metadata.Discovery),
		"OPTIONS " + oauth.PathDiscovery:        preflight,
		"GET " + oauth.PathServerMetadata:       cors(p.metadata.Discovery),
		"OPTIONS " + oauth.PathServerMetadata:   preflight,
		"GET " + oauth.PathResourceMetadata:     cors(p.metadata.Resource),
		"OPTIONS " + oauth.PathResourceMetadata: preflight,
		"GET " + oauth.PathJWKS:                 cors(p.metadata.JWKS),
		"OPTIONS " + oauth.PathJWKS:             preflight,
		"POST " + oauth.PathToken:               cors(nonce(p.token.ServeHTTP)),
		"OPTIONS " + oauth.PathToken:            preflight,
		"POST " + oauth.PathRevoke:              cors(p.token.Revoke),
		"OPTIONS " + oauth.PathRevoke:           preflight,
		"GET " + oauth.PathUserInfo:             cors(nonce(p.token.UserInfo)),
		"POST " + oauth.PathUserInfo:            cors(nonce(p.token.UserInfo)),
		"OPTIONS " + oauth.PathUserInfo:         preflight,
		"POST " + oauth.PathIntrospect:          clientauth.Handler(client, http.StatusOK, p.token.Introspect),
		"POST " + oauth.PathPushedAuthorization: nonce(clientauth.Handler(client, http.StatusCreated, p.authorize.Push)),
		"POST " + oauth.PathDeviceAuthorization: clientauth.Handler(client, http.StatusOK, p.device.Authorize),

		"GET " + oauth.PathAuthorize:          page(p.authorize.Get),
		"POST " + oauth.PathAuthorize:         page(p.authorize.Post),
		"GET " + oauth.PathAuthorizeContinue:  page(p.authorize.Continue),
		"POST " + oauth.PathConsent:           form(p.authorize.Consent),
		"GET " + oauth.PathDevice:             page(p.device.Page),
		"POST " + oauth.PathDevice:            form(p.device.Decide),
		"GET " + oauth.PathEndSession:         page(p.logout.Get),
		"POST " + oauth.PathEndSession:        page(p.logout.Post),
		"GET " + oauth.PathEndSessionContinue: page(p.logout.Continue),
		"POST " + oauth.PathEndSessionConfirm: form(p.logout.Confirm),
		"GET /{$}":                            page(p.root),
	} {
		handle(pattern, handler)
	}
	p.mountSignIn(handle)
	p.mountAccount(handle)
	p.mountRegister(handle)
}
