package redis

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// FS is a store's directory. Tests use their own to simulate power failures.
type FS interface {
	// Open opens a file for reading and writing. It returns fs.ErrNotExist if there is none.
	Open(name string) (File, error)
	// Create creates an empty file. It replaces one that exists.
	Create(name string) (File, error)
	// Rename renames a file. It replaces one that exists. The new name is durable after Sync.
	Rename(from, to string) error
	// Remove removes a file. It returns nil if there is none.
	Remove(name string) error
	// Sync makes creations, renames and removals durable.
	Sync() error
}

// File is a store's file.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Size returns the file's size in bytes.
	Size() (int64, error)
	// Truncate shortens the file.
	Truncate(size int64) error
	// Sync makes the content durable.
	Sync() error
}

// Dir is a directory in the operating system's file system.
type Dir string

// Open implements FS.
func (d Dir) Open(name string) (File, error) { return d.open(name, os.O_RDWR) }

// Create implements FS.
func (d Dir) Create(name string) (File, error) { return d.open(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC) }

func (d Dir) open(name string, flag int) (File, error) {
	f, err := os.OpenFile(filepath.Join(string(d), name), flag, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open file of a store: %w", err)
	}
	return file{f}, nil
}

// Rename implements FS.
func (d Dir) Rename(from, to string) error {
	return os.Rename(filepath.Join(string(d), from), filepath.Join(string(d), to))
}

// Remove implements FS.
func (d Dir) Remove(name string) error {
	err := os.Remove(filepath.Join(string(d), name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Sync implements FS.
func (d Dir) Sync() error {
	f, err := os.Open(string(d))
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// file is a file in a Dir.
type file struct{ *os.File }

// Size implements File.
func (f file) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Sync implements File.
func (f file) Sync() error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
