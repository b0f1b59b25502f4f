package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/process"
)

func TestFirstStartCreatesOrganizationAndRootKey(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		var keys []struct{ Type, OrgID, Name string }
		s.Call("GET", "/cli/apikey", nil).Want(200).Decode(&keys)
		if len(keys) != 1 || keys[0].Type != "root" || keys[0].OrgID != s.OrgID {
			t.Fatalf("keys of a fresh installation: %+v", keys)
		}
		addresses := s.Addresses()
		if addresses.BaseURL != s.URL || addresses.PID != s.Cmd.Process.Pid {
			t.Fatalf("steward.json: %+v", addresses)
		}
		org := s.OrgID
		s.Stop()
		if strings.Contains(s.Log(), s.Key) {
			t.Fatal("the log contains the root key")
		}
		s.Start()
		if s.OrgID != org {
			t.Fatal("the second start has another organization")
		}
	})
}

func TestRootKeyIsPrintedOnce(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			s := installation.Prepare(t, name)
			first, stop := startOutput(s)
			stop()
			key := regexp.MustCompile(`Root key +(sk_\w{49})`).FindStringSubmatch(first)
			org := regexp.MustCompile(`Organization +(org_\w{26})`).FindStringSubmatch(first)
			if key == nil || org == nil || !strings.Contains(first, "curl ") || !strings.Contains(first, "/console/") {
				t.Fatalf("the first start prints:\n%s", first)
			}
			second, stop := startOutput(s)
			stop()
			if strings.Contains(second, "sk_") || !strings.Contains(second, "steward root-key") ||
				!setupLink.MatchString(second) {
				t.Fatalf("the second start prints:\n%s", second)
			}
			s.Key = key[1]
			s.Start()
			if s.OrgID != org[1] {
				t.Errorf("the organization is %s, want %s", s.OrgID, org[1])
			}
		})
	}
}

// setupLink matches the line with the link with which an installation is set up.
var setupLink = regexp.MustCompile(`(?m)^Set up  http://[^/]+/console/setup#([\w-]{54})$`)

// TestSetupLinkIsPrintedUntilItIsUsed sets an installation up with the link that its start prints.
func TestSetupLinkIsPrintedUntilItIsUsed(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			s := installation.Prepare(t, name)
			first, stop := startOutput(s)
			link := setupLink.FindStringSubmatch(first)
			if link == nil {
				t.Fatalf("the first start prints:\n%s", first)
			}
			fields := strings.Fields(link[0])
			s.URL, _, _ = strings.Cut(fields[2], "/console/")
			if out, err := s.Command("setup-link", "--data", s.Dir).Output(); err != nil || !strings.HasPrefix(string(out), fields[2]+"\n") {
				t.Errorf("setup-link: %v: %s", err, out)
			}
			setUp(s.NewBrowser(), link[1])
			out, err := s.Command("setup-link", "--data", s.Dir).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "is set up") {
				t.Errorf("setup-link after the setup: %v: %s", err, out)
			}
			stop()
			if strings.Contains(s.Log(), link[1]) {
				t.Error("the log contains the link")
			}
			second, stop := startOutput(s)
			stop()
			if strings.Contains(second, "Set up") {
				t.Errorf("the start after the setup prints:\n%s", second)
			}
		})
	}
}

// setUp sets an installation up with the token of a link, and follows the browser into the console.
func setUp(b *installation.Browser, token string) {
	s := b.Steward
	s.T.Helper()
	form := b.Do("GET", s.URL+"/console/setup", nil)
	p := b.Submit(form, map[string]string{
		"token": token, "organization": "Acme", "email": b.Email, "password": b.Password,
	})
	if p.Location != "/console/sign-in" {
		s.T.Fatalf("the setup leads to %d %q: %s", p.Status, p.Location, p.Body)
	}
	if p = b.Do("GET", s.URL+p.Location, nil); p.Location != "/console/" {
		s.T.Errorf("the console is not open: %d %s", p.Status, p.Body)
	}
	if p = b.Do("GET", s.URL+"/console/setup", nil); p.Status != http.StatusGone {
		s.T.Errorf("the page of the setup: %d", p.Status)
	}
}

// TestStartWithSettingsPrintsNoSetupLink covers installations whose first key or owner is given.
func TestStartWithSettingsPrintsNoSetupLink(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]string{
		"STEWARD_ROOT_KEY=a-root-key-of-24-letters": "steward setup-link",
		"STEWARD_ADMIN_EMAIL=ada@example.com":       "steward reset-password ada@example.com",
	} {
		s := installation.Prepare(t, "sqlite")
		s.Env = []string{env}
		output, stop := startOutput(s)
		stop()
		if strings.Contains(output, "#") && strings.Contains(output, "/console/setup") || !strings.Contains(output, want) {
			t.Errorf("%s prints:\n%s", env, output)
		}
	}
}

