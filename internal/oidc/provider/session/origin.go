package session

import (
	"context"
	"net/http"
	"time"

	"steward/internal/stamp"
)

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
