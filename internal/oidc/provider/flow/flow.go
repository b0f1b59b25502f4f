// Package flow owns a browser's state on its way through the provider's pages: an authorization request
// that waits for a sign-in or a consent, a logout request that waits for a confirmation, or a page that
// requires a sign-in.
//
// A flow travels sealed in a form field or in the URL, so that unauthenticated requests write nothing to
// the database.
package flow

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Values of the prompt parameter.
const (
	PromptNone          = "none"
	PromptLogin         = "login"
	PromptConsent       = "consent"
	PromptSelectAccount = "select_account"
)

// Prompts lists the values of the prompt parameter.
func Prompts() []string {
	return []string{PromptNone, PromptLogin, PromptConsent, PromptSelectAccount}
}

// Values of the response_mode parameter. The default is Query.
const (
	Query    = "query"
	FormPost = "form_post"
)

// Request is a validated authorization request.
type Request struct {
	ClientID     string   `json:"client_id"`
	RedirectURI  string   `json:"redirect_uri"`
	ResponseMode string   `json:"response_mode,omitempty"`
	State        string   `json:"state,omitempty"`
	Nonce        string   `json:"nonce,omitempty"`
	Scopes       []string `json:"scopes"`
	Challenge    string   `json:"challenge,omitempty"`
	JKT          string   `json:"jkt,omitempty"`
	// Resource is the audience that the client requests for access tokens; empty if it requests none.
	Resource string   `json:"resource,omitempty"`
	Prompts  []string `json:"prompts,omitempty"`
	// MaxAge is in seconds; nil if the client does not set one.
	MaxAge    *int64 `json:"max_age,omitempty"`
	LoginHint string `json:"login_hint,omitempty"`
	// Level is the weakest acr that the client accepts; empty if it accepts all.
	Level string `json:"level,omitempty"`
	// Subject is the user in the id_token_hint; empty without a hint.
	Subject string `json:"subject,omitempty"`
}

// Prompt reports whether the prompt parameter has the given value.
func (r *Request) Prompt(value string) bool { return slices.Contains(r.Prompts, value) }

// Logout is a logout request, including the facts that its id_token_hint proves.
type Logout struct {
	// ClientID is empty if we know no client.
	ClientID string `json:"client_id,omitempty"`
	// RedirectURI is where the browser goes next; empty if the client has not registered it.
	RedirectURI string `json:"redirect_uri,omitempty"`
	State       string `json:"state,omitempty"`
	// Subject is the user whom we may sign out without asking; empty if there is none.
	Subject string `json:"subject,omitempty"`
}

// Proved is a partial sign-in: the user has shown some proof, but not enough.
type Proved struct {
	UserID  string        `json:"user_id"`
	Methods oauth.Methods `json:"methods"`
	At      stamp.Time    `json:"at"`
	// Password is a digest of the user's password at that time, so that a new password voids the proof.
	Password string `json:"password"`
	// Browser is a digest of a cookie in the browser.
	Browser string `json:"browser"`
}

// Flow is a browser's state.
type Flow struct {
	// Request is the authorization request; nil if the browser goes to Next after the sign-in.
	Request *Request `json:"request,omitempty"`
	// Logout is the logout request; nil in other flows.
	Logout *Logout `json:"logout,omitempty"`
	// Next is a path on this server.
	Next string `json:"next,omitempty"`
	// SignedIn is the session that the user signed in to during this flow. It satisfies prompt=login and
	// max_age.
	SignedIn string `json:"signed_in,omitempty"`
	// Again means that a session's user signs in again, so the page offers only that user's ways to do
	// it.
	Again bool `json:"again,omitempty"`
	// Proved is the user's proof so far, if the sign-in needs more.
	Proved *Proved `json:"proved,omitempty"`
	// Mailed is the user who has set a password with a mailed link, and so proves the address by signing
	// in; empty if there is none.
	Mailed string `json:"mailed,omitempty"`
	// UserID is the user who sees the consent page; another user's decision does not count.
	UserID string `json:"user_id,omitempty"`
	// Upstream is the organization whose provider vouches for the user; empty if the user signs in here.
	// AuthTime is when the user authenticated there.
	Upstream  string     `json:"upstream,omitempty"`
	AuthTime  stamp.Time `json:"auth_time,omitempty"`
	ExpiresAt stamp.Time `json:"expires_at"`
}

// lifetime bounds how long a user may take on the pages.
const lifetime = 20 * time.Minute

// purpose binds a sealed value to this package.
const purpose = "oidc.flow"

// ErrExpired is the error for a flow that has expired or was not sealed here.
var ErrExpired = oauth.NewError(oauth.InvalidRequest,
	"this page has expired: go back to the application and start again")

// Sealer seals and opens flows.
type Sealer struct {
	Ring *seal.Ring
	Now  func() time.Time
}

// ForRequest returns the flow for an authorization request.
func (s *Sealer) ForRequest(r *Request) *Flow {
	return &Flow{Request: r, ExpiresAt: stamp.Of(s.Now()).Add(lifetime)}
}

// ForLogout returns the flow for a logout request.
func (s *Sealer) ForLogout(l *Logout) *Flow {
	return &Flow{Logout: l, ExpiresAt: stamp.Of(s.Now()).Add(lifetime)}
}

// ToPath returns a flow that leads to a path on this server.
func (s *Sealer) ToPath(path string) *Flow {
	return &Flow{Next: path, ExpiresAt: stamp.Of(s.Now()).Add(lifetime)}
}

// Seal encodes a flow for a form or a URL.
func (s *Sealer) Seal(f *Flow) string {
	plain, err := json.Marshal(f)
	if err != nil {
		panic(err) // every Flow can be encoded
	}
	return base64.RawURLEncoding.EncodeToString(s.Ring.Seal(purpose, plain))
}

// Open returns the flow from Seal, or ErrExpired.
func (s *Sealer) Open(text string) (*Flow, error) {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, ErrExpired
	}
	plain, err := s.Ring.Open(purpose, sealed)
	if err != nil {
		return nil, ErrExpired
	}
	var f Flow
	if err := json.Unmarshal(plain, &f); err != nil {
		return nil, ErrExpired
	}
	if f.ExpiresAt < stamp.Of(s.Now()) {
		return nil, ErrExpired
	}
	return &f, nil
}

// OpenRequest is Open for a flow that must have an authorization request.
func (s *Sealer) OpenRequest(text string) (*Flow, error) {
	f, err := s.Open(text)
	if err != nil {
		return nil, err
	}
	if f.Request == nil {
		return nil, ErrExpired
	}
	return f, nil
}

// OpenLogout is Open for a flow that must have a logout request.
func (s *Sealer) OpenLogout(text string) (*Logout, error) {
	f, err := s.Open(text)
	if err != nil {
		return nil, err
	}
	if f.Logout == nil {
		return nil, ErrExpired
	}
	return f.Logout, nil
}

// Location returns the path where a flow continues. It has no host, so the browser stays at the host name
// that it has cookies for.
func (s *Sealer) Location(f *Flow) string {
	switch {
	case f.Request != nil:
		return oauth.PathAuthorizeContinue + "?flow=" + s.Seal(f)
	case f.Logout != nil:
		return oauth.PathEndSessionContinue + "?flow=" + s.Seal(f)
	}
	return f.Next
}
