package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// Store stores upstreams, and identities in store_identity.go.
type Store struct {
	DB   *db.DB
	Ring *seal.Ring
	Now  func() time.Time
	// Domains has the domains that the operator granted.
	Domains Domains
	Audit   *audit.Store
}

func (s *Store) now() stamp.Time { return stamp.Of(s.Now()) }

// secretPurpose binds sealed client secrets to their column.
const secretPurpose = "oidc_upstreams.client_secret"

const columns = `org_id, id, name, issuer, client_id, client_secret, scopes, domains, default_role, groups_claim,
	group_roles, only_upstream, enabled, created_at, updated_at, version`

func scan(row db.Row) (Upstream, error) {
	var u Upstream
	if err := row.Scan(&u.OrgID, &u.ID, &u.Name, &u.Issuer, &u.ClientID, &u.sealed, db.FromJSON(&u.Scopes), db.FromJSON(&u.Domains), &u.DefaultRole,
		&u.GroupsClaim, db.FromJSON(&u.GroupRoles), &u.Only, &u.Enabled, &u.CreatedAt, &u.UpdatedAt, &u.version); err != nil {
		return Upstream{}, fmt.Errorf("read upstream: %w", err)
	}
	u.HasSecret = u.sealed != nil
	return u, nil
}

func (u Upstream) args() db.Args {
	return db.Args{
		"org_id": u.OrgID, "id": u.ID, "name": u.Name, "issuer": u.Issuer, "client_id": u.ClientID,
		"client_secret": u.sealed, "scopes": db.ToJSON(u.Scopes), "domains": db.ToJSON(u.Domains), "default_role": u.DefaultRole,
		"groups_claim": u.GroupsClaim, "group_roles": db.ToJSON(u.GroupRoles), "only_upstream": u.Only, "enabled": u.Enabled,
		"created_at": u.CreatedAt, "updated_at": u.UpdatedAt, "version": u.version,
	}
}

// setSecret seals the client secret in a request, or clears it.
func (s *Store) setSecret(u *Upstream, sent page.Opt[string]) {
	if !sent.Sent {
		return
	}
	u.sealed = nil
	if sent.Value != "" {
		u.sealed = s.Ring.Seal(secretPurpose, []byte(sent.Value))
	}
	u.HasSecret = u.sealed != nil
}

// Secret returns an upstream's client secret, or "" if it has none.
func (s *Store) Secret(u Upstream) (string, error) {
	if u.sealed == nil {
		return "", nil
	}
	plain, err := s.Ring.Open(secretPurpose, u.sealed)
	if err != nil {
		return "", fmt.Errorf("open the secret of upstream %s: %w", u.ID, err)
	}
	return string(plain), nil
}

// List returns an organization's upstreams, oldest first.
func (s *Store) List(ctx context.Context, orgID string) ([]Upstream, error) {
	list, err := db.Collect(s.DB.Read(ctx), scan, `SELECT `+columns+` FROM oidc_upstreams WHERE org_id = $1 ORDER BY id`, orgID)
	if err != nil {
		return nil, fmt.Errorf("list upstreams: %w", err)
	}
	return list, nil
}

// Enabled returns the organization's upstreams that users can sign in with.
func (s *Store) Enabled(ctx context.Context, orgID string) ([]Upstream, error) {
	list, err := s.List(ctx, orgID)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(u Upstream) bool { return !u.Enabled }), nil
}

// ForDomain returns the enabled upstream for a domain. It returns NotFound if there is none, or if the
// domain is no longer granted to its organization.
func (s *Store) ForDomain(ctx context.Context, domain string) (Upstream, error) {
	orgID, err := s.Domains.Org(ctx, domain)
	if err != nil {
		return Upstream{}, err
	}
	if orgID == "" {
		return Upstream{}, errs.Missing("upstream", domain)
	}
	list, err := s.Enabled(ctx, orgID)
	if err != nil {
		return Upstream{}, err
	}
	for _, u := range list {
		if slices.Contains(u.Domains, domain) {
			return u, nil
		}
	}
	return Upstream{}, errs.Missing("upstream", domain)
}

// ByID returns an enabled upstream in any organization, or NotFound.
func (s *Store) ByID(ctx context.Context, upstreamID string) (Upstream, error) {
	return byID(s.DB.Read(ctx), upstreamID)
}

// ByIDIn is ByID in a transaction.
func (s *Store) ByIDIn(tx *db.Tx, upstreamID string) (Upstream, error) { return byID(tx, upstreamID) }

func byID(q db.Querier, upstreamID string) (Upstream, error) {
	u, err := scan(q.Row(`SELECT `+columns+` FROM oidc_upstreams WHERE id = $1 AND enabled`, upstreamID))
	return u, notFound(err, upstreamID)
}

// Get returns an upstream in an organization, or NotFound.
func (s *Store) Get(ctx context.Context, orgID, upstreamID string) (Upstream, error) {
	u, err := scan(s.DB.Read(ctx).Row(`SELECT `+columns+` FROM oidc_upstreams WHERE org_id = $1 AND id = $2`, orgID, upstreamID))
	return u, notFound(err, upstreamID)
}

