package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWriteAddresses(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []Addresses{
		{PID: 1, Version: "dev", BaseURL: "http://a", Listen: map[string]string{"api": "127.0.0.1:1", "s3": "127.0.0.1:2"}},
		{PID: 2, Version: "v1", BaseURL: "http://b", Listen: map[string]string{"api": "127.0.0.1:3"}},
	} {
		if err := WriteAddresses(dir, want); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(filepath.Join(dir, "steward.json"))
		if err != nil {
			t.Fatal(err)
		}
		var got Addresses
		if err := json.Unmarshal(content, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("%d files are left, want one", len(entries))
	}
	if err := WriteAddresses(filepath.Join(dir, "missing"), Addresses{}); err == nil {
		t.Error("a missing directory was written to")
	}
	if err := os.Mkdir(filepath.Join(dir, "steward.json.tmp"), 0o700); err != nil { // prevents the next write
		t.Fatal(err)
	}
	if err := WriteAddresses(dir, Addresses{PID: 3}); err == nil {
		t.Error("a directory was replaced")
	}
	if _, err := os.Stat(filepath.Join(dir, "steward.json")); err == nil {
		t.Error("the addresses of an earlier process are still there")
	}
}
