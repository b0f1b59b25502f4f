package provider

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"steward/internal/audit"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/page"
)

// from returns a new browser at an address.
func (f *fixture) from(address string) *browser {
	b := f.browser()
	b.address = address
	return b
}

// try submits the sign-in page as the owner and returns the status.
func (b *browser) try(password string) int {
	b.f.t.Helper()
	return b.submit(b.get(b.f.url+"/account"), "email", ownerEmail, "password", password).status
}

// signOut ends the session of a browser.
func (b *browser) signOut() {
	b.f.t.Helper()
	b.endSession(b.sessionID()).want(http.StatusOK)
}

// lockOut guesses the password of the owner from many addresses until a stranger cannot sign in any more.
func (f *fixture) lockOut() {
	f.t.Helper()
	guesser := f.from("")
	page := guesser.get(f.url + "/account")
	for i := range 100 {
		guesser.address = fmt.Sprintf("10.0.%d.1", i)
		guesser.submit(page, "email", ownerEmail, "password", "wrong password").want(http.StatusBadRequest)
	}
	if status := f.from("203.0.113.1").try(ownerPassword); status != http.StatusTooManyRequests {
		f.t.Fatalf("a stranger gets status %d", status)
	}
}

func TestGuessesFromElsewhereDoNotLockOutAKnownBrowser(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.from("192.0.2.1")
		b.signIn(b.get(f.url + "/account"))
		b.signOut()
		other := f.from("192.0.2.2")
		f.newUser("other@example.com", "another password")
		other.submit(other.get(f.url+"/account"), "email", "other@example.com", "password", "another password").
			want(http.StatusSeeOther)
		other.signOut()

		f.lockOut()
		b.address = "198.51.100.7" // it has moved
		if status := b.try(ownerPassword); status != http.StatusSeeOther {
			t.Errorf("the known browser gets status %d", status)
		}
		if status := other.try(ownerPassword); status != http.StatusTooManyRequests {
			t.Errorf("a browser that another user is known in gets status %d", status)
		}
		b.signOut()
		for range 10 {
			if status := b.try("wrong password"); status != http.StatusBadRequest {
				t.Fatalf("the known browser may not guess: status %d", status)
			}
		}
		if status := b.try(ownerPassword); status != http.StatusTooManyRequests {
			t.Errorf("the known browser may guess without end: status %d", status)
		}
	})
}

func TestGuessesFromElsewhereDoNotLockOutAKnownAddress(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.from("192.0.2.1")
		b.signIn(b.get(f.url + "/account"))
		f.lockOut()
		fresh := f.from("192.0.2.1")
		for range 9 {
			if status := fresh.try("wrong password"); status != http.StatusBadRequest {
				t.Fatalf("got status %d", status)
			}
		}
		if status := fresh.try(ownerPassword); status != http.StatusSeeOther {
			t.Errorf("another browser at the known address gets status %d", status)
		}
	})
}

// TestDeviceCookieIsVoid checks when a cookie no longer shows that a browser is known.
func TestDeviceCookieIsVoid(t *testing.T) {
	for name, spoil := range map[string]func(f *fixture, b *browser){
		"after a change of password": func(f *fixture, _ *browser) {
			b := f.browser()
			b.submit(b.get(f.newReset()), "password", ownerPassword).want(http.StatusSeeOther) // the same again
			b.signOut()
		},
		"after a year": func(f *fixture, _ *browser) { f.clock.add(366 * 24 * time.Hour) },
		"if it is changed": func(f *fixture, b *browser) {
			at, err := url.Parse(f.url + "/sign-in")
			must(f.t, err)
			for _, c := range b.http.Jar.Cookies(at) {
				if strings.HasPrefix(c.Name, "steward_device_") {
					c.Value = "9" + c.Value
					c.Path = "/sign-in"
					b.http.Jar.SetCookies(at, []*http.Cookie{c})
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, dbtest.Open(t, db.SQLite))
			b := f.from("192.0.2.1")
			b.signIn(b.get(f.url + "/account"))
			b.signOut()
			spoil(f, b)
			f.lockOut()
			if status := b.try(ownerPassword); status != http.StatusTooManyRequests {
				t.Errorf("got status %d", status)
			}
		})
	}
}

func TestDeviceCookieIsSentToTheSignInOnly(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.browser()
		in := b.submit(b.get(f.url+"/account"), "email", ownerEmail, "password", ownerPassword)
		for _, c := range in.header.Values("Set-Cookie") {
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
		t.Errorf("no cookie in %v", in.header)
	})
}

// entries returns the audit log of the organization from the oldest entry on.
func (f *fixture) entries() (list []audit.Entry) {
	f.t.Helper()
	must(f.t, f.provider.RecordFailures(f.t.Context()))
	found, err := f.audit.List(f.t.Context(), f.orgID, audit.Filter{}, page.Paging{Limit: 100})
	must(f.t, err)
	for _, e := range found.Items {
		list = append([]audit.Entry{e}, list...)
	}
	return list
}

func TestSignInsAndPasswordsAreInTheAuditLog(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.from("192.0.2.1")
		mine := b.signIn(b.get(f.url + "/account"))
		b.submit(mine, "password", ownerPassword, "new_password", "a new password").want(http.StatusOK)
		b.submit(b.get(f.newReset()), "password", "a newer password").want(http.StatusSeeOther)
		f.from("203.0.113.1").try("wrong password")
		var got []string
		for _, e := range f.entries() {
			by := "unknown"
			if e.UserID != nil {
				by = *e.UserID
			}
			got = append(got, strings.Join([]string{e.Action, e.Target, by, e.RemoteAddr}, " "))
			if e.RequestID == "" {
				t.Errorf("%s has no request id", e.Action)
			}
		}
		u := f.userID
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
	})
}

func TestFailedSignInsInTheAuditLogAreBounded(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		for i := range 20 {
			b := f.from(fmt.Sprintf("10.0.%d.1", i))
			b.try("wrong password")
			b.submit(b.get(f.url+"/account"), "email", "nobody@example.com", "password", "wrong password")
		}
		if got := f.entries(); len(got) != 3 {
			t.Errorf("%d entries: %+v", len(got), got)
		}
		f.clock.add(time.Minute)
		f.from("10.1.1.1").try("wrong password")
		if got := f.entries(); len(got) != 4 {
			t.Errorf("%d entries a minute later", len(got))
		}
	})
}
