package grant_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/oidc/provider/grant"
	"steward/internal/oidc/provider/providertest"
)

// revokeMany revokes n access tokens that do not exist.
func revokeMany(f *providertest.Fixture, n int) {
	f.T.Helper()
	providertest.Must(f.T, f.DB.Write(f.T.Context(), func(tx *db.Tx) error {
		for i := range n {
			if err := grant.RevokeToken(tx, fmt.Sprintf("grt_%d", i), f.Clock.Now().Add(time.Hour)); err != nil {
				return err
			}
		}
		return nil
	}))
}

func TestMoreRevocationsThanAreCached(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		a := f.NewApp(providertest.Confidential)
		good, bad := a.Tokens()["access_token"].(string), a.Tokens()["access_token"].(string)
		revokeMany(f, grant.MaxCached+10)
		a.Post("/revoke", "token", bad).Want(http.StatusOK)
		a.WantInvalid(bad, "revoked among many")
		f.Userinfo(good).Want(http.StatusOK)
		f.Clock.Add(48 * time.Hour)
		providertest.Must(t, f.Provider.Purge(t.Context()))
		var left int
		providertest.Must(t, f.DB.Read(t.Context()).Row(`SELECT count(*) FROM oidc_revoked`).Scan(&left))
		if left != 0 {
			t.Errorf("%d rows are left", left)
		}
	})
}