// notFound returns NotFound for db.ErrNoRows, and any other error unchanged.
func notFound(err error, upstreamID string) error {
	if errors.Is(err, db.ErrNoRows) {
		return errs.Missing("upstream", upstreamID)
	}
	return err
}

// errOwners refuses callers who are not owners.
var errOwners = errs.New(errs.Forbidden, "only an owner can change an upstream whose groups become owners")

// requireOwner returns Forbidden if anyone but an owner changes who becomes an owner.
func requireOwner(caller *auth.Caller, upstreams ...Upstream) error {
	if caller.Role != auth.Owner && slices.ContainsFunc(upstreams, Upstream.GivesOwner) {
		return errOwners
	}
	return nil
}

// Create adds an upstream to the caller's organization. It returns Invalid for a domain that was not
// granted, Forbidden if the caller may not make owners, and Conflict if there are too many.
func (s *Store) Create(ctx context.Context, caller *auth.Caller, n NewUpstream) (Upstream, error) {
	u := n.upstream(s.Now())
	u.OrgID = caller.OrgID
	s.setSecret(&u, n.ClientSecret)
	if err := requireOwner(caller, u); err != nil {
		return Upstream{}, err
	}
	if err := s.Domains.check(ctx, u); err != nil {
		return Upstream{}, err
	}
	err := s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := account.LockOrg(tx, u.OrgID); err != nil {
			return err
		}
		var count int
		if err := tx.Row(`SELECT count(*) FROM oidc_upstreams WHERE org_id = $1`, u.OrgID).Scan(&count); err != nil {
			return fmt.Errorf("count upstreams: %w", err)
		}
		if count >= maxUpstreams {
			return errs.New(errs.Conflict, "an organization can have %d upstreams", maxUpstreams)
		}
		if _, err := tx.Exec(`INSERT INTO oidc_upstreams (`+columns+`) VALUES (@org_id, @id, @name, @issuer, @client_id,
			@client_secret, @scopes, @domains, @default_role, @groups_claim, @group_roles, @only_upstream, @enabled,
			@created_at, @updated_at, @version)`, u.args()); err != nil {
			return fmt.Errorf("insert upstream: %w", err)
		}
		return s.Audit.Record(tx, "upstream.create", u.ID)
	})
	return u, err
}

// lock returns an upstream and locks its row until the transaction ends, or returns NotFound.
func lock(tx *db.Tx, orgID, upstreamID string) (Upstream, error) {
	u, err := scan(tx.Row(`UPDATE oidc_upstreams SET version = version WHERE org_id = $1 AND id = $2 RETURNING `+columns,
		orgID, upstreamID))
	return u, notFound(err, upstreamID)
}

// Change names an upstream to change, if its version matches.
type Change struct {
	ID    string
	Match page.IfMatch
}

// Update applies a patch to an upstream. It returns the same errors as Create, NotFound and
// PreconditionFailed.
func (s *Store) Update(ctx context.Context, caller *auth.Caller, c Change, p Patch) (Upstream, error) {
	if err := s.Domains.check(ctx, p.set(Upstream{OrgID: caller.OrgID})); err != nil {
		return Upstream{}, err
	}
	var after Upstream
	err := s.DB.Write(ctx, func(tx *db.Tx) error {
		before, err := lock(tx, caller.OrgID, c.ID)
		if err != nil {
			return err
		}
		if err := c.Match.Check(before); err != nil {
			return err
		}
		if after, err = p.apply(before, s.Now()); err != nil {
			return err
		}
		if err := requireOwner(caller, before, after); err != nil {
			return err
		}
		s.setSecret(&after, p.ClientSecret)
		if _, err := tx.Exec(`UPDATE oidc_upstreams SET name = @name, issuer = @issuer, client_id = @client_id,
			client_secret = @client_secret, scopes = @scopes, domains = @domains, default_role = @default_role,
			groups_claim = @groups_claim, group_roles = @group_roles, only_upstream = @only_upstream, enabled = @enabled,
			created_at = @created_at, updated_at = @updated_at, version = @version
			WHERE org_id = @org_id AND id = @id`, after.args()); err != nil {
			return fmt.Errorf("update upstream: %w", err)
		}
		return s.Audit.Record(tx, "upstream.update", c.ID)
	})
	return after, err
}

// Delete deletes an upstream. It keeps the identities: an upstream with the same issuer will know them
// again. It returns the same errors as Update.
func (s *Store) Delete(ctx context.Context, caller *auth.Caller, c Change) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		before, err := lock(tx, caller.OrgID, c.ID)
		if err != nil {
			return err
		}
		if err := c.Match.Check(before); err != nil {
			return err
		}
		if err := requireOwner(caller, before); err != nil {
			return err
		}
		if _, err := tx.Exec(`DELETE FROM oidc_upstreams WHERE org_id = $1 AND id = $2`, caller.OrgID, c.ID); err != nil {
			return fmt.Errorf("delete upstream: %w", err)
		}
		return s.Audit.Record(tx, "upstream.delete", c.ID)
	})
}
