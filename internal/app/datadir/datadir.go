// Package datadir owns the files in a data directory that belong to no slice: the lock, the running
// server's addresses, and the directory's id.
package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"steward/internal/db"
	"steward/internal/durable"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/resource"
)

// Lock is the lock on a data directory, which one process at a time holds.
type Lock struct{ file *os.File }

// Acquire creates the directory if it does not exist, and locks it. The kernel releases the lock
// when the process ends, so a leftover lock file locks nothing.
//
// It returns errs.Conflict if another process, or another Lock in this one, holds the lock for
// longer than Running needs it.
func Acquire(dir string) (*Lock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the data directory: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "steward.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the data directory: %w", err)
	}
	err = flock(file, dir)
	for i := 0; i < 10 && errs.KindOf(err) == errs.Conflict; i++ {
		time.Sleep(50 * time.Millisecond)
		err = flock(file, dir)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return &Lock{file}, nil
}

// Release releases the lock. The file stays: removing it could take it from a process that has just
// opened it, and two processes would each hold a lock. Its content is for people, so we ignore
// errors.
func (l *Lock) Release() {
	_ = l.file.Truncate(0)
	_ = l.file.Close()
}

func flock(file *os.File, dir string) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errs.New(errs.Conflict, "data directory %s is in use by %s", dir, holder(file))
	}
	if err != nil {
		return fmt.Errorf("lock the data directory: %w", err)
	}
	// The process id is for people: a full disk must not prevent the start.
	if file.Truncate(0) == nil {
		_, _ = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	return nil
}

// holder describes the process that holds the lock. The file is empty for a moment after locking.
func holder(file *os.File) string {
	content, err := io.ReadAll(io.NewSectionReader(file, 0, 32))
	if err != nil {
		return "another process"
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return "another process"
	}
	return fmt.Sprintf("process %d", pid)
}

// Addresses is the content of steward.json, by which other programs find a running server.
type Addresses struct {
	PID     int               `json:"pid"`
	Version string            `json:"version"`
	BaseURL string            `json:"base_url"`
	S3URL   string            `json:"s3_url"`
	KVURL   string            `json:"kv_url,omitempty"`
	TLS     bool              `json:"tls,omitempty"` // true if the clients' listeners serve TLS
	Listen  map[string]string `json:"listen"`        // actual addresses, by listener: api, api_ipv6, s3, kv, metrics, internal
}

// WriteAddresses writes steward.json in the data directory. It replaces the file in one step, and
// removes it if it cannot write it, because an earlier process's addresses would mislead. It does
// not sync, because each start writes the file again. The caller holds the directory's lock, so one
// temporary name is enough.
func WriteAddresses(dir string, a Addresses) error {
	name := filepath.Join(dir, "steward.json")
	if err := replaceFile(name, a); err != nil {
		_ = os.Remove(name + ".tmp")
		_ = os.Remove(name)
		return fmt.Errorf("write steward.json: %w", err)
	}
	return nil
}

// ReadAddresses reads steward.json from the last start on a data directory.
func ReadAddresses(dir string) (Addresses, error) {
	var a Addresses
	content, err := os.ReadFile(filepath.Join(dir, "steward.json"))
	if err != nil {
		return a, fmt.Errorf("read steward.json: %w", err)
	}
	if err := json.Unmarshal(content, &a); err != nil {
		return a, fmt.Errorf("decode steward.json: %w", err)
	}
	return a, nil
}

func replaceFile(name string, a Addresses) error {
	content, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(name+".tmp", append(content, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".tmp", name)
}

// Node returns the name that a data directory has in a database's rows.
func Node(dir string, dialect db.Dialect) (string, error) {
	if dialect == db.SQLite {
		return resource.OnlyNode, nil // the database has no other directories
	}
	return NodeID(dir)
}

// NodeID returns a data directory's identifier, and creates it at the first call. Resources with
// files in the directory have it in their rows, so that other replicas know that the files are not
// in theirs.
func NodeID(dir string) (string, error) {
	name := filepath.Join(dir, "node")
	content, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return createNodeID(name)
	}
	if err != nil {
		return "", fmt.Errorf("read the id of the data directory: %w", err)
	}
	node := strings.TrimSpace(string(content))
	if !id.Is(id.Node, node) {
		return "", fmt.Errorf("%s must contain the id of the data directory; restore the file, because resources belong to the id", name)
	}
	return node, nil
}

func createNodeID(name string) (string, error) {
	node := id.New(id.Node)
	if err := durable.WriteFile(name, []byte(node+"\n")); err != nil {
		return "", fmt.Errorf("write the id of the data directory: %w", err)
	}
	return node, nil
}

// Same reports whether two paths lead to the same directory or file.
func Same(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// DatabaseFile returns the path of the SQLite database.
func DatabaseFile(dir string) string { return filepath.Join(dir, "steward.db") }

// Running returns the addresses of the server that holds a data directory's lock, or nil.
func Running(dir string) *Addresses {
	file, err := os.OpenFile(filepath.Join(dir, "steward.lock"), os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = file.Close() }()
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
		return nil // closing the file releases it
	}
	a, err := ReadAddresses(dir)
	if err != nil {
		return nil
	}
	return &a
}
