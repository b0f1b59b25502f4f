package app

import (
	"context"
	"fmt"
	"io"
	"time"

	"steward/internal/account"
	"steward/internal/apikey"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
)

// installation is what bootstrap created.
type installation struct {
	account.First
	rootKey string
}

// bootstrap creates the organization, owner, project and root key of an empty installation. It
// returns nil if the installation is not empty. If several replicas start at once, one of them does
// it.
func bootstrap(
	ctx context.Context, d *db.DB, cfg Config, accounts *account.Store, keys *apikey.Store,
) (*installation, error) {
	var created *installation
	err := d.Write(ctx, func(tx *db.Tx) error {
		created = nil // the transaction may run again
		_, first, err := tx.Once("first_start", time.Now().UTC().Format(time.RFC3339))
		if err != nil {
			return fmt.Errorf("mark the first start: %w", err)
		}
		if !first {
			return nil
		}
		in := &installation{rootKey: string(cfg.RootKey)}
		if in.rootKey == "" {
			in.rootKey = apikey.NewValue()
		}
		if in.First, err = accounts.Bootstrap(tx, cfg.AdminEmail, string(cfg.AdminPassword)); err != nil {
			return err
		}
		if err := keys.MakeRoot(tx, in.OrgID, in.UserID, in.rootKey); err != nil {
			return err
		}
		created = in
		return nil
	})
	return created, err
}

// NewRootKey creates another root key for the first owner and prints it.
func NewRootKey(ctx context.Context, cfg Config, stdout io.Writer) error {
	if cfg.DatabaseURL == "" { // on PostgreSQL the server may be running
		lock, err := LockDir(cfg.Data)
		if err != nil {
			return err
		}
		defer lock.Release()
	}
	d, err := openDatabase(ctx, cfg, db.Observer{})
	if err != nil {
		return err
	}
	defer d.db.Close()
	value, err := createRootKey(ctx, d.db)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, value)
	return err
}

func createRootKey(ctx context.Context, d *db.DB) (value string, err error) {
	accounts := &account.Store{DB: d, Now: time.Now}
	keys := &apikey.Store{DB: d, Now: time.Now}
	log := &audit.Store{DB: d, Now: time.Now}
	owner, err := accounts.FirstOwner(ctx)
	if err != nil {
		return "", err
	}
	value = apikey.NewValue()
	ctx = auth.With(ctx, &auth.Caller{OrgID: owner.OrgID}) // the command, not the owner
	return value, d.Write(ctx, func(tx *db.Tx) error {
		if err := keys.MakeRoot(tx, owner.OrgID, owner.UserID, value); err != nil {
			return err
		}
		return log.Record(tx, "apikey.root", owner.UserID)
	})
}
