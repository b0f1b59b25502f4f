package oidc

import (
	"errors"
	"slices"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
)

// consentGone removes what was created with the tokens of a user of a client, or of all its users if
// userID is empty.
func (s *Store) consentGone(tx *db.Tx, orgID, clientID, userID string) error {
	for _, gone := range s.ConsentGone {
		if err := gone(tx, orgID, clientID, userID); err != nil {
			return err
		}
	}
	return nil
}

// RequireConsent returns Unauthorized if the user of a caller does not let its client have some scopes. A token may be
// accepted for a moment after its consent was revoked on another replica; what it creates to outlive it
// must be created in a transaction that has called RequireConsent, which a revocation waits for.
func (s *Store) RequireConsent(tx *db.Tx, caller *auth.Caller, scopes []string) error {
	refused := errs.New(errs.Unauthorized, "the user's consent to this application was revoked")
	if _, err := lockState(tx, caller.OrgID, caller.ClientID); err != nil {
		if errs.KindOf(err) == errs.NotFound {
			return refused
		}
		return err
	}
	c, err := readConsent(tx, caller.OrgID, caller.ClientID, caller.UserID)
	if errors.Is(err, db.ErrNoRows) {
		return refused
	}
	if err != nil {
		return err
	}
	for _, name := range scopes {
		if !slices.Contains(c.Scopes, name) {
			return refused
		}
	}
	return nil
}
