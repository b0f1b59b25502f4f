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

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/internal/waittest"
)

// TestPasswordOfTheFirstOwnerMustNotBeCommon checks that a start with such a password fails, says
// why, and creates nothing.
func TestPasswordOfTheFirstOwnerMustNotBeCommon(t *testing.T) {
	t.Parallel()
	for _, database := range process.Databases {
		t.Run(database, func(t *testing.T) {
			s := installation.Prepare(t, database)
			for password, want := range map[string]string{
				"short":                 "STEWARD_ADMIN_PASSWORD must be 10 or more characters",
				"Password123!":          "the password of the first owner is refused: This password is easy to guess.",
				installation.AdminEmail: "the password of the first owner is refused: The password must not be your email address.",
			} {
				cmd := s.Serve()
				cmd.Env = append(cmd.Env, "STEWARD_ADMIN_EMAIL="+installation.AdminEmail, "STEWARD_ADMIN_PASSWORD="+password)
				out, err := cmd.CombinedOutput()
				if err == nil || !strings.Contains(string(out), want) {
					t.Errorf("%s: %v, %s; want %q", password, err, out, want)
				}
			}
			s.Env = []string{"STEWARD_ADMIN_EMAIL=" + installation.AdminEmail, "STEWARD_ADMIN_PASSWORD=" + installation.AdminPassword}
			s.Start()
			if p := s.NewBrowser().VisitAccount(); !strings.Contains(p.Body, "Your account") {
				t.Errorf("the owner cannot sign in: %s", p.Body)
			}
		})
	}
}

// TestInvitedMemberManagesAPIKeysOnTheAccountPage uses the key that the page shows.
func TestInvitedMemberManagesAPIKeysOnTheAccountPage(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		b, userID := s.Invite("member@example.com", "member")
		made := b.PostAccount("/account/keys", map[string]string{"org": s.OrgID, "name": "laptop", "lifetime": "90d"})
		value := regexp.MustCompile(`sk_\w{49}`).FindString(made.Body)
		mine := s.As(value)
		if who := mine.Call("GET", "/cli/auth/user", nil).Want(200); who.Text("id") != userID || who.Text("role") != "member" {
			t.Errorf("the key acts as %s", who.Body)
		}
		list := b.VisitAccount()
		key := regexp.MustCompile(`name="key" value="([^"]+)"`).FindStringSubmatch(list.Body)
		if key == nil || strings.Contains(list.Body, value) {
			t.Fatalf("the key is not listed, or with its value: %s", list.Body)
		}
		if p := b.PostAccount("/account/keys/delete", map[string]string{"org": s.OrgID, "key": key[1]}); p.Location != "/account" {
			t.Errorf("got %+v", p)
		}
		mine.Call("GET", "/cli/auth/user", nil).Want(401)
	})
}

// TestPasswordChangeReachesTheOtherReplica also covers the sign-out everywhere.
func TestPasswordChangeReachesTheOtherReplica(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "postgres")
	other := s.BalancedReplica()
	a := s.NewApplication(object{"scopes": []string{"openid", "offline_access", "webhook:read"}})
	b := other.NewBrowser()
	for _, end := range []func(){
		func() {
			const changed = "another good password"
			fields := map[string]string{"password": installation.AdminPassword, "new_password": changed}
			if p := b.PostAccount("/account/password", fields); p.Status != 200 {
				t.Fatalf("got %+v", p)
			}
			b.Password = changed
		},
		func() { b.PostAccount("/account/sign-out", nil) },
	} {
		there := s.NewBrowser()
		there.Password = b.Password
		p := s.NewRelyingParty(a, "openid", "offline_access", "webhook:read")
		token, _ := p.SignIn(there)
		got := installation.Tokens{Application: a, RelyingParty: p, Access: token.AccessToken, Refresh: token.RefreshToken}
		wantValid(got, s)
		end()
		waittest.Within(t, time.Second, "the first replica to refuse the token", func() bool {
			return s.UserinfoStatus(got.Access) == http.StatusUnauthorized
		})
		wantRevoked(got, s)
		if p := there.Do("GET", s.URL+"/account", nil); strings.Contains(p.Body, "Your account") {
			t.Error("the session at the first replica has not ended")
		}
	}
}

// TestBurstOfSignInsIsRefusedClearly sends more passwords than can be checked in two seconds.
func TestBurstOfSignInsIsRefusedClearly(t *testing.T) {
	t.Parallel()
	s := installation.Prepare(t, "sqlite", "--trusted-proxies=127.0.0.0/8")
	s.Env = []string{"GOMAXPROCS=1"}
	s.Start()
	b := s.NewBrowser()
	form := installation.FormValues(installation.FirstForm.FindStringSubmatch(b.Do("GET", s.URL+"/account", nil).Body)[3])
	var mu sync.Mutex
	statuses := map[int]int{}
	var all sync.WaitGroup
	for i := range 500 {
		all.Go(func() {
			values := url.Values{"csrf": form["csrf"], "flow": form["flow"], "email": {fmt.Sprintf("u%d@example.com", i)}}
			values.Set("password", "wrong password")
			req, err := http.NewRequest("POST", s.URL+"/sign-in", strings.NewReader(values.Encode()))
			s.Must(err)
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			req.Header.Set("X-Forwarded-For", fmt.Sprintf("10.0.%d.%d", i/250, i%250))
			res, err := b.HTTP.Do(req)
			s.Must(err)
			got, err := installation.ReadResponse(t, res)
			s.Must(err)
			mu.Lock()
			defer mu.Unlock()
			statuses[got.Status]++
			if got.Status == http.StatusTooManyRequests &&
				(got.Header.Get("Retry-After") == "" || !strings.Contains(string(got.Body), "Many people are signing in")) {
				t.Errorf("got %v %s", got.Header, got.Body)
			}
		})
	}
	all.Wait()
	if statuses[400] == 0 || statuses[429] == 0 || statuses[400]+statuses[429] != 500 {
		t.Errorf("the statuses are %v, want 400 for those that were checked and 429 for the others", statuses)
	}
	t.Logf("the statuses are %v", statuses)
}
