package e2e

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"steward/e2e/process"
	"steward/internal/account"
	"steward/internal/db"
)

// rootKey runs `steward root-key` and returns the installation with the key that it prints.
func (s *steward) rootKey() *steward {
	s.t.Helper()
	out, err := s.Command("root-key").CombinedOutput()
	if err != nil {
		s.t.Fatalf("root-key: %v: %s", err, out)
	}
	return s.as(strings.TrimSpace(string(out)))
}

// resetPassword runs `steward reset-password` and returns the link that it prints.
func (s *steward) resetPassword(email string, args ...string) string {
	s.t.Helper()
	out, err := s.Command(append([]string{"reset-password", email}, args...)...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("reset-password: %v: %s", err, out)
	}
	m := regexp.MustCompile(`^(\S+/reset/\w{43})\nThe link can be used once, until (\S+Z)\.\n$`).FindSubmatch(out)
	if m == nil {
		s.t.Fatalf("reset-password prints %q", out)
	}
	expires, err := time.Parse(time.RFC3339, string(m[2]))
	if left := time.Until(expires); err != nil || left > time.Hour || left < 50*time.Minute {
		s.t.Errorf("the link expires at %s: %v", m[2], err)
	}
	return string(m[1])
}

// resetUser returns the address of the user of a link. The server must be stopped.
func (s *steward) resetUser(link string) string {
	s.t.Helper()
	ctx := context.Background()
	d, err := db.Open(ctx, db.Options{Path: filepath.Join(s.Dir, "steward.db"), URL: s.Database})
	s.must(err)
	defer d.Close()
	accounts := &account.Store{DB: d, Now: time.Now}
	login, err := accounts.ResetOf(ctx, link[strings.LastIndex(link, "/")+1:])
	if err != nil {
		return err.Error()
	}
	return login.Email
}

// controlSocket returns the mode of the control socket.
func (s *steward) controlSocket() (fs.FileMode, error) {
	info, err := os.Stat(filepath.Join(s.Dir, "steward.sock"))
	if err != nil {
		return 0, err
	}
	return info.Mode(), nil
}

// inShortDirectory puts the data where the path of the socket is short enough, whatever the name of
// the test.
func (s *steward) inShortDirectory() {
	s.t.Helper()
	dir, err := os.MkdirTemp("", "steward-")
	s.must(err)
	s.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s.Dir = dir
}

func TestOperatorCommandsWorkInEveryState(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			s := prepare(t, name)
			s.Env = []string{"STEWARD_ADMIN_EMAIL=" + adminEmail, "STEWARD_ADMIN_PASSWORD=" + adminPassword}
			s.inShortDirectory()
			s.start()
			mode, err := s.controlSocket()
			if err != nil || mode != fs.ModeSocket|0o600 {
				t.Fatalf("the socket of the running server: %v, %v", mode, err)
			}
			s.rootKey().call("GET", "/oidc/org/members", nil).want(200)
			while := s.resetPassword("Ada@Example.com")
			if !strings.HasPrefix(while, s.URL+"/reset/") {
				t.Errorf("the link of the running server is %s", while)
			}

			s.kill() // leaves the socket behind
			if _, err := s.controlSocket(); err != nil {
				t.Fatalf("after the kill: %v", err)
			}
			key := s.rootKey()
			s.start()
			s.as(key.key).call("GET", "/oidc/org/members", nil).want(200)
			s.rootKey().call("GET", "/oidc/org/members", nil).want(200) // the stale socket was replaced

			s.stop()
			if _, err := s.controlSocket(); !os.IsNotExist(err) {
				t.Errorf("after the stop: %v", err)
			}
			if got := s.resetUser(while); got != adminEmail {
				t.Errorf("the link of the running server is of %s", got)
			}
			link := s.resetPassword(adminEmail)
			if !strings.HasPrefix(link, s.URL+"/reset/") || s.resetUser(link) != adminEmail {
				t.Errorf("the link of the stopped server is %s", link)
			}
			if got := s.resetUser(while); got == adminEmail {
				t.Error("the first link works after the second")
			}
			link = s.resetPassword(adminEmail, "--base-url", "https://steward.example.com")
			if !strings.HasPrefix(link, "https://steward.example.com/reset/") {
				t.Errorf("the link with a base URL is %s", link)
			}
		})
	}
}

