package oidc

import (
	"context"
	"fmt"
	"slices"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/stamp"
)

// CLIClientID identifies the built-in client that the command line signs users in with. It belongs to
// the first organization, lists leave it out, and nobody can change or delete it.
const CLIClientID = "steward-cli"

// cliClient returns the built-in client. It gets device codes and refresh tokens for the whole
// management API, but never more than its user's role allows.
func cliClient(orgID, homepage string, now time.Time) Client {
	scopes := []string{ScopeOpenID, ScopeOfflineAccess}
	for _, s := range Scopes()[len(identityScopes):] {
		scopes = append(scopes, s.Name)
	}
	return Client{
		ID: CLIClientID, Name: "Steward command line", Description: "The steward command, on a machine that you use",
		HomepageURL: homepage, ClientType: Public, AuthMethod: NoAuth, RedirectURIs: []string{}, PostLogoutRedirectURIs: []string{},
		GrantTypes: []string{DeviceCode, RefreshToken}, ResponseTypes: slices.Clone(responseTypes), Scopes: scopes,
		OrgID: orgID, AllowedUserIDs: []string{}, AllowedClients: []string{}, Internal: true, CreatedAt: stamp.Of(now), UpdatedAt: stamp.Of(now),
		version: 1, redirectsSince: map[string]int64{},
	}
}

// EnsureCLI creates an organization's built-in client, or updates it to this version of the program. If
// several replicas start at once, one of them creates it.
func (s *Store) EnsureCLI(ctx context.Context, orgID, homepage string) error {
	want := cliClient(orgID, homepage, s.Now())
	have, err := s.registered(ctx, CLIClientID)
	switch {
	case errs.KindOf(err) == errs.NotFound:
		return s.insertCLI(ctx, want)
	case err != nil:
		return err
	case slices.Equal(have.Scopes, want.Scopes) && have.HomepageURL == homepage:
		return nil
	}
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		if _, err := tx.Exec(`UPDATE oidc_clients SET scopes = $2, homepage_url = $3, updated_at = $4, version = version + 1
			WHERE id = $1`, CLIClientID, db.ToJSON(want.Scopes), homepage, s.now()); err != nil {
			return fmt.Errorf("update the built-in client: %w", err)
		}
		return tx.Invalidate(Cache)
	})
}

// insertCLI inserts the built-in client if it is missing. A conflict means that another replica has
// just inserted it. Its row need not be visible to our first attempt yet, but the second one finds it.
func (s *Store) insertCLI(ctx context.Context, c Client) error {
	insert := func(tx *db.Tx) error {
		var n int
		if err := tx.Row(`SELECT count(*) FROM oidc_clients WHERE id = $1`, c.ID).Scan(&n); err != nil || n > 0 {
			return err
		}
		return insertClient(tx, c, "")
	}
	err := s.DB.Write(ctx, insert)
	if errs.KindOf(err) == errs.Conflict {
		err = s.DB.Write(ctx, insert)
	}
	if err != nil {
		return fmt.Errorf("create the built-in client: %w", err)
	}
	return nil
}

// requireChangeable returns Forbidden for a built-in client.
func requireChangeable(c Client) error {
	if c.Internal {
		return errs.New(errs.Forbidden, "OAuth client %s is built in and cannot be changed or deleted", c.ID)
	}
	return nil
}
