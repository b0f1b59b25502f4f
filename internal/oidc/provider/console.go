package provider

import (
	"context"
	"net/http"
	"strings"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/session"
	"steward/internal/web"
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

// entryPoints is the answer to programs that request GET /.
type entryPoints struct {
	Service string `json:"service"`
	OpenAPI string `json:"openapi"`
	Docs    string `json:"docs"`
	Console string `json:"console"`
	Account string `json:"account"`
}

// root serves GET /. It sends a browser to the console, which leads to the sign-in page, or tells the
// user how to set the installation up. It tells everybody else where the API is.
func (p *Provider) root(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Vary", "Accept")
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		pending, err := p.links.setup.Installation.Pending(r.Context())
		if err != nil {
			return err
		}
		if pending {
			return p.links.setup.ShowHint(w, r)
		}
		http.Redirect(w, r, oauth.PathConsole, http.StatusSeeOther)
		return nil
	}
	web.Write(w, r, http.StatusOK, entryPoints{
		Service: "Steward", OpenAPI: p.Issuer + "/openapi.json", Docs: p.Issuer + "/docs",
		Console: p.Issuer + oauth.PathConsole, Account: p.Issuer + oauth.PathAccount,
	})
	return nil
}