// startOutput starts the process without STEWARD_ROOT_KEY. It returns what the process prints until
// it is ready, and a function that stops it.
func startOutput(s *installation.Steward) (output string, stop func()) {
	s.T.Helper()
	return outputOf(s, s.Serve())
}

// outputOf is startOutput for a command that serves the installation.
func outputOf(s *installation.Steward, cmd *exec.Cmd) (output string, stop func()) {
	s.T.Helper()
	cmd.Env = append(cmd.Env, s.Env...)
	log, err := os.Create(filepath.Join(s.Dir, "stderr.log"))
	s.Must(err)
	cmd.Stderr = log
	stdout, err := cmd.StdoutPipe()
	s.Must(err)
	s.Must(cmd.Start())
	s.Must(log.Close())
	s.T.Cleanup(func() { _ = cmd.Process.Kill() })
	printed := make([]byte, 64<<10)
	n, err := stdout.Read(printed) // it is written at once
	s.Must(err)
	return string(printed[:n]), func() {
		s.Must(cmd.Process.Signal(os.Interrupt))
		s.Must(cmd.Wait())
	}
}

// TestPortInUseNamesTheFlag also checks that the failed start does not use up the one time that the
// root key is printed.
func TestPortInUseNamesTheFlag(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, flag := range []string{"--listen", "--metrics-listen"} {
		s := installation.Prepare(t, "sqlite")
		cmd := s.Serve(flag, listener.Addr().String())
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), flag+": ") || !strings.Contains(string(out), "in use") {
			t.Errorf("%s: %v: %s", flag, err, out)
		}
		output, stop := startOutput(s)
		stop()
		if !strings.Contains(output, "Root key") {
			t.Errorf("%s: the start after the failed one does not print the root key:\n%s", flag, output)
		}
	}
}

func TestSecondProcessOnOneDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	out, err := s.Serve().CombinedOutput()
	want := fmt.Sprintf("in use by process %d", s.Cmd.Process.Pid)
	if err == nil || !strings.Contains(string(out), want) {
		t.Fatalf("got %v: %s", err, out)
	}
}

var otherMasterKey = "STEWARD_MASTER_KEY=" + strings.Repeat("ab", 32)

func TestWrongMasterKeyIsRefused(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		s.Stop()
		checkMasterKeyRefused(s, otherMasterKey)
	})
}

// TestRefusedStartCreatesNoMasterKey starts on a data directory that has lost its master key.
func TestRefusedStartCreatesNoMasterKey(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		s.Stop()
		path := filepath.Join(s.Dir, "master.key")
		key, err := os.ReadFile(path)
		s.Must(err)
		s.Must(os.Remove(path))
		checkMasterKeyRefused(s)
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("the refused start left a master key: %v", err)
		}
		s.Must(os.WriteFile(path, key, 0o600))
		s.Start()
	})
}

func checkMasterKeyRefused(s *installation.Steward, env ...string) {
	s.T.Helper()
	cmd := s.Serve()
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "master key") {
		s.T.Fatalf("got %v: %s", err, out)
	}
}

func TestMasterKeyIsRotated(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		body := object{"name": "sealed"}
		first := s.Call("POST", "/cli/apikey", body, "Idempotency-Key", "k").Want(201) // stored sealed
		s.Stop()
		old, err := os.ReadFile(filepath.Join(s.Dir, "master.key"))
		s.Must(err)
		s.Must(os.Remove(filepath.Join(s.Dir, "master.key")))
		s.Env = []string{otherMasterKey, "STEWARD_OLD_MASTER_KEYS=" + strings.TrimSpace(string(old))}
		s.Start()
		again := s.Call("POST", "/cli/apikey", body, "Idempotency-Key", "k").Want(201)
		if string(again.Body) != string(first.Body) {
			t.Errorf("with a new key the stored response is %s, want %s", again.Body, first.Body)
		}
		s.Stop()
		checkMasterKeyRefused(s, otherMasterKey)
	})
}

func TestRootKeyCommandMakesAKey(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		s.Stop()
		out, err := s.Command("root-key").Output()
		s.Must(err)
		s.Start()
		s.As(strings.TrimSpace(string(out))).Call("GET", "/oidc/org/members", nil).Want(200)
		var lines []object
		s.Call("GET", "/audit", nil).Want(200).Decode(&lines)
		if len(lines) != 1 || lines[0]["action"] != "apikey.root" || lines[0]["user_id"] != nil {
			t.Errorf("audit log: %v", lines)
		}
	})
}
