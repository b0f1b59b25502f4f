package oidc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"steward/internal/db"
	"steward/internal/errs"
)

// Audience is an API that a client has registered to accept tokens.
type Audience struct {
	orgID   string
	clients []string
}

// Admits reports whether a client may get tokens for the audience without a user's consent.
func (a *Audience) Admits(c *Registered) bool {
	return c.OrgID == a.orgID || slices.Contains(a.clients, c.ID)
}

// Audience returns the audience with a URI. It returns NotFound if no client has registered it.
func (s *Store) Audience(ctx context.Context, uri string) (*Audience, error) {
	var a Audience
	err := s.DB.Read(ctx).Row(`SELECT org_id, allowed_clients FROM oidc_clients WHERE audience = $1`, uri).
		Scan(&a.orgID, db.FromJSON(&a.clients))
	if errors.Is(err, db.ErrNoRows) {
		return nil, errs.New(errs.NotFound, "no client has registered the audience")
	}
	if err != nil {
		return nil, fmt.Errorf("read audience: %w", err)
	}
	return &a, nil
}
