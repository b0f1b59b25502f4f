package selfservice

import (
	"net/http"
	"strings"

	"steward/internal/db"
	"steward/internal/oidc/provider/pages"
	"steward/internal/oidc/provider/signin"
)

const actionProfile = "user.update"

// Names is what users say about themselves. Fields may be empty.
type Names struct {
	FirstName, LastName, PhotoURL string
}

// Profile is the section with what users say about themselves.
type Profile struct {
	*Page
	DB    *db.DB
	Users signin.Directory
	// Problem returns what is wrong with names, as a sentence, or "".
	Problem func(Names) string
	Set     func(tx *db.Tx, userID string, n Names) error
}

func (s *Profile) fill(v visit, view *pages.Account) error {
	view.FirstName = v.user.FirstName
	view.LastName = v.user.LastName
	view.PhotoURL = v.user.PhotoURL
	return nil
}

// Change serves POST /account/profile.
func (s *Profile) Change(w http.ResponseWriter, v visit) error {
	n := Names{
		FirstName: strings.TrimSpace(v.PostForm.Get("first_name")),
		LastName:  strings.TrimSpace(v.PostForm.Get("last_name")),
		PhotoURL:  strings.TrimSpace(v.PostForm.Get("photo_url")),
	}
	if problem := s.Problem(n); problem != "" {
		return s.showProblem(w, v, http.StatusBadRequest, problem)
	}
	err := s.DB.Write(v.Context(), func(tx *db.Tx) error {
		if err := s.Set(tx, v.user.ID, n); err != nil {
			return err
		}
		return s.Users.Audit(tx, actionProfile, v.user.ID, v.user.ID)
	})
	if err != nil {
		return err
	}
	return toAccount(w, v)
}
