package logout

import (
	"context"
	"net/http"
	"net/url"

	"steward/internal/errs"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/session"
)

const (
	// maxFrames bounds how many applications a browser tells.
	maxFrames = 20
	// maxClients bounds how many of a session's clients we look at.
	maxClients = 200
	// frameTime is how many seconds a browser has to tell applications before it goes on.
	frameTime = "3"
)

// FrontChannel tells applications, through the browser, that its user has signed out (OpenID Connect
// Front-Channel Logout 1.0).
type FrontChannel struct {
	Issuer   string
	Clients  *oidc.Store
	Sessions *session.Manager
}

// Frames returns the URLs for a browser to load when s ends: the front-channel logout URIs of the clients
// that got an ID token in it. The session may be nil.
func (f *FrontChannel) Frames(ctx context.Context, s *session.Session) (frames []string, err error) {
	if s == nil {
		return nil, nil
	}
	ids, err := f.Sessions.Clients(ctx, s.ID, maxClients)
	if err != nil {
		return nil, err
	}
	for _, clientID := range ids {
		c, err := f.Clients.Lookup(ctx, clientID)
		if errs.KindOf(err) == errs.NotFound || err == nil && c.FrontchannelLogoutURI == nil {
			continue
		}
		if err != nil {
			return nil, err
		}
		frame, err := oauth.AddQuery(*c.FrontchannelLogoutURI, url.Values{"iss": {f.Issuer}, "sid": {s.ID}})
		if err != nil {
			return nil, err
		}
		frames = append(frames, frame)
		if len(frames) == maxFrames {
			break
		}
	}
	return frames, nil
}

// goOn sends the browser to client c's URI after a sign-out: at once, or after a pause to load the
// frames.
func (h *Handler) goOn(w http.ResponseWriter, r *http.Request, c *oidc.Registered, page *pages.SignedOut) error {
	location := string(page.Next)
	if len(page.Frames) == 0 {
		http.Redirect(w, r, location, http.StatusSeeOther)
		return nil
	}
	w.Header().Set("Refresh", frameTime+"; url="+location)
	page.Text = "You return to " + c.Name + " in a few seconds."
	page.NextText = c.Name
	return h.Pages.Render(w, r, http.StatusOK, page)
}
