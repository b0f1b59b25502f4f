package provider

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/stamp"
	"steward/internal/web"
)

const (
	// A sign-in ends when it is not used for idleLife, and at the latest after sessionLife.
	sessionLife = 30 * 24 * time.Hour
	idleLife    = 7 * 24 * time.Hour
	// touchAfter keeps a busy browser from writing with every request.
	touchAfter = 10 * time.Minute
)

// session is a browser in which a user is signed in. Its id may be shown and is the `sid` of ID tokens; its token is in the cookie alone.
type session struct {
	ID         string
	UserID     string
	AuthTime   stamp.Time
	UserAgent  string
	RemoteAddr string
	CreatedAt  stamp.Time
	LastSeenAt stamp.Time
	ExpiresAt  stamp.Time
}

func (s *session) seen(now stamp.Time) {
	s.LastSeenAt = now
	s.ExpiresAt = min(now.Add(idleLife), s.AuthTime.Add(sessionLife))
}

// session gives the sign-in of the request's browser, or nil.
func (p *Provider) session(r *http.Request) (*session, error) {
	cookie, err := r.Cookie(p.cookieName(sessionCookie))
	if err != nil {
		return nil, nil
	}
	now := stamp.Of(p.Now())
	s, err := sessionByToken(p.DB.Read(r.Context()), cookie.Value, now)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	if err != nil || now.Sub(s.LastSeenAt) < touchAfter {
		return s, err
	}
	s.seen(now)
	return s, p.DB.Write(r.Context(), func(tx *db.Tx) error { return touchSession(tx, s) })
}

// signedIn begins a session for a user who has just proved who they are. The same user signing in again keeps the session, with a new
// token, so that what hangs on it goes on; somebody else's session in this browser ends.
func (p *Provider) signedIn(w http.ResponseWriter, r *http.Request, userID string) (*session, error) {
	before, err := p.session(r)
	if err != nil {
		return nil, err
	}
	now := stamp.Of(p.Now())
	s := &session{ID: id.At("ses", p.Now()), UserID: userID, CreatedAt: now}
	if before != nil && before.UserID == userID {
		s.ID, s.CreatedAt = before.ID, before.CreatedAt
	}
	s.AuthTime, s.UserAgent, s.RemoteAddr = now, shortAgent(r), web.Request(r.Context()).RemoteAddr
	s.seen(now)
	token := id.Secret(43)
	if err := p.DB.Write(r.Context(), func(tx *db.Tx) error { return saveSession(tx, s, before, token) }); err != nil {
		return nil, err
	}
	p.setCookie(w, sessionCookie, token, int(sessionLife.Seconds()))
	return s, nil
}

func saveSession(tx *db.Tx, s, before *session, token string) error {
	if before != nil && before.ID == s.ID {
		renewed, err := renewSession(tx, s, token)
		if renewed || err != nil {
			return err
		}
	} else if before != nil {
		if err := endSession(tx, before.UserID, before.ID); err != nil {
			return err
		}
	}
	return insertSession(tx, s, token)
}

// signOut ends the browser's session.
func (p *Provider) signOut(ctx context.Context, w http.ResponseWriter, s *session) error {
	p.setCookie(w, sessionCookie, "", -1)
	if s == nil {
		return nil
	}
	return p.DB.Write(ctx, func(tx *db.Tx) error { return endSession(tx, s.UserID, s.ID) })
}

// shortAgent is what the list of sessions tells browsers apart by.
func shortAgent(r *http.Request) string {
	agent := strings.ToValidUTF8(r.UserAgent(), "")
	return strings.ReplaceAll(agent[:min(len(agent), 256)], "\x00", "")
}

// The cookies of this package.
const (
	sessionCookie = "steward_session"
	csrfCookie    = "steward_csrf"
)

// cookieName binds a cookie to this very host where the browser can (https); plain http is for loopback.
func (p *Provider) cookieName(name string) string {
	if p.secure() {
		return "__Host-" + name
	}
	return name
}

func (p *Provider) secure() bool { return strings.HasPrefix(p.Issuer, "https://") }

func (p *Provider) setCookie(w http.ResponseWriter, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: p.cookieName(name), Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, Secure: p.secure(), SameSite: http.SameSiteLaxMode,
	})
}
