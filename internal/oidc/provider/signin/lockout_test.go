package signin_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/oidc/provider/providertest"
)

// TestRefusalsTakeTheSameTime checks that a refusal costs the same whether an email address is
// known and whether its user has a password, so that its duration reveals neither. It measures CPU
// time, which does not depend on the load of the machine.
func TestRefusalsTakeTheSameTime(t *testing.T) {
	f := providertest.OnSQLite(t)
	f.Invite(f.OrgID, "invited@example.com", auth.Member)
	providertest.Must(t, f.DB.Write(f.Ctx, func(tx *db.Tx) error { // the fixture's is cheap
		return f.Accounts.SetPassword(tx, f.UserID, account.HashPassword(providertest.OwnerPassword))
	}))
	b := f.Browser()
	page := b.Get(f.URL + "/account")
	shortest := map[string]time.Duration{}
	for range 5 {
		for _, email := range []string{
			providertest.OwnerEmail, "nobody@example.com", "invited@example.com", "no address",
		} {
			start := providertest.CPUTime(t)
			b.Submit(page, "email", email, "password", "wrong password").Want(http.StatusBadRequest)
			if took := providertest.CPUTime(t) - start; shortest[email] == 0 || took < shortest[email] {
				shortest[email] = took
			}
		}
	}
	for email, took := range shortest {
		if known := shortest[providertest.OwnerEmail]; took*2 < known || took > known*2 {
			t.Errorf("%s takes %s, a known address %s", email, took, known)
		}
	}
}

// TestWrongPasswordsAreThrottled also checks that known and unknown email addresses get the same
// responses.
func TestWrongPasswordsAreThrottled(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := f.NewApp(providertest.Confidential)
	try := func(email, password string) (statuses map[int]int, bodies map[string]bool) {
		b := f.Browser()
		page := b.Get(a.AuthorizeURL())
		statuses, bodies = map[int]int{}, map[string]bool{}
		for range 500 {
			r := b.Submit(page, "email", email, "password", password)
			statuses[r.Status]++
			bodies[problem(r)] = true
		}
		return statuses, bodies
	}
	known, knownBodies := try(providertest.OwnerEmail, "wrong password")
	unknown, unknownBodies := try("nobody@example.com", "wrong password")
	if known[http.StatusBadRequest] != 10 || known[http.StatusTooManyRequests] != 490 {
		t.Errorf("known: %v", known)
	}
	if !maps.Equal(unknown, known) || !maps.Equal(unknownBodies, knownBodies) || len(knownBodies) != 2 {
		t.Errorf("unknown: %v, texts %v and %v", unknown, knownBodies, unknownBodies)
	}
	if n := f.Checked.Load(); n != 20 {
		t.Errorf("%d passwords were checked", n)
	}
	// The correct password is refused as well, until some time has passed.
	b := f.Browser()
	b.Submit(b.Get(a.AuthorizeURL()), "email", providertest.OwnerEmail, "password", providertest.OwnerPassword).
		Want(http.StatusTooManyRequests)
	f.Clock.Add(time.Minute)
	b.Submit(b.Get(a.AuthorizeURL()), "email", providertest.OwnerEmail, "password", providertest.OwnerPassword).
		Want(http.StatusSeeOther)
}

func problem(r *providertest.Response) string {
	_, after, _ := strings.Cut(r.Body, `role="alert">`)
	text, _, _ := strings.Cut(after, "<")
	return text
}

// lockOut guesses the password of the owner from many addresses until a stranger cannot sign in any more.
func lockOut(f *providertest.Fixture) {
	f.T.Helper()
	guesser := f.BrowserAt("")
	page := guesser.Get(f.URL + "/account")
	for i := range 100 {
		guesser.Address = fmt.Sprintf("10.0.%d.1", i)
		guesser.Submit(page, "email", providertest.OwnerEmail, "password", "wrong password").
			Want(http.StatusBadRequest)
	}
	if status := f.BrowserAt("203.0.113.1").TryPassword(providertest.OwnerPassword); status != http.StatusTooManyRequests {
		f.T.Fatalf("a stranger gets status %d", status)
	}
}

