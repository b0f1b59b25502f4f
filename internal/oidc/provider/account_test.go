package provider

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

var thisSession = regexp.MustCompile(`(?s)this one</span><br>.*?name="session" value="([^"]+)"`)

// sessionID reads off the account's page which session a browser is in.
func (b *browser) sessionID() string {
	b.h.t.Helper()
	found := thisSession.FindStringSubmatch(b.get(b.h.url + "/account").want(http.StatusOK).body)
	if found == nil {
		b.h.t.Fatal("the account's page does not tell this session from the others")
	}
	return found[1]
}

// endSession presses the button beside a session on the account's page.
func (b *browser) endSession(sessionID string) *reply {
	b.h.t.Helper()
	_, _, values := b.get(b.h.url + "/account").form()
	values.Set("session", sessionID)
	return b.do("POST", b.h.url+"/account/sessions", values)
}

// A user sees every place where they are signed in, and ends any of them, and nobody else's.
func TestSessionsAreListedAndRevocable(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		a := h.newApp(confidential)
		here, there, stranger := h.browser(), h.browser(), h.browser()
		here.through(here.get(a.authorizeURL("scope", "openid")))
		tokens := a.redeem(there.through(there.get(a.authorizeURL("scope", "openid"))).Get("code")).want(http.StatusOK)
		h.newUser("other@example.com", "another password")
		stranger.throughAs(stranger.get(a.authorizeURL("scope", "openid")), "other@example.com", "another password")

		list := here.get(h.url + "/account").want(http.StatusOK)
		if got := strings.Count(list.body, `name="session"`); got != 2 {
			t.Fatalf("%d sessions are listed", got)
		}
		mine, elsewhere := here.sessionID(), there.sessionID()
		if !strings.Contains(list.body, elsewhere) || strings.Contains(list.body, stranger.sessionID()) {
			t.Error("the list has not the user's own sessions, or another user's")
		}
		signedIn := func(b *browser) bool {
			return !strings.Contains(b.get(a.authorizeURL("scope", "openid", "prompt", "none")).header.Get("Location"), "login_required")
		}
		stranger.endSession(mine)
		if !signedIn(here) {
			t.Fatal("a stranger ended the session")
		}
		here.endSession(elsewhere).want(http.StatusSeeOther)
		if signedIn(there) || !signedIn(here) {
			t.Error("not the session that was named has ended")
		}
		a.refresh(tokens.text("refresh_token")).fault(http.StatusBadRequest, invalidGrant) // it had no offline access
		here.endSession(mine).want(http.StatusOK)
		if signedIn(here) {
			t.Error("still signed in here")
		}
	})
}

// How long a refusal takes does not tell whether the address is known, or whether its user has a password yet.
func TestTimeOfARefusalTellsNothing(t *testing.T) {
	each(t, func(t *testing.T, h *house) {
		_, _, err := h.accounts.Invite(h.ctx, h.orgID, h.userID, member("invited@example.com"))
		must(t, err)
		b := h.browser()
		page := b.get(h.url + "/account")
		shortest := map[string]time.Duration{}
		for range 5 {
			for _, email := range []string{ownerEmail, "nobody@example.com", "invited@example.com", "no address"} {
				start := time.Now()
				b.submit(page, "email", email, "password", "wrong password").want(http.StatusBadRequest)
				if took := time.Since(start); shortest[email] == 0 || took < shortest[email] {
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

// guess tries n times and gives how many tries were let through.
func (t *throttle) guess(now time.Time, n int, email, address func(i int) string) (taken int) {
	for i := range n {
		if t.take(now, passwordLimits(email(i), address(i))) == 0 {
			taken++
		}
	}
	return taken
}

func same(text string) func(int) string { return func(int) string { return text } }

func each4(i int) string { return fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255) }

func eachEmail(i int) string { return fmt.Sprintf("u%d@example.com", i) }

// Guessing is slowed down for one account from one address, for one account from everywhere, and for one address whatever it guesses.
func TestThrottlePerAccountAndAddress(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		email, address func(int) string
		want           int
	}{
		"one account, one address":    {same("a@example.com"), same("10.0.0.1"), 10},
		"one account, many addresses": {same("a@example.com"), each4, 100},
		"many accounts, one address":  {eachEmail, same("10.0.0.1"), 300},
		"many accounts, one IPv6 net": {eachEmail, func(i int) string { return fmt.Sprintf("2001:db8::%x", i+1) }, 300},
		"many accounts and addresses": {eachEmail, each4, 1000},
	} {
		var pails throttle
		if got := pails.guess(now, 1000, c.email, c.address); got != c.want {
			t.Errorf("%s: %d tries were let through, want %d", name, got, c.want)
		}
		if got := pails.guess(now.Add(time.Hour), 1, c.email, c.address); got != 1 {
			t.Errorf("%s: refused an hour later", name)
		}
	}
}

// Nobody gets new tries by making the throttle forget: not by guesses that are refused, nor by single ones from all over the world.
func TestThrottleCannotBeFlooded(t *testing.T) {
	now := time.Now()
	var pails throttle
	victim, from := same("a@example.com"), same("10.255.0.1")
	pails.guess(now, 10, victim, from)
	pails.guess(now, 2*maxPails, eachEmail, from)
	if pails.guess(now, 1, victim, from) != 0 {
		t.Error("refused guesses made it forget")
	}
	pails.guess(now, 2*maxPails, eachEmail, each4)
	if pails.guess(now, 1, victim, from) != 0 {
		t.Error("guesses from many addresses made it forget")
	}
	if len(pails.pails) > maxPails+3 {
		t.Errorf("it holds %d pails", len(pails.pails))
	}
}
