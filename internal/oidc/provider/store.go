package provider

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"

	"steward/internal/db"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// revokedCache names the cache of revoked grants and tokens.
const revokedCache = "oidc.revoked"

// secretName is where the installation's own secret is kept, sealed: what MACs are keyed with, the same on all replicas.
const secretName = "oidc.provider_secret"

// loadSecret gives the installation's secret, making one in an empty database. Of several replicas that start at once, one makes it.
func loadSecret(ctx context.Context, d *db.DB, ring *seal.Ring, fresh []byte) (secret []byte, err error) {
	sealed := base64.StdEncoding.EncodeToString(ring.Seal(secretName, fresh))
	err = d.Write(ctx, func(tx *db.Tx) error {
		if _, err := tx.Exec(`INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING`, secretName, sealed); err != nil {
			return err
		}
		var text string
		if err := tx.Row(`SELECT value FROM meta WHERE key = $1`, secretName).Scan(&text); err != nil {
			return err
		}
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return err
		}
		secret, err = ring.Open(secretName, raw)
		return err
	})
	return secret, err
}

const grantColumns = `id, org_id, client_id, user_id, session_id, scopes, client_epoch, consent_epoch, auth_time, nonce, code_hash,
	code_expires_at, redirect_uri, challenge, jkt, salt, redeemed_at, generation, rotated_at, refresh_expires_at, revoked_at, created_at,
	expires_at`

func scanGrant(row db.Row) (*grant, error) {
	var g grant
	var scopes string
	err := row.Scan(&g.ID, &g.OrgID, &g.ClientID, &g.UserID, &g.SessionID, &scopes, &g.ClientEpoch, &g.ConsentEpoch, &g.AuthTime, &g.Nonce,
		&g.CodeHash, &g.CodeExpiresAt, &g.RedirectURI, &g.Challenge, &g.JKT, &g.Salt, &g.RedeemedAt, &g.Generation, &g.RotatedAt,
		&g.RefreshExpiresAt, &g.RevokedAt, &g.CreatedAt, &g.ExpiresAt)
	g.Scopes = strings.Fields(scopes)
	return &g, err
}

