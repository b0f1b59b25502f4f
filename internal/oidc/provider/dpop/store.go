package dpop

import (
	"context"
	"crypto/sha256"
	"fmt"

	"steward/internal/stamp"
)

// Use stores a proof, and returns an error if any replica has stored it before. It always accepts the
// zero Proof.
func (v *Verifier) Use(ctx context.Context, p Proof) error {
	if p.JKT == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(p.JKT + "\x00" + p.jti))
	expires := stamp.Of(v.Now()).Add(2 * lifetime)
	inserted, err := v.DB.Exec(ctx, `INSERT INTO oidc_proofs (proof_hash, expires_at) VALUES ($1, $2)
		ON CONFLICT (proof_hash) DO NOTHING`, sum[:], expires)
	if err != nil {
		return fmt.Errorf("store DPoP proof: %w", err)
	}
	if inserted == 0 {
		return invalid("the proof was used before")
	}
	return nil
}
