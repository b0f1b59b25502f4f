// Package masterkey finds the master key, and checks that the database was written with it.
package masterkey

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"steward/internal/app/config"
	"steward/internal/db"
	"steward/internal/rotation"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Ring returns the configured master keys, or the one in the data directory. It creates none.
func Ring(ctx context.Context, cfg config.Config) (*seal.Ring, error) {
	key, err := Current(ctx, cfg)
	if errors.Is(err, fs.ErrNotExist) && !Configured(cfg) {
		return nil, errMasterKey
	}
	if err != nil {
		return nil, err
	}
	return RingOf(cfg, key)
}

// RingOf returns a master key with the configured old ones.
func RingOf(cfg config.Config, key []byte) (*seal.Ring, error) {
	keys := [][]byte{key}
	for _, old := range cfg.OldMasterKeys {
		keys = append(keys, []byte(old))
	}
	return seal.NewRing(keys...)
}

// Current returns the master key that seals values.
func Current(ctx context.Context, cfg config.Config) ([]byte, error) {
	switch {
	case cfg.MasterKey != "":
		return []byte(cfg.MasterKey), nil
	case cfg.MasterKeyCommand != "":
		return runCommand(ctx, strings.Fields(cfg.MasterKeyCommand))
	}
	return seal.KeyFile(cfg.Data)
}

// Configured reports whether the configuration has a master key, so that the data directory needs
// none.
func Configured(cfg config.Config) bool { return cfg.MasterKey != "" || cfg.MasterKeyCommand != "" }

// Existing returns the master keys that a database was written with.
func Existing(ctx context.Context, d *db.DB, cfg config.Config) (*seal.Ring, error) {
	ring, err := Ring(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return ring, d.Write(ctx, func(tx *db.Tx) error {
		_, err := Start{Ring: ring}.Admit(tx)
		return err
	})
}

// knownText is sealed at the first start; a master key that opens it is the right one.
var knownText = []byte("steward")

// Setting is the name under which Admit stores the text.
const Setting = "master_key_check"

var errMasterKey = errors.New("the master key is not the one that this database was written with; " +
	"set STEWARD_MASTER_KEY, or copy the right master.key into the data directory")

// Start is the master key for a starting server.
type Start struct {
	Ring *seal.Ring
	// dir is the data directory, and fresh a key that is not in it yet. Without fresh, there was a
	// key.
	dir   string
	fresh []byte
}

// ForStart returns the master keys for a starting server: Ring's, or a new one. Admit stores the new
// key if the database is new.
func ForStart(ctx context.Context, cfg config.Config) (Start, error) {
	s := Start{dir: cfg.Data}
	key, err := Current(ctx, cfg)
	if errors.Is(err, fs.ErrNotExist) && !Configured(cfg) {
		s.fresh = seal.NewKey()
		key, err = s.fresh, nil
	}
	if err != nil {
		return s, err
	}
	s.Ring, err = RingOf(cfg, key)
	return s, err
}

// Admit returns an error if the database was written with another master key, and Conflict if the
// key was replaced since. Its first call for a database stores a new key, and then the text that
// later calls compare. It returns the IDs of old keys that are no longer needed.
func (s Start) Admit(tx *db.Tx) (unneeded []string, err error) {
	mine := base64.StdEncoding.EncodeToString(s.Ring.Seal(Setting, knownText))
	text, first, err := tx.Once(Setting, mine)
	if err != nil {
		return nil, fmt.Errorf("read the check of the master key: %w", err)
	}
	if first && s.fresh != nil {
		if err := seal.WriteKeyFile(s.dir, s.fresh); err != nil {
			return nil, err
		}
	}
	if err := Verify(s.Ring, text); err != nil {
		if s.fresh != nil {
			// The transaction may have run before, and another replica may have been first since.
			_ = os.Remove(filepath.Join(s.dir, "master.key"))
		}
		return nil, err
	}
	return rotation.Admit(tx, s.Ring, WrittenWith(text), stamp.Of(time.Now()))
}

// WrittenWith returns the ID of the key that sealed the text stored by Admit: the current one,
// unless the secrets must be encrypted again.
func WrittenWith(text string) string {
	sealed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return ""
	}
	keyID, _ := seal.KeyOf(sealed)
	return keyID
}

// Verify returns an error unless a ring opens the text stored by Admit.
func Verify(ring *seal.Ring, text string) error {
	sealed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return fmt.Errorf("decode the check of the master key: %w", err)
	}
	plain, err := ring.Open(Setting, sealed)
	if err != nil || !bytes.Equal(plain, knownText) {
		return errMasterKey
	}
	return nil
}
