// Package contexts stores the servers that a user has signed in to, with the credentials for each,
// in one file in the user's configuration directory.
//
// Concurrent commands may read the file at any time, because it is replaced in one step. A command
// that changes it takes a lock first and reads it again, so that no change is lost and a refresh
// token is used once.
package contexts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Context is a server with the credentials for it: an API key, or tokens from the device flow.
type Context struct {
	URL   string `json:"url"`
	Key   string `json:"key,omitempty"`
	Token *Token `json:"token,omitempty"`
	// User and OrgID own the credentials, as the server said when the user signed in.
	User  string `json:"user,omitempty"`
	OrgID string `json:"org_id,omitempty"`
}

// Token is a pair of tokens.
type Token struct {
	Access  string    `json:"access_token"`
	Refresh string    `json:"refresh_token,omitempty"`
	Expiry  time.Time `json:"expiry"`
}

// Fresh reports whether the access token is valid for some time after now.
func (t *Token) Fresh(now time.Time) bool { return t.Expiry.Sub(now) > 30*time.Second }

// All is the file's content.
type All struct {
	Current  string             `json:"current,omitempty"`
	Contexts map[string]Context `json:"contexts"`
}

// File is the file of contexts.
type File struct{ Path string }

// Default returns the file in the user's configuration directory, according to the environment.
func Default(getenv func(string) string) (File, error) {
	dir := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) { // as the XDG specification wants
		var err error
		dir, err = os.UserConfigDir()
		if err != nil {
			return File{}, fmt.Errorf("find the configuration directory: %w", err)
		}
	}
	return File{filepath.Join(dir, "steward", "contexts.json")}, nil
}

// Read returns the contexts. There are none if the file does not exist.
func (f File) Read() (All, error) {
	all := All{Contexts: map[string]Context{}}
	content, err := os.ReadFile(f.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return all, fmt.Errorf("read contexts: %w", err)
	}
	if err := json.Unmarshal(content, &all); err != nil {
		return all, fmt.Errorf("%s is not valid JSON (%w); mend it, or remove it and sign in again", f.Path, err)
	}
	if all.Contexts == nil {
		all.Contexts = map[string]Context{}
	}
	return all, nil
}

// Update locks the file, reads it, calls change and replaces the file. The file stays as it is if
// change returns an error.
func (f File) Update(change func(*All) error) error {
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return fmt.Errorf("create the configuration directory: %w", err)
	}
	unlock, err := lock(f.Path + ".lock")
	if err != nil {
		return err
	}
	defer unlock()
	all, err := f.Read()
	if err != nil {
		return err
	}
	if err := change(&all); err != nil {
		return err
	}
	if err := f.replace(all); err != nil {
		return fmt.Errorf("write contexts: %w", err)
	}
	return nil
}

// lock waits for the lock, which the kernel releases when the process ends.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock contexts: %w", err)
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock contexts: %w", err)
	}
	return func() { _ = file.Close() }, nil
}

// replace writes the file under another name, which has mode 0600 from the beginning, and renames
// it.
func (f File) replace(all All) error {
	content, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(f.Path), ".contexts-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // fails after the rename
	_, err = file.Write(append(content, '\n'))
	if err == nil {
		err = file.Sync()
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), f.Path)
}
