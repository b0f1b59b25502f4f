// Package session owns signed-in users' sessions: a row in the database and a cookie in the browser. It
// tells the clients that got an ID token in a session when the session ends (OpenID Connect
// Back-Channel Logout 1.0).
//
// AddClient adds a client with a logout URI to a session, in the transaction that redeems the client's
// code. The transaction that ends the session makes its logouts due, so that none is lost if the process
// dies afterwards. On each replica a LogoutWorker leases due logouts, sends their tokens, and deletes the
// ones that clients accept. We make a new token for each attempt, since it is valid for two minutes.
package session

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/seal"
	"steward/internal/stamp"
	"steward/internal/web"
)

const (
	// IdleTimeout is the default time after which an unused session ends.
	IdleTimeout = 7 * 24 * time.Hour
	// MaxAge is the default time after which a session ends even if used.
	MaxAge = 30 * 24 * time.Hour
	// maxTouchInterval keeps a busy browser from causing a write with every request.
	maxTouchInterval = 10 * time.Minute
	// recent is the maximum age of a sign-in that still counts as recent.
	recent = 10 * time.Minute

	// CookieName names the cookie that holds the session's token.
	CookieName = "steward_session"

	prefix       = "ses"
	maxUserAgent = 256
)

// Session is a browser where a user is signed in. Its ID is the sid in ID tokens and no secret; only
// the cookie has its token.
type Session struct {
	ID       string
	UserID   string
	AuthTime stamp.Time
	Methods  oauth.Methods
	// OrgID is the only organization that the session opens, or "" if it opens all of the user's.
	OrgID      string
	UserAgent  string
	RemoteAddr string
	CreatedAt  stamp.Time
	LastSeenAt stamp.Time
	ExpiresAt  stamp.Time
}

// Recent reports whether the user has signed in within the last ten minutes.
func (s *Session) Recent(now time.Time) bool { return stamp.Of(now).Sub(s.AuthTime) <= recent }

// Manager starts, finds and ends sessions.
type Manager struct {
	DB      *db.DB
	Now     func() time.Time
	Cookies pages.Cookies
	// IdleTimeout ends unused sessions. MaxAge ends all sessions, counted from the sign-in. A change
	// applies to existing sessions too.
	IdleTimeout, MaxAge time.Duration
	Accounts            *account.Store

	cache    db.Cache[string, *Session] // by id
	required db.Cache[string, string]   // level by user id
}

// Forget empties the session cache. Call it when a session has ended.
func (m *Manager) Forget() { m.cache.Forget() }

// Current returns the session in the request's browser, or nil. A session below the level that its user
// must reach does not count, so that the user signs in again.
func (m *Manager) Current(r *http.Request) (*Session, error) {
	s, err := m.current(r)
	if err != nil || s == nil {
		return nil, err
	}
	return m.sufficient(r.Context(), s)
}

// current returns the session in the request's browser, whatever its level, or nil.
func (m *Manager) current(r *http.Request) (*Session, error) {
	token, ok := m.Cookies.Get(r, CookieName)
	if !ok {
		return nil, nil
	}
	now := stamp.Of(m.Now())
	s, err := m.find(r.Context(), "token_hash", seal.Hash(token), now)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := m.seen(r.Context(), s, now); err != nil {
		return nil, err
	}
	return s, nil
}

func (m *Manager) touch(s *Session, now stamp.Time) {
	s.LastSeenAt = now
	s.ExpiresAt = min(now.Add(m.IdleTimeout), s.AuthTime.Add(m.MaxAge))
}

// touchInterval is the pause between two writes that say a session is in use. It is short enough that a
// session in use cannot expire.
func (m *Manager) touchInterval() time.Duration { return min(maxTouchInterval, m.IdleTimeout/4) }

// seen notes that a session is in use, and stores that from time to time.
func (m *Manager) seen(ctx context.Context, s *Session, now stamp.Time) error {
	if now.Sub(s.LastSeenAt) < m.touchInterval() {
		return nil
	}
	m.touch(s, now)
	return m.DB.Write(ctx, func(tx *db.Tx) error {
		if _, err := tx.Exec(`UPDATE oidc_sessions SET last_seen_at = $2, expires_at = $3 WHERE id = $1`,
			s.ID, s.LastSeenAt, s.ExpiresAt); err != nil {
			return fmt.Errorf("update session: %w", err)
		}
		return nil
	})
}

// Use returns a session, from memory if possible, and notes that it is in use. It returns nil if the
// session has ended.
func (m *Manager) Use(ctx context.Context, sessionID string) (*Session, error) {
	now := stamp.Of(m.Now())
	s, err := m.cache.GetWithin(m.touchInterval(), sessionID, func() (*Session, error) {
		s, err := m.find(ctx, "id", sessionID, now)
		if err != nil {
			return nil, err
		}
		return s, m.seen(ctx, s, now)
	})
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if s.ExpiresAt <= now {
		return nil, nil
	}
	return m.sufficient(ctx, s)
}

