package grant

import (
	"fmt"
	"strings"

	"steward/internal/db"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/seal"
	"steward/internal/stamp"
)

const columns = `id, org_id, client_id, user_id, session_id, scopes, client_epoch, consent_epoch, auth_time, amr, nonce,
	code_hash, code_expires_at, redirect_uri, challenge, jkt, resource, salt, redeemed_at, generation, rotated_at,
	refresh_expires_at, revoked_at, created_at, expires_at, sign_in_session_id`

func scan(row db.Row) (*Grant, error) {
	var g Grant
	var scopes, methods string
	if err := row.Scan(&g.ID, &g.OrgID, &g.ClientID, &g.UserID, &g.SessionID, &scopes, &g.ClientEpoch, &g.ConsentEpoch,
		&g.AuthTime, &methods, &g.Nonce, &g.CodeHash, &g.CodeExpiresAt, &g.RedirectURI, &g.Challenge, &g.JKT, &g.Resource, &g.Salt,
		&g.RedeemedAt, &g.Generation, &g.RotatedAt, &g.RefreshExpiresAt, &g.RevokedAt, &g.CreatedAt, &g.ExpiresAt,
		&g.SignInSessionID); err != nil {
		return nil, fmt.Errorf("read grant: %w", err)
	}
	g.Scopes = strings.Fields(scopes)
	g.Methods = oauth.ParseMethods(methods)
	return &g, nil
}

// Insert stores a new grant.
func Insert(tx *db.Tx, g *Grant) error {
	_, err := tx.Exec(`INSERT INTO oidc_grants (`+columns+`) VALUES (@id, @org_id, @client_id, @user_id,
		@session_id, @scopes, @client_epoch, @consent_epoch, @auth_time, @amr, @nonce, @code_hash, @code_expires_at,
		@redirect_uri, @challenge, @jkt, @resource, @salt, @redeemed_at, @generation, @rotated_at,
		@refresh_expires_at, @revoked_at, @created_at, @expires_at, @sign_in_session_id)`,
		db.Args{
			"id": g.ID, "org_id": g.OrgID, "client_id": g.ClientID, "user_id": g.UserID,
			"session_id": g.SessionID, "scopes": strings.Join(g.Scopes, " "), "client_epoch": g.ClientEpoch,
			"consent_epoch": g.ConsentEpoch, "auth_time": g.AuthTime, "amr": g.Methods.String(), "nonce": g.Nonce, "code_hash": g.CodeHash,
			"code_expires_at": g.CodeExpiresAt, "redirect_uri": g.RedirectURI, "challenge": g.Challenge,
			"jkt": g.JKT, "resource": g.Resource, "salt": g.Salt, "redeemed_at": g.RedeemedAt,
			"generation": g.Generation, "rotated_at": g.RotatedAt, "refresh_expires_at": g.RefreshExpiresAt,
			"revoked_at": g.RevokedAt, "created_at": g.CreatedAt, "expires_at": g.ExpiresAt,
			"sign_in_session_id": g.SignInSessionID,
		})
	if err != nil {
		return fmt.Errorf("insert grant: %w", err)
	}
	return nil
}

// ByCode returns the grant for an authorization code. It returns db.ErrNoRows if the code was never
// issued, or so long ago that we have purged its grant.
func ByCode(q db.Querier, code string) (*Grant, error) {
	return scan(q.Row(`SELECT `+columns+` FROM oidc_grants WHERE code_hash = $1`, seal.Hash(code)))
}

// ByID returns a grant, or db.ErrNoRows.
func ByID(q db.Querier, grantID string) (*Grant, error) {
	return scan(q.Row(`SELECT `+columns+` FROM oidc_grants WHERE id = $1`, grantID))
}

// markRedeemed stores a grant's redemption. It returns false if another request was first.
func markRedeemed(tx *db.Tx, g *Grant) (bool, error) {
	n, err := tx.Exec(`UPDATE oidc_grants SET redeemed_at = @redeemed_at, jkt = @jkt, generation = @generation,
		refresh_expires_at = @refresh_expires_at, expires_at = @expires_at
		WHERE id = @id AND redeemed_at IS NULL AND revoked_at IS NULL`,
		db.Args{
			"id": g.ID, "redeemed_at": g.RedeemedAt, "jkt": g.JKT, "generation": g.Generation,
			"refresh_expires_at": g.RefreshExpiresAt, "expires_at": g.ExpiresAt,
		})
	if err != nil {
		return false, fmt.Errorf("redeem grant: %w", err)
	}
	return n == 1, nil
}

// Revoke voids everything issued for a grant: its code, its refresh tokens, and its access tokens
// through the set of revoked ids.
func Revoke(tx *db.Tx, grantID string, now stamp.Time) error {
	_, err := tx.Exec(`UPDATE oidc_grants SET revoked_at = $2 WHERE id = $1 AND revoked_at IS NULL`, grantID, now)
	if err != nil {
		return fmt.Errorf("revoke grant: %w", err)
	}
	return revokeUntil(tx, grantID, now.Add(maxAccessLifetime+clockSkew))
}

// RevokeOfUser voids everything issued to clients on a user's behalf, as Revoke does for one grant. It
// keeps only the grants that belong to keepSession; grants without a session, such as a device's, go
// too. With keepSession "" it keeps none.
func RevokeOfUser(tx *db.Tx, userID, keepSession string, now stamp.Time) error {
	if _, err := tx.Exec(`UPDATE oidc_grants SET revoked_at = $2
		WHERE user_id = $1 AND revoked_at IS NULL AND (session_id IS NULL OR session_id <> $3)`,
		userID, now, keepSession); err != nil {
		return fmt.Errorf("revoke grants of user: %w", err)
	}
	// Only grants redeemed or refreshed lately have access tokens that are still valid.
	if _, err := tx.Exec(`INSERT INTO oidc_revoked (id, expires_at) SELECT id, $3 FROM oidc_grants
		WHERE user_id = $1 AND revoked_at = $2 AND COALESCE(rotated_at, redeemed_at, 0) > $4
		ON CONFLICT (id) DO NOTHING`,
		userID, now, now.Add(maxAccessLifetime+clockSkew), now.Add(-maxAccessLifetime-clockSkew)); err != nil {
		return fmt.Errorf("insert revoked ids of user: %w", err)
	}
	return tx.Invalidate(Cache)
}
