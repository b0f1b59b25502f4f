package selfservice

import (
	"cmp"
	"context"
	"net/http"

	"steward/internal/db"
	"steward/internal/oidc/provider/browser"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/session"
	"steward/internal/oidc/provider/signin"
)

// Sessions is the section with the browsers that the user is signed in with.
type Sessions struct {
	*Page
	DB *db.DB
	// Frames returns the URLs that tell applications, when a browser loads them, that its session has
	// ended.
	Frames func(ctx context.Context, s *session.Session) ([]string, error)
}

func (s *Sessions) fill(v visit, view *pages.Account) error {
	list, err := s.Page.Sessions.List(v.Context(), v.user.ID)
	if err != nil {
		return err
	}
	const layout = "2 January 2006, 15:04"
	for _, one := range list {
		view.Sessions = append(view.Sessions, pages.Session{
			ID: one.ID, Address: one.RemoteAddr, Current: one.ID == v.session.ID,
			Agent: cmp.Or(browser.Name(one.UserAgent), one.UserAgent, "Unknown browser"),
			Since: one.CreatedAt.Std().Format(layout), Seen: one.LastSeenAt.Std().Format(layout),
		})
	}
	return nil
}

// End serves POST /account/sessions: it ends one of the user's sessions, maybe the current one.
func (s *Sessions) End(w http.ResponseWriter, v visit) error {
	if sessionID := v.PostForm.Get("session"); sessionID != v.session.ID {
		if err := s.Page.Sessions.Remove(v.Context(), v.user.ID, sessionID); err != nil {
			return err
		}
		return toAccount(w, v)
	}
	frames, err := s.Frames(v.Context(), v.session)
	if err != nil {
		return err
	}
	if err := s.Page.Sessions.End(v.Context(), w, v.session); err != nil {
		return err
	}
	return s.Pages.Render(w, v.Request, http.StatusOK, &pages.SignedOut{
		Title: "You are signed out", Text: "You can close this page.", Frames: frames,
	})
}

// SignOutEverywhere serves POST /account/sign-out. It ends all of the user's sessions, and the access
// that applications and devices have without one.
func (s *Sessions) SignOutEverywhere(w http.ResponseWriter, v visit) error {
	frames, err := s.Frames(v.Context(), v.session)
	if err != nil {
		return err
	}
	err = s.DB.Write(v.Context(), func(tx *db.Tx) error { return signin.SignOut(tx, v.user.ID, "", s.Now()) })
	if err != nil {
		return err
	}
	if err := s.Page.Sessions.End(v.Context(), w, nil); err != nil {
		return err
	}
	return s.Pages.Render(w, v.Request, http.StatusOK, &pages.SignedOut{
		Title:  "You are signed out everywhere",
		Text:   "Applications and devices must ask you to sign in again. You can close this page.",
		Frames: frames,
	})
}
