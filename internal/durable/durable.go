// Package durable writes files so that they survive a power failure.
package durable

import (
	"os"
	"path/filepath"
)

// WriteFile replaces a file in one step. When it returns nil, the new content is durable. Only the owner
// can read the file.
func WriteFile(name string, content []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // it is gone if it was renamed
	if err := writeAndSync(temporary, content); err != nil {
		return err
	}
	if err := os.Rename(temporary.Name(), name); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(name))
}

func writeAndSync(f *os.File, content []byte) error {
	defer func() { _ = f.Close() }()
	if _, err := f.Write(content); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return f.Close()
}

// SyncDir makes the entries of a directory durable: files that were created, renamed or removed.
func SyncDir(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return dir.Sync()
}
