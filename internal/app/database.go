package app

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"steward/internal/blob"
	"steward/internal/db"
	"steward/internal/seal"
)

// database is an open database with the master key that belongs to it.
type database struct {
	db   *db.DB
	ring *seal.Ring
	// blobs has the bytes of objects. It is nil in commands that need none.
	blobs blob.Store
	// node identifies the data directory among those of other replicas.
	node string
}

// openDatabase opens the database and checks that the master key is the one it was written with.
func openDatabase(ctx context.Context, cfg Config, observer db.Observer) (*database, error) {
	ring, err := masterKeyRing(cfg)
	if err != nil {
		return nil, err
	}
	d, err := db.Open(ctx, db.Options{
		Path: databaseFile(cfg.Data), URL: string(cfg.DatabaseURL), Observer: observer,
	})
	if err != nil {
		return nil, err
	}
	if err := checkMasterKey(ctx, d, ring); err != nil {
		d.Close()
		return nil, err
	}
	node := "local" // a database in the data directory has no other replicas
	if d.Dialect() == db.Postgres {
		if node, err = nodeID(cfg.Data); err != nil {
			d.Close()
			return nil, err
		}
	}
	return &database{db: d, ring: ring, node: node}, nil
}

// masterKeyRing returns the configured master keys, or the one in the data directory.
func masterKeyRing(cfg Config) (*seal.Ring, error) {
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

// knownText is sealed at the first start; a master key that opens it is the right one.
var knownText = []byte("steward")

const masterKeyCheck = "master_key_check"

var errMasterKey = errors.New("the master key is not the one that this database was written with; " +
	"set STEWARD_MASTER_KEY, or copy the right master.key into the data directory")

func checkMasterKey(ctx context.Context, d *db.DB, ring *seal.Ring) error {
	return d.Write(ctx, func(tx *db.Tx) error {
		fresh := base64.StdEncoding.EncodeToString(ring.Seal(masterKeyCheck, knownText))
		text, _, err := tx.Once(masterKeyCheck, fresh)
		if err != nil {
			return fmt.Errorf("read the check of the master key: %w", err)
		}
		return verifyMasterKey(ring, text)
	})
}

// verifyMasterKey checks that a ring opens what checkMasterKey has stored.
func verifyMasterKey(ring *seal.Ring, text string) error {
	sealed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return fmt.Errorf("decode the check of the master key: %w", err)
	}
	plain, err := ring.Open(masterKeyCheck, sealed)
	if err != nil || !bytes.Equal(plain, knownText) {
		return errMasterKey
	}
	return nil
}
