package app

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"steward/internal/account"
	"steward/internal/apikey"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/seal"
)

// opened is a database with the master key that belongs to it.
type opened struct {
	db   *db.DB
	ring *seal.Ring
}

// open opens the database and makes sure that the master key is the one it was written with.
func open(ctx context.Context, cfg Config) (*opened, error) {
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
	ring, err := seal.NewRing(keys...)
	if err != nil {
		return nil, err
	}
	d, err := db.Open(ctx, db.Options{Path: filepath.Join(cfg.Data, "steward.db"), URL: string(cfg.DatabaseURL)})
	if err != nil {
		return nil, err
	}
	if err := checkMasterKey(ctx, d, ring); err != nil {
		d.Close()
		return nil, err
	}
	return &opened{db: d, ring: ring}, nil
}

// knownText is sealed at first start; that it opens shows that the master key is the right one.
var knownText = []byte("steward")

const masterKeyCheck = "master_key_check"

func checkMasterKey(ctx context.Context, d *db.DB, ring *seal.Ring) error {
	return d.Write(ctx, func(tx *db.Tx) error {
		fresh := base64.StdEncoding.EncodeToString(ring.Seal(masterKeyCheck, knownText))
		text, _, err := tx.Once(masterKeyCheck, fresh)
		if err != nil {
			return err
		}
		sealed, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return err
		}
		plain, err := ring.Open(masterKeyCheck, sealed)
		if err != nil || !bytes.Equal(plain, knownText) {
			return errors.New("the master key is not the one this database was written with; set STEWARD_MASTER_KEY, " +
				"or put the right master.key into the data directory")
		}
		return nil
	})
}

// firstStart is what a first start has to tell, once.
type firstStart struct {
	account.First
	rootKey string
}

// makeFirst makes organization, owner, project and root key in an empty installation; in one that is not empty it gives nil.
// Of several replicas that start at once, one does it.
func makeFirst(ctx context.Context, d *db.DB, cfg Config, accounts *account.Store, keys *apikey.Store) (first *firstStart, err error) {
	err = d.Write(ctx, func(tx *db.Tx) error {
		first = nil
		_, ours, err := tx.Once("first_start", time.Now().UTC().Format(time.RFC3339))
		if err != nil || !ours {
			return err
		}
		f := &firstStart{rootKey: string(cfg.RootKey)}
		if f.rootKey == "" {
			f.rootKey = apikey.NewValue()
		}
		if f.First, err = accounts.MakeFirst(tx, cfg.AdminEmail, string(cfg.AdminPassword)); err != nil {
			return err
		}
		first = f
		return keys.MakeRoot(tx, f.OrgID, f.UserID, f.rootKey)
	})
	return first, err
}

// NewRootKey makes another root key for the first owner and prints it.
func NewRootKey(ctx context.Context, cfg Config, stdout io.Writer) error {
	if cfg.DatabaseURL == "" { // on PostgreSQL it may be made while replicas run
		lock, err := LockDir(cfg.Data)
		if err != nil {
			return err
		}
		defer lock.Close()
	}
	o, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	defer o.db.Close()
	accounts := &account.Store{DB: o.db, Now: time.Now}
	keys := &apikey.Store{DB: o.db, Now: time.Now}
	lines := &audit.Store{DB: o.db, Now: time.Now}
	owner, err := accounts.FirstOwner(ctx)
	if err != nil {
		return err
	}
	value := apikey.NewValue()
	ctx = auth.With(ctx, &auth.Caller{OrgID: owner.OrgID}) // the command itself, not the owner
	err = o.db.Write(ctx, func(tx *db.Tx) error {
		return errors.Join(keys.MakeRoot(tx, owner.OrgID, owner.UserID, value), lines.Record(tx, "apikey.root", owner.UserID))
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, value)
	return err
}
