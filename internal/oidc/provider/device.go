package provider

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/oidc"
	"steward/internal/stamp"
	"steward/internal/web"
)

// deviceState is where a device is on its way.
type deviceState string

// The states of a device code.
const (
	devicePending  deviceState = "pending"  // by the device; waits for a user
	deviceApproved deviceState = "approved" // by the user; waits to be fetched
	deviceDenied   deviceState = "denied"   // by the user
	deviceRedeemed deviceState = "redeemed" // by the device, once
)

const (
	deviceLife = 10 * time.Minute
	// devicePause is how long a device waits between two questions, in seconds; one that asks too soon is slowed down by as much again.
	devicePause = 5
	// userAlphabet has no vowels, so that no words come up, and nothing that looks like something else (RFC 8628 section 6.1).
	userAlphabet = "BCDFGHJKLMNPQRSTVWXZ"
	userCodeSize = 8
)

// device is a device that waits for a user.
type device struct {
	UserCode   string
	ClientID   string
	Scopes     []string
	State      deviceState
	GrantID    *string
	Pause      int64
	LastPolled *stamp.Time
	CreatedAt  stamp.Time
	ExpiresAt  stamp.Time
}

type deviceAnswer struct {
	DeviceCode      string `json:"device_code"`
	UserCode        string `json:"user_code"`
	VerificationURI string `json:"verification_uri"`
	Complete        string `json:"verification_uri_complete"`
	ExpiresIn       int64  `json:"expires_in"`
	Interval        int64  `json:"interval"`
}

// newDevice answers POST /device_authorization (RFC 8628).
func (p *Provider) newDevice(r *http.Request, c *client) (*deviceAnswer, error) {
	if !slices.Contains(c.GrantTypes, oidc.DeviceCode) {
		return nil, refuse("unauthorized_client", "this client may not use device codes")
	}
	asked, f := single(r.PostForm, "scope")
	if f != nil {
		return nil, f
	}
	scopes := allowedScopes(c, asked)
	if len(scopes) == 0 {
		return nil, refuse(invalidScope, "none of the scopes is allowed for this client")
	}
	if p.throttle.take(p.Now(), deviceLimits(web.Request(r.Context()).RemoteAddr)) > 0 {
		return nil, &fault{http.StatusTooManyRequests, "temporarily_unavailable", "too many devices at once"}
	}
	now := stamp.Of(p.Now())
	d := &device{ClientID: c.ID, Scopes: scopes, State: devicePending, Pause: devicePause, CreatedAt: now, ExpiresAt: now.Add(deviceLife)}
	code, err := p.saveDevice(r.Context(), d)
	return &deviceAnswer{
		DeviceCode: code, UserCode: shown(d.UserCode), VerificationURI: p.Issuer + pathDevice,
		Complete: p.Issuer + pathDevice + "?user_code=" + shown(d.UserCode), ExpiresIn: int64(deviceLife.Seconds()), Interval: devicePause,
	}, err
}

// saveDevice gives a device its codes. Two living user codes are never the same.
func (p *Provider) saveDevice(ctx context.Context, d *device) (code string, err error) {
	code = id.Secret(43)
	for range 5 {
		d.UserCode = newUserCode()
		var saved bool
		err = p.DB.Write(ctx, func(tx *db.Tx) (err error) {
			saved, err = insertDevice(tx, d, code)
			return err
		})
		if err != nil || saved {
			return code, err
		}
	}
	return "", errs.Busy(nil, "no user code is free")
}

func newUserCode() string {
	out := make([]byte, 0, userCodeSize)
	buf := make([]byte, 4*userCodeSize)
	for len(out) < userCodeSize {
		rand.Read(buf) // never fails (crypto/rand)
		for _, b := range buf {
			// 240 is the largest multiple of 20 in a byte: what lies above would make some letters likelier.
			if b < 240 && len(out) < userCodeSize {
				out = append(out, userAlphabet[int(b)%len(userAlphabet)])
			}
		}
	}
	return string(out)
}

// shown is a user code as people read it: WDJB-MJHT.
func shown(code string) string { return code[:userCodeSize/2] + "-" + code[userCodeSize/2:] }

// typed is a user code as people type it, without what they add.
func typed(text string) string {
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune(userAlphabet, c) {
			return c
		}
		return -1
	}, strings.ToUpper(text[:min(len(text), 64)]))
}

// devicePage answers GET /device: the user types the code, or comes with it in the address, and then decides.
func (p *Provider) devicePage(w http.ResponseWriter, r *http.Request) error {
	given := r.URL.Query().Get("user_code")
	if given == "" {
		return p.render(w, r, http.StatusOK, "device", &page{}, nil)
	}
	s, user, err := p.signedInUser(r)
	if err != nil {
		return err
	}
	if s == nil {
		next := pathDevice + "?" + url.Values{"user_code": {given[:min(len(given), 64)]}}.Encode()
		return p.showSignIn(w, r, &flow{Next: next, Until: stamp.Of(p.Now()).Add(flowLife)}, signInView{})
	}
	d, c, err := p.waiting(r, typed(given))
	if err != nil {
		return p.deviceFault(w, r, err)
	}
	agreed, err := p.Clients.Consent(r.Context(), c.ID, user.ID)
	if err != nil {
		return err
	}
	v := consentView{Action: pathDevice, UserCode: shown(d.UserCode), Device: true}
	return p.showConsent(w, r, v, c, user, askFor(d.Scopes, agreed, false))
}

