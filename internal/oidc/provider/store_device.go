package provider

import (
	"strings"

	"steward/internal/db"
	"steward/internal/seal"
	"steward/internal/stamp"
)

const deviceColumns = `user_code, client_id, scopes, state, grant_id, pause_seconds, last_polled_at, created_at, expires_at`

func scanDevice(row db.Row) (*device, error) {
	var d device
	var scopes string
	err := row.Scan(&d.UserCode, &d.ClientID, &scopes, &d.State, &d.GrantID, &d.Pause, &d.LastPolled, &d.CreatedAt, &d.ExpiresAt)
	d.Scopes = strings.Fields(scopes)
	return &d, err
}

// insertDevice is false when the user code is taken.
func insertDevice(tx *db.Tx, d *device, code string) (bool, error) {
	n, err := tx.Exec(`INSERT INTO oidc_devices (code_hash, `+deviceColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
		ON CONFLICT (user_code) DO NOTHING`, seal.Hash(code), d.UserCode, d.ClientID, strings.Join(d.Scopes, " "), d.State, d.GrantID, d.Pause,
		d.LastPolled, d.CreatedAt, d.ExpiresAt)
	return n == 1, err
}

func deviceByUserCode(q db.Querier, userCode string, now stamp.Time) (*device, error) {
	return scanDevice(q.Row(`SELECT `+deviceColumns+` FROM oidc_devices WHERE user_code = $1 AND expires_at > $2`, userCode, now))
}

// deviceByCode gives the row of a device code, and keeps others from deciding on it at the same time.
func deviceByCode(tx *db.Tx, code string) (*device, error) {
	return scanDevice(tx.Row(`UPDATE oidc_devices SET pause_seconds = pause_seconds WHERE code_hash = $1 RETURNING `+deviceColumns,
		seal.Hash(code)))
}

// decideDevice writes the user's decision; ErrNoRows when there is one already.
func decideDevice(tx *db.Tx, userCode string, state deviceState, grantID *string) error {
	n, err := tx.Exec(`UPDATE oidc_devices SET state = $2, grant_id = $3 WHERE user_code = $1 AND state = 'pending'`, userCode, state, grantID)
	if err == nil && n == 0 {
		err = db.ErrNoRows
	}
	return err
}

func pollDevice(tx *db.Tx, code string, d *device) error {
	_, err := tx.Exec(`UPDATE oidc_devices SET last_polled_at = $2, pause_seconds = $3 WHERE code_hash = $1`,
		seal.Hash(code), d.LastPolled, d.Pause)
	return err
}

func redeemDevice(tx *db.Tx, code string) error {
	_, err := tx.Exec(`UPDATE oidc_devices SET state = 'redeemed' WHERE code_hash = $1`, seal.Hash(code))
	return err
}
