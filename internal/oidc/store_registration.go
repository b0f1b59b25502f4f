package oidc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/seal"
	"steward/internal/stamp"
)

const (
	// UnusedAfter limits how long we keep a client that registered itself but is not used. Any activity
	// counts as a use.
	UnusedAfter = 7 * 24 * time.Hour
	// neverUsedAfter protects a new anonymous client from deletion when there are too many.
	neverUsedAfter = time.Hour

	maxAnonymous = 1_000  // per organization
	maxWithToken = 10_000 // per organization

	// registrationPrefix starts registration access tokens, so that leak scanners can find them.
	registrationPrefix = "rat_"
)

// errRegistration is the same for an unknown client, a client that a user created, and a wrong token.
var errRegistration = errs.New(errs.Unauthorized, "the registration access token is not that of the client")

// SelfRegistration is a request from a client that registers itself.
type SelfRegistration struct {
	OrgID        string
	Registration Registration
	Client       NewClient
	// Use, if set, runs in the transaction that stores the client.
	Use func(tx *db.Tx) error
}

// Enrolled is a client that has registered itself. We do not store the secret and the registration
// access token. The secret is empty if the client needs none.
type Enrolled struct {
	Client Client
	Secret string
	Token  string
}

// Register stores a client that registers itself. It returns Invalid, listing all faults in the
// request, and RateLimited if the organization has too many such clients.
func (s *Store) Register(ctx context.Context, r SelfRegistration) (Enrolled, error) {
	r.Client.registration = r.Registration
	c, secret, err := r.Client.build(s.Now())
	if err != nil {
		return Enrolled{}, err
	}
	c.OrgID = r.OrgID
	token := registrationPrefix + newSecret()
	err = s.DB.Write(AsItself(ctx, c), func(tx *db.Tx) error {
		if err := account.LockOrg(tx, c.OrgID); err != nil { // before the token, in the order that creating a token uses
			return err
		}
		if r.Use != nil {
			if err := r.Use(tx); err != nil {
				return err
			}
		}
		if err := s.makeRoom(tx, c.OrgID, c.Registration); err != nil {
			return err
		}
		if err := insertClient(tx, c, secret); err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE oidc_clients SET registration_hash = $3 WHERE org_id = $1 AND id = $2`,
			c.OrgID, c.ID, seal.Hash(token)); err != nil {
			return fmt.Errorf("store registration access token: %w", err)
		}
		return s.Audit.Record(tx, "client.register", c.ID)
	})
	if err != nil {
		return Enrolled{}, err
	}
	return Enrolled{Client: c, Secret: secret, Token: token}, nil
}

// AsItself returns a context whose caller is a client that registered itself, with its own scopes.
func AsItself(ctx context.Context, c Client) context.Context {
	return auth.With(ctx, &auth.Caller{OrgID: c.OrgID, ClientID: c.ID, Scopes: c.Scopes})
}

// makeRoom returns RateLimited if too many clients in an organization registered themselves this way.
// It first deletes an anonymous client that was never used, so that a flood of them cannot keep others
// out.
func (s *Store) makeRoom(tx *db.Tx, orgID string, r Registration) error {
	limit := maxWithToken
	if r == Anonymous {
		limit = maxAnonymous
	}
	var count int
	err := tx.Row(`SELECT count(*) FROM oidc_clients WHERE org_id = $1 AND registration = $2 AND registration <> ''`,
		orgID, r).Scan(&count)
	if err != nil {
		return fmt.Errorf("count registered clients: %w", err)
	}
	if count < limit {
		return nil
	}
	full := errs.New(errs.RateLimited, "the organization has too many clients that registered themselves")
	if r != Anonymous {
		return full
	}
	deleted, err := s.deleteNeverUsed(tx, orgID)
	if err != nil || deleted {
		return err
	}
	return full
}

// deleteNeverUsed deletes the oldest anonymous client that had time to be used but never was, if there
// is one.
func (s *Store) deleteNeverUsed(tx *db.Tx, orgID string) (deleted bool, err error) {
	var clientID string
	err = tx.Row(`SELECT c.id FROM oidc_clients c JOIN oidc_client_states s ON s.org_id = c.org_id AND s.client_id = c.id
		WHERE c.org_id = $1 AND c.registration = $2 AND c.registration <> '' AND c.created_at < $3
		AND s.last_activity IS NULL ORDER BY c.id LIMIT 1`,
		orgID, Anonymous, s.now().Add(-neverUsedAfter)).Scan(&clientID)
	if errors.Is(err, db.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find unused client: %w", err)
	}
	return true, s.remove(tx, orgID, clientID)
}

// CheckRegistration returns the client if the registration access token is right, or else Unauthorized.
func (s *Store) CheckRegistration(ctx context.Context, clientID, token string) (Client, error) {
	if !id.Is(id.Client, clientID) {
		return Client{}, errRegistration
	}
	row := s.DB.Read(ctx).Row(`SELECT `+clientColumns+`, registration_hash,
		EXISTS (SELECT 1 FROM deleted_orgs d WHERE d.org_id = c.org_id)
		FROM oidc_clients c WHERE c.id = $1 AND c.registration <> ''`, clientID)
	var hash []byte
	var suspended bool
	c, err := scanClient(row, &hash, &suspended)
	if errors.Is(err, db.ErrNoRows) {
		return Client{}, errRegistration
	}
	if err != nil {
		return Client{}, err
	}
	if suspended || !sameSecret(hash, token) {
		return Client{}, errRegistration
	}
	return c, nil
}

// registeredKey is a client's position in the index over registrations.
type registeredKey struct {
	orgID        string
	registration Registration
	clientID     string
}

// DeleteUnused deletes the clients that registered themselves and were not used for UnusedAfter, each
// in its own transaction. It finds up to limit of them at a time.
func (s *Store) DeleteUnused(ctx context.Context, limit int) error {
	before := s.now().Add(-UnusedAfter)
	var last registeredKey
	for {
		unused, err := db.Collect(s.DB.Read(ctx), func(row db.Row) (k registeredKey, err error) {
			err = row.Scan(&k.orgID, &k.registration, &k.clientID)
			return k, err
		}, `SELECT c.org_id, c.registration, c.id FROM oidc_clients c
			JOIN oidc_client_states s ON s.org_id = c.org_id AND s.client_id = c.id
			WHERE c.registration <> '' AND (c.org_id, c.registration, c.id) > ($1, $2, $3)
			AND c.created_at < $4 AND (s.last_activity IS NULL OR s.last_activity < $4)
			ORDER BY c.org_id, c.registration, c.id LIMIT $5`, last.orgID, last.registration, last.clientID, before, limit)
		if err != nil {
			return fmt.Errorf("find unused clients: %w", err)
		}
		for _, k := range unused {
			if err := s.deleteUnused(ctx, k, before); err != nil {
				return err
			}
		}
		if len(unused) < limit {
			return nil
		}
		last = unused[len(unused)-1]
	}
}

// deleteUnused deletes a client unless it was used or deleted in the meantime.
func (s *Store) deleteUnused(ctx context.Context, k registeredKey, before stamp.Time) error {
	ctx = auth.With(ctx, &auth.Caller{OrgID: k.orgID})
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		if _, err := lock(tx, k.orgID, k.clientID); err != nil {
			if errs.KindOf(err) == errs.NotFound {
				return nil
			}
			return err
		}
		// This locks the row: no activity can be added before the client is deleted.
		unused, err := tx.Exec(`UPDATE oidc_client_states SET epoch = epoch WHERE org_id = $1 AND client_id = $2
			AND (last_activity IS NULL OR last_activity < $3)`, k.orgID, k.clientID, before)
		if err != nil {
			return fmt.Errorf("lock client state: %w", err)
		}
		if unused == 0 {
			return nil
		}
		if err := s.remove(tx, k.orgID, k.clientID); err != nil {
			return err
		}
		return s.Audit.Record(tx, "client.expire", k.clientID)
	})
}
