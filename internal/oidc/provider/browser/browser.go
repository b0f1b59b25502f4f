// Package browser names browsers, and recognizes the ones that a user has signed in with before.
//
// After a sign-in, the browser keeps a cookie for that user, `<seconds since 1970>.<random id>.<MAC>`. It
// gives no access. It only shows that the user has signed in with this browser. Thanks to it, other
// people's wrong guesses do not lock this browser out, and we can tell the user about sign-ins with new
// browsers. We store none of it, so it is valid on all replicas. The MAC covers the password's hash, so a
// new password voids the cookies. A sign-in with an organization's provider gets a separate cookie: the
// provider's administrator must not get one that helps to guess passwords.
package browser

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"steward/internal/id"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
)

const (
	lifetime = 365 * 24 * time.Hour
	idSize   = 22
)

// Owner is the user who has signed in with a browser.
type Owner struct {
	UserID string
	// PasswordHash hashes the user's password, or is "".
	PasswordHash string
	// Upstream is the organization whose provider the user signs in with, or "". If it is set,
	// PasswordHash is empty.
	Upstream string
}

// Recognizer sets and reads the cookies of known browsers.
type Recognizer struct {
	Now     func() time.Time
	Key     oauth.Key
	Cookies pages.Cookies
}

// Remember notes in the browser that its owner has signed in.
func (c *Recognizer) Remember(w http.ResponseWriter, o Owner) {
	issued := strconv.FormatInt(c.Now().Unix(), 10)
	device := id.Secret(idSize)
	http.SetCookie(w, &http.Cookie{
		Name: c.cookie(o), Value: issued + "." + device + "." + c.cookieMAC(issued, device, o),
		Path: oauth.PathSignIn, MaxAge: int(lifetime.Seconds()),
		HttpOnly: true, Secure: c.Cookies.Secure, SameSite: http.SameSiteLaxMode,
	})
}

// Recognize returns the browser's id if its owner has signed in with it before.
func (c *Recognizer) Recognize(r *http.Request, o Owner) (device string, ok bool) {
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
	if err != nil || c.Now().Sub(time.Unix(seconds, 0)) > lifetime {
		return "", false
	}
	return device, true
}

// cookie returns the name of the owner's cookie. It differs for each user, since several may share a
// browser.
func (c *Recognizer) cookie(o Owner) string {
	name := "steward_device_" + hex.EncodeToString(c.mac("device cookie", o, o.UserID)[:8])
	if c.Cookies.Secure {
		return "__Secure-" + name
	}
	return name
}

func (c *Recognizer) cookieMAC(issued, device string, o Owner) string {
	return base64.RawURLEncoding.EncodeToString(c.mac("device", o, issued, device, o.UserID, o.PasswordHash))
}

// mac returns the MAC of parts. It includes the organization if the owner signs in with its provider.
func (c *Recognizer) mac(purpose string, o Owner, parts ...string) []byte {
	if o.Upstream != "" {
		parts = append(parts, o.Upstream)
	}
	list := make([][]byte, len(parts))
	for i, part := range parts {
		list[i] = []byte(part)
	}
	return c.Key.MAC(purpose, list...)
}
