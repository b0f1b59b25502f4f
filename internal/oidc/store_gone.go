package oidc

import (
	"errors"
	"fmt"
	"slices"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
)

// consentGone removes everything created with the client's tokens, by one user or, if userID is empty,
// by all.
func (s *Store) consentGone(tx *db.Tx, orgID, clientID, userID string) error {
	for _, gone := range s.ConsentGone {
		if err := gone(tx, orgID, clientID, userID); err != nil {
			return err
		}
	}
	return nil
}

// RequireConsent returns Unauthorized unless the caller's user lets its client have all the scopes. We
// may accept a token for a moment after its consent was revoked on another replica. So before you
// create anything that outlives the token, call RequireConsent in the same transaction: a revocation
// then waits for the transaction, and removes what it created.
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

// ForgetUser deletes a removed user's consents in all organizations, which revokes the tokens based on
// them.
func (s *Store) ForgetUser(tx *db.Tx, userID string) error {
	orgIDs, err := db.Collect(tx, db.Value[string], `SELECT DISTINCT org_id FROM oidc_consents WHERE user_id = $1 ORDER BY org_id`, userID)
	if err != nil {
		return fmt.Errorf("list consents of user: %w", err)
	}
	for _, orgID := range orgIDs {
		if err := s.ForgetMember(tx, orgID, userID); err != nil {
			return err
		}
	}
	return nil
}
