package session

import (
	"context"
	"net/http"
	"time"

	"steward/internal/stamp"
)

// maxAuthAge is how long ago the authentication of a new session is at most: one that a provider
// remembers for longer counts as this old.
const maxAuthAge = 24 * time.Hour

// Origin is where a user has signed in, if that was at the provider of an organization.
type Origin struct {
	// OrgID is the organization, which is all that the session opens.
	OrgID string
	// AuthTime is when the user authenticated there, or 0 if that is not known.
	AuthTime stamp.Time
}

type originKey struct{}

// WithOrigin returns the request with the origin of the session that it starts.
func WithOrigin(r *http.Request, o Origin) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), originKey{}, o))
}

// setOrigin sets what a new session has of the origin of its request.
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

// Opens reports whether a session gives access to an organization, if the user is a member.
func (s *Session) Opens(orgID string) bool { return s.OrgID == "" || s.OrgID == orgID }
