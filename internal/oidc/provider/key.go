package provider

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"

	"steward/internal/db"
	"steward/internal/oidc/provider/oauth"
)

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
