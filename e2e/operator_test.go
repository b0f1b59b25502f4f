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

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/internal/account"
	"steward/internal/db"
)

// rootKey runs `steward root-key` and returns the installation with the key that it prints.
func rootKey(s *installation.Steward) *installation.Steward {
	s.T.Helper()
	out, err := s.Command("root-key").CombinedOutput()
	if err != nil {
		s.T.Fatalf("root-key: %v: %s", err, out)
	}
	return s.As(strings.TrimSpace(string(out)))
}

// resetPassword runs `steward reset-password` and returns the link that it prints.
func resetPassword(s *installation.Steward, email string, args ...string) string {
	s.T.Helper()
	out, err := s.Command(append([]string{"reset-password", email}, args...)...).CombinedOutput()
	if err != nil {
		s.T.Fatalf("reset-password: %v: %s", err, out)
	}
	m := regexp.MustCompile(`^(\S+/reset/\w{43})\nThe link can be used once, until (\S+Z)\.\n$`).FindSubmatch(out)
	if m == nil {
		s.T.Fatalf("reset-password prints %q", out)
	}
	expires, err := time.Parse(time.RFC3339, string(m[2]))
	if left := time.Until(expires); err != nil || left > time.Hour || left < 50*time.Minute {
		s.T.Errorf("the link expires at %s: %v", m[2], err)
	}
	return string(m[1])
}

// resetUser returns the address of the user of a link. The server must be stopped.
func resetUser(s *installation.Steward, link string) string {
	s.T.Helper()
	ctx := context.Background()
	d, err := db.Open(ctx, db.Options{Path: filepath.Join(s.Dir, "steward.db"), URL: s.Database})
	s.Must(err)
	defer d.Close()
	accounts := &account.Store{DB: d, Now: time.Now}
	login, err := accounts.ResetOf(ctx, link[strings.LastIndex(link, "/")+1:])
	if err != nil {
		return err.Error()
	}
	return login.Email
}

// controlSocket returns the mode of the control socket.
func controlSocket(s *installation.Steward) (fs.FileMode, error) {
	info, err := os.Stat(filepath.Join(s.Dir, "steward.sock"))
	if err != nil {
		return 0, err
	}
	return info.Mode(), nil
}

// inShortDirectory puts the data where the path of the socket is short enough, whatever the name of
// the test.
func inShortDirectory(s *installation.Steward) {
	s.T.Helper()
	dir, err := os.MkdirTemp("", "steward-")
	s.Must(err)
	s.T.Cleanup(func() { _ = os.RemoveAll(dir) })
	s.Dir = dir
}

func TestOperatorCommandsWorkInEveryState(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			s := installation.Prepare(t, name)
			s.Env = []string{"STEWARD_ADMIN_EMAIL=" + installation.AdminEmail, "STEWARD_ADMIN_PASSWORD=" + installation.AdminPassword}
			inShortDirectory(s)
			s.Start()
			mode, err := controlSocket(s)
			if err != nil || mode != fs.ModeSocket|0o600 {
				t.Fatalf("the socket of the running server: %v, %v", mode, err)
			}
			rootKey(s).Call("GET", "/oidc/org/members", nil).Want(200)
			while := resetPassword(s, "Ada@Example.com")
			if !strings.HasPrefix(while, s.URL+"/reset/") {
				t.Errorf("the link of the running server is %s", while)
			}

			s.Kill() // leaves the socket behind
			if _, err := controlSocket(s); err != nil {
				t.Fatalf("after the kill: %v", err)
			}
			key := rootKey(s)
			s.Start()
			s.As(key.Key).Call("GET", "/oidc/org/members", nil).Want(200)
			rootKey(s).Call("GET", "/oidc/org/members", nil).Want(200) // the stale socket was replaced

			s.Stop()
			if _, err := controlSocket(s); !os.IsNotExist(err) {
				t.Errorf("after the stop: %v", err)
			}
			if got := resetUser(s, while); got != installation.AdminEmail {
				t.Errorf("the link of the running server is of %s", got)
			}
			link := resetPassword(s, installation.AdminEmail)
			if !strings.HasPrefix(link, s.URL+"/reset/") || resetUser(s, link) != installation.AdminEmail {
				t.Errorf("the link of the stopped server is %s", link)
			}
			if got := resetUser(s, while); got == installation.AdminEmail {
				t.Error("the first link works after the second")
			}
			link = resetPassword(s, installation.AdminEmail, "--base-url", "https://steward.example.com")
			if !strings.HasPrefix(link, "https://steward.example.com/reset/") {
				t.Errorf("the link with a base URL is %s", link)
			}
		})
	}
}

