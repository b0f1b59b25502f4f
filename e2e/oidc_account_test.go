package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"steward/e2e/process"
)

// TestPasswordOfTheFirstOwnerMustNotBeCommon checks that a start with such a password fails, says
// why, and creates nothing.
func TestPasswordOfTheFirstOwnerMustNotBeCommon(t *testing.T) {
	t.Parallel()
	for _, database := range process.Databases {
		t.Run(database, func(t *testing.T) {
			s := prepare(t, database)
			for password, want := range map[string]string{
				"short":        "STEWARD_ADMIN_PASSWORD must be 10 or more characters",
				"Password123!": "the password of the first owner is refused: This password is easy to guess.",
				adminEmail:     "the password of the first owner is refused: The password must not be your email address.",
			} {
				cmd := s.Serve()
				cmd.Env = append(cmd.Env, "STEWARD_ADMIN_EMAIL="+adminEmail, "STEWARD_ADMIN_PASSWORD="+password)
				out, err := cmd.CombinedOutput()
				if err == nil || !strings.Contains(string(out), want) {
					t.Errorf("%s: %v, %s; want %q", password, err, out, want)
				}
			}
			s.Env = []string{"STEWARD_ADMIN_EMAIL=" + adminEmail, "STEWARD_ADMIN_PASSWORD=" + adminPassword}
			s.start()
			if p := s.browser().visitAccount(); !strings.Contains(p.body, "Your account") {
				t.Errorf("the owner cannot sign in: %s", p.body)
			}
		})
	}
}

// visitAccount signs in on the account page and returns it.
func (b *browser) visitAccount() page {
	b.s.t.Helper()
	p := b.do("GET", b.s.URL+"/account", nil)
	if strings.Contains(p.body, `action="/sign-in"`) {
		p = b.submit(p, map[string]string{"email": b.email, "password": b.password})
		if p.location != "/account" {
			b.s.t.Fatalf("the sign-in fails with %d: %s", p.status, p.body)
		}
		p = b.do("GET", b.s.URL+p.location, nil)
	}
	return p
}

// post sends a form of the account page with these fields.
func (b *browser) post(path string, fields map[string]string) page {
	b.s.t.Helper()
	own := formValues(firstForm.FindStringSubmatch(b.visitAccount().body)[3])
	values := url.Values{"csrf": {own.Get("csrf")}}
	for name, value := range fields {
		values.Set(name, value)
	}
	return b.do("POST", b.s.URL+path, values)
}

// TestInvitedMemberManagesAPIKeysOnTheAccountPage uses the key that the page shows.
func TestInvitedMemberManagesAPIKeysOnTheAccountPage(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		b, userID := s.invite("member@example.com", "member")
		made := b.post("/account/keys", map[string]string{"org": s.orgID, "name": "laptop", "lifetime": "90d"})
		value := regexp.MustCompile(`sk_\w{49}`).FindString(made.body)
		mine := s.as(value)
		if who := mine.call("GET", "/cli/auth/user", nil).want(200); who.text("id") != userID || who.text("role") != "member" {
			t.Errorf("the key acts as %s", who.body)
		}
		list := b.visitAccount()
		key := regexp.MustCompile(`name="key" value="([^"]+)"`).FindStringSubmatch(list.body)
		if key == nil || strings.Contains(list.body, value) {
			t.Fatalf("the key is not listed, or with its value: %s", list.body)
		}
		if p := b.post("/account/keys/delete", map[string]string{"org": s.orgID, "key": key[1]}); p.location != "/account" {
			t.Errorf("got %+v", p)
		}
		mine.call("GET", "/cli/auth/user", nil).want(401)
	})
}

// TestPasswordChangeReachesTheOtherReplica also covers the sign-out everywhere.
func TestPasswordChangeReachesTheOtherReplica(t *testing.T) {
	t.Parallel()
	s := startWithOwner(t, "postgres")
	other := s.balancedReplica()
	a := s.application(object{"scopes": []string{"openid", "offline_access", "webhook:read"}})
	b := other.browser()
	for _, end := range []func(){
		func() {
			const changed = "another good password"
			fields := map[string]string{"password": adminPassword, "new_password": changed}
			if p := b.post("/account/password", fields); p.status != 200 {
				t.Fatalf("got %+v", p)
			}
			b.password = changed
		},
		func() { b.post("/account/sign-out", nil) },
	} {
		there := s.browser()
		there.password = b.password
		p := s.relyingParty(a, "openid", "offline_access", "webhook:read")
		token, _ := p.signIn(there)
		got := tokens{a: a, p: p, access: token.AccessToken, refresh: token.RefreshToken}
		got.wantValid(s)
		end()
		within(t, time.Second, "the first replica to refuse the token", func() bool {
			return s.userinfoStatus(got.access) == http.StatusUnauthorized
		})
		got.wantRevoked(s)
		if p := there.do("GET", s.URL+"/account", nil); strings.Contains(p.body, "Your account") {
			t.Error("the session at the first replica has not ended")
		}
	}
}