func TestGuessesFromElsewhereDoNotLockOutAKnownBrowser(t *testing.T) {
	f := providertest.OnSQLite(t)
	b := f.BrowserAt("192.0.2.1")
	b.SignIn(b.Get(f.URL + "/account"))
	b.SignOut()
	other := f.BrowserAt("192.0.2.2")
	f.NewUser("other@example.com", "another password")
	other.Submit(other.Get(f.URL+"/account"), "email", "other@example.com", "password", "another password").
		Want(http.StatusSeeOther)
	other.SignOut()

	lockOut(f)
	b.Address = "198.51.100.7" // it has moved
	if status := b.TryPassword(providertest.OwnerPassword); status != http.StatusSeeOther {
		t.Errorf("the known browser gets status %d", status)
	}
	if status := other.TryPassword(providertest.OwnerPassword); status != http.StatusTooManyRequests {
		t.Errorf("a browser that another user is known in gets status %d", status)
	}
	b.SignOut()
	for range 10 {
		if status := b.TryPassword("wrong password"); status != http.StatusBadRequest {
			t.Fatalf("the known browser may not guess: status %d", status)
		}
	}
	if status := b.TryPassword(providertest.OwnerPassword); status != http.StatusTooManyRequests {
		t.Errorf("the known browser may guess without end: status %d", status)
	}
}

func TestGuessesFromElsewhereDoNotLockOutAKnownAddress(t *testing.T) {
	f := providertest.OnSQLite(t)
	b := f.BrowserAt("192.0.2.1")
	b.SignIn(b.Get(f.URL + "/account"))
	lockOut(f)
	fresh := f.BrowserAt("192.0.2.1")
	for range 9 {
		if status := fresh.TryPassword("wrong password"); status != http.StatusBadRequest {
			t.Fatalf("got status %d", status)
		}
	}
	if status := fresh.TryPassword(providertest.OwnerPassword); status != http.StatusSeeOther {
		t.Errorf("another browser at the known address gets status %d", status)
	}
}

