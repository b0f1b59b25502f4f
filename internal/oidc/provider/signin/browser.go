package signin

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/mail"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
)

const (
	browserLifetime = 365 * 24 * time.Hour
	browserIDSize   = 22
)

// BrowserOwner is the user that we recognize a browser for.
type BrowserOwner struct {
	UserID string
	// PasswordHash is the hash of the user's password, or "".
	PasswordHash string
	// Upstream is the organization whose provider the user signs in with, or "". If it is set,
	// PasswordHash is empty.
	Upstream string
}

// Recognizer recognizes the browsers in which a user has signed in before.
//
// A browser in which a user has signed in keeps a cookie for that user, `<seconds since 1970>.<random
// id>.<MAC>`. It gives no access. It only proves that the user has signed in with this browser, so that
// guesses from other browsers cannot lock this one out, and so that we can tell the user about sign-ins
// in new browsers. We store nothing, so the cookie is valid on all replicas. The MAC covers the
// password's hash: a new password voids the cookies. A sign-in with an organization's provider has its
// own cookie, since whoever manages the provider must not get one that helps to guess passwords.
type Recognizer struct {
	Now     func() time.Time
	Key     oauth.Key
	Cookies pages.Cookies
}

// Remember sets the cookie that proves its owner has signed in.
func (c *Recognizer) Remember(w http.ResponseWriter, o BrowserOwner) {
	issued := strconv.FormatInt(c.Now().Unix(), 10)
	device := id.Secret(browserIDSize)
	http.SetCookie(w, &http.Cookie{
		Name: c.cookie(o), Value: issued + "." + device + "." + c.cookieMAC(issued, device, o),
		Path: oauth.PathSignIn, MaxAge: int(browserLifetime.Seconds()),
		HttpOnly: true, Secure: c.Cookies.Secure, SameSite: http.SameSiteLaxMode,
	})
}

// Recognize returns a browser's id if its owner has signed in with it before.
func (c *Recognizer) Recognize(r *http.Request, o BrowserOwner) (device string, ok bool) {
	cookie, err := r.Cookie(c.cookie(o))
	if err != nil || o.UserID == "" {
		return "", false
	}
	parts := strings.Split(cookie.Value, ".")
	if len(parts) != 3 {
		return "", false
	}
	issued, device, mac := parts[0], parts[1], parts[2]
	if subtle.ConstantTimeCompare([]byte(mac), []byte(c.cookieMAC(issued, device, o))) != 1 {
		return "", false
	}
	seconds, err := strconv.ParseInt(issued, 10, 64)
	if err != nil || c.Now().Sub(time.Unix(seconds, 0)) > browserLifetime {
		return "", false
	}
	return device, true
}

// cookie returns the cookie's name for an owner. A browser's users have different names.
func (c *Recognizer) cookie(o BrowserOwner) string {
	name := "steward_device_" + hex.EncodeToString(c.mac("device cookie", o, o.UserID)[:8])
	if c.Cookies.Secure {
		return "__Secure-" + name
	}
	return name
}

func (c *Recognizer) cookieMAC(issued, device string, o BrowserOwner) string {
	return base64.RawURLEncoding.EncodeToString(c.mac("device", o, issued, device, o.UserID, o.PasswordHash))
}

// mac returns the MAC over parts and, if there is one, the organization whose provider the owner signs
// in with.
func (c *Recognizer) mac(purpose string, o BrowserOwner, parts ...string) []byte {
	if o.Upstream != "" {
		parts = append(parts, o.Upstream)
	}
	list := make([][]byte, len(parts))
	for i, part := range parts {
		list[i] = []byte(part)
	}
	return c.Key.MAC(purpose, list...)
}

// ErrNoMail refuses pages that need mail.
var ErrNoMail = &oauth.Error{
	Status: http.StatusNotFound, Code: oauth.InvalidRequest,
	Description: "this server sends no mail: ask an owner of your organization for a link",
}

// ownerIn returns the owner for a user's browser.
func ownerIn(f *flow.Flow, userID, passwordHash string) BrowserOwner {
	if f.Upstream != "" {
		return BrowserOwner{UserID: userID, Upstream: f.Upstream}
	}
	return BrowserOwner{UserID: userID, PasswordHash: passwordHash}
}

// NotifyDevice tells a user about a sign-in from a browser we have not seen before.
func (h *Handler) NotifyDevice(tx *db.Tx, r *http.Request, o BrowserOwner) error {
	if _, known := h.Browsers.Recognize(r, o); known {
		return nil
	}
	return h.Accounts.Tell(tx, o.UserID, mail.NewDevice)
}
