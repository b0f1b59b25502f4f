package oidc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"steward/internal/account"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Store stores clients, consents and activity. A transaction locks a client's row before its row in
// oidc_client_states, and locks several clients in the order of their ids.
type Store struct {
	DB       *db.DB
	Now      func() time.Time
	Audit    *audit.Store
	Accounts *account.Store
	// ConsentGone functions delete whatever users created with a client's tokens. They run in the
	// transaction that revokes the tokens, for one user or, if userID is empty, for all.
	ConsentGone []func(tx *db.Tx, orgID, clientID, userID string) error

	cache cache
}

func (s *Store) now() stamp.Time { return stamp.Of(s.Now()) }

const clientColumns = `id, name, description, homepage_url, icon, client_type, redirect_uris, post_logout_redirect_uris,
	grant_types, response_types, scopes, org_id, project_id, access_token_lifetime_seconds,
	refresh_token_lifetime_seconds, id_token_lifetime_seconds, allowed_user_ids, internal, is_public, created_at,
	updated_at, version, audience, redirects_since, backchannel_logout_uri, frontchannel_logout_uri,
	token_endpoint_auth_method, jwks, jwks_uri, registration, allowed_clients, document_uri, document_expires_at`

// scanClient scans clientColumns, and any columns after them into more.
func scanClient(row db.Row, more ...any) (Client, error) {
	var c Client
	var method *string
	dest := []any{
		&c.ID, &c.Name, &c.Description, &c.HomepageURL, &c.Icon, &c.ClientType, db.FromJSON(&c.RedirectURIs), db.FromJSON(&c.PostLogoutRedirectURIs),
		db.FromJSON(&c.GrantTypes), db.FromJSON(&c.ResponseTypes), db.FromJSON(&c.Scopes), &c.OrgID, &c.ProjectID, &c.AccessSeconds,
		&c.RefreshSeconds, &c.IDSeconds, db.FromJSON(&c.AllowedUserIDs), &c.Internal, &c.IsPublic, &c.CreatedAt,
		&c.UpdatedAt, &c.version, &c.Audience, db.FromJSON(&c.redirectsSince), &c.BackchannelLogoutURI, &c.FrontchannelLogoutURI,
		&method, db.FromJSON(&c.JWKS), &c.JWKSURI, &c.Registration, db.FromJSON(&c.AllowedClients),
		&c.DocumentURI, &c.documentExpires,
	}
	if err := row.Scan(append(dest, more...)...); err != nil {
		return Client{}, fmt.Errorf("read client: %w", err)
	}
	if c.DocumentURI != nil {
		c.Registration = ByDocument
	}
	c.AuthMethod = storedAuthMethod(c.ClientType, method)
	return c, nil
}

// Create stores a client in the caller's organization, with its secret, which is empty if the client
// needs none. It returns Forbidden if the caller may not grant the client's scopes, an error if the
// caller may not use its project, and Conflict if another client has its audience.
func (s *Store) Create(ctx context.Context, caller *auth.Caller, c Client, secret string) (Client, error) {
	if err := requireScopes(caller, Client{}, c); err != nil {
		return Client{}, err
	}
	c.OrgID = caller.OrgID
	err := s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := s.requireProject(tx, caller, c.ProjectID); err != nil {
			return err
		}
		if err := s.requireEnforced(tx, Client{}, c); err != nil {
			return err
		}
		if err := insertClient(tx, c, secret); err != nil {
			return err
		}
		return s.Audit.Record(tx, "client.create", c.ID)
	})
	if err != nil {
		return Client{}, err
	}
	return c, nil
}

// errAudience is for an audience that belongs to another client or to Steward itself.
var errAudience = errs.New(errs.Conflict, "the audience is taken")

func insertClient(tx *db.Tx, c Client, secret string) error {
	values := c.changeable()
	values["client_type"] = c.ClientType
	values["internal"] = c.Internal
	values["created_at"] = c.CreatedAt
	values["registration"] = c.Registration
	if c.Registration == ByDocument {
		values["registration"] = Anonymous
	}
	values["document_uri"] = c.DocumentURI
	values["document_expires_at"] = c.documentExpires
	values["secret_hash"] = secretHash(c, secret)
	names := strings.Join(strings.Fields(clientColumns), " @")
	_, err := tx.Exec(`INSERT INTO oidc_clients (`+clientColumns+`, secret_hash) VALUES (@`+names+`, @secret_hash)`, values)
	if db.IsUnique(err) {
		return errAudience
	}
	if err != nil {
		return fmt.Errorf("insert client: %w", err)
	}
	if _, err := tx.Exec(`INSERT INTO oidc_client_states (org_id, client_id, epoch, user_count) VALUES ($1, $2, 1, 0)`,
		c.OrgID, c.ID); err != nil {
		return fmt.Errorf("insert client state: %w", err)
	}
	return nil
}

// requireProject ensures that the client's project exists, if it has one.
func (s *Store) requireProject(tx *db.Tx, caller *auth.Caller, projectID *string) error {
	if projectID == nil {
		return nil
	}
	return s.Accounts.EnsureProject(tx, caller, "body.project_id", *projectID)
}

