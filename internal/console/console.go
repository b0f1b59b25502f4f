// Package console serves the web console at /console/: its files, which are built from the
// repository's directory console and embedded here, and the API's route table for its pages.
//
// The files need no sign-in. A page that finds nobody signed in leads to /console/sign-in, where the
// OpenID Connect provider authenticates the user; the browser then has the cookie steward_console,
// which names the provider's session and is worth nothing once that has ended. /console/api serves
// the route table to requests with that cookie (caller.go), and nothing else: neither API keys nor
// protocols.
package console

import (
	"context"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/oidc/provider/session"
	"steward/internal/seal"
	"steward/internal/web"
)

// The console's paths. Everything else below Prefix is a page, which the script in the browser
// shows.
const (
	Prefix      = "/console/"
	apiPrefix   = "/console/api"
	assetPrefix = "/console/assets/"
	signInPath  = "/console/sign-in"
	signOutPath = "/console/sign-out"
)

// Console serves the console.
type Console struct {
	Ring *seal.Ring
	// BaseURL and S3URL are where browsers reach the API and the object storage.
	BaseURL, S3URL string
	Now            func() time.Time
	Provider       Provider
	Accounts       Accounts
	// SessionMax limits how long a session lasts.
	SessionMax time.Duration

	callers db.Cache[member, *auth.Caller]
	// opened maps cookies to the sessions that they name, which never change. A session may have
	// ended all the same.
	opened db.Cache[string, string]
}

// Provider signs users in. It is a provider.Provider.
type Provider interface {
	// RequireSignIn returns a handler that calls next with the id of the browser's session, after
	// the user has signed in.
	RequireSignIn(next func(w http.ResponseWriter, r *http.Request, sessionID string)) http.Handler
	// Session returns a session, or nil if it has ended.
	Session(ctx context.Context, sessionID string) (*session.Session, error)
	SignOut(w http.ResponseWriter, r *http.Request, sessionID string) error
}

// Accounts knows who belongs to which organization. It is an account.Store.
type Accounts interface {
	// OrgsOfUser returns the organizations in which a user is an enabled member, deleted ones last.
	OrgsOfUser(ctx context.Context, userID string) ([]account.Org, error)
	// Role returns a user's role in an organization, or NotFound.
	Role(ctx context.Context, orgID, userID string) (auth.Role, error)
}

// Forget empties the callers' cache. Call it when a role or a membership has changed.
func (c *Console) Forget() { c.callers.Forget() }

// Mount passes every console pattern to handle. api serves the route table to the callers that
// Caller returns.
func (c *Console) Mount(handle func(pattern string, h http.Handler), api http.Handler) {
	handle(apiPrefix+"/", c.api(api))
	handle("GET "+signInPath, c.Provider.RequireSignIn(c.signedIn))
	handle("POST "+signOutPath, http.HandlerFunc(c.signOut))
	handle("GET /console", http.RedirectHandler(Prefix, http.StatusSeeOther))
	handle(Prefix, newFiles(c.policy()))
}

// api returns the handler for /console/api. Browsers must not keep, frame or run its responses.
func (c *Console) api(next http.Handler) http.Handler {
	next = http.StripPrefix(apiPrefix, next)
	header := http.Header{
		"Cache-Control":                {"no-store"},
		"Content-Security-Policy":      {"default-src 'none'; frame-ancestors 'none'; sandbox"},
		"Cross-Origin-Resource-Policy": {"same-origin"},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), header)
		next.ServeHTTP(w, r)
	})
}

// signedIn serves GET /console/sign-in for a user who is signed in: it sets the cookie and sends the
// browser to the page that it came from.
func (c *Console) signedIn(w http.ResponseWriter, r *http.Request, sessionID string) {
	http.SetCookie(w, c.cookie(sessionID))
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "same-origin")
	http.Redirect(w, r, returnPath(r.URL.Query().Get("return")), http.StatusSeeOther)
}

// signOut serves POST /console/sign-out: it ends the provider's session.
func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	if err := c.endSession(w, r); err != nil {
		web.Fail(w, r, err)
		return
	}
	web.Write(w, r, http.StatusNoContent, web.None{})
}

func (c *Console) endSession(w http.ResponseWriter, r *http.Request) error {
	if err := c.checkSource(r); err != nil {
		return err
	}
	sessionID, ok := c.sessionID(r)
	if !ok {
		return errSignIn
	}
	http.SetCookie(w, c.cookie(""))
	return c.Provider.SignOut(w, r, sessionID)
}

// maxReturn bounds the address to which a sign-in returns.
const maxReturn = 2048

// returnPath returns where the browser goes after a sign-in: the page that it came from, or the
// first page if that is not in the console.
func returnPath(to string) string {
	u, err := url.Parse(to)
	if err != nil || len(to) > maxReturn || !strings.HasPrefix(to, Prefix) || !isPage(u.Path) {
		return Prefix
	}
	return u.String()
}

// isPage reports whether the script in the browser shows a path.
func isPage(p string) bool {
	if clean := path.Clean(p); p != clean && p != clean+"/" || strings.Contains(p, `\`) {
		return false
	}
	for _, other := range []string{apiPrefix + "/", assetPrefix, signInPath, signOutPath} {
		if strings.HasPrefix(p, other) {
			return false
		}
	}
	return strings.HasPrefix(p, Prefix)
}

// errSignIn is returned for a request without a session.
var errSignIn = errs.New(errs.Unauthorized, "sign-in required: open "+signInPath)

// AtBaseURL returns a handler that redirects the console's pages to the base URL if a browser opens
// them by another name for this machine, such as 127.0.0.1 instead of localhost: browsers keep
// cookies and passkeys for one name only. Everything else goes on to next.
func (c *Console) AtBaseURL(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !c.isElsewhere(r) {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, c.origin()+r.URL.RequestURI(), http.StatusFound)
	})
}

// isElsewhere reports whether a request is for a page at another loopback name than the base URL's.
// Another port may be a tunnel to this one, whose other end is not where the base URL leads.
func (c *Console) isElsewhere(r *http.Request) bool {
	page := r.URL.Path == "/console" || r.URL.Path == signInPath || isPage(r.URL.Path)
	if !page || r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	base, err := url.Parse(c.BaseURL)
	if err != nil {
		return false
	}
	here := url.URL{Host: r.Host}
	return here.Port() == base.Port() && here.Hostname() != base.Hostname() &&
		isLoopback(here.Hostname()) && isLoopback(base.Hostname())
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}
