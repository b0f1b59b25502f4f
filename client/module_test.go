package client_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

var codeBlock = regexp.MustCompile("(?s)```(?:sh|go)\n(.*?)```")

// TestAnotherModuleImportsThePackage follows docs/client.md: it makes a module as the shell commands say, with the
// program beside them, and builds it without a network.
func TestAnotherModuleImportsThePackage(t *testing.T) {
	text, err := os.ReadFile("../docs/client.md")
	if err != nil {
		t.Fatal(err)
	}
	section := regexp.MustCompile(`(?s)## In a module of your own\n(.*?)\n## `).FindSubmatch(text)
	if section == nil {
		t.Fatal("docs/client.md does not say how another module imports the package")
	}
	blocks := codeBlock.FindAllSubmatch(section[1], -1)
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	module := filepath.Join(dir, "shop")
	if err := os.Mkdir(module, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(root, filepath.Join(dir, "steward")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(module, "main.go"), blocks[0][1], 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-e", "-c", string(blocks[1][1]))
	cmd.Dir = module
	cmd.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
