package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
)

// allEpochs stands for every epoch that a client had.
const allEpochs = math.MaxInt64

// hold locks a client's consents and gives its epoch, or NotFound. Whoever adds or removes one holds them first, so that none is added to
// an epoch that has just ended and the count stays true.
func hold(tx *db.Tx, orgID, clientID string) (epoch int64, err error) {
	err = tx.Row(`UPDATE oidc_client_states SET user_count = user_count WHERE org_id = $1 AND client_id = $2 RETURNING epoch`,
		orgID, clientID).Scan(&epoch)
	return epoch, missing(err, clientID)
}

func count(tx *db.Tx, orgID, clientID string, change int64) error {
	_, err := tx.Exec(`UPDATE oidc_client_states SET user_count = user_count + $3 WHERE org_id = $1 AND client_id = $2`,
		orgID, clientID, change)
	return err
}

// leave notes dead consents for Purge: those of the client up to an epoch, and all the rest of it when it was deleted.
func leave(tx *db.Tx, orgID, clientID string, epoch int64, deleted bool) error {
	_, err := tx.Exec(`INSERT INTO oidc_remains (org_id, client_id, epoch, deleted) VALUES ($1, $2, $3, $4)
		ON CONFLICT (org_id, client_id) DO UPDATE SET epoch = excluded.epoch, deleted = excluded.deleted`, orgID, clientID, epoch, deleted)
	return err
}

// SaveConsent writes what a user granted to a client and what they declined, over what they granted before. It gives the consent with the
// numbers that go into tokens. When something is taken back, the consent gets a new number, which ends the tokens that may carry it. A
// client that is not there is NotFound.
func (s *Store) SaveConsent(ctx context.Context, clientID, userID string, granted, declined []string) (c Consent, err error) {
	r, err := s.Lookup(ctx, clientID)
	if err != nil {
		return c, err
	}
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		epoch, err := hold(tx, r.OrgID, clientID)
		if err != nil {
			return err
		}
		now := s.now()
		c = Consent{ClientID: clientID, UserID: userID, Scopes: granted, ClientEpoch: epoch, CreatedAt: now, UpdatedAt: now}
		before, err := consentOf(tx, r.OrgID, clientID, userID)
		if errors.Is(err, db.ErrNoRows) {
			c.Epoch = newEpoch()
			return errors.Join(addConsent(tx, r.OrgID, c), count(tx, r.OrgID, clientID, 1))
		}
		if err != nil {
			return err
		}
		c.Epoch, c.CreatedAt, c.Scopes = before.Epoch, before.CreatedAt, merged(before.Scopes, granted, declined)
		if slices.ContainsFunc(before.Scopes, func(s string) bool { return !slices.Contains(c.Scopes, s) }) {
			c.Epoch = newEpoch()
			err = tx.Bump(Cache)
		}
		return errors.Join(err, changeConsent(tx, r.OrgID, c))
	})
	return c, err
}

