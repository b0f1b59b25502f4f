package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"steward/internal/errs"
)

// DirLock keeps other processes off a data directory.
type DirLock struct{ file *os.File }

// LockDir makes the directory unless it is there, and locks it. The kernel drops the lock with the process, however that ends, so a
// lock file that was left behind locks nothing.
//
// Errors: errs.Conflict when another process, or another DirLock of this one, holds it.
func LockDir(dir string) (*DirLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the data directory: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "steward.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	if err := lock(file, dir); err != nil {
		file.Close()
		return nil, err
	}
	return &DirLock{file}, nil
}

// Close gives the directory free. The file stays: who removed it could pull it from under a process that has just opened it, and two
// processes would hold a lock each.
func (l *DirLock) Close() error {
	return errors.Join(l.file.Truncate(0), l.file.Close())
}

func lock(file *os.File, dir string) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errs.New(errs.Conflict, "data directory %s is in use by %s", dir, holder(file))
	}
	if err != nil {
		return fmt.Errorf("lock the data directory: %w", err)
	}
	writePID(file)
	return nil
}

// writePID tells those who come later whom to look for. It is for people, the lock is the kernel's: a full disk must not keep us out.
func writePID(file *os.File) {
	if file.Truncate(0) == nil {
		_, _ = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
}

// holder words who holds the lock. For a moment between locking and writing the file is empty.
func holder(file *os.File) string {
	content, err := io.ReadAll(io.LimitReader(file, 32))
	pid, convErr := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil || convErr != nil {
		return "another process"
	}
	return fmt.Sprintf("process %d", pid)
}

// Addresses says where a running Steward can be found.
type Addresses struct {
	PID     int               `json:"pid"`
	Version string            `json:"version"`
	BaseURL string            `json:"base_url"`
	Listen  map[string]string `json:"listen"` // real addresses, by listener: api, s3, kv, metrics
}

// WriteAddresses writes <dir>/steward.json; a reader sees the old file or the new one, never a part, and none at all when it cannot be
// written: the addresses of an earlier process would mislead. It is not synced, since each start writes it anew. The caller holds the
// directory's lock, so one temporary name is enough, and a crash leaves no litter behind.
func WriteAddresses(dir string, a Addresses) error {
	content, err := json.MarshalIndent(a, "", "  ")
	name := filepath.Join(dir, "steward.json")
	if err == nil {
		err = os.WriteFile(name+".tmp", append(content, '\n'), 0o600)
	}
	if err == nil {
		err = os.Rename(name+".tmp", name)
	}
	if err != nil {
		_ = os.Remove(name + ".tmp")
		_ = os.Remove(name)
		return fmt.Errorf("write the addresses: %w", err)
	}
	return nil
}
