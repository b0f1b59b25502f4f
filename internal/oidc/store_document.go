package oidc

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"steward/internal/account"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
)

// Documented returns the organization's client that the document at a URI describes, and whether we
// requested the document recently enough. It returns NotFound if the organization has none.
func (s *Store) Documented(ctx context.Context, orgID, uri string) (r *Registered, fresh bool, err error) {
	var clientID string
	var expires stamp.Time
	err = s.DB.Read(ctx).Row(`SELECT id, document_expires_at FROM oidc_clients WHERE org_id = $1 AND document_uri = $2`, orgID, uri).
		Scan(&clientID, &expires)
	if errors.Is(err, db.ErrNoRows) {
		return nil, false, errs.New(errs.NotFound, "no document describes the client")
	}
	if err != nil {
		return nil, false, fmt.Errorf("read document: %w", err)
	}
	r, err = s.Lookup(ctx, clientID)
	return r, expires > s.now(), err
}

// StoreDocument stores the client that a document describes, in an organization whose user signs in to
// it. It returns RateLimited if the organization has too many clients that nobody vouches for.
func (s *Store) StoreDocument(ctx context.Context, orgID, userID string, d Document) (*Registered, error) {
	created, _, err := d.client.build(s.Now())
	if err != nil {
		return nil, err
	}
	created.OrgID = orgID
	created.documentExpires = new(s.now().Add(d.Fresh))
	clientID := created.ID
	err = s.DB.Write(asUser(ctx, orgID, userID), func(tx *db.Tx) error {
		if err := account.LockOrg(tx, orgID); err != nil {
			return err
		}
		before, err := scanClient(tx.Row(`UPDATE oidc_clients SET document_expires_at = $3 WHERE org_id = $1 AND document_uri = $2
			RETURNING `+clientColumns, orgID, d.URI, created.documentExpires))
		if err == nil {
			clientID = before.ID
			return s.updateDocument(tx, before, d)
		}
		if !errors.Is(err, db.ErrNoRows) {
			return err
		}
		if err := s.makeRoom(tx, orgID, Anonymous); err != nil {
			return err
		}
		if err := insertClient(tx, created, ""); err != nil {
			return err
		}
		return s.Audit.Record(tx, "client.register", created.ID)
	})
	if err != nil {
		return nil, err
	}
	return s.readClient(ctx, clientID)
}

// updateDocument updates a client if its document has changed.
func (s *Store) updateDocument(tx *db.Tx, before Client, d Document) error {
	n := d.client
	patch := ClientPatch{Name: page.Some(n.Name), HomepageURL: page.Some(n.HomepageURL), Settings: n.Settings}
	after, _, err := patch.apply(before, s.Now())
	if err != nil {
		return err
	}
	unchanged := after
	unchanged.UpdatedAt = before.UpdatedAt
	unchanged.version = before.version
	if reflect.DeepEqual(unchanged, before) {
		return nil
	}
	if err := updateClient(tx, after); err != nil {
		return err
	}
	if before.AuthMethod != after.AuthMethod {
		if err := updateType(tx, after, ""); err != nil {
			return err
		}
	}
	if err := tx.Invalidate(Cache); err != nil {
		return err
	}
	return s.Audit.Record(tx, "client.update", after.ID)
}

// OrgsOf returns the organizations where a user is an enabled member, without deleted ones.
func (s *Store) OrgsOf(ctx context.Context, userID string) ([]string, error) {
	orgs, err := db.Collect(s.DB.Read(ctx), db.Value[string], `SELECT org_id FROM active_members m WHERE user_id = $1
		AND NOT EXISTS (SELECT 1 FROM deleted_orgs d WHERE d.org_id = m.org_id) ORDER BY org_id LIMIT 100`, userID)
	if err != nil {
		return nil, fmt.Errorf("list organizations of user: %w", err)
	}
	return orgs, nil
}
