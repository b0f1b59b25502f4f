package oidc

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-jose/go-jose/v4"

	"steward/internal/db"
	"steward/internal/errs"
)

// Limits for the keys registered with a client.
const (
	maxClientKeys = 10
	maxKeySet     = 16 << 10
	minRSABits    = 2048
)

// KeySet is a JSON Web Key Set (RFC 7517) with a client's public keys.
type KeySet struct {
	Keys []map[string]any `json:"keys"`
}

// Schema documents a key set as an object, since RFC 7517 defines its members.
func (KeySet) Schema(huma.Registry) *huma.Schema {
	key := map[string]any{
		"kty": "EC", "crv": "P-256", "kid": "2026-11", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
		"y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
	}
	return &huma.Schema{
		Type: huma.TypeObject, AdditionalProperties: true, Examples: []any{map[string]any{"keys": []any{key}}},
		Description: "JSON Web Key Set of at most 10 public keys: RSA of at least 2048 bits, EC on P-256, or Ed25519",
	}
}

// privateMembers lists the secret members of a JSON Web Key (RFC 7518 section 6, RFC 8037).
var privateMembers = []string{"d", "p", "q", "dp", "dq", "qi", "oth", "k"}

// validate adds the faults in the keys at a location.
func (s *KeySet) validate(faults *errs.Faults, location string) {
	if len(s.Keys) == 0 || len(s.Keys) > maxClientKeys {
		faults.Add(location+".keys", "expected 1 to %d keys", maxClientKeys)
		return
	}
	if len(db.ToJSON(s)) > maxKeySet {
		faults.Add(location, "expected at most %d bytes", maxKeySet)
		return
	}
	for i, key := range s.Keys {
		if problem := keyProblem(key); problem != "" {
			faults.Add(entry(location+".keys", i), "%s", problem)
		}
	}
}

// keyProblem says why we refuse a key, or returns "". It refuses any member that could hold a secret,
// even if the rest of the key is public.
func keyProblem(key map[string]any) string {
	for _, name := range privateMembers {
		if _, has := key[name]; has {
			return fmt.Sprintf("expected a public key; %s belongs to a private one", name)
		}
	}
	if _, err := parseKey([]byte(db.ToJSON(key))); err != nil {
		return "expected a public key: RSA of at least 2048 bits, EC on P-256, or Ed25519"
	}
	return ""
}

// parseKey returns a public key that can verify assertions.
func parseKey(text []byte) (jose.JSONWebKey, error) {
	var key jose.JSONWebKey
	if err := key.UnmarshalJSON(text); err != nil {
		return jose.JSONWebKey{}, err
	}
	if !key.Valid() || !isSupported(key.Key) {
		return jose.JSONWebKey{}, fmt.Errorf("unsupported key %T", key.Key)
	}
	return jose.JSONWebKey{Key: key.Key, KeyID: key.KeyID, Algorithm: key.Algorithm, Use: key.Use}, nil
}

func isSupported(key any) bool {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey:
		return k.Curve == elliptic.P256()
	case ed25519.PublicKey:
		return true
	}
	return false
}

// ParseKeys returns the keys in a JSON Web Key Set that can verify assertions, up to limit. It skips
// all others, as RFC 7517 section 5 asks.
func ParseKeys(text []byte, limit int) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("decode JSON Web Key Set: %w", err)
	}
	if set.Keys == nil {
		return nil, errors.New("decode JSON Web Key Set: it has no keys member")
	}
	var keys []jose.JSONWebKey
	for _, raw := range set.Keys {
		key, err := parseKey(raw)
		if err == nil && len(keys) < limit {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// encodeKeys returns a client's keys as we store them, or nil if it has none.
func (c Client) encodeKeys() *string {
	if c.JWKS == nil {
		return nil
	}
	text := db.ToJSON(c.JWKS)
	return &text
}