// waiting gives the pending device of a user code, with its client. Wrong codes are counted, so that they cannot be guessed.
func (p *Provider) waiting(r *http.Request, userCode string) (*device, *client, error) {
	limits := codeLimits(web.Request(r.Context()).RemoteAddr)
	if wait := p.throttle.take(p.Now(), limits); wait > 0 {
		return nil, nil, &fault{http.StatusTooManyRequests, accessDenied, "Too many codes were tried. Wait a minute, then try again."}
	}
	d, err := deviceByUserCode(p.DB.Read(r.Context()), userCode, stamp.Of(p.Now()))
	if isNoRows(err) || err == nil && d.State != devicePending {
		return nil, nil, refuse(invalidGrant, "This code is not known, or has expired. Check the code on your device.")
	}
	if err != nil {
		return nil, nil, err
	}
	p.throttle.giveBack(limits)
	c, err := p.asking(r.Context(), url.Values{"client_id": {d.ClientID}})
	return d, c, err
}

// deviceFault shows the form again with what was wrong.
func (p *Provider) deviceFault(w http.ResponseWriter, r *http.Request, err error) error {
	f := asFault(r, err)
	if f.code != invalidGrant && f.status != http.StatusTooManyRequests {
		return f
	}
	return p.render(w, r, f.status, "device", &page{Problem: f.text}, nil)
}

// deviceDecide answers POST /device: the user approved or denied.
func (p *Provider) deviceDecide(w http.ResponseWriter, r *http.Request) error {
	s, user, err := p.signedInUser(r)
	if err != nil {
		return err
	}
	if s == nil {
		return refuse(invalidRequest, errFlow.Error())
	}
	d, c, err := p.waiting(r, typed(r.PostForm.Get("user_code")))
	if err != nil {
		return p.deviceFault(w, r, err)
	}
	admitted, err := p.Clients.Admits(r.Context(), c, user.ID)
	if err != nil {
		return err
	}
	if !admitted || r.PostForm.Get("action") != "approve" {
		return p.deny(w, r, d, admitted)
	}
	scopes, agreed, err := p.saveConsent(r, c, user.ID, d.Scopes, false)
	if err != nil {
		return err
	}
	if len(scopes) == 0 {
		return p.deny(w, r, d, true)
	}
	g := newGrant(p.Now())
	g.OrgID, g.ClientID, g.UserID, g.Scopes, g.AuthTime = c.OrgID, c.ID, user.ID, scopes, s.AuthTime
	g.ClientEpoch, g.ConsentEpoch = agreed.ClientEpoch, agreed.Epoch
	return p.decided(w, r, d, g)
}

func (p *Provider) deny(w http.ResponseWriter, r *http.Request, d *device, admitted bool) error {
	err := p.DB.Write(r.Context(), func(tx *db.Tx) error { return decideDevice(tx, d.UserCode, deviceDenied, nil) })
	if err != nil {
		return err
	}
	if !admitted {
		return p.say(w, r, http.StatusForbidden, "Not permitted", "Your account may not use this application.")
	}
	return p.say(w, r, http.StatusOK, "Not connected", "You did not connect the device. You can close this page.")
}

func (p *Provider) decided(w http.ResponseWriter, r *http.Request, d *device, g *grant) error {
	err := p.DB.Write(r.Context(), func(tx *db.Tx) error {
		if err := insertGrant(tx, g); err != nil {
			return err
		}
		return decideDevice(tx, d.UserCode, deviceApproved, &g.ID)
	})
	if isNoRows(err) {
		return refuse(invalidGrant, "this code was used already")
	}
	if err != nil {
		return err
	}
	return p.say(w, r, http.StatusOK, "Your device is connected", "You can close this page and go on with your device.")
}

// redeemDevice answers a device that asks whether its user has decided.
func (p *Provider) redeemDevice(r *http.Request, c *client, jkt string) (*tokenAnswer, error) {
	code, f := single(r.PostForm, "device_code")
	if f != nil {
		return nil, f
	}
	if code == "" {
		return nil, refuse(invalidRequest, "device_code is missing")
	}
	var g *grant
	var refused error
	err := p.DB.Write(r.Context(), func(tx *db.Tx) (err error) {
		g, refused, err = p.poll(tx, c, code, jkt)
		return err
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return nil, err
	}
	return p.answerLive(r.Context(), c, g, jkt)
}

// poll decides what a device hears. An approved code is redeemed here, once.
func (p *Provider) poll(tx *db.Tx, c *client, code, jkt string) (g *grant, refused, err error) {
	now := stamp.Of(p.Now())
	d, err := deviceByCode(tx, code)
	switch {
	case isNoRows(err) || err == nil && d.ClientID != c.ID:
		return nil, badGrant(), nil
	case err != nil:
		return nil, nil, err
	case d.ExpiresAt <= now:
		return nil, refuse("expired_token", "the device code has expired"), nil
	case d.State == deviceDenied:
		return nil, refuse(accessDenied, "the user declined"), nil
	case d.State == deviceRedeemed:
		return nil, badGrant(), revokeGrant(tx, *d.GrantID, now)
	case d.State == devicePending:
		return nil, d.pending(now), pollDevice(tx, code, d)
	}
	if g, err = grantByID(tx, *d.GrantID); err != nil {
		return nil, nil, err
	}
	if err := redeemDevice(tx, code); err != nil {
		return nil, nil, err
	}
	err = p.redeem(tx, c, g, jkt, &refused)
	return g, refused, err
}

// pending notes the question and tells whether it came too soon.
func (d *device) pending(now stamp.Time) error {
	tooSoon := d.LastPolled != nil && now.Sub(*d.LastPolled) < time.Duration(d.Pause)*time.Second
	d.LastPolled = &now
	if tooSoon {
		d.Pause += devicePause
		return refuse("slow_down", "ask less often")
	}
	return refuse("authorization_pending", "the user has not decided yet")
}
