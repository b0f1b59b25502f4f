package secret

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"

	"steward/internal/db"
	"steward/internal/seal"
)

// metaKey is the row of table meta that holds the key.
const metaKey = "oidc.provider_secret"

// Load returns the key of the installation. In an empty database it stores a new one; of several
// replicas that start at the same time, one succeeds and the others read what it stored.
func Load(ctx context.Context, d *db.DB, ring *seal.Ring) (Key, error) {
	fresh := make([]byte, 32)
	rand.Read(fresh) // never fails
	sealed := base64.StdEncoding.EncodeToString(ring.Seal(metaKey, fresh))
	var stored string
	err := d.Write(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO meta (key, value) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING`, metaKey, sealed)
		if err != nil {
			return fmt.Errorf("store provider secret: %w", err)
		}
		if err := tx.Row(`SELECT value FROM meta WHERE key = $1`, metaKey).Scan(&stored); err != nil {
			return fmt.Errorf("read provider secret: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	raw, err := base64.StdEncoding.DecodeString(stored)
	if err != nil {
		return nil, fmt.Errorf("decode provider secret: %w", err)
	}
	key, err := ring.Open(metaKey, raw)
	if err != nil {
		return nil, fmt.Errorf("open provider secret: %w", err)
	}
	return key, nil
}
