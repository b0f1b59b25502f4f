package provider

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-jose/go-jose/v4"

	"steward/internal/oidc/keys"
)

// signingKey gives the key that signs with an algorithm today.
func (p *Provider) signingKey(ctx context.Context, alg jose.SignatureAlgorithm) (*jose.JSONWebKey, error) {
	set, err := p.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	kid, signer := set.Signing(alg)
	return &jose.JSONWebKey{KeyID: kid, Key: signer, Algorithm: string(alg)}, nil
}

// publicKey gives the public half of a key that was made for that algorithm, or nil.
func (p *Provider) publicKey(ctx context.Context, alg jose.SignatureAlgorithm, kid string) (any, error) {
	set, err := p.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	for _, k := range set.JWKS().Keys {
		if k.KeyID == kid && kid != "" && k.Algorithm == string(alg) {
			return k.Key, nil
		}
	}
	return nil, nil
}

// jwks answers GET /jwks: the public halves. They may be kept for less long than a new key is published before it signs.
func (p *Provider) jwks(w http.ResponseWriter, r *http.Request) {
	set, err := p.Keys.Set(r.Context())
	if err != nil {
		sendFault(w, r, err)
		return
	}
	w.Header().Set("Cache-Control", fmt.Sprintf("public, max-age=%d", int(keys.Fresh.Seconds())))
	sendJSON(w, http.StatusOK, set.JWKS())
}
