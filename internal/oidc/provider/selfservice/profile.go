package selfservice

import (
	"net/http"
	"strings"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/oidc/provider/pages"
)

const actionProfile = "user.update"

// Profile is the section with the user's name and photo.
type Profile struct {
	*Page
	DB       *db.DB
	Accounts *account.Store
}

func (s *Profile) fill(v visit, view *pages.Account) error {
	view.FirstName = v.user.FirstName
	view.LastName = v.user.LastName
	view.PhotoURL = v.user.PhotoURL
	return nil
}

// Change serves POST /account/profile.
func (s *Profile) Change(w http.ResponseWriter, v visit) error {
	p := account.UserProfile{
		FirstName: strings.TrimSpace(v.PostForm.Get("first_name")),
		LastName:  strings.TrimSpace(v.PostForm.Get("last_name")),
		PhotoURL:  strings.TrimSpace(v.PostForm.Get("photo_url")),
	}
	if problem := p.Problem(); problem != "" {
		return s.showProblem(w, v, http.StatusBadRequest, problem)
	}
	err := s.DB.Write(v.Context(), func(tx *db.Tx) error {
		if err := s.Accounts.SetProfile(tx, v.user.ID, p); err != nil {
			return err
		}
		return s.Accounts.Audit.RecordUser(tx, actionProfile, v.user.ID, v.user.ID)
	})
	if err != nil {
		return err
	}
	return toAccount(w, v)
}
