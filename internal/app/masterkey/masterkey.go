// Package masterkey finds the master key, and checks that it is the one that a database was written
// with. Besides base packages it imports config.
package masterkey

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"steward/internal/app/config"
	"steward/internal/db"
	"steward/internal/seal"
)

// Ring returns the configured master keys, or the one in the data directory.
func Ring(cfg config.Config) (*seal.Ring, error) {
	key := []byte(cfg.MasterKey)
	if len(key) == 0 {
		var err error
		if key, err = seal.KeyFile(cfg.Data); err != nil {
			return nil, err
		}
	}
	keys := [][]byte{key}
	for _, old := range cfg.OldMasterKeys {
		keys = append(keys, []byte(old))
	}
	return seal.NewRing(keys...)
}

// Existing returns the master keys that a database was written with, and creates none.
func Existing(ctx context.Context, d *db.DB, cfg config.Config) (*seal.Ring, error) {
	if _, err := os.Stat(filepath.Join(cfg.Data, "master.key")); err != nil && len(cfg.MasterKey) == 0 {
		return nil, errMasterKey
	}
	ring, err := Ring(cfg)
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
		fresh := base64.StdEncoding.EncodeToString(ring.Seal(Setting, knownText))
		text, _, err := tx.Once(Setting, fresh)
		if err != nil {
			return fmt.Errorf("read the check of the master key: %w", err)
		}
		return Verify(ring, text)
	})
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
