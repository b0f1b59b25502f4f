package console

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"steward/internal/auth"
	"steward/internal/errs"
)

const (
	// cookieName names the cookie that identifies the provider's session.
	cookieName = "steward_console"
	// cookiePurpose binds sealed cookies to this package.
	cookiePurpose = "console.session"

	// consoleHeader is sent by the console with every request. Another site's form cannot send it,
	// and another site's script only if the browser has asked this server, which refuses.
	consoleHeader = "X-Steward-Console"
	// orgHeader names the organization that a page shows. Without it, we take the user's first one.
	orgHeader = "X-Steward-Organization"
)

// member is a user in an organization, or in the user's first one if orgID is empty. If confined,
// the session opens no other.
type member struct {
	orgID, userID string
	confined      bool
}

// Caller returns the user who is signed in in the browser that sends a request, with the current
// role in the page's organization. It returns Forbidden if the request does not come from the
// console or names an organization that the user does not belong to, and Unauthorized if nobody is
// signed in. It replaces a cookie that was sealed with an old master key.
func (c *Console) Caller(response http.Header, r *http.Request) (*auth.Caller, error) {
	if err := c.checkSource(r); err != nil {
		return nil, err
	}
	sessionID, ok := c.sessionID(r)
	if !ok {
		return nil, errSignIn
	}
	s, err := c.Provider.Session(r.Context(), sessionID)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, errSignIn
	}
	if !c.isCurrent(r) {
		response.Add("Set-Cookie", c.cookie(sessionID).String())
	}
	m := member{orgID: r.Header.Get(orgHeader), userID: s.UserID, confined: s.OrgID != ""}
	if m.confined {
		if m.orgID != "" && m.orgID != s.OrgID {
			return nil, errs.New(errs.Forbidden, "you have signed in with the provider of another organization: sign in with a password or a passkey")
		}
		m.orgID = s.OrgID
	}
	caller, err := c.callers.Get(m, func() (*auth.Caller, error) { return c.load(r, m) })
	if err != nil || s.Recent(c.Now()) {
		return caller, err
	}
	stale := *caller // shared with the user's other sessions
	stale.Stale = true
	return &stale, nil
}

func (c *Console) load(r *http.Request, m member) (*auth.Caller, error) {
	if m.orgID == "" {
		orgs, err := c.Accounts.OrgsOfUser(r.Context(), m.userID)
		if err != nil {
			return nil, err
		}
		if len(orgs) == 0 {
			return nil, errSignIn
		}
		m.orgID = orgs[0].ID
	}
	role, err := c.Accounts.Role(r.Context(), m.orgID, m.userID)
	if errs.KindOf(err) == errs.NotFound {
		return nil, errs.New(errs.Forbidden, "%s names an organization that you are not a member of", orgHeader)
	}
	if err != nil {
		return nil, err
	}
	return &auth.Caller{UserID: m.userID, OrgID: m.orgID, Role: role, Confined: m.confined}, nil
}

// checkSource returns Forbidden for a request that no console page has sent, and Unauthorized for
// one with another kind of credential.
func (c *Console) checkSource(r *http.Request) error {
	switch {
	case r.Header.Get("Authorization") != "":
		return errs.New(errs.Unauthorized, "API keys and access tokens are not accepted here: leave out %s", apiPrefix)
	case r.Header.Get(consoleHeader) != "1":
		return errs.New(errs.Forbidden, "only the console may send this request: the header %s: 1 is missing", consoleHeader)
	case !c.sameOrigin(r):
		return errs.New(errs.Forbidden, "only the console may send this request: it comes from another site")
	}
	return nil
}

// sameOrigin reports whether nothing says that a request comes from another origin.
func (c *Console) sameOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" || origin == c.origin() {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && u.Host == r.Host
}

// origin returns the base URL's origin.
func (c *Console) origin() string {
	u, err := url.Parse(c.BaseURL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// sessionID returns the session that a request's cookie names. If there are several cookies, others
// have set all but one: a page on another port of this host, which shares its cookies. Then none
// counts.
func (c *Console) sessionID(r *http.Request) (id string, ok bool) {
	cookies := r.CookiesNamed(cookieName)
	if len(cookies) != 1 {
		return "", false
	}
	value := cookies[0].Value
	id, err := c.opened.Get(value, func() (string, error) {
		sealed, err := base64.RawURLEncoding.DecodeString(value)
		if err != nil {
			return "", err
		}
		plain, err := c.Ring.Open(cookiePurpose, sealed)
		return string(plain), err
	})
	return id, err == nil
}

// isCurrent reports whether a request's cookie was sealed with the current master key.
func (c *Console) isCurrent(r *http.Request) bool {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return false
	}
	sealed, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	return err == nil && c.Ring.IsCurrent(sealed)
}

// cookie returns a session's cookie, or one that deletes it if sessionID is empty.
func (c *Console) cookie(sessionID string) *http.Cookie {
	cookie := &http.Cookie{
		Name: cookieName, Path: Prefix, MaxAge: -1,
		HttpOnly: true, Secure: strings.HasPrefix(c.BaseURL, "https://"), SameSite: http.SameSiteStrictMode,
	}
	if sessionID != "" {
		cookie.Value = base64.RawURLEncoding.EncodeToString(c.Ring.Seal(cookiePurpose, []byte(sessionID)))
		cookie.MaxAge = int(c.SessionMax.Seconds())
	}
	return cookie
}
