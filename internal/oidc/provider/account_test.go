package provider

import (
	"net/http"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/oidc/provider/oauth"
)

var thisSession = regexp.MustCompile(`(?s)current</span><br>.*?name="session" value="([^"]+)"`)

// sessionID returns the session of a browser, which the account page marks.
func (b *browser) sessionID() string {
	b.f.t.Helper()
	found := thisSession.FindStringSubmatch(b.get(b.f.url + "/account").want(http.StatusOK).body)
	if found == nil {
		b.f.t.Fatal("the account page does not mark the current session")
	}
	return found[1]
}

// endSession ends a session on the account page.
func (b *browser) endSession(sessionID string) *response {
	b.f.t.Helper()
	_, _, values := b.get(b.f.url + "/account").form()
	values.Set("session", sessionID)
	return b.do("POST", b.f.url+"/account/sessions", values)
}

func TestUsersSeeAndEndTheirOwnSessionsOnly(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		a := f.newApp(confidential)
		here, there, stranger := f.browser(), f.browser(), f.browser()
		here.complete(here.get(a.authorizeURL("scope", "openid")))
		tokens := a.redeem(there.complete(there.get(a.authorizeURL("scope", "openid"))).Get("code")).want(http.StatusOK)
		f.newUser("other@example.com", "another password")
		stranger.completeAs(stranger.get(a.authorizeURL("scope", "openid")), "other@example.com", "another password")

		list := here.get(f.url + "/account").want(http.StatusOK)
		if got := strings.Count(list.body, `name="session"`); got != 2 {
			t.Fatalf("%d sessions are listed", got)
		}
		mine, elsewhere := here.sessionID(), there.sessionID()
		if !strings.Contains(list.body, elsewhere) || strings.Contains(list.body, stranger.sessionID()) {
			t.Error("the list does not have exactly the sessions of the user")
		}
		signedIn := func(b *browser) bool {
			location := b.get(a.authorizeURL("scope", "openid", "prompt", "none")).header.Get("Location")
			return !strings.Contains(location, "login_required")
		}
		stranger.endSession(mine)
		if !signedIn(here) {
			t.Fatal("another user has ended the session")
		}
		here.endSession(elsewhere).want(http.StatusSeeOther)
		if signedIn(there) || !signedIn(here) {
			t.Error("another session than the named one has ended")
		}
		a.refresh(tokens.text("refresh_token")).wantRefused(oauth.InvalidGrant) // without offline access
		here.endSession(mine).want(http.StatusOK)
		if signedIn(here) {
			t.Error("the current session has not ended")
		}
	})
}

// TestRefusalsTakeTheSameTime checks that a refusal costs the same whether an email address is
// known and whether its user has a password, so that its duration reveals neither. It measures CPU
// time, which does not depend on the load of the machine.
func TestRefusalsTakeTheSameTime(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		_, _, err := f.accounts.Invite(f.ctx, f.orgID, f.userID, member("invited@example.com"))
		must(t, err)
		b := f.browser()
		page := b.get(f.url + "/account")
		shortest := map[string]time.Duration{}
		for range 5 {
			for _, email := range []string{ownerEmail, "nobody@example.com", "invited@example.com", "no address"} {
				start := cpuTime(t)
				b.submit(page, "email", email, "password", "wrong password").want(http.StatusBadRequest)
				if took := cpuTime(t) - start; shortest[email] == 0 || took < shortest[email] {
					shortest[email] = took
				}
			}
		}
		for email, took := range shortest {
			if known := shortest[ownerEmail]; took*2 < known || took > known*2 {
				t.Errorf("%s takes %s, a known address %s", email, took, known)
			}
		}
	})
}

// cpuTime returns the CPU time that this process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	must(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func TestRootLeadsBrowsersToTheConsoleAndTellsOthersWhereTheAPIIs(t *testing.T) {
	f := newFixture(t, dbtest.Open(t, db.SQLite))
	b := f.browser()
	page := b.do("GET", f.url+"/", nil, "Accept", "text/html,application/xhtml+xml,*/*;q=0.8").want(http.StatusSeeOther)
	if to := page.header.Get("Location"); to != "/console/" {
		t.Errorf("a browser is led to %q", to)
	}
	for _, accept := range []string{"", "*/*", "application/json"} {
		told := b.do("GET", f.url+"/", nil, "Accept", accept).want(http.StatusOK)
		if told.text("openapi") != f.url+"/openapi.json" || told.text("console") != f.url+"/console/" {
			t.Errorf("got %s", told.body)
		}
	}
	b.do("GET", f.url+"/nothing", nil, "Accept", "text/html").want(http.StatusNotFound)
}
