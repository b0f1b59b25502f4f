package provider

import (
	"context"
	"fmt"

	"steward/internal/db"
	"steward/internal/oidc/provider/session"
	"steward/internal/stamp"
)

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
