package provider

import (
	"context"
	"net/http"
)

// RequireSignIn returns the handler for a console page that requires a signed-in user. It calls next
// with the id of the browser's session. Everybody else sees the sign-in page first and continues with
// the same request. If the request asks for a recent sign-in, so do users who signed in long ago.
func (p *Provider) RequireSignIn(next func(w http.ResponseWriter, r *http.Request, sessionID string)) http.Handler {
	return p.pages.Page(func(w http.ResponseWriter, r *http.Request) error {
		s, user, err := p.sessions.SignedIn(r)
		if err != nil {
			return err
		}
		if s == nil {
			return p.signin.ShowSignIn(w, r, p.signin.Flows.ToPath(r.URL.RequestURI()), "")
		}
		if r.URL.Query().Has("recent") && !s.Recent(p.Now()) {
			f := p.signin.Flows.ToPath(r.URL.RequestURI())
			f.Again = true
			return p.signin.ShowSignIn(w, r, f, user.Email)
		}
		next(w, r, s.ID)
		return nil
	})
}

// SessionUser returns a session's user, or "" if the session has ended. recent reports whether the user
// has signed in recently.
func (p *Provider) SessionUser(ctx context.Context, sessionID string) (userID string, recent bool, err error) {
	s, err := p.sessions.Use(ctx, sessionID)
	if err != nil || s == nil {
		return "", false, err
	}
	return s.UserID, s.Recent(p.Now()), nil
}

// SessionOrg returns the only organization that a session opens, or "" if it opens all of its user's.
func (p *Provider) SessionOrg(ctx context.Context, sessionID string) (orgID string, err error) {
	s, err := p.sessions.Use(ctx, sessionID)
	if err != nil || s == nil {
		return "", err
	}
	return s.OrgID, nil
}

// SignOut ends a browser's session and deletes its cookie.
func (p *Provider) SignOut(w http.ResponseWriter, r *http.Request, sessionID string) error {
	s, err := p.sessions.Use(r.Context(), sessionID)
	if err != nil {
		return err
	}
	return p.sessions.End(r.Context(), w, s)
}
