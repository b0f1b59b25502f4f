package provider_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"steward/internal/oidc/provider/providertest"
)

// TestSignInIsRecentForTenMinutes checks what the console asks of a session.
func TestSignInIsRecentForTenMinutes(t *testing.T) {
	f := providertest.OnSQLite(t)
	b := f.Browser()
	b.SignIn(b.Get(f.URL + "/account"))
	at, err := url.Parse(f.URL)
	providertest.Must(t, err)
	var sessionID string
	page := f.Provider.RequireSignIn(func(w http.ResponseWriter, _ *http.Request, id string) {
		sessionID = id
		w.WriteHeader(http.StatusNoContent)
	})
	open := func(path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", path, nil)
		for _, c := range b.HTTP.Jar.Cookies(at) {
			r.AddCookie(c)
		}
		rec := httptest.NewRecorder()
		page.ServeHTTP(rec, r)
		return rec
	}
	isRecent := func() bool {
		t.Helper()
		s, err := f.Provider.Session(t.Context(), sessionID)
		if err != nil || s == nil || s.UserID != f.UserID {
			t.Fatalf("got %+v, %v", s, err)
		}
		return s.Recent(f.Provider.Now())
	}
	const again = "/console/sign-in?recent=1"
	if rec := open(again); rec.Code != http.StatusNoContent || !isRecent() {
		t.Errorf("right after the sign-in: %d", rec.Code)
	}
	f.Clock.Add(10*time.Minute + time.Millisecond)
	if rec := open("/console/sign-in"); rec.Code != http.StatusNoContent || isRecent() {
		t.Errorf("without the demand: %d", rec.Code)
	}
	rec := open(again)
	if !strings.Contains(rec.Body.String(), `action="/sign-in"`) || !strings.Contains(rec.Body.String(), providertest.OwnerEmail) {
		t.Errorf("after ten minutes: %d %s", rec.Code, rec.Body)
	}
	before := sessionID
	form := &providertest.Response{T: t, Body: rec.Body.String()}
	_, _, values := form.Form()
	_, _, own := b.Get(f.URL + "/account").Form()
	values.Set("csrf", own.Get("csrf"))
	values.Set("email", providertest.OwnerEmail)
	values.Set("password", providertest.OwnerPassword)
	done := b.Do("POST", f.URL+"/sign-in", values).Want(http.StatusSeeOther)
	if to := done.Header.Get("Location"); to != again {
		t.Errorf("the sign-in leads to %s", to)
	}
	if rec := open(again); rec.Code != http.StatusNoContent || !isRecent() || sessionID != before {
		t.Errorf("after the new sign-in: %d, session %s after %s", rec.Code, sessionID, before)
	}
}
