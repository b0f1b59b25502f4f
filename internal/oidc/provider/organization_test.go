package provider_test

import (
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/oidc/provider/providertest"
)

// organizationApp is a client with the scope organization.
const organizationApp = `{"redirect_uris": ["https://rp.example.com/callback"], "scopes": ["openid", "organization"]}`

// TestScopeOrganizationTellsAboutTheOrganizationOfTheClient checks the claims of an owner, a member of two
// organizations, and a user of another one, before and after the membership is disabled.
func TestScopeOrganizationTellsAboutTheOrganizationOfTheClient(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := relyingParty{f.NewApp(organizationApp)}
	name, err := f.Accounts.OrgName(t.Context(), f.OrgID)
	providertest.Must(t, err)
	const password = "a password of another user"
	memberID := f.NewUser("member@example.com", password)
	f.NewUser("stranger@example.com", password)
	write := func(statement string, args ...any) {
		t.Helper()
		providertest.Must(t, f.DB.Write(t.Context(), func(tx *db.Tx) error {
			if _, err := tx.Exec(statement, args...); err != nil {
				return err
			}
			return tx.Invalidate(auth.Callers)
		}))
	}
	write(`INSERT INTO members (org_id, user_id, role, version, created_at, updated_at)
			VALUES ($1, $2, 'viewer', 1, 0, 0)`, f.OrgID, memberID)

	role := func(role string) map[string]any {
		return map[string]any{"org_id": f.OrgID, "org_name": name, "role": role, "groups": []any{}}
	}
	a.wantOrganization(t, providertest.OwnerEmail, providertest.OwnerPassword, role("owner"))
	token := a.wantOrganization(t, "member@example.com", password, role("viewer"))
	a.wantOrganization(t, "stranger@example.com", password, nil)

	write(`UPDATE members SET disabled = TRUE WHERE org_id = $1 AND user_id = $2`, f.OrgID, memberID)
	a.wantUserInfo(t, token, nil)
	a.wantOrganization(t, "member@example.com", password, nil)
	write(`UPDATE members SET disabled = FALSE, role = 'admin' WHERE org_id = $1 AND user_id = $2`, f.OrgID, memberID)
	a.wantUserInfo(t, token, role("admin"))

	// Without the scope there are no claims.
	got := f.NewApp(providertest.Confidential).Tokens()
	if claims := organizationClaims(providertest.Claims(t, got["id_token"])); claims != nil {
		t.Errorf("without the scope: %v", claims)
	}
}

// relyingParty is an application that reads the claims about organizations.
type relyingParty struct{ *providertest.App }

// wantOrganization signs a user in, compares the claims of the ID token and of userinfo, and returns the access
// token.
func (a relyingParty) wantOrganization(t *testing.T, email, password string, want map[string]any) string {
	t.Helper()
	b := a.Fixture.Browser()
	code := b.CompleteAs(b.Get(a.AuthorizeURL("scope", "openid organization")), email, password).Get("code")
	tokens := a.Redeem(code).Want(http.StatusOK)
	if diff := cmp.Diff(want, organizationClaims(providertest.Claims(t, tokens.Text("id_token")))); diff != "" {
		t.Errorf("ID token of %s: %s", email, diff)
	}
	a.wantUserInfo(t, tokens.Text("access_token"), want)
	return tokens.Text("access_token")
}

func (a relyingParty) wantUserInfo(t *testing.T, token string, want map[string]any) {
	t.Helper()
	if diff := cmp.Diff(want, organizationClaims(a.Fixture.Userinfo(token).Want(http.StatusOK).JSON())); diff != "" {
		t.Errorf("userinfo: %s", diff)
	}
}

// organizationClaims returns the claims about the organization, or nil if there are none.
func organizationClaims(claims map[string]any) map[string]any {
	names := []string{"org_id", "org_name", "role", "groups"}
	kept := maps.Clone(claims)
	maps.DeleteFunc(kept, func(name string, _ any) bool { return !slices.Contains(names, name) })
	if len(kept) == 0 {
		return nil
	}
	return kept
}
