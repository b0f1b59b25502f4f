package e2e

import (
	"strings"
	"testing"

	"steward/e2e/process"
)

// TestPasswordOfTheFirstOwnerMustNotBeCommon checks that a start with such a password fails, says why, and
// creates nothing.
func TestPasswordOfTheFirstOwnerMustNotBeCommon(t *testing.T) {
	for _, database := range process.Databases {
		t.Run(database, func(t *testing.T) {
			s := prepare(t, database)
			for password, want := range map[string]string{
				"short":        "STEWARD_ADMIN_PASSWORD must be 10 or more characters",
				"Password123!": "the password of the first owner is refused: This password is easy to guess.",
				adminEmail:     "the password of the first owner is refused: The password must not be your email address.",
			} {
				cmd := s.Command("serve", "--listen", "127.0.0.1:0", "--metrics-listen", "")
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
		p = b.do("GET", b.s.URL+p.location, nil)
	}
	return p
}