func TestOperatorIsNobodyInTheAuditLog(t *testing.T) {
	t.Parallel()
	installation.EachWithOwner(t, func(t *testing.T, s *installation.Steward) {
		s.Stop()
		resetPassword(s, installation.AdminEmail)
		s.Start()
		var lines []object
		s.Call("GET", "/audit", nil).Want(200).Decode(&lines)
		if len(lines) != 1 || lines[0]["action"] != "member.reset_password" || lines[0]["user_id"] != nil {
			t.Errorf("audit log: %v", lines)
		}
	})
}

func TestOperatorCommandsExplainTheirErrors(t *testing.T) {
	t.Parallel()
	s := installation.StartWithOwner(t, "sqlite")
	_, userID := s.Invite("grace@example.com", "member")
	s.Call("PUT", "/oidc/org/members/"+userID, object{"disabled": true}).Want(200)
	s.Stop()
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
	out, err := s.Command("reset-password", installation.AdminEmail).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--base-url") {
		t.Errorf("without a base URL: %v: %s", err, out)
	}
	resetPassword(s, installation.AdminEmail, "--base-url", "https://steward.example.com")
}

func TestServerRunsWithoutItsSocketInALongPath(t *testing.T) {
	t.Parallel()
	s := installation.Prepare(t, "sqlite")
	s.Dir = filepath.Join(s.Dir, strings.Repeat("d", 120))
	s.Must(os.Mkdir(s.Dir, 0o700))
	s.Start()
	if !strings.Contains(s.Log(), "steward backup, migrate, root-key, reset-password, setup-link, organization and secrets will not work") {
		t.Errorf("log: %s", s.Log())
	}
	out, err := s.Command("root-key").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "is longer than") {
		t.Errorf("got %v: %s", err, out)
	}
	s.Stop()
	key := rootKey(s).Key
	s.Start()
	s.As(key).Call("GET", "/oidc/org/members", nil).Want(200)
}

// TestOrganizationsAreCreatedAndSeparate creates organizations while the process runs and while it is
// stopped. Each has its owner, its project and its audit log, and sees nothing of another.
func TestOrganizationsAreCreatedAndSeparate(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		acme := s.Organization("Acme Ltd")
		s.Stop()
		offline := s.As(s.Steward.Organization("Büro 2"))
		s.Start()
		all := map[string]*installation.Steward{"Default organization": s, "Acme Ltd": acme, "Büro 2": offline}
		for name, one := range all {
			one.ReadOrganization()
			one.Call("POST", "/webhook/create", object{"name": "hook of " + name}).Want(201)
			project := one.Call("GET", "/cli/project", nil).IDs()
			one.Call("PUT", "/thread/t", object{"project_id": project, "metadata": object{"of": name}}).Want(200)
		}
		for name, one := range all {
			for path, want := range map[string]string{
				"/cli/organization": name, "/oidc/org/members": `"owner"`, "/cli/project": "Default project",
				"/webhook/list": "hook of " + name, "/thread": `"` + name + `"`,
			} {
				var rows []object
				got := one.Call("GET", path, nil).Want(200).Decode(&rows)
				if len(rows) != 1 || !strings.Contains(string(got.Body), want) {
					t.Errorf("%s of %s: %s", path, name, got.Body)
				}
			}
			var lines []object
			one.Call("GET", "/audit?action=organization.create", nil).Want(200).Decode(&lines)
			switch {
			case one == s && len(lines) == 0: // the log of a first organization begins after it
			case one != s && len(lines) == 1 && lines[0]["target"] == one.OrgID && lines[0]["user_id"] == nil:
			default:
				t.Errorf("the audit log of %s: %v", name, lines)
			}
		}
	})
}

func TestOrganizationNeedsAName(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	for _, name := range []string{"", " ", strings.Repeat("n", 257)} {
		out, err := s.Command("organization", "create", name).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "name") || strings.Contains(string(out), "sk_") {
			t.Errorf("%q: %v: %s", name, err, out)
		}
	}
}
