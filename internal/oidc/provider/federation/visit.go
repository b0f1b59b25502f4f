package federation

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net/http"

	"steward/internal/id"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/signin"
	"steward/internal/oidc/upstream"
	"steward/internal/seal"
	"steward/internal/stamp"
)

const (
	cookieName = "steward_upstream"
	cookieSize = 32
	purpose    = "oidc.upstream"
)

// visit is a sign-in's state while the browser is at a provider.
type visit struct {
	UpstreamID string           `json:"upstream"`
	Issuer     string           `json:"issuer"`
	Attempt    upstream.Attempt `json:"attempt"`
	Flow       *flow.Flow       `json:"flow"`
	// Cookie is the hash of the browser's cookie.
	Cookie []byte `json:"cookie"`
	// Session is the session of a user who links the account, or "".
	Session string `json:"session,omitempty"`
}

func (h *Handler) leave(w http.ResponseWriter, r *http.Request, u upstream.Upstream, v visit) error {
	if wait := h.Attempts.Take(startLimit(signin.Network(r))); wait > 0 {
		signin.SetRetryAfter(w, wait)
		return signin.ErrTooMany
	}
	reg, err := h.registration(u)
	if err != nil {
		return err
	}
	cookie := id.Secret(cookieSize)
	v.UpstreamID = u.ID
	v.Issuer = u.Issuer
	v.Cookie = seal.Hash(cookie)
	location, err := h.Client.AuthURL(r.Context(), reg, v.Attempt, h.seal(v))
	if err != nil {
		return err
	}
	h.Pages.Remember(w, r) // a form may follow when the browser comes back
	h.Pages.Cookies.Set(w, cookieName, cookie, 0)
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, location, http.StatusSeeOther)
	return nil
}

func (h *Handler) registration(u upstream.Upstream) (upstream.Registration, error) {
	secret, err := h.Upstreams.Store.Secret(u)
	return upstream.Registration{
		Issuer: u.Issuer, ClientID: u.ClientID, ClientSecret: secret, Scopes: u.Scopes, GroupsClaim: u.GroupsClaim,
	}, err
}

func (h *Handler) seal(v visit) string {
	plain, err := json.Marshal(v)
	if err != nil {
		panic(err) // a visit always encodes
	}
	return base64.RawURLEncoding.EncodeToString(h.Flows.Ring.Seal(purpose, plain))
}

// open returns the visit in a request's state, if it belongs to the browser and has not expired.
func (h *Handler) open(r *http.Request) (visit, error) {
	var v visit
	sealed, err := base64.RawURLEncoding.DecodeString(r.URL.Query().Get("state"))
	if err != nil {
		return v, ErrOtherBrowser
	}
	plain, err := h.Flows.Ring.Open(purpose, sealed)
	if err != nil {
		return v, ErrOtherBrowser
	}
	if err := json.Unmarshal(plain, &v); err != nil {
		return v, ErrOtherBrowser
	}
	cookie, ok := h.Pages.Cookies.Get(r, cookieName)
	if !ok || subtle.ConstantTimeCompare(seal.Hash(cookie), v.Cookie) != 1 || v.Flow.ExpiresAt < stamp.Of(h.Now()) {
		return v, ErrOtherBrowser
	}
	return v, nil
}
