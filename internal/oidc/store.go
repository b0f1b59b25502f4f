package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Store is all SQL about clients (this file), consents, activity, and what dead rows are left to remove. A writer locks the client's row
// before its oidc_client_states row, and those of several clients in the order of their ids.
type Store struct {
	DB  *db.DB
	Now func() time.Time
	// Audit writes who did it, in the same transaction.
	Audit func(tx *db.Tx, action, target string) error
	// Project sees to it that a named project is there, or refuses it.
	Project func(tx *db.Tx, caller *auth.Caller, location, projectID string) error

	cache cache
}

func (s *Store) now() stamp.Time { return stamp.Of(s.Now()) }

const clientColumns = `id, name, description, homepage_url, icon, client_type, redirect_uris, post_logout_redirect_uris, grant_types,
	response_types, scopes, org_id, project_id, access_token_lifetime_seconds, refresh_token_lifetime_seconds, id_token_lifetime_seconds,
	allowed_user_ids, internal, is_public, created_at, updated_at, version`

// scanClient reads clientColumns, and what stands after them into more.
func scanClient(row db.Row, more ...any) (c Client, err error) {
	lists := []*[]string{&c.RedirectURIs, &c.PostLogoutRedirectURIs, &c.GrantTypes, &c.ResponseTypes, &c.Scopes, &c.AllowedUserIDs}
	text := make([]string, len(lists))
	err = row.Scan(append([]any{
		&c.ID, &c.Name, &c.Description, &c.HomepageURL, &c.Icon, &c.ClientType, &text[0], &text[1], &text[2], &text[3], &text[4],
		&c.OrgID, &c.ProjectID, &c.AccessSeconds, &c.RefreshSeconds, &c.IDSeconds, &text[5], &c.Internal, &c.IsPublic, &c.CreatedAt,
		&c.UpdatedAt, &c.version,
	}, more...)...)
	for i := range lists {
		if err == nil {
			err = json.Unmarshal([]byte(text[i]), lists[i])
		}
	}
	return c, err
}

// Create makes a client with the hash of its secret, nil for a public one. A project that the caller may not name is refused.
func (s *Store) Create(ctx context.Context, caller *auth.Caller, c Client, secretHash []byte) (Client, error) {
	c.OrgID = caller.OrgID
	return c, s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := s.named(tx, caller, c.ProjectID); err != nil {
			return err
		}
		_, err1 := tx.Exec(`INSERT INTO oidc_clients (`+clientColumns+`, secret_hash) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10,
			$11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)`, c.ID, c.Name, c.Description, c.HomepageURL, c.Icon, c.ClientType,
			texts(c.RedirectURIs), texts(c.PostLogoutRedirectURIs), texts(c.GrantTypes), texts(c.ResponseTypes), texts(c.Scopes), c.OrgID,
			c.ProjectID, c.AccessSeconds, c.RefreshSeconds, c.IDSeconds, texts(c.AllowedUserIDs), c.Internal, c.IsPublic, c.CreatedAt,
			c.UpdatedAt, c.version, secretHash)
		_, err2 := tx.Exec(`INSERT INTO oidc_client_states (org_id, client_id, epoch, user_count) VALUES ($1, $2, 1, 0)`, c.OrgID, c.ID)
		return errors.Join(err1, err2, s.Audit(tx, "client.create", c.ID))
	})
}

// named has a project be there that a client is to belong to.
func (s *Store) named(tx *db.Tx, caller *auth.Caller, projectID *string) error {
	if projectID == nil {
		return nil
	}
	return s.Project(tx, caller, "body.project_id", *projectID)
}

const listed = `SELECT ` + clientColumns + `, s.user_count, s.last_activity
	FROM oidc_clients c JOIN (SELECT org_id AS state_org, client_id, user_count, last_activity FROM oidc_client_states) s
	ON s.state_org = c.org_id AND s.client_id = c.id`

func scanListed(row db.Row) (l Listed, err error) {
	l.Client, err = scanClient(row, &l.UserCount, &l.LastActivity)
	return l, err
}

// List gives a page of an organization's clients, newest first. The counts are kept, so that a page is one read.
func (s *Store) List(ctx context.Context, orgID string, p page.Paging) (page.Page[Listed], error) {
	q := s.DB.Read(ctx)
	before := "oad" // sorts after every id of this table
	if p.Cursor != "" {
		if err := p.Cursor.Scan(&before); err != nil {
			return page.Page[Listed]{}, err
		}
		p.Offset = 0
	}
	var total int64
	if err := q.Row(`SELECT count(*) FROM oidc_clients WHERE org_id = $1`, orgID).Scan(&total); err != nil {
		return page.Page[Listed]{}, err
	}
	rows, err := db.Collect(q, scanListed, listed+` WHERE c.org_id = $1 AND c.id < $2 ORDER BY c.id DESC LIMIT $3 OFFSET $4`,
		orgID, before, p.Limit+1, p.Offset)
	return page.New(rows, total, p, func(l Listed) page.Cursor { return page.NewCursor(l.ID) }), err
}

// Get gives a client of an organization, or NotFound.
func (s *Store) Get(ctx context.Context, orgID, clientID string) (Listed, error) {
	l, err := scanListed(s.DB.Read(ctx).Row(listed+` WHERE c.org_id = $1 AND c.id = $2`, orgID, clientID))
	return l, missing(err, clientID)
}

func missing(err error, clientID string) error {
	if errors.Is(err, db.ErrNoRows) {
		return errs.Missing("OAuth client", clientID)
	}
	return err
}

