package oidc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
)

const (
	// We delete a day's users after keepDayUsers days. No batch is written later.
	keepDayUsers = 7
	// keepBatches limits how long we keep batch ids. No batch is retried later.
	keepBatches = 48 * time.Hour
	// allEpochs stands for all epochs a client ever had.
	allEpochs = math.MaxInt64
)

// purge names invalid rows that wait to be deleted: a client's consents up to an epoch, and a deleted
// client's activity.
type purge struct {
	orgID, clientID string
	epoch           int64
	deleted         bool
}

func addPurge(tx *db.Tx, p purge) error {
	if _, err := tx.Exec(`INSERT INTO oidc_purges (org_id, client_id, epoch, deleted) VALUES ($1, $2, $3, $4)
		ON CONFLICT (org_id, client_id) DO UPDATE SET epoch = excluded.epoch, deleted = excluded.deleted`,
		p.orgID, p.clientID, p.epoch, p.deleted); err != nil {
		return fmt.Errorf("insert purge: %w", err)
	}
	return nil
}

// Purge deletes consents from ended epochs, rows that deleted clients left behind, and old batch ids
// and daily users. Each transaction deletes up to limit rows of each kind.
func (s *Store) Purge(ctx context.Context, limit int) error {
	for more := true; more; {
		var err error
		more, err = s.purge(ctx, limit)
		if err != nil {
			return err
		}
	}
	return nil
}

// purge runs one transaction and reports whether there may be more to delete.
func (s *Store) purge(ctx context.Context, limit int) (more bool, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		now := s.now()
		skip := db.SkipLocked(tx.Dialect())
		batches, err := tx.Exec(`DELETE FROM oidc_flushes WHERE id IN
			(SELECT id FROM oidc_flushes WHERE at < $1 LIMIT $2`+skip+`)`, now.Add(-keepBatches), limit)
		if err != nil {
			return fmt.Errorf("purge activity batches: %w", err)
		}
		users, err := tx.Exec(`DELETE FROM oidc_client_day_users WHERE (org_id, client_id, day, user_id) IN
			(SELECT org_id, client_id, day, user_id FROM oidc_client_day_users WHERE day < $1 LIMIT $2`+skip+`)`,
			dayOf(now)-keepDayUsers, limit)
		if err != nil {
			return fmt.Errorf("purge users of days: %w", err)
		}
		found, err := purgeNext(tx, limit)
		if err != nil {
			return err
		}
		more = batches == int64(limit) || users == int64(limit) || found
		return nil
	})
	if err != nil {
		return false, err
	}
	return more, nil
}

// purgeNext deletes some rows that the first purge names, and reports whether there was a purge.
func purgeNext(tx *db.Tx, limit int) (found bool, err error) {
	var p purge
	err = tx.Row(`SELECT org_id, client_id, epoch, deleted FROM oidc_purges ORDER BY org_id, client_id LIMIT 1`).
		Scan(&p.orgID, &p.clientID, &p.epoch, &p.deleted)
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read purge: %w", err)
	}
	deleted, err := p.deleteConsents(tx, limit)
	if err != nil || deleted > 0 {
		return true, err
	}
	if p.deleted {
		deleted, err := p.deleteActivity(tx, limit)
		if err != nil || deleted > 0 {
			return true, err
		}
	}
	_, err = tx.Exec(`DELETE FROM oidc_purges WHERE org_id = $1 AND client_id = $2 AND epoch = $3`,
		p.orgID, p.clientID, p.epoch)
	if err != nil {
		return true, fmt.Errorf("delete purge: %w", err)
	}
	return true, nil
}

func (p purge) deleteConsents(tx *db.Tx, limit int) (deleted int64, err error) {
	// We use a range, because PostgreSQL may run an IN subquery again for each row. The outer condition
	// repeats the epoch, because a user may consent again between search and deletion.
	deleted, err = tx.Exec(`DELETE FROM oidc_consents WHERE org_id = $1 AND client_id = $2 AND client_epoch <= $3
		AND user_id <= (SELECT max(user_id) FROM (SELECT user_id FROM oidc_consents
		WHERE org_id = $1 AND client_id = $2 AND client_epoch <= $3 ORDER BY user_id LIMIT $4) AS part)`,
		p.orgID, p.clientID, p.epoch, limit)
	if err != nil {
		return 0, fmt.Errorf("purge consents: %w", err)
	}
	return deleted, nil
}

// deleteActivity deletes the daily users, and once none is left the days. It returns the number of
// users.
func (p purge) deleteActivity(tx *db.Tx, limit int) (deleted int64, err error) {
	deleted, err = tx.Exec(`DELETE FROM oidc_client_day_users WHERE org_id = $1 AND client_id = $2
		AND (day, user_id) IN (SELECT day, user_id FROM oidc_client_day_users
		WHERE org_id = $1 AND client_id = $2 LIMIT $3)`, p.orgID, p.clientID, limit)
	if err != nil {
		return 0, fmt.Errorf("purge users of days: %w", err)
	}
	if deleted > 0 {
		return deleted, nil
	}
	_, err = tx.Exec(`DELETE FROM oidc_client_days WHERE org_id = $1 AND client_id = $2`, p.orgID, p.clientID)
	if err != nil {
		return 0, fmt.Errorf("purge activity: %w", err)
	}
	return 0, nil
}

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
