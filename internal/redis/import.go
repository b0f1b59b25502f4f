package redis

import (
	"errors"
	"fmt"
	"io/fs"
)

// Import creates the store in a directory from commands that touch at most one key and give the same
// result whenever they run, such as PEXPIREAT instead of EXPIRE. fill calls add with each. When Import
// returns nil, the whole store is durable; before that there is none. You can repeat it after a crash.
func Import(dir FS, fill func(add func(args ...string) error) error) error {
	f, err := dir.Create(newName)
	if err != nil {
		return fmt.Errorf("create log: %w", err)
	}
	defer func() { _ = f.Close() }()
	w := &rewrite{file: f, buf: []byte(magic)}
	if err := fill(w.add); err != nil {
		return err
	}
	if err := w.flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync log: %w", err)
	}
	if err := dir.Rename(newName, logName); err != nil {
		return fmt.Errorf("rename log: %w", err)
	}
	if err := dir.Sync(); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

// add appends a command to a new log.
func (r *rewrite) add(args ...string) error {
	r.frame = appendEffect(r.frame[:0], args)
	r.buf = appendFrame(r.buf, r.frame)
	r.frame = emptied(r.frame)
	if len(r.buf) < rewriteStep {
		return nil
	}
	return r.flush()
}

// Exists reports whether a directory has a store.
func Exists(dir FS) (bool, error) {
	f, err := dir.Open(logName)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
}
