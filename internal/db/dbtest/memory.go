package dbtest

import (
	"os"
	"syscall"
	"testing"
)

// shared is where Linux keeps files in memory.
const shared = "/dev/shm"

// memory returns the parent directory for database files, as os.MkdirTemp takes it. It is in memory
// if there is room: a PostgreSQL database has 640 files, which take ten times as long on disk, and
// SQLite waits for the disk at each commit. TMPDIR and STEWARD_TEST_FSYNC are respected.
func memory() string {
	var fs syscall.Statfs_t
	if os.Getenv("TMPDIR") != "" || os.Getenv("STEWARD_TEST_FSYNC") != "" || syscall.Statfs(shared, &fs) != nil {
		return ""
	}
	if fs.Bavail*uint64(fs.Bsize) < 2<<30 { // containers often have 64 MB
		return ""
	}
	return shared
}

// tempDir returns a directory for a database's files, which is removed when the test ends.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp(memory(), "steward-db-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
