package selfservice_test

import (
	"net/http"
	"strings"
	"testing"

	"steward/internal/oidc/provider/providertest"
)

func TestUsersChangeTheirProfile(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		other := f.NewUser("other@example.com", "another password")
		b := f.Browser().SignInAs(providertest.OwnerEmail, providertest.OwnerPassword)
		b.Post("/account/profile", "first_name", "Ada", "photo_url", "http://a.example/p.png").
			Want(http.StatusBadRequest)
		b.Post("/account/profile", "first_name", "A\u202eda").Want(http.StatusBadRequest)
		b.Post("/account/profile", "first_name", " Ada ", "last_name", "Lovelace", "photo_url", "https://a.example/p.png").
			Want(http.StatusSeeOther)
		user, err := f.Accounts.UserByID(t.Context(), f.UserID)
		providertest.Must(t, err)
		if user.FirstName != "Ada" || user.LastName != "Lovelace" || user.PhotoURL != "https://a.example/p.png" {
			t.Errorf("got %+v", user)
		}
		if got := b.Get(f.URL + "/account"); !strings.Contains(got.Body, `value="Lovelace"`) {
			t.Errorf("got %s", got.Body)
		}
		b.Post("/account/profile", "first_name", "Ada").Want(http.StatusSeeOther)
		user, err = f.Accounts.UserByID(t.Context(), f.UserID)
		providertest.Must(t, err)
		if user.LastName != "" || user.PhotoURL != "" {
			t.Errorf("got %+v", user)
		}
		if user, err = f.Accounts.UserByID(t.Context(), other); err != nil || user.FirstName != "" {
			t.Errorf("another user is %+v, %v", user, err)
		}
		entries := f.Entries()
		if e := entries[len(entries)-1]; e.Action != "user.update" || *e.UserID != f.UserID {
			t.Errorf("the audit log has %+v", e)
		}
	})
}
