// Package flow owns the state of a browser on its way through the pages of the provider: an authorization
// request that waits for a sign-in or a consent, a logout request that waits for a confirmation, or a page
// that requires a sign-in.
//
// A flow travels sealed in a form field or in the URL, so that unauthenticated requests write nothing
// to the database.
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

// The values of the parameter prompt.
const (
	PromptNone          = "none"
	PromptLogin         = "login"
	PromptConsent       = "consent"
	PromptSelectAccount = "select_account"
)

// Prompts lists the values of the parameter prompt.
func Prompts() []string {
	return []string{PromptNone, PromptLogin, PromptConsent, PromptSelectAccount}
}

// The values of the parameter response_mode. The default is Query.
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
	// Resource is the requested audience of access tokens; empty if there was none.
	Resource string   `json:"resource,omitempty"`
	Prompts  []string `json:"prompts,omitempty"`
	// MaxAge is in seconds; nil if it was not requested.
	MaxAge    *int64 `json:"max_age,omitempty"`
	LoginHint string `json:"login_hint,omitempty"`
	// Level is the weakest value of the claim acr that was requested; empty if there was none.
	Level string `json:"level,omitempty"`
	// Subject is the user of the id_token_hint; empty if there was none.
	Subject string `json:"subject,omitempty"`
}

// Prompt reports whether the request has a value of the parameter prompt.
func (r *Request) Prompt(value string) bool { return slices.Contains(r.Prompts, value) }

// Logout is a logout request, with what was learnt from its id_token_hint.
type Logout struct {
	// ClientID is empty if no client is known.
	ClientID string `json:"client_id,omitempty"`
	// RedirectURI is where the browser goes afterwards; empty if none is registered for the client.
	RedirectURI string `json:"redirect_uri,omitempty"`
	State       string `json:"state,omitempty"`
	// Subject is the user who may be signed out without being asked; empty if there is none.
	Subject string `json:"subject,omitempty"`
}

// Proved is what a user has shown of who they are, which is not enough to sign in.
type Proved struct {
	UserID  string        `json:"user_id"`
	Methods oauth.Methods `json:"methods"`
	At      stamp.Time    `json:"at"`
	// Password is a digest of the user's password at that time: a new one voids what was shown.
	Password string `json:"password"`
	// Browser is a digest of a cookie of the browser.
	Browser string `json:"browser"`
}

// Flow is the state of a browser.
type Flow struct {
	// Request is the authorization request; nil if the browser goes to Next after the sign-in.
	Request *Request `json:"request,omitempty"`
	// Logout is the logout request, if this is one.
	Logout *Logout `json:"logout,omitempty"`
	// Next is a path of this server.
	Next string `json:"next,omitempty"`
	// SignedIn is the session in which the user has signed in during this flow. It satisfies
	// prompt=login and max_age.
	SignedIn string `json:"signed_in,omitempty"`
	// Again says that the user of a session signs in again, and that the page offers nobody else's ways.
	Again bool `json:"again,omitempty"`
	// Proved is what the user has shown so far, if more is required to sign in.
	Proved *Proved `json:"proved,omitempty"`
	// Mailed is the user who has set a password with a link that was mailed, and who has proved the address when
	// signed in; empty if there is none.
	Mailed string `json:"mailed,omitempty"`
	// UserID is the user for whom a consent page was made; the decision of another user does not count.
	UserID string `json:"user_id,omitempty"`
	// Upstream is the organization whose provider vouches for the user who signs in; empty if the user
	// signs in here. AuthTime is when the user authenticated there.
	Upstream  string     `json:"upstream,omitempty"`
	AuthTime  stamp.Time `json:"auth_time,omitempty"`
	ExpiresAt stamp.Time `json:"expires_at"`
}

// lifetime is how long a user may take on the pages.
const lifetime = 20 * time.Minute

// purpose binds a sealed value to this package.
const purpose = "oidc.flow"

// ErrExpired is returned for a flow that has expired or was not sealed here.
var ErrExpired = oauth.NewError(oauth.InvalidRequest,
	"this page has expired: go back to the application and start again")

// Sealer seals and opens flows.
type Sealer struct {
	Ring *seal.Ring
	Now  func() time.Time
}

// ForRequest returns the flow of an authorization request.
func (s *Sealer) ForRequest(r *Request) *Flow {
	return &Flow{Request: r, ExpiresAt: stamp.Of(s.Now()).Add(lifetime)}
}

// ForLogout returns the flow of a logout request.
func (s *Sealer) ForLogout(l *Logout) *Flow {
	return &Flow{Logout: l, ExpiresAt: stamp.Of(s.Now()).Add(lifetime)}
}

// ToPath returns a flow that leads to a path of this server.
func (s *Sealer) ToPath(path string) *Flow {
	return &Flow{Next: path, ExpiresAt: stamp.Of(s.Now()).Add(lifetime)}
}

// Seal returns a flow as text for a form or a URL.
func (s *Sealer) Seal(f *Flow) string {
	plain, err := json.Marshal(f)
	if err != nil {
		panic(err) // a Flow can be encoded
	}
	return base64.RawURLEncoding.EncodeToString(s.Ring.Seal(purpose, plain))
}

// Open returns the flow that Seal has sealed, or ErrExpired.
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

// Location returns where a flow continues. It has no host, so that the browser stays at the host name
// under which it has its cookies.
func (s *Sealer) Location(f *Flow) string {
	switch {
	case f.Request != nil:
		return oauth.PathAuthorizeContinue + "?flow=" + s.Seal(f)
	case f.Logout != nil:
		return oauth.PathEndSessionContinue + "?flow=" + s.Seal(f)
	}
	return f.Next
}