// addresses sends the requests of a browser from other addresses, as a proxy would tell them.
type addresses struct{ address string }

func (a *addresses) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("X-Forwarded-For", a.address)
	return http.DefaultTransport.RoundTrip(r)
}

// TestKnownBrowserIsNotLockedOutOnAnyReplica guesses at a replica at which the user has never been.
func TestKnownBrowserIsNotLockedOutOnAnyReplica(t *testing.T) {
	t.Parallel()
	s := startWithOwner(t, "postgres")
	other := &steward{Steward: s.Replica(), t: t, key: s.key}
	other.Args = []string{"--trusted-proxies=127.0.0.0/8"}
	other.start()
	known := s.browser()
	known.visitAccount()
	known.post("/account/sign-out", nil) // the address of a session would be known as well
	known.s = other

	locked := false
	for i := 0; i < 5 && !locked; i++ { // one more guess is allowed every five seconds, which may be now
		locked = other.isLockedOut(fmt.Sprintf("192.0.%d", i))
	}
	if !locked {
		t.Fatal("the account is not locked")
	}
	if p := known.visitAccount(); !strings.Contains(p.body, "Your account") {
		t.Errorf("the known browser is locked out: %s", p.body)
	}
}

// isLockedOut guesses the password of the owner, from the addresses of a network, until no more guesses are
// allowed, and reports whether the right one is then refused.
func (s *steward) isLockedOut(network string) bool {
	s.t.Helper()
	b := s.browser()
	from := &addresses{}
	b.http.Transport = from
	page := b.do("GET", s.URL+"/account", nil)
	for i := range 250 { // more than the limit, which grows while they are sent
		from.address = fmt.Sprintf("%s.%d", network, i)
		guess := b.submit(page, map[string]string{"email": adminEmail, "password": "wrong password"})
		if guess.status == http.StatusTooManyRequests {
			break
		}
	}
	from.address = network + ".254"
	p := b.submit(page, map[string]string{"email": adminEmail, "password": adminPassword})
	return p.status == http.StatusTooManyRequests
}

// TestBurstOfSignInsIsRefusedClearly sends more passwords than can be checked in two seconds.
func TestBurstOfSignInsIsRefusedClearly(t *testing.T) {
	t.Parallel()
	s := prepare(t, "sqlite", "--trusted-proxies=127.0.0.0/8")
	s.Env = []string{"GOMAXPROCS=1"}
	s.start()
	b := s.browser()
	form := formValues(firstForm.FindStringSubmatch(b.do("GET", s.URL+"/account", nil).body)[3])
	var mu sync.Mutex
	statuses := map[int]int{}
	var all sync.WaitGroup
	for i := range 500 {
		all.Go(func() {
			values := url.Values{"csrf": form["csrf"], "flow": form["flow"], "email": {fmt.Sprintf("u%d@example.com", i)}}
			values.Set("password", "wrong password")
			req, err := http.NewRequest("POST", s.URL+"/sign-in", strings.NewReader(values.Encode()))
			s.must(err)
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			req.Header.Set("X-Forwarded-For", fmt.Sprintf("10.0.%d.%d", i/250, i%250))
			res, err := b.http.Do(req)
			s.must(err)
			got, err := read(t, res)
			s.must(err)
			mu.Lock()
			defer mu.Unlock()
			statuses[got.status]++
			if got.status == http.StatusTooManyRequests &&
				(got.header.Get("Retry-After") == "" || !strings.Contains(string(got.body), "Many people are signing in")) {
				t.Errorf("got %v %s", got.header, got.body)
			}
		})
	}
	all.Wait()
	if statuses[400] == 0 || statuses[429] == 0 || statuses[400]+statuses[429] != 500 {
		t.Errorf("the statuses are %v, want 400 for those that were checked and 429 for the others", statuses)
	}
	t.Logf("the statuses are %v", statuses)
}