// schemaOfAllowedClients is the migration that added allowed_clients.
const schemaOfAllowedClients = 43

// requireEnforced returns Conflict if a request changes allowed_clients while a process with an earlier
// version lives, because that one issues tokens for every audience to all clients.
func (s *Store) requireEnforced(tx *db.Tx, before, after Client) error {
	if slices.Equal(before.AllowedClients, after.AllowedClients) {
		return nil
	}
	return db.RequireSchema(tx, s.Now(), schemaOfAllowedClients, "allowed_clients")
}

// notFound returns NotFound for db.ErrNoRows, and any other error unchanged.
func notFound(err error, clientID string) error {
	if errors.Is(err, db.ErrNoRows) {
		return errs.Missing("OAuth client", clientID)
	}
	return err
}

// lock returns a client and locks its row until the transaction ends. It returns NotFound if there is
// none.
func lock(tx *db.Tx, orgID, clientID string) (Client, error) {
	row := tx.Row(`UPDATE oidc_clients SET version = version WHERE org_id = $1 AND id = $2 RETURNING `+clientColumns,
		orgID, clientID)
	c, err := scanClient(row)
	if err != nil {
		return Client{}, notFound(err, clientID)
	}
	return c, nil
}

// Update applies a patch to a client. It creates a secret if the new authentication method needs one
// and the client had none, and deletes a secret that the new method does not need. It returns NotFound,
// PreconditionFailed, Invalid listing all faults, Forbidden if the caller lacks the scopes for the
// change, or Conflict if another client has the audience.
func (s *Store) Update(
	ctx context.Context, caller *auth.Caller, clientID string, match page.IfMatch, p ClientPatch,
) (Updated, error) {
	var u Updated
	err := s.DB.Write(ctx, func(tx *db.Tx) error {
		before, err := lock(tx, caller.OrgID, clientID)
		if err != nil {
			return err
		}
		if err := requireChangeable(before); err != nil {
			return err
		}
		if before.DocumentURI != nil {
			return errs.New(errs.Conflict, "a document describes OAuth client %s, and only a change of that changes it", clientID)
		}
		if err := match.Check(before); err != nil {
			return err
		}
		u.Client, u.ClientSecret, err = p.apply(before, s.Now())
		if err != nil {
			return err
		}
		if err := requireScopes(caller, before, u.Client); err != nil {
			return err
		}
		if p.ProjectID.Sent {
			if err := s.requireProject(tx, caller, u.Client.ProjectID); err != nil {
				return err
			}
		}
		if err := s.requireEnforced(tx, before, u.Client); err != nil {
			return err
		}
		if err := updateClient(tx, u.Client); err != nil {
			return err
		}
		if before.AuthMethod != u.Client.AuthMethod && (u.ClientSecret != "" || !u.Client.AuthMethod.hasSecret()) {
			if err := updateType(tx, u.Client, u.ClientSecret); err != nil {
				return err
			}
		}
		if err := tx.Invalidate(Cache); err != nil {
			return err
		}
		return s.Audit.Record(tx, "client.update", clientID)
	})
	if err != nil {
		return Updated{}, err
	}
	return u, nil
}

// changeable returns the columns that an update can change, except the type, together with the row's
// key.
func (c Client) changeable() db.Args {
	return db.Args{
		"org_id": c.OrgID, "id": c.ID, "name": c.Name, "description": c.Description, "homepage_url": c.HomepageURL, "icon": c.Icon,
		"redirect_uris": db.ToJSON(c.RedirectURIs), "post_logout_redirect_uris": db.ToJSON(c.PostLogoutRedirectURIs),
		"grant_types": db.ToJSON(c.GrantTypes), "response_types": db.ToJSON(c.ResponseTypes), "scopes": db.ToJSON(c.Scopes),
		"project_id": c.ProjectID, "access_token_lifetime_seconds": c.AccessSeconds,
		"refresh_token_lifetime_seconds": c.RefreshSeconds, "id_token_lifetime_seconds": c.IDSeconds,
		"allowed_user_ids": db.ToJSON(c.AllowedUserIDs), "is_public": c.IsPublic, "updated_at": c.UpdatedAt,
		"version": c.version, "audience": c.Audience, "redirects_since": db.ToJSON(c.redirectsSince),
		"backchannel_logout_uri": c.BackchannelLogoutURI, "frontchannel_logout_uri": c.FrontchannelLogoutURI,
		"token_endpoint_auth_method": c.AuthMethod, "jwks": c.encodeKeys(), "jwks_uri": c.JWKSURI,
		"allowed_clients": db.ToJSON(c.AllowedClients),
	}
}

