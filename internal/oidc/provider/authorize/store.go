package authorize

import (
	"fmt"

	"steward/internal/db"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// pushed is a client's pushed request. The handle is the end of its request_uri.
type pushed struct {
	handle, clientID, request string
	expires                   stamp.Time
}

func insertPushed(tx *db.Tx, p pushed) error {
	_, err := tx.Exec(`INSERT INTO oidc_pushed (id_hash, client_id, request, expires_at) VALUES ($1, $2, $3, $4)`,
		seal.Hash(p.handle), p.clientID, p.request, p.expires)
	if err != nil {
		return fmt.Errorf("insert pushed request: %w", err)
	}
	return nil
}

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
