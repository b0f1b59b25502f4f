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
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	built := t.TempDir()
	cmd := exec.Command(filepath.Join(root, "tools/console"), built)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("tools/console: %v\n%s", err, out)
	}
	committed := contents(t, dist, "dist")
	current := contents(t, os.DirFS(built), ".")
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
func contents(t *testing.T, files fs.FS, dir string) map[string][]byte {
	sub, err := fs.Sub(files, dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]byte{}
	err = fs.WalkDir(sub, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		found[name], err = fs.ReadFile(sub, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