func TestOperatorIsNobodyInTheAuditLog(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		s.stop()
		s.resetPassword(adminEmail)
		s.start()
		var lines []object
		s.call("GET", "/audit", nil).want(200).decode(&lines)
		if len(lines) != 1 || lines[0]["action"] != "member.reset_password" || lines[0]["user_id"] != nil {
			t.Errorf("audit log: %v", lines)
		}
	})
}

func TestOperatorCommandsExplainTheirErrors(t *testing.T) {
	t.Parallel()
	eachWithOwner(t, func(t *testing.T, s *steward) {
		_, userID := s.invite("grace@example.com", "member")
		s.call("PUT", "/oidc/org/members/"+userID, object{"disabled": true}).want(200)
		s.stop()
		for email, want := range map[string]string{
			"bob@example.com":   "no user has the e-mail address bob@example.com",
			"grace@example.com": "grace@example.com is not an enabled member of any organization and cannot sign in",
		} {
			out, err := s.Command("reset-password", email).CombinedOutput()
			if err == nil || string(out) != "steward: "+want+"\n" {
				t.Errorf("%s: %v: %s", email, err, out)
			}
		}
		if s.Database == "" {
			return
		}
		s.Dir = t.TempDir() // no server was ever started here
		out, err := s.Command("reset-password", adminEmail).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "--base-url") {
			t.Errorf("without a base URL: %v: %s", err, out)
		}
		s.resetPassword(adminEmail, "--base-url", "https://steward.example.com")
	})
}

func TestServerRunsWithoutItsSocketInALongPath(t *testing.T) {
	t.Parallel()
	s := prepare(t, "sqlite")
	s.Dir = filepath.Join(s.Dir, strings.Repeat("d", 120))
	s.must(os.Mkdir(s.Dir, 0o700))
	s.start()
	if !strings.Contains(s.Log(), "steward root-key, reset-password and organization will not work") {
		t.Errorf("log: %s", s.Log())
	}
	out, err := s.Command("root-key").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is longer than") {
		t.Errorf("got %v: %s", err, out)
	}
	s.stop()
	key := s.rootKey().key
	s.start()
	s.as(key).call("GET", "/oidc/org/members", nil).want(200)
}

// TestOrganizationsAreCreatedAndSeparate creates organizations while the process runs and while it is
// stopped. Each has its owner, its project and its audit log, and sees nothing of another.
func TestOrganizationsAreCreatedAndSeparate(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		acme := s.organization("Acme Ltd")
		s.stop()
		offline := s.as(s.Organization("Büro 2"))
		s.start()
		all := map[string]*steward{"Default organization": s, "Acme Ltd": acme, "Büro 2": offline}
		for name, one := range all {
			one.readOrganization()
			one.call("POST", "/webhook/create", object{"name": "hook of " + name}).want(201)
			project := one.call("GET", "/cli/project", nil).ids()
			one.call("PUT", "/thread/t", object{"project_id": project, "metadata": object{"of": name}}).want(200)
		}
		for name, one := range all {
			for path, want := range map[string]string{
				"/cli/organization": name, "/oidc/org/members": `"owner"`, "/cli/project": "Default project",
				"/webhook/list": "hook of " + name, "/thread": `"` + name + `"`,
			} {
				var rows []object
				got := one.call("GET", path, nil).want(200).decode(&rows)
				if len(rows) != 1 || !strings.Contains(string(got.body), want) {
					t.Errorf("%s of %s: %s", path, name, got.body)
				}
			}
			var lines []object
			one.call("GET", "/audit?action=organization.create", nil).want(200).decode(&lines)
			switch {
			case one == s && len(lines) == 0: // the log of a first organization begins after it
			case one != s && len(lines) == 1 && lines[0]["target"] == one.orgID && lines[0]["user_id"] == nil:
			default:
				t.Errorf("the audit log of %s: %v", name, lines)
			}
		}
	})
}

func TestOrganizationNeedsAName(t *testing.T) {
	t.Parallel()
	s := start(t, "sqlite")
	for _, name := range []string{"", " ", strings.Repeat("n", 257)} {
		out, err := s.Command("organization", "create", name).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "name") || strings.Contains(string(out), "sk_") {
			t.Errorf("%q: %v: %s", name, err, out)
		}
	}
}
