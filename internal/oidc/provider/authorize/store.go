package authorize

import (
	"fmt"

	"steward/internal/db"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// takePushed returns a pushed request and deletes it, so that only one of two concurrent requests gets
// it. It returns db.ErrNoRows if the request is gone, has expired, or belongs to another client.
func takePushed(tx *db.Tx, handle, clientID string, now stamp.Time) (request string, err error) {
	hash := seal.Hash(handle)
	err = tx.Row(`SELECT request FROM oidc_pushed WHERE id_hash = $1 AND client_id = $2 AND expires_at > $3`,
		hash, clientID, now).Scan(&request)
	if err != nil {
		return "", fmt.Errorf("read pushed request: %w", err)
	}
	n, err := tx.Exec(`DELETE FROM oidc_pushed WHERE id_hash = $1`, hash)
	if err != nil {
		return "", fmt.Errorf("delete pushed request: %w", err)
	}
	if n == 0 {
		return "", db.ErrNoRows
	}
	return request, nil
}
