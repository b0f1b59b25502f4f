package backups

import (
	"path/filepath"
	"strings"

	"steward/internal/app/datadir"
	"steward/internal/errs"
)

// checkTarget returns Conflict if backups would end up among their own installation's files: the
// objects' bytes and the backups' would be the same files, and each would delete them.
func checkTarget(target, data string) error {
	if strings.HasPrefix(target, "s3://") {
		return nil
	}
	dir, err := filepath.Abs(target)
	if err != nil {
		return err
	}
	folders := []string{filepath.Join(data, "blobs"), filepath.Join(data, "databases"), filepath.Join(data, "stores")}
	own := append([]string{data}, folders...)
	for {
		for _, name := range own {
			if datadir.Same(dir, name) {
				return errs.New(errs.Conflict, "backups cannot be among the files of the data directory; take another directory than %s", target)
			}
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return nil
		}
		dir = parent
		own = folders // a directory next to them is fine
	}
}
