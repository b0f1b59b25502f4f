package app

import (
	"context"
	"fmt"
	"time"

	"steward/internal/account"
	"steward/internal/apikey"
	"steward/internal/db"
	"steward/internal/errs"
)

// keyFirstStart is the key in meta for the time of an installation's first start.
const keyFirstStart = "first_start"

// installation is the result of bootstrap.
type installation struct {
	account.First
	rootKey string
}

// setupLink returns the link for setting up the installation, or nil if that is done.
func (p *parts) setupLink(ctx context.Context) (*account.SetupLink, error) {
	setup := p.setup(p.accounts)
	if err := setup.Settle(ctx); err != nil {
		return nil, err
	}
	link, err := setup.Link(ctx, p.addresses.BaseURL)
	if errs.KindOf(err) == errs.Conflict {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &link, nil
}

// bootstrap creates an empty installation's organization, owner, project and root key. It returns
// nil if the installation is not empty. If several replicas start at once, one of them does it.
func (p *parts) bootstrap(ctx context.Context) (*installation, error) {
	var created *installation
	err := p.db.Write(ctx, func(tx *db.Tx) error {
		created = nil // the transaction may run again
		_, first, err := tx.Once(keyFirstStart, time.Now().UTC().Format(time.RFC3339))
		if err != nil {
			return fmt.Errorf("mark the first start: %w", err)
		}
		if !first {
			return nil
		}
		in := &installation{rootKey: string(p.cfg.RootKey)}
		if in.rootKey == "" {
			in.rootKey = apikey.NewValue()
		}
		if in.First, err = p.accounts.Bootstrap(tx, p.cfg.AdminEmail, string(p.cfg.AdminPassword)); err != nil {
			return err
		}
		if err := p.apiKeys.MakeRoot(tx, in.OrgID, in.UserID, in.rootKey); err != nil {
			return err
		}
		created = in
		return nil
	})
	return created, err
}

// ensureCLI creates the command line's built-in OAuth client in the first organization, if it is
// missing or older than this version.
func (p *parts) ensureCLI(ctx context.Context) error {
	owner, err := p.accounts.FirstOwner(ctx)
	if err != nil {
		return err
	}
	return p.oauth.Clients.EnsureCLI(ctx, owner.OrgID, p.addresses.BaseURL)
}
