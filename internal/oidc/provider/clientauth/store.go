package clientauth

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/go-jose/go-jose/v4/jwt"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/stamp"
)

// use stores an assertion, and returns an error if any replica has seen it before. It shares a table with
// DPoP proofs, whose hashed text begins with a thumbprint and so cannot collide.
func (a *Authenticator) use(ctx context.Context, c *jwt.Claims) error {
	sum := sha256.Sum256([]byte("client_assertion\x00" + c.Subject + "\x00" + c.ID))
	expires := stamp.Of(c.Expiry.Time()).Add(2 * clockSkew)
	inserted, err := a.DB.Exec(ctx, `INSERT INTO oidc_proofs (proof_hash, expires_at) VALUES ($1, $2)
		ON CONFLICT (proof_hash) DO NOTHING`, sum[:], expires)
	if err != nil {
		return fmt.Errorf("store client assertion: %w", err)
	}
	if inserted == 0 {
		return oauth.NewError(oauth.InvalidClient, "the assertion was used before")
	}
	return nil
}
