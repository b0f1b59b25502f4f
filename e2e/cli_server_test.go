package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/internal/waittest"
)

func TestDoctorInEveryState(t *testing.T) {
	t.Parallel()
	for _, name := range process.Databases {
		t.Run(name, func(t *testing.T) {
			s := installation.Prepare(t, name)
			s.Dir = filepath.Join(s.Dir, "data")
			free := []string{"--listen", "127.0.0.1:0", "--s3-listen", "127.0.0.1:0", "--kv-listen", "127.0.0.1:0", "--metrics-listen", ""}
			out, code := s.RunDoctor(free...)
			if code != 0 {
				t.Errorf("before the first start: code %d: %s", code, out)
			}
			installation.WantChecks(t, out, "data directory  warning  .*does not exist yet", "master key  ok  the first start creates", "metrics listener  ok  disabled")
			if _, err := os.Stat(s.Dir); !os.IsNotExist(err) {
				t.Errorf("the data directory was created: %v", err)
			}
			s.Must(os.Mkdir(s.Dir, 0o700))
			s.Start()
			out, code = s.RunDoctor()
			if code != 0 {
				t.Errorf("while it runs: code %d: %s", code, out)
			}
			installation.WantChecks(t, out, "version  ok  .*the server runs as process", "database  ok  "+name+" .*schema", "master key  ok  it is the one",
				"API listener  ok  process .* listens on", "base URL  ok  http://.* is ready", "clock  ok", "fsync  ok|fsync  warning", "egress  ok")
			s.Stop()
			out, code = s.RunDoctor(free...)
			if code != 0 {
				t.Errorf("after the stop: code %d: %s", code, out)
			}
			installation.WantChecks(t, out, "version  ok  .*no server is running", "API listener  ok  127.0.0.1:0 is free")
		})
	}
}

func TestDoctorFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		s.Stop()
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		s.Must(err)
		defer taken.Close()
		s.Must(os.Chmod(s.Dir, 0o755))
		s.Must(os.Remove(filepath.Join(s.Dir, "master.key")))
		out, code := s.RunDoctor("--listen", taken.Addr().String(), "--egress-allow", "0.0.0.0/0")
		if code != 1 || !strings.Contains(out, "steward: ") {
			t.Errorf("code %d", code)
		}
		installation.WantChecks(t, out, "data directory  warning  other users .*; run chmod 700", "master key  failed  .*master.key is missing.*; set STEWARD_MASTER_KEY",
			"API listener  failed  .*in use; stop the other program", "egress  warning  .*every private network")
		if _, err := os.Stat(filepath.Join(s.Dir, "master.key")); !os.IsNotExist(err) {
			t.Errorf("a master key was created: %v", err)
		}
		s.Must(os.WriteFile(filepath.Join(s.Dir, "master.key"), []byte(strings.Repeat("A", 43)+"=\n"), 0o600))
		out, _ = s.RunDoctor()
		installation.WantChecks(t, out, "master key  failed  the master key is not the one")
		if s.Database != "" {
			out, code = s.RunDoctor("--database-url", "postgres://nobody:secret@127.0.0.1:1/x")
			installation.WantChecks(t, out, "database  failed  .*; check --database-url")
			if code != 1 || strings.Contains(out, "secret") {
				t.Errorf("without a database server: code %d: %s", code, out)
			}
		}
	})
}

func TestConfigSaysWhereSettingsComeFrom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "steward.yaml")
	secret := filepath.Join(dir, "root.key")
	for name, text := range map[string]string{
		file:   "log_level: debug\nregions:\n  - {region: north, description: North}\n",
		secret: "a-root-key-of-some-length\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	binary, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		cmd := exec.Command(binary, append([]string{"config", "--config", file, "--listen", ":1234"}, args...)...)
		cmd.Env = []string{
			"STEWARD_ROOT_KEY_FILE=" + secret, "STEWARD_DATABASE_URL=postgres://u:hunter2@h/d", "STEWARD_ADMIN_EMAIL=a@b.example",
			"STEWARD_ADMIN_PASSWORD=correct horse", "STEWARD_URL=http://elsewhere", "STEWARD_KEY=sk_other",
		}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	out := run()
	installation.WantChecks(t, out, `listen  :1234  --listen$`, `data  ./steward-data  default$`, `log-level  debug  log_level \(steward.yaml, line 1\)$`,
		`root-key  \(secret\)  STEWARD_ROOT_KEY_FILE$`, `database-url  postgres://u:xxxxx@h/d  STEWARD_DATABASE_URL$`,
		`admin-email  a@b.example  STEWARD_ADMIN_EMAIL$`, `regions  north  regions \(steward.yaml, line \d\)$`, `base-url  not set$`)
	out += run("-o", "json")
	for _, hidden := range []string{"hunter2", "a-root-key", "correct horse", "sk_other"} {
		if strings.Contains(out, hidden) {
			t.Errorf("%s is shown", hidden)
		}
	}
}

func TestRootKeyRevokesTheOthers(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		made := s.KeyOf("")
		second := rootKey(s)
		var out, errOut strings.Builder
		cmd := s.Command("root-key", "--revoke-others")
		cmd.Stdout, cmd.Stderr = &out, &errOut
		s.Must(cmd.Run())
		third := s.As(strings.TrimSpace(out.String()))
		if !strings.Contains(errOut.String(), "2 other root keys were deleted") {
			t.Errorf("stderr: %s", errOut.String())
		}
		third.Call("GET", "/cli/auth/user", nil).Want(200)
		made.Call("GET", "/cli/auth/user", nil).Want(200)
		for name, old := range map[string]*installation.Steward{"first": s, "second": second} {
			waittest.Within(t, 0, "the "+name+" key to be refused", func() bool {
				return old.Call("GET", "/cli/auth/user", nil).Status == 401
			})
		}
		var lines []object
		third.Call("GET", "/audit", nil).Want(200).Decode(&lines)
		if len(lines) < 3 || lines[0]["action"] != "apikey.root" || lines[1]["action"] != "apikey.delete" || lines[1]["user_id"] != nil {
			t.Errorf("audit log: %v", lines)
		}
	})
}
