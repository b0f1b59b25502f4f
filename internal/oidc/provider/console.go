package provider

import (
	"context"
	"net/http"

	"steward/internal/oidc/provider/session"
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

// Session returns a session, or nil if it has ended. Its use keeps it alive.
func (p *Provider) Session(ctx context.Context, sessionID string) (*session.Session, error) {
	return p.sessions.Use(ctx, sessionID)
}

// SignOut ends a browser's session and deletes its cookie.
func (p *Provider) SignOut(w http.ResponseWriter, r *http.Request, sessionID string) error {
	s, err := p.sessions.Use(r.Context(), sessionID)
	if err != nil {
		return err
	}
	return p.sessions.End(r.Context(), w, s)
}
