// Package tail remembers how far a tail of events has come, and sends recorded requests to a server
// in the same way as deliveries.
//
// A Position is a file with the id of the last handled event. A Sender signs requests as Standard
// Webhooks wants and sends them.
package tail

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Position is a file that remembers the last handled event.
type Position struct{ path string }

// NewPosition returns the position, in a directory, of the tail that a few words identify, such as a
// server, a webhook and a target.
func NewPosition(dir string, words ...string) Position {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return Position{filepath.Join(dir, base64.RawURLEncoding.EncodeToString(sum[:16]))}
}

// Load returns the position and when it was saved. It returns "" if there is none.
func (p Position) Load() (id string, saved time.Time, err error) {
	text, err := os.ReadFile(p.path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", time.Time{}, nil
	}
	if err != nil {
		return "", time.Time{}, fmt.Errorf("read the position: %w", err)
	}
	info, err := os.Stat(p.path)
	if err != nil {
		return "", time.Time{}, fmt.Errorf("read the position: %w", err)
	}
	return strings.TrimSpace(string(text)), info.ModTime(), nil
}

// Save stores a position. It replaces the file in one step and does not sync it: after a crash of
// the machine, some events are shown again.
func (p Position) Save(id string) error {
	if err := os.MkdirAll(filepath.Dir(p.path), 0o700); err != nil {
		return err
	}
	part := fmt.Sprintf("%s.%d", p.path, os.Getpid())
	if err := os.WriteFile(part, []byte(id+"\n"), 0o600); err != nil {
		return err
	}
	return os.Rename(part, p.path)
}
