package oidc

import (
	"context"
	"time"

	"steward/internal/db"
)

const (
	// uniqueFor is how long the users of a day are kept: nobody is counted for a day later than that.
	uniqueFor = 7
	// flushesFor is how long the ids of written batches are kept: none is tried again later than that.
	flushesFor = 48 * time.Hour
)

type remains struct {
	orgID, clientID string
	epoch           int64
	deleted         bool
}

// Purge removes dead rows, up to `most` of each kind: consents of ended epochs, what deleted clients left behind, and notes about
// activity that nobody asks for any more. It is repeated while there is more.
func (s *Store) Purge(ctx context.Context, most int) error {
	for more := true; more; {
		var err error
		if more, err = s.purge(ctx, most); err != nil {
			return err
		}
	}
	return nil
}

// purge does a round in one transaction, and tells whether there is more to do.
func (s *Store) purge(ctx context.Context, most int) (more bool, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		more = false
		now := s.now()
		notes, err := tx.Exec(`DELETE FROM oidc_flushes WHERE id IN (SELECT id FROM oidc_flushes WHERE at < $1 LIMIT $2)`,
			now.Add(-flushesFor), most)
		if err != nil {
			return err
		}
		users, err := purgeUsers(tx, dayOf(now)-uniqueFor, most)
		if err != nil {
			return err
		}
		left, err := db.Collect(tx, scanRemains, `SELECT org_id, client_id, epoch, deleted FROM oidc_remains ORDER BY org_id, client_id LIMIT 1`)
		if err != nil {
			return err
		}
		more = notes == int64(most) || users == int64(most) || len(left) > 0
		for _, r := range left {
			if err := r.purge(tx, most); err != nil {
				return err
			}
		}
		return nil
	})
	return more, err
}

func purgeUsers(tx *db.Tx, before Day, most int) (n int64, err error) {
	return tx.Exec(`DELETE FROM oidc_client_day_users WHERE (org_id, client_id, day, user_id) IN
		(SELECT org_id, client_id, day, user_id FROM oidc_client_day_users WHERE day < $1 LIMIT $2)`, before, most)
}

func scanRemains(row db.Row) (r remains, err error) {
	err = row.Scan(&r.orgID, &r.clientID, &r.epoch, &r.deleted)
	return r, err
}

// purge removes a part of what a client left; when nothing is left, the note about it.
func (r remains) purge(tx *db.Tx, most int) error {
	// The epoch is asked for twice: a user may consent anew, in the same row, between the search and the removal.
	n, err := tx.Exec(`DELETE FROM oidc_consents WHERE org_id = $1 AND client_id = $2 AND client_epoch <= $3 AND user_id IN
		(SELECT user_id FROM oidc_consents WHERE org_id = $1 AND client_id = $2 AND client_epoch <= $3 LIMIT $4)`,
		r.orgID, r.clientID, r.epoch, most)
	if err != nil || n > 0 {
		return err
	}
	if r.deleted {
		n, err = tx.Exec(`DELETE FROM oidc_client_day_users WHERE org_id = $1 AND client_id = $2 AND (day, user_id) IN
			(SELECT day, user_id FROM oidc_client_day_users WHERE org_id = $1 AND client_id = $2 LIMIT $3)`, r.orgID, r.clientID, most)
		if err != nil || n > 0 {
			return err
		}
		if _, err = tx.Exec(`DELETE FROM oidc_client_days WHERE org_id = $1 AND client_id = $2`, r.orgID, r.clientID); err != nil {
			return err
		}
	}
	_, err = tx.Exec(`DELETE FROM oidc_remains WHERE org_id = $1 AND client_id = $2 AND epoch = $3`, r.orgID, r.clientID, r.epoch)
	return err
}
