package registration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"steward/internal/account"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// Store stores tokens.
type Store struct {
	DB    *db.DB
	Now   func() time.Time
	Audit *audit.Store
}

// ErrToken is the same for a token that is unknown, expired or used up, or whose organization was
// deleted.
var ErrToken = errs.New(errs.Unauthorized, "the initial access token is invalid, expired or used up")

// List returns an organization's tokens, newest first.
func (s *Store) List(ctx context.Context, orgID string) ([]Token, error) {
	list, err := db.Collect(s.DB.Read(ctx), func(row db.Row) (t Token, err error) {
		err = row.Scan(&t.ID, &t.Name, &t.Uses, &t.Used, &t.ExpiresAt, &t.CreatedBy, &t.CreatedAt)
		return t, err
	}, `SELECT id, name, uses, used, expires_at, created_by, created_at
		FROM oidc_registration_tokens WHERE org_id = $1 ORDER BY id DESC`, orgID)
	if err != nil {
		return nil, fmt.Errorf("list registration tokens: %w", err)
	}
	return list, nil
}

// Create adds a token to the caller's organization. It returns Invalid, listing all faults in the
// request, and Conflict if there are too many tokens.
func (s *Store) Create(ctx context.Context, caller *auth.Caller, n NewToken) (Created, error) {
	t, err := n.token(s.Now())
	if err != nil {
		return Created{}, err
	}
	t.CreatedBy = cmp.Or(caller.UserID, caller.ClientID)
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := account.LockOrg(tx, caller.OrgID); err != nil {
			return err
		}
		if err := makeRoom(tx, caller.OrgID, t.CreatedAt); err != nil {
			return err
		}
		g := grantOf(caller)
		var scopes *string
		if g.Restricted {
			scopes = new(db.ToJSON(g.Scopes))
		}
		_, err := tx.Exec(`INSERT INTO oidc_registration_tokens (org_id, id, name, token_hash, scopes, uses, used, expires_at,
			created_by, created_at) VALUES (@org_id, @id, @name, @token_hash, @scopes, @uses, 0, @expires_at,
			@created_by, @created_at)`,
			db.Args{
				"org_id": g.OrgID, "id": t.ID, "name": t.Name, "token_hash": seal.Hash(t.Value), "scopes": scopes, "uses": t.Uses,
				"expires_at": t.ExpiresAt, "created_by": t.CreatedBy, "created_at": t.CreatedAt,
			})
		if err != nil {
			return fmt.Errorf("insert registration token: %w", err)
		}
		return s.Audit.Record(tx, "registration_token.create", t.ID)
	})
	if err != nil {
		return Created{}, err
	}
	return t, nil
}

// makeRoom deletes an organization's expired and used-up tokens. It returns Conflict if too many others
// remain.
func makeRoom(tx *db.Tx, orgID string, now stamp.Time) error {
	_, err := tx.Exec(`DELETE FROM oidc_registration_tokens WHERE org_id = $1 AND (expires_at <= $2 OR used >= uses)`,
		orgID, now)
	if err != nil {
		return fmt.Errorf("delete old registration tokens: %w", err)
	}
	var count int
	err = tx.Row(`SELECT count(*) FROM oidc_registration_tokens WHERE org_id = $1`, orgID).Scan(&count)
	if err != nil {
		return fmt.Errorf("count registration tokens: %w", err)
	}
	if count >= maxTokens {
		return errs.New(errs.Conflict, "an organization can have %d registration tokens", maxTokens)
	}
	return nil
}

// Delete deletes a token in the caller's organization, or returns NotFound. It keeps the clients
// registered with the token.
func (s *Store) Delete(ctx context.Context, caller *auth.Caller, tokenID string) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		deleted, err := tx.Exec(`DELETE FROM oidc_registration_tokens WHERE org_id = $1 AND id = $2`, caller.OrgID, tokenID)
		if err != nil {
			return fmt.Errorf("delete registration token: %w", err)
		}
		if deleted == 0 {
			return errs.Missing("registration token", tokenID)
		}
		return s.Audit.Record(tx, "registration_token.delete", tokenID)
	})
}

// usable holds if the token with hash $1 can be used at time $2.
const usable = `token_hash = $1 AND (expires_at IS NULL OR expires_at > $2) AND (uses IS NULL OR used < uses)
	AND NOT EXISTS (SELECT 1 FROM deleted_orgs d WHERE d.org_id = oidc_registration_tokens.org_id)`

// Check returns a token's grant, or ErrToken.
func (s *Store) Check(ctx context.Context, value string) (Grant, error) {
	var g Grant
	err := s.DB.Read(ctx).Row(`SELECT org_id, scopes FROM oidc_registration_tokens WHERE `+usable,
		seal.Hash(value), stamp.Of(s.Now())).Scan(&g.OrgID, db.FromJSON(&g.Scopes))
	if errors.Is(err, db.ErrNoRows) {
		return Grant{}, ErrToken
	}
	if err != nil {
		return Grant{}, fmt.Errorf("read registration token: %w", err)
	}
	g.Restricted = g.Scopes != nil
	return g, nil
}

// Use counts one use of a token, or returns ErrToken.
func (s *Store) Use(tx *db.Tx, value string) error {
	used, err := tx.Exec(`UPDATE oidc_registration_tokens SET used = used + 1 WHERE `+usable,
		seal.Hash(value), stamp.Of(s.Now()))
	if err != nil {
		return fmt.Errorf("count use of registration token: %w", err)
	}
	if used == 0 {
		return ErrToken
	}
	return nil
}
