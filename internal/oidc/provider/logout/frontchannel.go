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
	// maxFrames caps the applications that a browser tells.
	maxFrames = 20
	// maxClients caps the clients in a session that we look at.
	maxClients = 200
	// frameTime is the time in seconds that a browser has to tell applications before it goes on.
	frameTime = "3"
)

// FrontChannel tells applications in the browser that its user has signed out (OpenID Connect
// Front-Channel Logout 1.0).
type FrontChannel struct {
	Issuer   string
	Clients  *oidc.Store
	Sessions *session.Manager
}

// Frames returns the URLs that a browser must load when its session ends: the front-channel logout URIs
// of clients that got an ID token in it. The session may be nil.
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

// goOn sends the browser to client c's URI after a sign-out: at once, or after it has had time to load
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