// TestDeviceCookieIsVoid checks when a cookie no longer shows that a browser is known.
func TestDeviceCookieIsVoid(t *testing.T) {
	for name, spoil := range map[string]func(f *providertest.Fixture, b *providertest.Browser){
		"after a change of password": func(f *providertest.Fixture, _ *providertest.Browser) {
			b := f.Browser()
			b.Submit(b.Get(f.NewReset()), "password", providertest.OwnerPassword).
				Want(http.StatusSeeOther) // the same again
			b.SignOut()
		},
		"after a year": func(f *providertest.Fixture, _ *providertest.Browser) { f.Clock.Add(366 * 24 * time.Hour) },
		"if it is changed": func(f *providertest.Fixture, b *providertest.Browser) {
			at, err := url.Parse(f.URL + "/sign-in")
			providertest.Must(f.T, err)
			for _, c := range b.HTTP.Jar.Cookies(at) {
				if strings.HasPrefix(c.Name, "steward_device_") {
					c.Value = "9" + c.Value
					c.Path = "/sign-in"
					b.HTTP.Jar.SetCookies(at, []*http.Cookie{c})
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := providertest.OnSQLite(t)
			b := f.BrowserAt("192.0.2.1")
			b.SignIn(b.Get(f.URL + "/account"))
			b.SignOut()
			spoil(f, b)
			lockOut(f)
			if status := b.TryPassword(providertest.OwnerPassword); status != http.StatusTooManyRequests {
				t.Errorf("got status %d", status)
			}
		})
	}
}

func TestDeviceCookieIsSentToTheSignInOnly(t *testing.T) {
	f := providertest.OnSQLite(t)
	b := f.Browser()
	in := b.Submit(b.Get(f.URL+"/account"), "email", providertest.OwnerEmail,
		"password", providertest.OwnerPassword)
	for _, c := range in.Header.Values("Set-Cookie") {
		if !strings.HasPrefix(c, "steward_device_") {
			continue
		}
		for _, want := range []string{"Path=/sign-in", "Max-Age=31536000", "HttpOnly", "SameSite=Lax"} {
			if !strings.Contains(c, want) {
				t.Errorf("%s has no %s", c, want)
			}
		}
		return
	}
	t.Errorf("no cookie in %v", in.Header)
}

func TestSignInsAndPasswordsAreInTheAuditLog(t *testing.T) {
	f := providertest.OnSQLite(t)
	b := f.BrowserAt("192.0.2.1")
	mine := b.SignIn(b.Get(f.URL + "/account"))
	b.Submit(mine, "password", providertest.OwnerPassword, "new_password", "a new password").Want(http.StatusOK)
	b.Submit(b.Get(f.NewReset()), "password", "a newer password").Want(http.StatusSeeOther)
	f.BrowserAt("203.0.113.1").TryPassword("wrong password")
	var got []string
	for _, e := range f.Entries() {
		by := "unknown"
		if e.UserID != nil {
			by = *e.UserID
		}
		got = append(got, strings.Join([]string{e.Action, e.Target, by, e.RemoteAddr}, " "))
		if e.RequestID == "" {
			t.Errorf("%s has no request id", e.Action)
		}
	}
	u := f.UserID
	want := []string{
		"user.sign_in " + u + " " + u + " 192.0.2.1",
		"user.password " + u + " " + u + " 192.0.2.1",
		"user.password " + u + " " + u + " 192.0.2.1",
		"user.sign_in " + u + " " + u + " 192.0.2.1",
		"user.sign_in_failed " + u + " unknown 203.0.113.1",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestFailedSignInsInTheAuditLogAreBounded(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		for i := range 20 {
			b := f.BrowserAt(fmt.Sprintf("10.0.%d.1", i))
			b.TryPassword("wrong password")
			b.Submit(b.Get(f.URL+"/account"), "email", "nobody@example.com", "password", "wrong password")
		}
		if got := f.Entries(); len(got) != 3 {
			t.Errorf("%d entries: %+v", len(got), got)
		}
		f.Clock.Add(time.Minute)
		f.BrowserAt("10.1.1.1").TryPassword("wrong password")
		if got := f.Entries(); len(got) != 4 {
			t.Errorf("%d entries a minute later", len(got))
		}
	})
}

// TestPasswordIsVoidWhileItIsChecked replaces the password of a user while the one of before is being checked: it
// neither signs in nor sets another one.
func TestPasswordIsVoidWhileItIsChecked(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		const replaced = "the password of a link"
		hash := account.HashPassword(replaced)
		signedIn := f.Browser()
		signedIn.SignIn(signedIn.Get(f.URL + "/account"))
		page := f.Browser()
		form := page.Get(f.URL + "/account")

		p := f.NewProvider()
		p.Passwords.Compare = func(hashed, password string) bool {
			correct := account.CheckPassword(hashed, password)
			providertest.Must(t, f.DB.Write(f.Ctx, func(tx *db.Tx) error { return f.Accounts.SetPassword(tx, f.UserID, hash) }))
			return correct
		}
		f.Serve(p)
		page.Submit(form, "email", providertest.OwnerEmail, "password", providertest.OwnerPassword).Want(http.StatusBadRequest)
		if page.SignedIn() {
			t.Error("a password that was replaced has signed in")
		}
		providertest.Must(t, f.DB.Write(f.Ctx, func(tx *db.Tx) error {
			return f.Accounts.SetPassword(tx, f.UserID, account.HashPassword(providertest.OwnerPassword))
		}))
		signedIn.Post("/account/password", "password", providertest.OwnerPassword, "new_password", "a quite new password").
			Want(http.StatusBadRequest)
		user, err := f.Accounts.UserByID(f.Ctx, f.UserID)
		providertest.Must(t, err)
		if !account.CheckPassword(user.PasswordHash, replaced) {
			t.Error("the password of before has set another one")
		}
	})
}
