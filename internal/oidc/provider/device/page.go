package device

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/clientauth"
	"steward/internal/oidc/provider/flow"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/stamp"
	"steward/internal/web"
)

// ask shows users everything that a device gets, even scopes they have granted before: the device in
// front of them may not be the one that asks.
const ask = grant.AskAgain

// Page serves GET /device: the user enters a code, or comes with it in the URL, and then decides.
func (h *Handler) Page(w http.ResponseWriter, r *http.Request) error {
	typed := r.URL.Query().Get("user_code")
	if typed == "" {
		return h.Pages.Render(w, r, http.StatusOK, &pages.Device{})
	}
	s, user, err := h.Sessions.SignedIn(r)
	if err != nil {
		return err
	}
	signIn := func() error {
		query := url.Values{"user_code": {typed[:min(len(typed), maxTyped)]}}
		return h.SignIn.ShowSignIn(w, r, h.Flows.ToPath(oauth.PathDevice+"?"+query.Encode()), "")
	}
	if s == nil {
		return signIn()
	}
	d, c, err := h.pending(r, parseUserCode(typed))
	if err != nil {
		return h.showProblem(w, r, err)
	}
	if !s.Opens(c.OrgID) {
		return signIn()
	}
	q, err := h.consentRequest(r.Context(), d, c, user)
	if err != nil {
		return err
	}
	view := pages.Consent{Action: oauth.PathDevice, UserCode: formatUserCode(d.UserCode), Device: true}
	if d.Resource != nil && *d.Resource != h.Issuer {
		view.Resource = *d.Resource
	}
	return h.Consents.Show(w, r, view, q)
}

func (h *Handler) consentRequest(
	ctx context.Context, d *grant.Device, c *oidc.Registered, user *account.User,
) (grant.ConsentRequest, error) {
	given, err := h.Clients.Consent(ctx, c.ID, user.ID)
	if err != nil {
		return grant.ConsentRequest{}, err
	}
	return grant.ConsentRequest{Client: c, User: user, Scopes: d.Scopes, Given: given, Ask: ask}, nil
}

// pending returns the pending device for a user code, with its client. We limit wrong codes, because
// user codes are short enough to guess.
func (h *Handler) pending(r *http.Request, userCode string) (*grant.Device, *oidc.Registered, error) {
	network := oauth.Network(web.Request(r.Context()).RemoteAddr)
	limit := oauth.Limit{Key: "code " + network, Burst: 20, Every: 10 * time.Second}
	if h.throttle.Take(h.Now(), limit) > 0 {
		return nil, nil, &oauth.Error{
			Status: http.StatusTooManyRequests, Code: oauth.AccessDenied,
			Description: "Too many attempts. Wait a minute, then try again.",
		}
	}
	d, err := grant.DeviceByUserCode(h.DB.Read(r.Context()), userCode, stamp.Of(h.Now()))
	if errors.Is(err, db.ErrNoRows) || err == nil && d.State != grant.DevicePending {
		return nil, nil, oauth.NewError(oauth.InvalidGrant,
			"This code is unknown or has expired. Check the code on your device.")
	}
	if err != nil {
		return nil, nil, err
	}
	h.throttle.Refund(limit)
	c, err := clientauth.Find(r.Context(), h.Clients, d.ClientID)
	if err != nil {
		return nil, nil, err
	}
	return d, c, nil
}

// showProblem renders the form again if the user can correct the error, and otherwise returns the
// error.
func (h *Handler) showProblem(w http.ResponseWriter, r *http.Request, err error) error {
	e := oauth.AsError(r.Context(), err)
	if e.Code != oauth.InvalidGrant && e.Status != http.StatusTooManyRequests {
		return e
	}
	view := &pages.Device{}
	view.Problem = e.Description
	return h.Pages.Render(w, r, e.Status, view)
}

// Decide serves POST /device, the user's decision.
func (h *Handler) Decide(w http.ResponseWriter, r *http.Request) error {
	s, user, err := h.Sessions.SignedIn(r)
	if err != nil {
		return err
	}
	if s == nil {
		return flow.ErrExpired
	}
	d, c, err := h.pending(r, parseUserCode(r.PostForm.Get("user_code")))
	if err != nil {
		return h.showProblem(w, r, err)
	}
	if !s.Opens(c.OrgID) {
		return flow.ErrExpired
	}
	admitted, err := h.Clients.Admits(r.Context(), c, user.ID)
	if err != nil {
		return err
	}
	if !admitted {
		if err := h.deny(r.Context(), d); err != nil {
			return err
		}
		return h.Pages.Render(w, r, http.StatusForbidden, &pages.Message{
			Title: "Not permitted", Text: "Your account may not use this application.",
		})
	}
	if !grant.Approved(r) {
		return h.decline(w, r, d)
	}
	q, err := h.consentRequest(r.Context(), d, c, user)
	if err != nil {
		return err
	}
	scopes, saved, err := h.Consents.Save(r, q)
	if err != nil {
		return err
	}
	if len(scopes) == 0 {
		return h.decline(w, r, d)
	}
	g := grant.New(h.Now(), c, saved, scopes)
	g.AuthTime = s.AuthTime
	g.Methods = s.Methods
	g.Resource = d.Resource
	return h.approve(w, r, d, g)
}

// decline refuses a device, as the user has asked.
func (h *Handler) decline(w http.ResponseWriter, r *http.Request, d *grant.Device) error {
	if err := h.deny(r.Context(), d); err != nil {
		return err
	}
	return h.Pages.Render(w, r, http.StatusOK, &pages.Message{
		Title: "Not connected", Text: "The device was not connected. You can close this page.",
	})
}

func (h *Handler) deny(ctx context.Context, d *grant.Device) error {
	err := h.DB.Write(ctx, func(tx *db.Tx) error {
		return grant.DecideDevice(tx, d.UserCode, grant.DeviceDenied, nil)
	})
	if errors.Is(err, db.ErrNoRows) {
		return errDecided
	}
	return err
}

func (h *Handler) approve(w http.ResponseWriter, r *http.Request, d *grant.Device, g *grant.Grant) error {
	err := h.DB.Write(r.Context(), func(tx *db.Tx) error {
		if err := grant.Insert(tx, g); err != nil {
			return err
		}
		return grant.DecideDevice(tx, d.UserCode, grant.DeviceApproved, &g.ID)
	})
	if errors.Is(err, db.ErrNoRows) {
		return errDecided
	}
	if err != nil {
		return err
	}
	return h.Pages.Render(w, r, http.StatusOK, &pages.Message{
		Title: "Your device is connected", Text: "You can close this page and continue on your device.",
	})
}

var errDecided = oauth.NewError(oauth.InvalidGrant, "this code was used already")
