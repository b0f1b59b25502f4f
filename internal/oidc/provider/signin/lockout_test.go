package signin_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"steward/internal/audit"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/page"
)

// TestRefusalsTakeTheSameTime checks that a refusal costs the same whether an email address is
// known and whether its user has a password, so that its duration reveals neither. It measures CPU
// time, which does not depend on the load of the machine.
func TestRefusalsTakeTheSameTime(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		_, _, err := f.Accounts.Invite(f.Ctx, f.OrgID, f.UserID, member("invited@example.com"))
		providertest.Must(t, err)
		b := f.Browser()
		page := b.Get(f.URL + "/account")
		shortest := map[string]time.Duration{}
		for range 5 {
			for _, email := range []string{
				providertest.OwnerEmail, "nobody@example.com", "invited@example.com", "no address",
			} {
				start := cpuTime(t)
				b.Submit(page, "email", email, "password", "wrong password").Want(http.StatusBadRequest)
				if took := cpuTime(t) - start; shortest[email] == 0 || took < shortest[email] {
					shortest[email] = took
				}
			}
		}
		for email, took := range shortest {
			if known := shortest[providertest.OwnerEmail]; took*2 < known || took > known*2 {
				t.Errorf("%s takes %s, a known address %s", email, took, known)
			}
		}
	})
}

// cpuTime returns the CPU time that this process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	providertest.Must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestWrongPasswordsAreThrottled also checks that known and unknown email addresses get the same
// responses.
func TestWrongPasswordsAreThrottled(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
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
	})
}

func problem(r *providertest.Response) string {
	_, after, _ := strings.Cut(r.Body, `role="alert">`)
	text, _, _ := strings.Cut(after, "<")
	return text
}

// from returns a new browser at an address.
func from(f *providertest.Fixture, address string) *providertest.Browser {
	b := f.Browser()
	b.Address = address
	return b
}

// try submits the sign-in page as the owner and returns the status.
func try(b *providertest.Browser, password string) int {
	b.Fixture.T.Helper()
	return b.Submit(b.Get(b.Fixture.URL+"/account"), "email", providertest.OwnerEmail, "password", password).Status
}

// signOut ends the session of a browser.
func signOut(b *providertest.Browser) {
	b.Fixture.T.Helper()
	endSession(b, sessionID(b)).Want(http.StatusOK)
}

// lockOut guesses the password of the owner from many addresses until a stranger cannot sign in any more.
func lockOut(f *providertest.Fixture) {
	f.T.Helper()
	guesser := from(f, "")
	page := guesser.Get(f.URL + "/account")
	for i := range 100 {
		guesser.Address = fmt.Sprintf("10.0.%d.1", i)
		guesser.Submit(page, "email", providertest.OwnerEmail, "password", "wrong password").
			Want(http.StatusBadRequest)
	}
	if status := try(from(f, "203.0.113.1"), providertest.OwnerPassword); status != http.StatusTooManyRequests {
		f.T.Fatalf("a stranger gets status %d", status)
	}
}

func TestGuessesFromElsewhereDoNotLockOutAKnownBrowser(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		b := from(f, "192.0.2.1")
		b.SignIn(b.Get(f.URL + "/account"))
		signOut(b)
		other := from(f, "192.0.2.2")
		f.NewUser("other@example.com", "another password")
		other.Submit(other.Get(f.URL+"/account"), "email", "other@example.com", "password", "another password").
			Want(http.StatusSeeOther)
		signOut(other)

		lockOut(f)
		b.Address = "198.51.100.7" // it has moved
		if status := try(b, providertest.OwnerPassword); status != http.StatusSeeOther {
			t.Errorf("the known browser gets status %d", status)
		}
		if status := try(other, providertest.OwnerPassword); status != http.StatusTooManyRequests {
			t.Errorf("a browser that another user is known in gets status %d", status)
		}
		signOut(b)
		for range 10 {
			if status := try(b, "wrong password"); status != http.StatusBadRequest {
				t.Fatalf("the known browser may not guess: status %d", status)
			}
		}
		if status := try(b, providertest.OwnerPassword); status != http.StatusTooManyRequests {
			t.Errorf("the known browser may guess without end: status %d", status)
		}
	})
}

func TestGuessesFromElsewhereDoNotLockOutAKnownAddress(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		b := from(f, "192.0.2.1")
		b.SignIn(b.Get(f.URL + "/account"))
		lockOut(f)
		fresh := from(f, "192.0.2.1")
		for range 9 {
			if status := try(fresh, "wrong password"); status != http.StatusBadRequest {
				t.Fatalf("got status %d", status)
			}
		}
		if status := try(fresh, providertest.OwnerPassword); status != http.StatusSeeOther {
			t.Errorf("another browser at the known address gets status %d", status)
		}
	})
}

// TestDeviceCookieIsVoid checks when a cookie no longer shows that a browser is known.
func TestDeviceCookieIsVoid(t *testing.T) {
	for name, spoil := range map[string]func(f *providertest.Fixture, b *providertest.Browser){
		"after a change of password": func(f *providertest.Fixture, _ *providertest.Browser) {
			b := f.Browser()
			b.Submit(b.Get(newReset(f)), "password", providertest.OwnerPassword).
				Want(http.StatusSeeOther) // the same again
			signOut(b)
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
			f := providertest.New(t, dbtest.Open(t, db.SQLite))
			b := from(f, "192.0.2.1")
			b.SignIn(b.Get(f.URL + "/account"))
			signOut(b)
			spoil(f, b)
			lockOut(f)
			if status := try(b, providertest.OwnerPassword); status != http.StatusTooManyRequests {
				t.Errorf("got status %d", status)
			}
		})
	}
}

func TestDeviceCookieIsSentToTheSignInOnly(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
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
	})
}

// entries returns the audit log of the organization from the oldest entry on.
func entries(f *providertest.Fixture) (list []audit.Entry) {
	f.T.Helper()
	providertest.Must(f.T, f.Provider.RecordFailures(f.T.Context()))
	found, err := f.Audit.List(f.T.Context(), f.OrgID, audit.Filter{}, page.Paging{Limit: 100})
	providertest.Must(f.T, err)
	for _, e := range found.Items {
		list = append([]audit.Entry{e}, list...)
	}
	return list
}

func TestSignInsAndPasswordsAreInTheAuditLog(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		b := from(f, "192.0.2.1")
		mine := b.SignIn(b.Get(f.URL + "/account"))
		b.Submit(mine, "password", providertest.OwnerPassword, "new_password", "a new password").Want(http.StatusOK)
		b.Submit(b.Get(newReset(f)), "password", "a newer password").Want(http.StatusSeeOther)
		try(from(f, "203.0.113.1"), "wrong password")
		var got []string
		for _, e := range entries(f) {
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
	})
}

func TestFailedSignInsInTheAuditLogAreBounded(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		for i := range 20 {
			b := from(f, fmt.Sprintf("10.0.%d.1", i))
			try(b, "wrong password")
			b.Submit(b.Get(f.URL+"/account"), "email", "nobody@example.com", "password", "wrong password")
		}
		if got := entries(f); len(got) != 3 {
			t.Errorf("%d entries: %+v", len(got), got)
		}
		f.Clock.Add(time.Minute)
		try(from(f, "10.1.1.1"), "wrong password")
		if got := entries(f); len(got) != 4 {
			t.Errorf("%d entries a minute later", len(got))
		}
	})
}
