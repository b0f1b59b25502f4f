// Package registration owns initial access tokens (RFC 7591). Whoever has one may register OAuth
// clients in the token's organization.
//
// An owner or admin creates a token, and we show it once. A registration first checks the token with
// Store.Check, and then counts the use in the transaction that stores the client. Deleting a token
// keeps the clients registered with it. Package provider/register speaks the protocol.
package registration

import (
	"context"
	"slices"
	"time"
	"unicode/utf8"

	"steward/internal/auth"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/idempotency"
	"steward/internal/name"
	"steward/internal/stamp"
	"steward/internal/web"
)

const (
	prefix = "rgt"
	// secretPrefix starts the tokens, so that leak scanners can find them.
	secretPrefix = "iat_"
	// secretSize is the number of base62 characters that hold 256 bits.
	secretSize = 43

	maxTokens  = 100 // per organization
	maxName    = 100
	maxUses    = 10_000
	minExpires = 60
	maxExpires = 31_536_000
)

// Mode says who may register clients. All modes except Off also accept clients that a document
// describes.
type Mode string

// The modes. Each one includes the modes before it.
const (
	// Off lets nobody register clients.
	Off Mode = "off"
	// ByToken lets everybody with an initial access token register clients.
	ByToken Mode = "token"
	// Loopback lets anybody register public clients that redirect to loopback addresses only. They
	// belong to the first organization.
	Loopback Mode = "loopback"
)

// Modes returns the modes.
func Modes() []Mode { return []Mode{Off, ByToken, Loopback} }

// Token is an initial access token, without its value.
type Token struct {
	_ struct{} `goName:"RegistrationToken"`

	ID        string      `json:"id" example:"rgt_01jcq3w7y2b5d8f1h4k7n0q3st"`
	Name      string      `json:"name" example:"Editors of the team"`
	Uses      *int64      `json:"uses,omitempty" doc:"How many clients can be registered with it; absent without a limit" example:"10"`
	Used      int64       `json:"used" doc:"How many clients were registered with it" example:"3"`
	ExpiresAt *stamp.Time `json:"expires_at,omitempty" format:"date-time"`
	CreatedBy string      `json:"created_by" doc:"Id of the user or the OAuth client that created it" example:"usr_01jcq3s1d4f8k2m6p9r3t7v0wx"`
	CreatedAt stamp.Time  `json:"created_at" format:"date-time"`
}

// Created is the response to creating a token, and the only one that shows its value.
type Created struct {
	_ struct{} `goName:"CreatedRegistrationToken"`

	Token
	Value string `json:"token" example:"iat_4fVq0hXz7Lr2mTb9KcW1sYpD6uJ3nEa8GiO5vRkB2dM"`
}

// NewToken is a request to create a token. Null means absent.
type NewToken struct {
	_ struct{} `goName:"NewRegistrationToken"`

	Name      *string `json:"name,omitempty" example:"Editors of the team"`
	ExpiresIn *int64  `json:"expires_in,omitempty" doc:"Seconds after which the token expires; by default it does not" example:"86400"`
	Uses      *int64  `json:"uses,omitempty" doc:"How many clients can be registered with it; by default without a limit" example:"10"`
}

// Check adds a fault for each rule that the request breaks.
func (n NewToken) Check(faults *errs.Faults) {
	faults.Check(n.Name == nil || *n.Name == "" || name.Valid(*n.Name) && utf8.RuneCountInString(*n.Name) <= maxName,
		"body.name", "expected %s, of at most %d characters", name.Expected, maxName)
	faults.Check(n.ExpiresIn == nil || *n.ExpiresIn >= minExpires && *n.ExpiresIn <= maxExpires,
		"body.expires_in", "expected %d to %d seconds", minExpires, maxExpires)
	faults.Check(n.Uses == nil || *n.Uses >= 1 && *n.Uses <= maxUses, "body.uses", "expected 1 to %d", maxUses)
}

// token returns the requested token and its value. It returns Invalid, listing all faults in the
// request.
func (n NewToken) token(now time.Time) (Created, error) {
	var faults errs.Faults
	n.Check(&faults)
	if err := faults.Err(); err != nil {
		return Created{}, err
	}
	t := Token{ID: id.At(prefix, now), Uses: n.Uses, CreatedAt: stamp.Of(now)}
	if n.Name != nil {
		t.Name = *n.Name
	}
	if n.ExpiresIn != nil {
		t.ExpiresAt = new(t.CreatedAt.Add(time.Duration(*n.ExpiresIn) * time.Second))
	}
	return Created{Token: t, Value: secretPrefix + id.Secret(secretSize)}, nil
}

// Grant lets its holder register clients in an organization. If it is restricted, the clients can only
// have those API scopes that the token's creator had.
type Grant struct {
	OrgID      string
	Restricted bool
	Scopes     []string
}

// grantOf returns the grant for tokens that a caller creates.
func grantOf(caller *auth.Caller) Grant {
	g := Grant{OrgID: caller.OrgID, Restricted: caller.Restricted(), Scopes: []string{}}
	for _, s := range caller.Scopes {
		if auth.IsScope(s) {
			g.Scopes = append(g.Scopes, s)
		}
	}
	return g
}

// Allows reports whether clients registered with the token may have a scope.
func (g Grant) Allows(scope string) bool {
	return !g.Restricted || !auth.IsScope(scope) || slices.Contains(g.Scopes, scope)
}

// Handler serves the package's routes, with one method for each.
type Handler struct {
	Store *Store
}

// List serves GET /oidc/registration-token.
func (h *Handler) List(ctx context.Context, _ *struct{}) ([]Token, error) {
	return h.Store.List(ctx, auth.From(ctx).OrgID)
}

// Create serves POST /oidc/registration-token.
func (h *Handler) Create(ctx context.Context, in *struct{ Body NewToken }) (Created, error) {
	return idempotency.Once(ctx, func(ctx context.Context) (Created, error) {
		return h.Store.Create(ctx, auth.From(ctx), in.Body)
	})
}

// Delete serves DELETE /oidc/registration-token/{id}.
func (h *Handler) Delete(ctx context.Context, in *struct {
	ID string `path:"id" doc:"Id of the registration token" example:"rgt_01jcq3w7y2b5d8f1h4k7n0q3st"`
},
) (web.None, error) {
	return web.None{}, h.Store.Delete(ctx, auth.From(ctx), in.ID)
}
