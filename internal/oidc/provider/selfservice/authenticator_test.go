package selfservice_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/oidc/provider/providertest"
)

func TestRemovingTheAppNeedsPasswordOrCode(t *testing.T) {
	f := providertest.OnSQLite(t)
	b := f.Browser()
	b.EnterPassword()
	app := b.AddApp()
	_, _, values := b.Get(f.URL + "/account").Form()
	remove := func(proof string) *providertest.Response {
		values.Set("proof", proof)
		return b.Do("POST", f.URL+"/account/authenticator/remove", values)
	}
	for _, wrong := range []string{"", "wrong", app.Wrong()} {
		if got := remove(wrong).Want(http.StatusBadRequest); !strings.Contains(got.Body, "Remove the app") {
			t.Errorf("%q has removed the app", wrong)
		}
	}
	for _, proof := range []string{providertest.OwnerPassword, ""} {
		if proof == "" {
			proof = b.AddApp().Code()
		}
		if got := remove(proof).Want(http.StatusOK); !strings.Contains(got.Body, "was removed") {
			t.Errorf("the app was not removed: %s", got.Body)
		}
	}
	other := f.Browser()
	if other.EnterPassword(); !other.SignedIn() {
		t.Error("a code is asked for without an app")
	}
	// A code alone is not enough at a browser that was left open.
	app = b.AddApp()
	f.Clock.Add(11 * time.Minute)
	remove(app.Code()).Want(http.StatusForbidden)
	b.Post("/account/recovery-codes", "proof", app.Code()).Want(http.StatusForbidden)
}

// TestUserOfAProviderIsShownNoFormsThatAreRefused has a user without an address open the pages on which others add
// ways to sign in, with a session of the provider and with another.
func TestUserOfAProviderIsShownNoFormsThatAreRefused(t *testing.T) {
	f := providertest.OnSQLite(t)
	f.UseLocalhost()
	s := f.NewStranger()
	u := f.NewUpstream(s.Welcoming())
	b := f.Browser()
	userID := b.WantIn(s.Enter(b, u))
	for _, path := range []string{"/account/authenticator", "/account/passkeys", "/account/email/x"} {
		b.Get(f.URL + path).Want(http.StatusForbidden)
	}
	wantNeeds := func(want bool) {
		t.Helper()
		providertest.Must(t, f.DB.Write(t.Context(), func(tx *db.Tx) error {
			for id, want := range map[string]bool{userID: want, f.UserID: false} {
				if got, err := f.Provider.NeedsProvider(tx, id); err != nil || got != want {
					t.Errorf("%s needs the provider: %t, %v", id, got, err)
				}
			}
			return nil
		}))
	}
	wantNeeds(true)
	providertest.Must(t, f.DB.Write(t.Context(), func(tx *db.Tx) error { // as one who has signed in without the provider
		_, err := tx.Exec(`UPDATE oidc_sessions SET org_id = '' WHERE user_id = $1`, userID)
		return err
	}))
	b.AddApp()
	b.AddPasskey(b.Get(f.URL+"/account/passkeys"), f.NewAuthenticator()).Want(http.StatusOK)
	wantNeeds(false)
}
