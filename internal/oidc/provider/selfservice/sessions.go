package selfservice

import (
	"cmp"
	"net/http"

	"steward/internal/db"
	"steward/internal/oidc/provider/logout"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/signin"
)

// Sessions is the section with the browsers in which a user is signed in.
type Sessions struct {
	*Page
	DB           *db.DB
	FrontChannel *logout.FrontChannel
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
			Agent: cmp.Or(pages.BrowserName(one.UserAgent), one.UserAgent, "Unknown browser"),
			Since: one.CreatedAt.Std().Format(layout), Seen: one.LastSeenAt.Std().Format(layout),
		})
	}
	return nil
}

// End serves POST /account/sessions: it ends one of the user's sessions, which may be the current one.
func (s *Sessions) End(w http.ResponseWriter, v visit) error {
	if sessionID := v.PostForm.Get("session"); sessionID != v.session.ID {
		if err := s.Page.Sessions.Remove(v.Context(), v.user.ID, sessionID); err != nil {
			return err
		}
		return toAccount(w, v)
	}
	frames, err := s.FrontChannel.Frames(v.Context(), v.session)
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

// SignOutEverywhere serves POST /account/sign-out: it ends all of the user's sessions, and the access
// of applications and devices without a session.
func (s *Sessions) SignOutEverywhere(w http.ResponseWriter, v visit) error {
	frames, err := s.FrontChannel.Frames(v.Context(), v.session)
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
