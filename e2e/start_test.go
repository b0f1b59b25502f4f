package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"steward/e2e/process"
	"steward/internal/app/datadir"
)

func TestFirstStartCreatesOrganizationAndRootKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		var keys []struct{ Type, OrgID, Name string }
		s.call("GET", "/cli/apikey", nil).want(200).decode(&keys)
		if len(keys) != 1 || keys[0].Type != "root" || keys[0].OrgID != s.orgID {
			t.Fatalf("keys of a fresh installation: %+v", keys)
		}
		addresses := s.addresses()
		if addresses.BaseURL != s.URL || addresses.PID != s.Cmd.Process.Pid {
			t.Fatalf("steward.json: %+v", addresses)
		}
		org := s.orgID
		s.stop()
		if strings.Contains(s.Log(), s.key) {
			t.Fatal("the log contains the root key")
		}
		s.start()
		if s.orgID != org {
			t.Fatal("the second start has another organization")
		}
	})
}

// addresses reads steward.json.
func (s *steward) addresses() (a datadir.Addresses) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Dir, "steward.json"))
	s.must(err)
	s.must(json.Unmarshal(text, &a))
	return a
}

func TestRootKeyIsPrintedOnce(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			s := prepare(t, name)
			first, stop := s.startOutput()
			stop()
			key := regexp.MustCompile(`Root key +(sk_\w{49})`).FindStringSubmatch(first)
			org := regexp.MustCompile(`Organization +(org_\w{26})`).FindStringSubmatch(first)
			if key == nil || org == nil || !strings.Contains(first, "curl ") || !strings.Contains(first, "/console/") {
				t.Fatalf("the first start prints:\n%s", first)
			}
			second, stop := s.startOutput()
			stop()
			if strings.Contains(second, "sk_") || !strings.Contains(second, "steward root-key") {
				t.Fatalf("the second start prints:\n%s", second)
			}
			s.key = key[1]
			s.start()
			if s.orgID != org[1] {
				t.Errorf("the organization is %s, want %s", s.orgID, org[1])
			}
		})
	}
}

// startOutput starts the process without STEWARD_ROOT_KEY. It returns what the process prints until
// it is ready, and a function that stops it.
func (s *steward) startOutput() (output string, stop func()) {
	s.t.Helper()
	cmd := s.Serve()
	stdout, err := cmd.StdoutPipe()
	s.must(err)
	s.must(cmd.Start())
	s.t.Cleanup(func() { _ = cmd.Process.Kill() })
	var b strings.Builder
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		b.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "steward member create") || strings.Contains(lines.Text(), "steward root-key") {
			break
		}
	}
	return b.String(), func() {
		s.must(cmd.Process.Signal(os.Interrupt))
		s.must(cmd.Wait())
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
		s := prepare(t, "sqlite")
		cmd := s.Serve(flag, listener.Addr().String())
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), flag+": ") || !strings.Contains(string(out), "in use") {
			t.Errorf("%s: %v: %s", flag, err, out)
		}
		output, stop := s.startOutput()
		stop()
		if !strings.Contains(output, "Root key") {
			t.Errorf("%s: the start after the failed one does not print the root key:\n%s", flag, output)
		}
	}
}

func TestSecondProcessOnOneDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, "sqlite")
	out, err := s.Serve().CombinedOutput()
	want := fmt.Sprintf("in use by process %d", s.Cmd.Process.Pid)
	if err == nil || !strings.Contains(string(out), want) {
		t.Fatalf("got %v: %s", err, out)
	}
}

var otherMasterKey = "STEWARD_MASTER_KEY=" + strings.Repeat("ab", 32)

func TestWrongMasterKeyIsRefused(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		s.stop()
		s.checkMasterKeyRefused(otherMasterKey)
	})
}

func (s *steward) checkMasterKeyRefused(env string) {
	s.t.Helper()
	cmd := s.Serve()
	cmd.Env = append(cmd.Env, env)
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "master key") {
		s.t.Fatalf("got %v: %s", err, out)
	}
}

func TestMasterKeyIsRotated(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		body := object{"name": "sealed"}
		first := s.call("POST", "/cli/apikey", body, "Idempotency-Key", "k").want(201) // stored sealed
		s.stop()
		old, err := os.ReadFile(filepath.Join(s.Dir, "master.key"))
		s.must(err)
		s.must(os.Remove(filepath.Join(s.Dir, "master.key")))
		s.Env = []string{otherMasterKey, "STEWARD_OLD_MASTER_KEYS=" + strings.TrimSpace(string(old))}
		s.start()
		again := s.call("POST", "/cli/apikey", body, "Idempotency-Key", "k").want(201)
		if string(again.body) != string(first.body) {
			t.Errorf("with a new key the stored response is %s, want %s", again.body, first.body)
		}
		s.stop()
		s.checkMasterKeyRefused(otherMasterKey)
	})
}

func TestRootKeyCommandMakesAKey(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		s.stop()
		out, err := s.Command("root-key").Output()
		s.must(err)
		s.start()
		s.as(strings.TrimSpace(string(out))).call("GET", "/oidc/org/members", nil).want(200)
		var lines []object
		s.call("GET", "/audit", nil).want(200).decode(&lines)
		if len(lines) != 1 || lines[0]["action"] != "apikey.root" || lines[0]["user_id"] != nil {
			t.Errorf("audit log: %v", lines)
		}
	})
}