// SignedIn returns the session in the request's browser with its user, or nil for both.
func (m *Manager) SignedIn(r *http.Request) (*Session, *account.User, error) {
	s, err := m.Current(r)
	if err != nil || s == nil {
		return nil, nil, err
	}
	user, err := m.Accounts.UserByID(r.Context(), s.UserID)
	if errs.KindOf(err) == errs.NotFound {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return s, &user, nil
}

// Start starts a session for a user who has signed in with methods. It calls authenticated in the
// session's transaction, with the browser's previous session or nil, and authenticated returns the
// user, whom it may create there. If it returns no user, Start commits its writes, starts no session
// and returns nil.
//
// A user who signs in again keeps the session, with a new token, so that grants which depend on it stay
// valid. Another user's session in the same browser ends.
func (m *Manager) Start(
	w http.ResponseWriter, r *http.Request, methods oauth.Methods,
	authenticated func(tx *db.Tx, previous *Session) (userID string, err error),
) (*Session, error) {
	previous, err := m.current(r)
	if err != nil {
		return nil, err
	}
	var s *Session
	token := id.Secret(43)
	err = m.DB.Write(r.Context(), func(tx *db.Tx) error {
		s = nil
		userID, err := authenticated(tx, previous)
		if err != nil || userID == "" {
			return err
		}
		s = m.newSession(r, userID)
		s.Methods = methods
		return save(tx, s, previous, token)
	})
	if err != nil || s == nil {
		return nil, err
	}
	m.Cookies.Set(w, CookieName, token, int(m.MaxAge.Seconds()))
	return s, nil
}

func (m *Manager) newSession(r *http.Request, userID string) *Session {
	now := stamp.Of(m.Now())
	s := &Session{
		ID: id.At(prefix, m.Now()), UserID: userID, AuthTime: now, CreatedAt: now,
		UserAgent: userAgent(r), RemoteAddr: web.Request(r.Context()).RemoteAddr,
	}
	s.setOrigin(r)
	m.touch(s, now)
	return s
}

// save stores a session in place of its browser's previous one, which may be nil. If that belongs to
// the same user and has not ended, it continues as s.
func save(tx *db.Tx, s, previous *Session, token string) error {
	if previous == nil {
		return insert(tx, s, token)
	}
	if previous.UserID != s.UserID {
		if err := remove(tx, previous.UserID, previous.ID); err != nil {
			return err
		}
		return insert(tx, s, token)
	}
	again := *s
	again.ID = previous.ID
	again.CreatedAt = previous.CreatedAt
	renewed, err := renew(tx, &again, token)
	if err != nil {
		return err
	}
	if !renewed {
		return insert(tx, s, token)
	}
	*s = again
	return nil
}

// End ends the browser's session, which may be nil, and deletes its cookie.
func (m *Manager) End(ctx context.Context, w http.ResponseWriter, s *Session) error {
	m.Cookies.Set(w, CookieName, "", -1)
	if s == nil {
		return nil
	}
	return m.Remove(ctx, s.UserID, s.ID)
}

// Remove ends a user's session, if there is one.
func (m *Manager) Remove(ctx context.Context, userID, sessionID string) error {
	return m.DB.Write(ctx, func(tx *db.Tx) error { return remove(tx, userID, sessionID) })
}

// userAgent returns the User-Agent header as text that the database accepts.
func userAgent(r *http.Request) string {
	agent := strings.ToValidUTF8(r.UserAgent(), "")
	return strings.ReplaceAll(agent[:min(len(agent), maxUserAgent)], "\x00", "")
}

// ForgetLevels empties the cache for the levels that users must reach. Call it when memberships or
// organizations' requirements change.
func (m *Manager) ForgetLevels() { m.required.Forget() }

// sufficient returns a session if it reaches the level its user must have, and nil otherwise.
func (m *Manager) sufficient(ctx context.Context, s *Session) (*Session, error) {
	level, err := m.required.Get(s.UserID, func() (string, error) { return m.Accounts.RequiredLevel(m.DB.Read(ctx), s.UserID) })
	if err != nil || !s.Methods.Reach(level) {
		return nil, err
	}
	return s, nil
}

// maxAuthAge caps a new session's authentication age. If a provider remembers an older authentication,
// we count it as this old.
const maxAuthAge = 24 * time.Hour

// Origin says where a user has signed in, if that was at an organization's provider.
type Origin struct {
	// OrgID is the organization, and the session opens nothing else.
	OrgID string
	// AuthTime is the time of the authentication there, or 0 if unknown.
	AuthTime stamp.Time
}

type originKey struct{}

// WithOrigin returns the request with an origin for the session that it starts.
func WithOrigin(r *http.Request, o Origin) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), originKey{}, o))
}

// setOrigin copies the request's origin into a new session.
func (s *Session) setOrigin(r *http.Request) {
	o, ok := r.Context().Value(originKey{}).(Origin)
	if !ok || o.OrgID == "" {
		return
	}
	s.OrgID = o.OrgID
	if o.AuthTime > 0 {
		s.AuthTime = min(s.AuthTime, max(o.AuthTime, s.AuthTime.Add(-maxAuthAge)))
	}
}

// Opens reports whether a session gives its user access to an organization, provided the user is a
// member.
func (s *Session) Opens(orgID string) bool { return s.OrgID == "" || s.OrgID == orgID }