// merged gives what was granted before and now, without what is declined now.
func merged(before, granted, declined []string) []string {
	all := slices.DeleteFunc(slices.Clone(before), func(s string) bool { return slices.Contains(declined, s) })
	for _, s := range granted {
		if !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

func changeConsent(tx *db.Tx, orgID string, c Consent) error {
	_, err := tx.Exec(`UPDATE oidc_consents SET scopes = $4, epoch = $5, updated_at = $6
		WHERE org_id = $1 AND client_id = $2 AND user_id = $3`, orgID, c.ClientID, c.UserID, texts(c.Scopes), c.Epoch, c.UpdatedAt)
	return err
}

// addConsent writes a new consent, over a dead one that may still lie in its place.
func addConsent(tx *db.Tx, orgID string, c Consent) error {
	_, err := tx.Exec(`INSERT INTO oidc_consents (org_id, client_id, user_id, scopes, epoch, client_epoch, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $7) ON CONFLICT (org_id, client_id, user_id) DO UPDATE SET scopes = excluded.scopes,
		epoch = excluded.epoch, client_epoch = excluded.client_epoch, created_at = excluded.created_at, updated_at = excluded.updated_at`,
		orgID, c.ClientID, c.UserID, texts(c.Scopes), c.Epoch, c.ClientEpoch, c.CreatedAt)
	return err
}

// living joins a consent with its client's state, and leaves out those of an earlier epoch.
const living = ` FROM oidc_consents k JOIN oidc_client_states s
	ON s.org_id = k.org_id AND s.client_id = k.client_id AND s.epoch = k.client_epoch`

// Consent gives what a user allowed a client, or nil when that is nothing.
func (s *Store) Consent(ctx context.Context, clientID, userID string) (*Consent, error) {
	r, err := s.Lookup(ctx, clientID)
	if errs.KindOf(err) == errs.NotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c, err := consentOf(s.DB.Read(ctx), r.OrgID, clientID, userID)
	if errors.Is(err, db.ErrNoRows) {
		return nil, nil
	}
	return c, err
}

// consentOf gives ErrNoRows when there is none.
func consentOf(q db.Querier, orgID, clientID, userID string) (*Consent, error) {
	c := &Consent{ClientID: clientID, UserID: userID}
	var scopes string
	err := q.Row(`SELECT k.scopes, k.epoch, k.client_epoch, k.created_at, k.updated_at`+living+`
		WHERE k.org_id = $1 AND k.client_id = $2 AND k.user_id = $3`, orgID, clientID, userID).
		Scan(&scopes, &c.Epoch, &c.ClientEpoch, &c.CreatedAt, &c.UpdatedAt)
	if err != nil {
		return nil, err
	}
	return c, json.Unmarshal([]byte(scopes), &c.Scopes)
}

// standing reads what a user is to a client.
func (s *Store) standing(ctx context.Context, orgID string, p pair) (st standing, err error) {
	err = s.DB.Read(ctx).Row(`SELECT COALESCE((SELECT k.epoch`+living+` WHERE k.org_id = $1 AND k.client_id = $2 AND k.user_id = $3), 0),
		EXISTS (SELECT 1 FROM members m WHERE m.org_id = $1 AND m.user_id = $3)`, orgID, p.clientID, p.userID).Scan(&st.consent, &st.member)
	return st, err
}

// Users gives a page of a client's consents, newest first. A client that is not there is NotFound.
func (s *Store) Users(ctx context.Context, orgID, clientID string, p page.Paging) (page.Page[Grant], error) {
	q := s.DB.Read(ctx)
	var epoch, total int64
	if err := q.Row(`SELECT epoch, user_count FROM oidc_client_states WHERE org_id = $1 AND client_id = $2`, orgID, clientID).
		Scan(&epoch, &total); err != nil {
		return page.Page[Grant]{}, missing(err, clientID)
	}
	at, user := int64(math.MaxInt64), ""
	if p.Cursor != "" {
		if err := p.Cursor.Scan(&at, &user); err != nil {
			return page.Page[Grant]{}, err
		}
		p.Offset = 0
	}
	rows, err := db.Collect(q, scanGrant, `SELECT user_id, scopes, created_at, updated_at FROM oidc_consents
		WHERE org_id = $1 AND client_id = $2 AND client_epoch = $3 AND created_at <= $4 AND (created_at < $4 OR user_id < $5)
		ORDER BY created_at DESC, user_id DESC LIMIT $6 OFFSET $7`, orgID, clientID, epoch, at, user, p.Limit+1, p.Offset)
	return page.New(rows, total, p, func(g Grant) page.Cursor { return page.NewCursor(int64(g.CreatedAt), g.UserID) }), err
}

func scanGrant(row db.Row) (g Grant, err error) {
	var scopes string
	if err = row.Scan(&g.UserID, &scopes, &g.CreatedAt, &g.UpdatedAt); err == nil {
		err = json.Unmarshal([]byte(scopes), &g.Scopes)
	}
	return g, err
}

// Own gives a page of what a user allowed clients of whatever organization, newest first: a consent is the user's own.
func (s *Store) Own(ctx context.Context, userID string, p page.Paging) (page.Page[OwnGrant], error) {
	at, client := int64(math.MaxInt64), ""
	if p.Cursor != "" {
		if err := p.Cursor.Scan(&at, &client); err != nil {
			return page.Page[OwnGrant]{}, err
		}
		p.Offset = 0
	}
	rows, err := db.Collect(s.DB.Read(ctx), scanOwn, `SELECT k.client_id, k.scopes, k.created_at, k.updated_at, c.name, c.description, c.icon,
		c.homepage_url`+living+` JOIN oidc_clients c ON c.org_id = k.org_id AND c.id = k.client_id
		WHERE k.user_id = $1 AND k.created_at <= $2 AND (k.created_at < $2 OR k.client_id < $3)
		ORDER BY k.created_at DESC, k.client_id DESC LIMIT $4 OFFSET $5`, userID, at, client, p.Limit+1, p.Offset)
	return page.New(rows, page.Unknown, p, func(g OwnGrant) page.Cursor { return page.NewCursor(int64(g.CreatedAt), g.ClientID) }), err
}

func scanOwn(row db.Row) (g OwnGrant, err error) {
	var scopes string
	err = row.Scan(&g.ClientID, &scopes, &g.CreatedAt, &g.UpdatedAt, &g.ClientName, &g.ClientDescription, &g.ClientIcon, &g.ClientHomepageURL)
	if err == nil {
		err = json.Unmarshal([]byte(scopes), &g.Scopes)
	}
	return g, err
}

// RevokeUser takes back a user's consent to a client of the organization, and with it every token that rests on it. An unknown client and a
// user without consent are NotFound.
func (s *Store) RevokeUser(ctx context.Context, orgID, clientID, userID string) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		gone, err := revoke(tx, orgID, clientID, userID)
		if err != nil {
			return err
		}
		if !gone {
			return errs.Missing("user", userID)
		}
		return errors.Join(tx.Bump(Cache), s.Audit(tx, "client.revoke_user", clientID+"/"+userID))
	})
}

