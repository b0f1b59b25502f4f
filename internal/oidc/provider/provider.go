// Package provider owns the OpenID Connect provider: the protocol's endpoints, the pages on which users sign in and agree, and the tokens.
//
// How a sign-in moves through it. GET /authorize finds the client and its redirect address (a fault before that is a page, never a
// redirect), checks the rest into a request (request.go), and asks what is missing (authorize.go): a sign-in, a consent, or nothing.
// Between pages the request travels as a sealed flow (form.go), so a stranger writes nothing to the database. When nothing is missing a
// grant row is written and its code is sent (grant.go). POST /oauth/token authenticates the client (client.go) and redeems the code once,
// in one transaction (redeem.go); tokens are made after the commit (issue.go).
//
// What a token rests on is in the token: its grant, the epoch of its client, the epoch of the user's consent (token.go). Whoever accepts
// one here asks oidc.Store.Live and the set of what was revoked singly (revoked.go), both from memory; so a revocation is one small write,
// whatever the number of tokens.
//
// Every rule comes from RFC 6749 with RFC 9700, OpenID Connect Core, and RFCs 7009, 7636, 7662, 8252, 8414, 8628, 9068, 9126, 9207, 9449.
package provider

import (
	"context"
	"crypto/rand"
	"net/http"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/keys"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// client is a registered client, as the cache shares it: nobody changes it.
type client = oidc.Registered

func isPublic(c *client) bool { return c.ClientType == oidc.Public }

// User is a person who may sign in.
type User struct {
	ID        string
	Email     string
	FirstName string
	LastName  string
	PhotoURL  string
	// PasswordHash is empty for a user who never set a password.
	PasswordHash string
	UpdatedAt    stamp.Time
}

// Invitation is what the link that lets a new member in says.
type Invitation struct {
	UserID  string
	Email   string
	OrgName string
	// HasPassword is true for somebody who can sign in already, so that nobody else can set their password.
	HasPassword bool
}

// Users is what the provider needs to know of people; it is filled with methods of package account.
type Users struct {
	// ByEmail and ByID give a user, or NotFound.
	ByEmail func(ctx context.Context, email string) (User, error)
	ByID    func(ctx context.Context, userID string) (User, error)
	// Role gives what a user is in an organization today, or NotFound.
	Role func(ctx context.Context, orgID, userID string) (auth.Role, error)
	// CheckPassword and HashPassword take about 20 ms of a core each.
	CheckPassword func(hash, password string) bool
	HashPassword  func(password string) string
	// SetPassword replaces a password.
	SetPassword func(tx *db.Tx, userID, hash string) error
	// Invitation gives what a link says, or NotFound when it was used, has expired or never was.
	Invitation func(ctx context.Context, token string) (Invitation, error)
	// Accept uses up an invitation and sets the first password. NotFound as above, Conflict when there is a password already.
	Accept func(tx *db.Tx, token, hash string) (userID string, err error)
}

// Provider serves the protocol. Open makes it ready.
type Provider struct {
	DB   *db.DB
	Ring *seal.Ring
	Now  func() time.Time
	// Issuer is the base URL of the installation, without a slash at its end.
	Issuer string
	// RequirePKCE demands PKCE of confidential clients too.
	RequirePKCE bool
	Clients     *oidc.Store
	Keys        *keys.Store
	// Note counts an access of a client; the user is empty for client_credentials.
	Note  func(clientID, userID string)
	Users Users

	secret      []byte
	revoked     db.Cache[struct{}, *revokedSet]
	roles       db.Cache[membership, auth.Role]
	profiles    db.Cache[string, User]
	throttle    throttle
	hashing     hashing
	crossOrigin http.CrossOriginProtection
}

// Open reads the installation's secret and registers the caches. It is called once, before anything is served.
func (p *Provider) Open(ctx context.Context) (err error) {
	fresh := make([]byte, 32)
	rand.Read(fresh) // never fails (crypto/rand)
	if p.secret, err = loadSecret(ctx, p.DB, p.Ring, fresh); err != nil {
		return err
	}
	if err := p.crossOrigin.AddTrustedOrigin(p.Issuer); err != nil { // a proxy may have changed the Host
		return err
	}
	p.hashing = newHashing()
	p.DB.Watch(revokedCache, p.revoked.Forget)
	p.DB.Watch(auth.Callers, p.roles.Forget)
	p.DB.Watch(auth.Callers, p.profiles.Forget)
	return nil
}

// The paths of the protocol and of its pages.
const (
	pathAuthorize  = "/authorize"
	pathToken      = "/oauth/token"
	pathUserinfo   = "/userinfo"
	pathJWKS       = "/jwks"
	pathIntrospect = "/introspect"
	pathRevoke     = "/revoke"
	pathEndSession = "/end_session"
	pathPAR        = "/par"
	pathDeviceAuth = "/device_authorization"
	pathDevice     = "/device"
	pathSignIn     = "/sign-in"
	pathConsent    = "/consent"
	pathAccount    = "/account"
	pathInvite     = "/invite/"
)

// Mount gives every pattern of this package to handle.
func (p *Provider) Mount(handle func(pattern string, h http.Handler)) {
	on := func(pattern string, h http.HandlerFunc) { handle(pattern, h) }
	open := func(method, path string, h http.HandlerFunc) { // for scripts of other origins too
		on(method+" "+path, cors(h))
		on("OPTIONS "+path, cors(preflight))
	}
	open("GET", "/.well-known/openid-configuration", p.metadata)
	open("GET", "/.well-known/oauth-authorization-server", p.metadata)
	open("GET", pathJWKS, p.jwks)
	open("POST", pathToken, forClients(p, http.StatusOK, p.tokens))
	open("POST", pathRevoke, p.revoke)
	open("GET", pathUserinfo, p.userinfo)
	on("POST "+pathUserinfo, cors(p.userinfo))
	on("POST "+pathIntrospect, forClients(p, http.StatusOK, p.introspect))
	on("POST "+pathPAR, forClients(p, http.StatusCreated, p.push))
	on("POST "+pathDeviceAuth, forClients(p, http.StatusOK, p.newDevice))

	on("GET "+pathAuthorize, p.page(p.authorize))
	on("POST "+pathAuthorize, p.page(p.authorizePost))
	on("POST "+pathSignIn, p.form(p.signIn))
	on("POST "+pathConsent, p.form(p.consent))
	on("GET "+pathDevice, p.page(p.devicePage))
	on("POST "+pathDevice, p.form(p.deviceDecide))
	on("GET "+pathEndSession, p.page(p.endSession))
	on("POST "+pathEndSession, p.page(p.endSession))
	on("POST "+pathEndSession+"/confirm", p.form(p.endSessionConfirm))
	on("GET "+pathInvite+"{token}", p.page(p.invitation))
	on("POST "+pathInvite+"{token}", p.form(p.acceptInvitation))
	on("GET "+pathAccount, p.page(p.account))
	on("POST "+pathAccount+"/password", p.form(p.changePassword))
	on("POST "+pathAccount+"/sessions", p.form(p.revokeSession))
}

// cors lets scripts of every origin use an endpoint. No cookie counts here, so nothing is given away.
func cors(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Expose-Headers", "WWW-Authenticate")
		next(w, r)
	}
}

func preflight(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, DPoP")
	h.Set("Access-Control-Max-Age", "86400")
	w.WriteHeader(http.StatusNoContent)
}