// updateClient stores the fields that an update can change, except the type.
func updateClient(tx *db.Tx, c Client) error {
	_, err := tx.Exec(`UPDATE oidc_clients SET name = @name, description = @description, homepage_url = @homepage_url, icon = @icon,
		redirect_uris = @redirect_uris, post_logout_redirect_uris = @post_logout_redirect_uris, grant_types = @grant_types,
		response_types = @response_types, scopes = @scopes, project_id = @project_id,
		access_token_lifetime_seconds = @access_token_lifetime_seconds,
		refresh_token_lifetime_seconds = @refresh_token_lifetime_seconds,
		id_token_lifetime_seconds = @id_token_lifetime_seconds, allowed_user_ids = @allowed_user_ids, is_public = @is_public,
		updated_at = @updated_at, version = @version, audience = @audience, redirects_since = @redirects_since,
		backchannel_logout_uri = @backchannel_logout_uri, frontchannel_logout_uri = @frontchannel_logout_uri,
		token_endpoint_auth_method = @token_endpoint_auth_method, jwks = @jwks, jwks_uri = @jwks_uri,
		allowed_clients = @allowed_clients
		WHERE org_id = @org_id AND id = @id`, c.changeable())
	if db.IsUnique(err) {
		return errAudience
	}
	if err != nil {
		return fmt.Errorf("update client: %w", err)
	}
	return nil
}

// updateType stores a client's type together with its secret, which is empty if the client needs none.
func updateType(tx *db.Tx, c Client, secret string) error {
	if _, err := tx.Exec(`UPDATE oidc_clients SET client_type = $3, secret_hash = $4 WHERE org_id = $1 AND id = $2`,
		c.OrgID, c.ID, c.ClientType, secretHash(c, secret)); err != nil {
		return fmt.Errorf("update client type: %w", err)
	}
	return nil
}

// Rotate replaces a client's secret and returns the new one. It returns Forbidden if the client has a
// scope that the caller lacks, and Invalid if the client has no secret.
func (s *Store) Rotate(ctx context.Context, caller *auth.Caller, clientID string) (string, error) {
	secret := newSecret()
	err := s.DB.Write(ctx, func(tx *db.Tx) error {
		c, err := lock(tx, caller.OrgID, clientID)
		if err != nil {
			return err
		}
		if err := requireChangeable(c); err != nil {
			return err
		}
		if err := requireAccess(caller, c); err != nil {
			return err
		}
		if c.ClientType != Confidential {
			return errs.New(errs.Invalid, "a public client has no secret; make it confidential first")
		}
		if !c.AuthMethod.hasSecret() {
			return errs.New(errs.Invalid, "a client that authenticates with %s has no secret", c.AuthMethod)
		}
		if _, err := tx.Exec(`UPDATE oidc_clients SET secret_hash = $3, updated_at = $4, version = version + 1
			WHERE org_id = $1 AND id = $2`, caller.OrgID, clientID, seal.Hash(secret), s.now()); err != nil {
			return fmt.Errorf("update client secret: %w", err)
		}
		if err := tx.Invalidate(Cache); err != nil {
			return err
		}
		return s.Audit.Record(tx, "client.rotate_secret", clientID)
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

// Delete deletes a client, which invalidates its consents and tokens. Purge deletes its remaining rows
// later.
func (s *Store) Delete(ctx context.Context, orgID, clientID string, match page.IfMatch) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		c, err := lock(tx, orgID, clientID)
		if err != nil {
			return err
		}
		if err := requireChangeable(c); err != nil {
			return err
		}
		if err := match.Check(c); err != nil {
			return err
		}
		if err := s.remove(tx, orgID, clientID); err != nil {
			return err
		}
		return s.Audit.Record(tx, "client.delete", clientID)
	})
}

// remove deletes a client and everything its users created with it, and empties the cache.
func (s *Store) remove(tx *db.Tx, orgID, clientID string) error {
	if _, err := tx.Exec(`DELETE FROM oidc_clients WHERE org_id = $1 AND id = $2`, orgID, clientID); err != nil {
		return fmt.Errorf("delete client: %w", err)
	}
	_, err := tx.Exec(`DELETE FROM oidc_client_states WHERE org_id = $1 AND client_id = $2`, orgID, clientID)
	if err != nil {
		return fmt.Errorf("delete client state: %w", err)
	}
	if err := addPurge(tx, purge{orgID: orgID, clientID: clientID, epoch: allEpochs, deleted: true}); err != nil {
		return err
	}
	if err := s.consentGone(tx, orgID, clientID, ""); err != nil {
		return err
	}
	return tx.Invalidate(Cache)
}

// ForgetProject removes clients from a deleted project. The clients stay because users have consented
// to them, but they lose client_credentials, since nothing would confine them any more.
func (s *Store) ForgetProject(tx *db.Tx, orgID, projectID string) error {
	if _, err := tx.Exec(`UPDATE oidc_clients SET project_id = NULL, updated_at = $3, version = version + 1,
		grant_types = replace(replace(replace(grant_types, $4 || ',', ''), ',' || $4, ''), $4, '')
		WHERE org_id = $1 AND project_id = $2`, orgID, projectID, s.now(), `"`+ClientCredentials+`"`); err != nil {
		return fmt.Errorf("remove clients from project: %w", err)
	}
	return tx.Invalidate(Cache)
}
