package signin

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"steward/internal/id"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
)

// A browser in which a user has signed in keeps a cookie for that user, `<seconds since
// 1970>.<random id>.<MAC>`. It gives no access. It shows that the user has signed in with this
// browser, so that guesses made with other browsers do not keep it from signing in. Nothing of it
// is stored, so that it is valid on all replicas. The MAC covers the hash of the password: a new
// password voids the cookies.
const (
	deviceLifetime = 365 * 24 * time.Hour
	deviceIDSize   = 22
)

// deviceCookie returns the name of the cookie for a user. Each user of a browser has another.
func (h *Handler) deviceCookie(userID string) string {
	name := "steward_device_" + hex.EncodeToString(h.Key.MAC("device cookie", []byte(userID))[:8])
	if h.Pages.Cookies.Secure {
		return "__Secure-" + name
	}
	return name
}

func (h *Handler) deviceMAC(issued, device, userID, passwordHash string) string {
	mac := h.Key.MAC("device", []byte(issued), []byte(device), []byte(userID), []byte(passwordHash))
	return base64.RawURLEncoding.EncodeToString(mac)
}

// setDevice remembers in the browser that a user has signed in with the current password.
func (h *Handler) setDevice(w http.ResponseWriter, userID, passwordHash string) {
	issued := strconv.FormatInt(h.Now().Unix(), 10)
	device := id.Secret(deviceIDSize)
	http.SetCookie(w, &http.Cookie{
		Name: h.deviceCookie(userID), Value: issued + "." + device + "." + h.deviceMAC(issued, device, userID, passwordHash),
		Path: oauth.PathSignIn, MaxAge: int(deviceLifetime.Seconds()),
		HttpOnly: true, Secure: h.Pages.Cookies.Secure, SameSite: http.SameSiteLaxMode,
	})
}

// device returns the id of a browser in which a user has signed in with the current password. The zero
// User has none.
func (h *Handler) device(r *http.Request, user oidc.User) (device string, ok bool) {
	cookie, err := r.Cookie(h.deviceCookie(user.ID))
	if err != nil || user.PasswordHash == "" {
		return "", false
	}
	parts := strings.Split(cookie.Value, ".")
	if len(parts) != 3 {
		return "", false
	}
	issued, device, mac := parts[0], parts[1], parts[2]
	want := h.deviceMAC(issued, device, user.ID, user.PasswordHash)
	if subtle.ConstantTimeCompare([]byte(mac), []byte(want)) != 1 {
		return "", false
	}
	seconds, err := strconv.ParseInt(issued, 10, 64)
	if err != nil || h.Now().Sub(time.Unix(seconds, 0)) > deviceLifetime {
		return "", false
	}
	return device, true
}