// RevokeConsent takes back a user's own consent to a client of whatever organization. None is NotFound.
func (s *Store) RevokeConsent(ctx context.Context, clientID, userID string) error {
	none := errs.Missing("consent for client", clientID)
	r, err := s.Lookup(ctx, clientID)
	if errs.KindOf(err) == errs.NotFound {
		return none
	}
	if err != nil {
		return err
	}
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		gone, err := revoke(tx, r.OrgID, clientID, userID)
		if !gone && (err == nil || errs.KindOf(err) == errs.NotFound) {
			return none
		}
		return errors.Join(err, tx.Bump(Cache), s.Audit(tx, "consent.revoke", clientID))
	})
}

func revoke(tx *db.Tx, orgID, clientID, userID string) (gone bool, err error) {
	epoch, err := hold(tx, orgID, clientID)
	if err != nil {
		return false, err
	}
	n, err := tx.Exec(`DELETE FROM oidc_consents WHERE org_id = $1 AND client_id = $2 AND user_id = $3 AND client_epoch = $4`,
		orgID, clientID, userID, epoch)
	if err != nil || n == 0 {
		return false, err
	}
	return true, count(tx, orgID, clientID, -1)
}

// RevokeAll takes back every consent to a client and kills every token of it, also those of client_credentials: the client's epoch ends,
// and nothing else needs to be touched.
func (s *Store) RevokeAll(ctx context.Context, orgID, clientID string) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		ended, err := hold(tx, orgID, clientID)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`UPDATE oidc_client_states SET epoch = epoch + 1, user_count = 0 WHERE org_id = $1 AND client_id = $2`,
			orgID, clientID)
		return errors.Join(err, leave(tx, orgID, clientID, ended, false), tx.Bump(Cache), s.Audit(tx, "client.revoke_all", clientID))
	})
}

// ForgetMember takes back the consents of a user who leaves the organization, to those of its clients that are for members only.
// Consents to its public clients stay: the user may use those as anybody may, but without a role in the organization their tokens
// have no right to its management API any more, which asks for the role each time.
func (s *Store) ForgetMember(tx *db.Tx, orgID, userID string) error {
	clients, err := db.Collect(tx, scanText, `SELECT k.client_id FROM oidc_consents k
		JOIN oidc_clients c ON c.org_id = k.org_id AND c.id = k.client_id
		WHERE k.user_id = $2 AND k.org_id = $1 AND NOT c.is_public ORDER BY k.client_id`, orgID, userID)
	if err != nil {
		return err
	}
	for _, clientID := range clients {
		if _, err := revoke(tx, orgID, clientID, userID); err != nil && errs.KindOf(err) != errs.NotFound {
			return err
		}
	}
	return tx.Bump(Cache)
}

func scanText(row db.Row) (text string, err error) {
	err = row.Scan(&text)
	return text, err
}
