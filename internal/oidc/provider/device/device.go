// Package device owns the device authorization endpoint (RFC 8628) and the page on which a user enters
// a device's code and decides.
//
// The device gets its tokens at the token endpoint, which it polls with its device code.
package device

import (
	"context"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/session"
	"steward/internal/oidc/provider/signin"
	"steward/internal/stamp"
	"steward/internal/web"
)

// Handler serves the device authorization endpoint and the device page.
type Handler struct {
	DB  *db.DB
	Now func() time.Time
	// Issuer is the device page's base URL.
	Issuer    string
	Clients   *oidc.Store
	Sessions  *session.Manager
	Consents  *grant.ConsentPage
	Flows     *flow.Sealer
	Pages     *pages.Renderer
	Audiences *grant.Audiences
	SignIn    *signin.Handler

	throttle oauth.Throttle
}

// Response is the response to a device authorization request.
type Response struct {
	DeviceCode              string `json:"device_code"`
	UserCode                string `json:"user_code"`
	VerificationURI         string `json:"verification_uri"`
	VerificationURIComplete string `json:"verification_uri_complete"`
	ExpiresIn               int64  `json:"expires_in"`
	Interval                int64  `json:"interval"`
}

// Authorize serves POST /device_authorization.
func (h *Handler) Authorize(r *http.Request, c *oidc.Registered) (*Response, error) {
	if !slices.Contains(c.GrantTypes, oidc.DeviceCode) {
		return nil, oauth.NewError(oauth.UnauthorizedClient, "this client may not use device codes")
	}
	requested, err := oauth.Param(r.PostForm, "scope")
	if err != nil {
		return nil, err
	}
	scopes := c.AllowedScopes(requested)
	if len(scopes) == 0 {
		return nil, oauth.NewError(oauth.InvalidScope, "none of the scopes is allowed for this client")
	}
	resource, err := h.Audiences.Requested(r.Context(), r.PostForm)
	if err != nil {
		return nil, err
	}
	if h.throttle.Take(h.Now(), deviceLimit(r)) > 0 {
		return nil, &oauth.Error{
			Status: http.StatusTooManyRequests, Code: oauth.Unavailable, Description: "too many device codes were requested",
		}
	}
	now := stamp.Of(h.Now())
	d := &grant.Device{
		ClientID: c.ID, Scopes: scopes, State: grant.DevicePending, Interval: grant.PollInterval,
		CreatedAt: now, ExpiresAt: now.Add(grant.DeviceLifetime),
	}
	if resource != "" {
		d.Resource = &resource
	}
	code, err := h.insert(r.Context(), d)
	if err != nil {
		return nil, err
	}
	page := h.Issuer + oauth.PathDevice
	return &Response{
		DeviceCode: code, UserCode: formatUserCode(d.UserCode), VerificationURI: page,
		VerificationURIComplete: page + "?user_code=" + formatUserCode(d.UserCode),
		ExpiresIn:               int64(grant.DeviceLifetime.Seconds()), Interval: grant.PollInterval,
	}, nil
}

// deviceLimit limits how often one address requests device codes for public clients, whose ids anybody
// may know.
func deviceLimit(r *http.Request) oauth.Limit {
	network := oauth.Network(web.Request(r.Context()).RemoteAddr)
	return oauth.Limit{Key: "device " + network, Burst: 100, Every: time.Second}
}

// insert stores a device with a new user code and returns its device code.
func (h *Handler) insert(ctx context.Context, d *grant.Device) (code string, err error) {
	code = id.Secret(43)
	for range 5 {
		d.UserCode = newUserCode()
		var inserted bool
		err := h.DB.Write(ctx, func(tx *db.Tx) (err error) {
			inserted, err = grant.InsertDevice(tx, d, code)
			return err
		})
		if err != nil {
			return "", err
		}
		if inserted {
			return code, nil
		}
	}
	return "", errs.Unavailablef(nil, "no user code is available")
}

const (
	// alphabet has no vowels, so that user codes form no words, and no letters that look alike (RFC
	// 8628 section 6.1).
	alphabet     = "BCDFGHJKLMNPQRSTVWXZ"
	userCodeSize = 8
)

func newUserCode() string {
	code := make([]byte, 0, userCodeSize)
	random := make([]byte, 4*userCodeSize)
	for len(code) < userCodeSize {
		rand.Read(random) // never fails
		for _, b := range random {
			// 240 is the largest multiple of 20 in a byte. Larger values would make some letters more
			// likely.
			if b < 240 && len(code) < userCodeSize {
				code = append(code, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(code)
}

// formatUserCode formats a user code for display: WDJB-MJHT.
func formatUserCode(code string) string { return code[:userCodeSize/2] + "-" + code[userCodeSize/2:] }

const maxTyped = 64

// parseUserCode returns the user code in a user's input, without blanks, hyphens and the like.
func parseUserCode(typed string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(alphabet, r) {
			return r
		}
		return -1
	}, strings.ToUpper(typed[:min(len(typed), maxTyped)]))
}
