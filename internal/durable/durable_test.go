package durable_test

import (
	"os"
	"path/filepath"
	"testing"

	"steward/internal/durable"
)

func TestWriteFileReplacesAndLeavesNothingElse(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "node")
	for _, content := range []string{"one", "a longer two", ""} {
		if err := durable.WriteFile(name, []byte(content)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil || string(got) != content {
			t.Errorf("got %q, %v, want %q", got, err, content)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("entries %v, %v", entries, err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestWriteFileKeepsTheOldContentIfItFails(t *testing.T) {
	name := filepath.Join(t.TempDir(), "directory")
	if err := os.MkdirAll(filepath.Join(name, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	if durable.WriteFile(name, []byte("x")) == nil {
		t.Error("a directory was replaced")
	}
	if _, err := os.Stat(filepath.Join(name, "full")); err != nil {
		t.Error(err)
	}
	if durable.WriteFile(filepath.Join(name, "missing", "x"), nil) == nil {
		t.Error("a file was written into a directory that does not exist")
	}
}