func insertGrant(tx *db.Tx, g *grant) error {
	_, err := tx.Exec(`INSERT INTO oidc_grants (`+grantColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)`,
		g.ID, g.OrgID, g.ClientID, g.UserID, g.SessionID, strings.Join(g.Scopes, " "), g.ClientEpoch, g.ConsentEpoch, g.AuthTime, g.Nonce,
		g.CodeHash, g.CodeExpiresAt, g.RedirectURI, g.Challenge, g.JKT, g.Salt, g.RedeemedAt, g.Generation, g.RotatedAt,
		g.RefreshExpiresAt, g.RevokedAt, g.CreatedAt, g.ExpiresAt)
	return err
}

// grantByCode gives ErrNoRows for a code that was never given, or so long ago that it is forgotten.
func grantByCode(q db.Querier, code string) (*grant, error) {
	return scanGrant(q.Row(`SELECT `+grantColumns+` FROM oidc_grants WHERE code_hash = $1`, seal.Hash(code)))
}

func grantByID(q db.Querier, grantID string) (*grant, error) {
	return scanGrant(q.Row(`SELECT `+grantColumns+` FROM oidc_grants WHERE id = $1`, grantID))
}

// redeemGrant marks a grant as redeemed and begins its family; false when somebody else was first.
func redeemGrant(tx *db.Tx, g *grant) (first bool, err error) {
	n, err := tx.Exec(`UPDATE oidc_grants SET redeemed_at = $2, jkt = $3, generation = $4, refresh_expires_at = $5, expires_at = $6
		WHERE id = $1 AND redeemed_at IS NULL AND revoked_at IS NULL`, g.ID, g.RedeemedAt, g.JKT, g.Generation, g.RefreshExpiresAt, g.ExpiresAt)
	return n == 1, err
}

// turnGrant moves a family from one generation to the next; false when somebody else did, or when it is revoked.
func turnGrant(tx *db.Tx, g *grant, now stamp.Time) (turned bool, err error) {
	n, err := tx.Exec(`UPDATE oidc_grants SET generation = generation + 1, rotated_at = $3
		WHERE id = $1 AND generation = $2 AND revoked_at IS NULL`, g.ID, g.Generation, now)
	return n == 1, err
}

// revokeGrant voids everything that a grant gave: its code, its refresh tokens, and its access tokens by the set that they are checked
// against.
func revokeGrant(tx *db.Tx, grantID string, now stamp.Time) error {
	_, err1 := tx.Exec(`UPDATE oidc_grants SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL`, grantID, now)
	return errors.Join(err1, revokeID(tx, grantID, now.Add(maxTokenLife+skew)))
}

// revokeID puts a grant or the jti of a token into the set of what is void.
func revokeID(tx *db.Tx, what string, until stamp.Time) error {
	_, err := tx.Exec(`INSERT INTO oidc_revoked (id, expires_at) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING`, what, until)
	return errors.Join(err, tx.Bump(revokedCache))
}

// revokedIDs gives at most limit members of the set.
func revokedIDs(q db.Querier, now stamp.Time, limit int) ([]string, error) {
	return db.Collect(q, func(row db.Row) (s string, err error) {
		err = row.Scan(&s)
		return s, err
	}, `SELECT id FROM oidc_revoked WHERE expires_at > $1 LIMIT $2`, now, limit)
}

// anyRevoked tells whether one of two is in the set.
func anyRevoked(q db.Querier, a, b string) (bool, error) {
	var n int
	err := q.Row(`SELECT count(*) FROM oidc_revoked WHERE id = $1 OR id = $2`, a, b).Scan(&n)
	return n > 0, err
}

func insertPushed(tx *db.Tx, handle, clientID, request string, expires stamp.Time) error {
	_, err := tx.Exec(`INSERT INTO oidc_pushed (id_hash, client_id, request, expires_at) VALUES ($1, $2, $3, $4)`,
		seal.Hash(handle), clientID, request, expires)
	return err
}

// takePushed gives a pushed request and forgets it, so that of two takers one gets it. ErrNoRows for one that is gone, expired, or of
// another client.
func takePushed(tx *db.Tx, handle, clientID string, now stamp.Time) (request string, err error) {
	hash := seal.Hash(handle)
	err = tx.Row(`SELECT request FROM oidc_pushed WHERE id_hash = $1 AND client_id = $2 AND expires_at > $3`, hash, clientID, now).
		Scan(&request)
	if err != nil {
		return "", err
	}
	n, err := tx.Exec(`DELETE FROM oidc_pushed WHERE id_hash = $1`, hash)
	if err == nil && n == 0 {
		err = db.ErrNoRows
	}
	return request, err
}

// useProof notes a DPoP proof; false when it was seen before.
func useProof(tx *db.Tx, hash []byte, expires stamp.Time) (fresh bool, err error) {
	n, err := tx.Exec(`INSERT INTO oidc_proofs (proof_hash, expires_at) VALUES ($1, $2) ON CONFLICT (proof_hash) DO NOTHING`, hash, expires)
	return n == 1, err
}

// expiring are the tables with rows that end by themselves, and the key by which a batch is picked.
var expiring = []struct{ table, key string }{
	{"oidc_pushed", "id_hash"},
	{"oidc_grants", "id"},
	{"oidc_revoked", "id"},
	{"oidc_devices", "code_hash"},
	{"oidc_sessions", "id"},
	{"oidc_proofs", "proof_hash"},
}

// Purge forgets rows whose time is up, in batches that let other writes pass in between.
func (p *Provider) Purge(ctx context.Context) error {
	const batch = 1000
	now := stamp.Of(p.Now())
	for _, e := range expiring {
		for {
			var n int64
			err := p.DB.Write(ctx, func(tx *db.Tx) (err error) {
				n, err = tx.Exec(`DELETE FROM `+e.table+` WHERE `+e.key+` IN (SELECT `+e.key+` FROM `+e.table+
					` WHERE expires_at < $1 ORDER BY expires_at LIMIT $2)`, now, batch)
				return err
			})
			if err != nil {
				return err
			}
			if n < batch {
				break
			}
		}
	}
	return nil
}
