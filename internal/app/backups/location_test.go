package backups

import (
	"os"
	"path/filepath"
	"testing"

	"steward/internal/errs"
)

// TestBackupsAreNotAmongTheFilesTheyAreMadeOf checks targets in and beside a data directory.
func TestBackupsAreNotAmongTheFilesTheyAreMadeOf(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	for _, name := range []string{"blobs/3m", "databases", "stores", "backups"} {
		must(t, os.MkdirAll(filepath.Join(data, name), 0o700))
	}
	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(data, link))
	for target, ok := range map[string]bool{
		data: false, data + "/": false, link: false, filepath.Join(link, "blobs"): false, filepath.Join(data, "blobs", "new", "dir"): false,
		filepath.Join(data, "databases") + "/": false, filepath.Join(data, "stores", "x"): false,
		filepath.Join(data, "backups"): true, filepath.Dir(data): true, filepath.Join(t.TempDir(), "new"): true, "s3://bucket": true,
	} {
		err := checkTarget(target, data)
		if (err == nil) != ok || !ok && errs.KindOf(err) != errs.Conflict {
			t.Errorf("%s: %v", target, err)
		}
	}
}
