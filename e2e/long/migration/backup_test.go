package migration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"steward/e2e/installation"
)

// TestBackupCommands makes backups of a running installation with the command line, and restores one.
func TestBackupCommands(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	b := openCopyBucket(s)
	content, _ := b.fill(t)
	h := s.NewHook("orders")
	dir := t.TempDir()
	file := filepath.Join(dir, "encrypted")
	run := func(env string, args ...string) (string, error) {
		cmd := s.Command(args...)
		if args[0] == "restore" || args[1] == "verify" || args[1] == "list" { // not the directory of the server
			cmd.Args = cmd.Args[:len(cmd.Args)-2]
		}
		cmd.Env = append(cmd.Env, env)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(env, says string, args ...string) {
		t.Helper()
		if out, err := run(env, args...); err != nil || !strings.Contains(out, says) {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	refuse := func(env, says string, args ...string) {
		t.Helper()
		if out, err := run(env, args...); err == nil || !strings.Contains(out, says) {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
	const right, wrong = "STEWARD_BACKUP_PASSPHRASE=right", "STEWARD_BACKUP_PASSPHRASE=wrong"
	must(right, "encrypted has", "backup", file, "--passphrase", "--with-key")
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	must(right, "The backup is complete", "backup", "verify", file)
	refuse(wrong, "the passphrase or the identity is wrong", "backup", "verify", file)
	refuse(right, "exists", "backup", file, "--passphrase")
	refuse(right, "in use by process", "restore", file, "--data", s.Dir)

	kept := filepath.Join(dir, "kept") + "/"
	must("A=", "was added", "backup", kept, "--with-key")
	must("A=", "1 older backups were removed", "backup", kept, "--with-key", "--keep", "1")
	must("A=", "CREATED", "backup", "list", kept)
	must("A=", "The backup is complete", "backup", "verify", kept)
	s.Stop()

	restored := filepath.Join(dir, "restored")
	must("STEWARD_DATABASE_URL=", "--base-url "+s.URL, "restore", kept, "--data", restored)
	refuse("STEWARD_DATABASE_URL=", "is not empty", "restore", kept, "--data", restored)
	s.Dir = restored
	s.Start()
	openCopyBucket(s).mustHave(t, content)
	if got := s.Call("GET", "/webhook/url/"+h.ID, nil).Want(200).Text("url"); got != s.URL+h.Path {
		t.Errorf("the URL of the webhook is %s, want %s", got, h.Path)
	}
	s.Stop()
	must("A=", "has", "backup", filepath.Join(dir, "offline")) // no server is running
}