// lock gives a client as it is and will be until the transaction ends, or NotFound: on PostgreSQL others wait for the row.
func lock(tx *db.Tx, orgID, clientID string) (Client, error) {
	c, err := scanClient(tx.Row(`UPDATE oidc_clients SET version = version WHERE org_id = $1 AND id = $2 RETURNING `+clientColumns,
		orgID, clientID))
	return c, missing(err, clientID)
}

// Update patches a client. It gives a new secret when the client became confidential; one that became public has none from then on.
// Errors are NotFound, PreconditionFailed, and Invalid with every fault.
func (s *Store) Update(ctx context.Context, caller *auth.Caller, clientID string, match page.IfMatch, p ClientPatch) (u Updated, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		before, err := lock(tx, caller.OrgID, clientID)
		if err != nil {
			return err
		}
		if err := match.Check(before); err != nil {
			return err
		}
		if u.Client, u.ClientSecret, err = p.apply(before, s.Now()); err != nil {
			return err
		}
		if p.ProjectID.Sent {
			if err := s.named(tx, caller, u.Client.ProjectID); err != nil {
				return err
			}
		}
		return errors.Join(save(tx, u.Client), resecret(tx, before, u), tx.Bump(Cache), s.Audit(tx, "client.update", clientID))
	})
	return u, err
}

// save writes the fields that an update may change. The type is written by resecret, together with the secret.
func save(tx *db.Tx, c Client) error {
	_, err := tx.Exec(`UPDATE oidc_clients SET name = $3, description = $4, homepage_url = $5, icon = $6, redirect_uris = $7,
		post_logout_redirect_uris = $8, grant_types = $9, response_types = $10, scopes = $11, project_id = $12,
		access_token_lifetime_seconds = $13, refresh_token_lifetime_seconds = $14, id_token_lifetime_seconds = $15, allowed_user_ids = $16,
		is_public = $17, updated_at = $18, version = $19 WHERE org_id = $1 AND id = $2`, c.OrgID, c.ID, c.Name, c.Description, c.HomepageURL,
		c.Icon, texts(c.RedirectURIs), texts(c.PostLogoutRedirectURIs), texts(c.GrantTypes), texts(c.ResponseTypes), texts(c.Scopes),
		c.ProjectID, c.AccessSeconds, c.RefreshSeconds, c.IDSeconds, texts(c.AllowedUserIDs), c.IsPublic, c.UpdatedAt, c.version)
	return err
}

// resecret gives a client that changed its type a secret, or takes it away.
func resecret(tx *db.Tx, before Client, after Updated) error {
	if before.ClientType == after.Client.ClientType {
		return nil
	}
	var hash []byte
	if after.ClientSecret != "" {
		hash = seal.Hash(after.ClientSecret)
	}
	_, err := tx.Exec(`UPDATE oidc_clients SET client_type = $3, secret_hash = $4 WHERE org_id = $1 AND id = $2`,
		before.OrgID, before.ID, after.Client.ClientType, hash)
	return err
}

// Rotate gives a confidential client a new secret; the old one is refused from then on. A public client is Invalid.
func (s *Store) Rotate(ctx context.Context, orgID, clientID string) (secret string, err error) {
	secret = newSecret()
	return secret, s.DB.Write(ctx, func(tx *db.Tx) error {
		c, err := lock(tx, orgID, clientID)
		if err != nil {
			return err
		}
		if c.ClientType != Confidential {
			return errs.New(errs.Invalid, "a public client has no secret; make it confidential first")
		}
		_, err = tx.Exec(`UPDATE oidc_clients SET secret_hash = $3, updated_at = $4, version = version + 1 WHERE org_id = $1 AND id = $2`,
			orgID, clientID, seal.Hash(secret), s.now())
		return errors.Join(err, tx.Bump(Cache), s.Audit(tx, "client.rotate_secret", clientID))
	})
}

// Delete removes a client. Its tokens and consents are dead with its row, however many they are; Purge takes away what is left of them.
func (s *Store) Delete(ctx context.Context, orgID, clientID string, match page.IfMatch) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		c, err := lock(tx, orgID, clientID)
		if err != nil {
			return err
		}
		if err := match.Check(c); err != nil {
			return err
		}
		_, err1 := tx.Exec(`DELETE FROM oidc_clients WHERE org_id = $1 AND id = $2`, orgID, clientID)
		_, err2 := tx.Exec(`DELETE FROM oidc_client_states WHERE org_id = $1 AND client_id = $2`, orgID, clientID)
		return errors.Join(err1, err2, leave(tx, orgID, clientID, allEpochs, true), tx.Bump(Cache), s.Audit(tx, "client.delete", clientID))
	})
}

// ForgetProject takes the clients of a project that goes away out of it. They stay: users have given their consent to the client.
func (s *Store) ForgetProject(tx *db.Tx, orgID, projectID string) error {
	_, err := tx.Exec(`UPDATE oidc_clients SET project_id = NULL, updated_at = $3, version = version + 1
		WHERE org_id = $1 AND project_id = $2`, orgID, projectID, s.now())
	return errors.Join(err, tx.Bump(Cache))
}

// registered reads what the protocol needs of a client. An unknown one is NotFound.
func (s *Store) registered(ctx context.Context, clientID string) (*Registered, error) {
	r := &Registered{}
	var err error
	r.Client, err = scanClient(s.DB.Read(ctx).Row(`SELECT `+clientColumns+`, secret_hash,
		(SELECT s.epoch FROM oidc_client_states s WHERE s.org_id = c.org_id AND s.client_id = c.id)
		FROM oidc_clients c WHERE c.id = $1`, clientID), &r.SecretHash, &r.Epoch)
	if err != nil {
		return nil, missing(err, clientID)
	}
	slices.Sort(r.AllowedUserIDs)
	return r, nil
}
