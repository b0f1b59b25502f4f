package selfservice_test

import (
	"net/http"
	"strings"
	"testing"

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
}
