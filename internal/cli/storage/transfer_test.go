package storage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLocations(t *testing.T) {
	for text, want := range map[string]Location{
		"s3://b/k/l":  {Bucket: "b", Path: "k/l"},
		"s3://b":      {Bucket: "b"},
		"./file":      {Path: "./file"},
		"dir/sub.txt": {Path: "dir/sub.txt"},
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "s3://", "s3:///key"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestNameCannotLeaveItsDirectory(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "deep", "target")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(base, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../outside", "a/../../outside", "/outside", "link/outside"} {
		err := Copy{To: Location{Path: dir}, Target: name}.writeFile(strings.NewReader("x"))
		if err == nil {
			t.Errorf("%s was written", name)
		}
	}
	for _, outside := range []string{filepath.Join(base, "outside"), filepath.Join(base, "deep", "outside")} {
		if _, err := os.Stat(outside); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v", outside, err)
		}
	}
}

// broken is a source that ends too early.
type broken struct{}

func (broken) Read(b []byte) (int, error) { return copy(b, "half"), errors.New("connection lost") }

func TestInterruptedCopyLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	one := Copy{To: Location{Path: dir}, Target: "sub/file", Modified: time.Unix(1_700_000_000, 0)}
	if err := one.writeFile(broken{}); err == nil {
		t.Fatal("no error")
	}
	if entries, err := os.ReadDir(filepath.Join(dir, "sub")); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if err := one.writeFile(strings.NewReader("all")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "sub", "file"))
	if err != nil || !info.ModTime().Equal(one.Modified) {
		t.Errorf("modified %v, %v", info.ModTime(), err)
	}
}

func TestSyncFindsWhatDiffers(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	old, recent := time.Unix(1_700_000_000, 0), time.Unix(1_700_000_100, 0)
	for path, file := range map[string]struct {
		text string
		at   time.Time
	}{
		filepath.Join(from, "same"): {"x", old}, filepath.Join(to, "same"): {"x", recent},
		filepath.Join(from, "size"): {"xy", old}, filepath.Join(to, "size"): {"x", recent},
		filepath.Join(from, "newer"): {"x", recent}, filepath.Join(to, "newer"): {"x", old},
		filepath.Join(from, "missing"): {"x", old}, filepath.Join(to, "extra"): {"x", old},
	} {
		if err := os.WriteFile(path, []byte(file.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, file.at, file.at); err != nil {
			t.Fatal(err)
		}
	}
	copies, extra, err := new(Copier).PlanSync(t.Context(), Location{Path: from}, Location{Path: to})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, one := range copies {
		names = append(names, one.Source)
	}
	if strings.Join(names, " ") != "missing newer size" || strings.Join(extra, " ") != "extra" {
		t.Errorf("copies %v, extra %v", names, extra)
	}
}
