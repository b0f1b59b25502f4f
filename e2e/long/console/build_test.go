package console

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestBuildIsCurrent builds the console again and compares it with what is committed.
func TestBuildIsCurrent(t *testing.T) {
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	built := t.TempDir()
	cmd := exec.Command(filepath.Join(root, "tools/console"), built)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tools/console: %v\n%s", err, out)
	}
	committed := contents(t, filepath.Join(root, "internal/console/dist"))
	current := contents(t, built)
	for name, body := range current {
		if !bytes.Equal(body, committed[name]) {
			t.Errorf("%s differs: run `make console` and commit internal/console/dist", name)
		}
	}
	for name := range committed {
		if current[name] == nil {
			t.Errorf("%s is not built any more: run `make console` and commit internal/console/dist", name)
		}
	}
	if len(current) < 5 {
		t.Errorf("the build has %d files", len(current))
	}
}

// contents returns what the files below a directory contain, by their paths there.
func contents(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := os.DirFS(dir)
	found := map[string][]byte{}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		found[name], err = fs.ReadFile(files, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
