// Package masterkey finds the master key, and checks that it is the one that a database was written with.
package masterkey

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
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

// Ring returns the configured master keys, or the one in the data directory.
func Ring(ctx context.Context, cfg config.Config) (*seal.Ring, error) {
	key, err := Current(ctx, cfg)
	if err != nil {
		return nil, err
	}
	keys := [][]byte{key}
	for _, old := range cfg.OldMasterKeys {
		keys = append(keys, []byte(old))
	}
	return seal.NewRing(keys...)
}

// Current returns the master key that values are sealed with.
func Current(ctx context.Context, cfg config.Config) ([]byte, error) {
	switch {
	case cfg.MasterKey != "":
		return []byte(cfg.MasterKey), nil
	case cfg.MasterKeyCommand != "":
		return runCommand(ctx, strings.Fields(cfg.MasterKeyCommand))
	}
	return seal.KeyFile(cfg.Data)
}

// Configured reports whether the configuration has a master key, so that the data directory needs none.
func Configured(cfg config.Config) bool { return cfg.MasterKey != "" || cfg.MasterKeyCommand != "" }

// Existing returns the master keys that a database was written with, and creates none.
func Existing(ctx context.Context, d *db.DB, cfg config.Config) (*seal.Ring, error) {
	if _, err := os.Stat(filepath.Join(cfg.Data, "master.key")); err != nil && !Configured(cfg) {
		return nil, errMasterKey
	}
	ring, err := Ring(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return ring, Check(ctx, d, ring)
}

// knownText is sealed at the first start; a master key that opens it is the right one.
var knownText = []byte("steward")

// Setting is the name under which Check stores the text.
const Setting = "master_key_check"

var errMasterKey = errors.New("the master key is not the one that this database was written with; " +
	"set STEWARD_MASTER_KEY, or copy the right master.key into the data directory")

// Check returns an error if a database was written with another master key. The first call stores what
// later ones compare.
func Check(ctx context.Context, d *db.DB, ring *seal.Ring) error {
	return d.Write(ctx, func(tx *db.Tx) error {
		_, err := Admit(tx, ring)
		return err
	})
}

// Admit is Check in a transaction. It also returns Conflict if the master key was replaced, and the IDs of
// old keys that are not needed any more.
func Admit(tx *db.Tx, ring *seal.Ring) (unneeded []string, err error) {
	fresh := base64.StdEncoding.EncodeToString(ring.Seal(Setting, knownText))
	text, _, err := tx.Once(Setting, fresh)
	if err != nil {
		return nil, fmt.Errorf("read the check of the master key: %w", err)
	}
	if err := Verify(ring, text); err != nil {
		return nil, err
	}
	return rotation.Admit(tx, ring, WrittenWith(text), stamp.Of(time.Now()))
}

// WrittenWith returns the ID of the key that sealed what Check has stored: the current one, unless secrets
// have to be encrypted again with it.
func WrittenWith(text string) string {
	sealed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return ""
	}
	keyID, _ := seal.KeyOf(sealed)
	return keyID
}

// Verify returns an error unless a ring opens what Check has stored.
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
