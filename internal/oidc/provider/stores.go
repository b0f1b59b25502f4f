package provider

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"log/slog"
	"time"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/oidc"
	"steward/internal/oidc/keys"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/session"
	"steward/internal/oidc/provider/signin"
	"steward/internal/oidc/registration"
	"steward/internal/oidc/upstream"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Stores has the data that the provider shares with the management API.
type Stores struct {
	DB   *db.DB
	Ring *seal.Ring
	Now  func() time.Time
	// Log gets the errors from background work.
	Log      *slog.Logger
	Accounts *account.Store
	Clients  *oidc.Store
	// Registrations has the initial access tokens of those who may register clients.
	Registrations *registration.Store
	Keys          *keys.Store
	Activity      *oidc.Activity
	// Upstreams has the providers that users can sign in with.
	Upstreams *signin.Upstreams
}

// NewStores returns the stores with their caches registered. granted has the domains that the operator
// has granted to organizations.
func NewStores(accounts *account.Store, ring *seal.Ring, log *slog.Logger, granted map[string]string) *Stores {
	d, now, audit := accounts.DB, accounts.Now, accounts.Audit
	clients := &oidc.Store{DB: d, Now: now, Audit: audit, Accounts: accounts}
	signing := &keys.Store{DB: d, Ring: ring, Now: now, Log: log, Audit: audit}
	d.Watch(oidc.Cache, clients.Forget)
	d.Watch(auth.Callers, clients.Forget)
	d.Watch(keys.Cache, signing.Forget)
	return &Stores{
		DB: d, Ring: ring, Now: now, Log: log, Accounts: accounts, Clients: clients, Keys: signing,
		Registrations: &registration.Store{DB: d, Now: now, Audit: audit},
		Activity:      &oidc.Activity{Store: clients},
		Upstreams: &signin.Upstreams{Accounts: accounts, Store: &upstream.Store{
			DB: d, Ring: ring, Now: now, Audit: audit, Domains: upstream.Domains{Granted: granted, Accounts: accounts},
		}},
	}
}

// keyName names the installation's sealed key in the database.
const keyName = "oidc.provider_secret"

// loadKey returns the installation's key. In an empty database it stores a new one.
func (p *Provider) loadKey(ctx context.Context) (oauth.Key, error) {
	fresh := make([]byte, 32)
	rand.Read(fresh) // never fails
	sealed := base64.StdEncoding.EncodeToString(p.Ring.Seal(keyName, fresh))
	var stored string
	err := p.DB.Write(ctx, func(tx *db.Tx) (err error) {
		stored, _, err = tx.Once(keyName, sealed)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("store provider secret: %w", err)
	}
	raw, err := base64.StdEncoding.DecodeString(stored)
	if err != nil {
		return nil, fmt.Errorf("decode provider secret: %w", err)
	}
	key, err := p.Ring.Open(keyName, raw)
	if err != nil {
		return nil, fmt.Errorf("open provider secret: %w", err)
	}
	return key, nil
}

// expiring lists the tables whose rows have an expires_at, with their primary keys.
var expiring = []struct{ table, key string }{
	{"oidc_pushed", "id_hash"},
	{"oidc_grants", "id"},
	{"oidc_revoked", "id"},
	{"oidc_devices", "code_hash"},
	{"oidc_sessions", "id"},
	{"oidc_proofs", "proof_hash"},
	{"oidc_challenges", "challenge_hash"},
}

// purgeBatch caps the rows deleted in one transaction, so that other writes can pass.
const purgeBatch = 1000

// Purge deletes expired rows.
func (p *Provider) Purge(ctx context.Context) error {
	now := stamp.Of(p.Now())
	if err := session.PurgeLogouts(ctx, p.DB, now); err != nil {
		return err
	}
	for _, e := range expiring {
		statement := fmt.Sprintf(`DELETE FROM %[1]s WHERE %[2]s IN
			(SELECT %[2]s FROM %[1]s WHERE expires_at < $1 ORDER BY expires_at LIMIT $2%[3]s)`, e.table, e.key, db.SkipLocked(p.DB.Dialect()))
		for n := int64(purgeBatch); n == purgeBatch; {
			var err error
			if n, err = p.DB.Exec(ctx, statement, now, purgeBatch); err != nil {
				return fmt.Errorf("purge %s: %w", e.table, err)
			}
		}
	}
	return nil
}
