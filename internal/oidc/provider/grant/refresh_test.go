package grant_test

import (
	"net/http"
	"strings"
	"testing"

	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
)

// TestForgedRefreshTokensAreRefused changes the generation, the grant and the MAC of refresh tokens.
func TestForgedRefreshTokensAreRefused(t *testing.T) {
	f := providertest.OnSQLite(t)
	a := f.NewApp(providertest.Confidential)
	first, second := a.Tokens()["refresh_token"].(string), a.Tokens()["refresh_token"].(string)
	one, two := strings.Split(first, "."), strings.Split(second, ".")
	for _, forged := range []string{
		one[0] + ".2." + one[2], two[0] + "." + one[1] + "." + one[2],
		one[0] + "." + one[1] + "." + strings.Repeat("A", len(one[2])), one[0] + "." + one[1] + ".",
		one[0] + ".-1." + one[2], one[0] + ".0." + one[2], "rt_", "rt_..", "rt_x.1.y", "x",
	} {
		a.Refresh(forged).WantRefused(oauth.InvalidGrant)
		if a.Active(forged) {
			t.Errorf("%s is active", forged)
		}
		a.Post("/revoke", "token", forged).Want(http.StatusOK)
	}
	a.Refresh(first).Want(http.StatusOK)
	a.Refresh(second).Want(http.StatusOK)
}
