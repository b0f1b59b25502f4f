package signin_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/signin"
)

// recognizer returns a Recognizer with a clock that tests advance.
func recognizer(now *time.Time) *signin.Recognizer {
	return &signin.Recognizer{Now: func() time.Time { return *now }, Key: oauth.Key("key")}
}

// remembered returns a request of a browser in which an owner has signed in.
func remembered(c *signin.Recognizer, o signin.BrowserOwner) *http.Request {
	w := httptest.NewRecorder()
	c.Remember(w, o)
	r := httptest.NewRequest("POST", oauth.PathSignIn, nil)
	for _, cookie := range w.Result().Cookies() {
		r.AddCookie(cookie)
	}
	return r
}

func TestBrowserIsKnownForItsOwnerOnly(t *testing.T) {
	now := time.Now()
	c := recognizer(&now)
	owner := signin.BrowserOwner{UserID: "usr_1", PasswordHash: "hash"}
	r := remembered(c, owner)
	if id, ok := c.Recognize(r, owner); !ok || len(id) < 22 {
		t.Errorf("the browser of the owner is not recognized: %q", id)
	}
	for name, other := range map[string]signin.BrowserOwner{
		"another user":        {UserID: "usr_2", PasswordHash: "hash"},
		"a new password":      {UserID: "usr_1", PasswordHash: "new hash"},
		"with another method": {UserID: "usr_1", Upstream: "org_1"},
		"nobody":              {},
	} {
		if _, ok := c.Recognize(r, other); ok {
			t.Errorf("%s: the browser is recognized", name)
		}
	}
	if _, ok := c.Recognize(remembered(c, signin.BrowserOwner{}), signin.BrowserOwner{}); ok {
		t.Error("a browser is known for nobody")
	}
	c.Key = oauth.Key("another key")
	if _, ok := c.Recognize(r, owner); ok {
		t.Error("the cookie of another installation is accepted")
	}
}

func TestBrowserIsForgottenAfterAYear(t *testing.T) {
	now := time.Now()
	c := recognizer(&now)
	owner := signin.BrowserOwner{UserID: "usr_1", Upstream: "org_1"}
	r := remembered(c, owner)
	now = now.Add(365*24*time.Hour - time.Minute)
	if _, ok := c.Recognize(r, owner); !ok {
		t.Error("the browser is forgotten too early")
	}
	now = now.Add(2 * time.Minute)
	if _, ok := c.Recognize(r, owner); ok {
		t.Error("the browser is still recognized")
	}
}
