package token_test

import (
	"fmt"
	"net/http"
	"testing"

	"steward/internal/auth"
	"steward/internal/oidc"
	"steward/internal/oidc/provider/oauth"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/page"
)

// TestAudienceOfAnotherOrganization has a client request tokens for the audience of another organization. It gets
// them with the consent of a user, and without one only while the audience's client lists it.
func TestAudienceOfAnotherOrganization(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		other := f.NewOwner("owner@b.example", "a long password of b")
		ctx := auth.With(t.Context(), &auth.Caller{UserID: other.UserID, OrgID: other.OrgID, Role: auth.Owner})
		server, b := f.NewApp(`{"audience": "`+apiAudience+`"}`), f.NewAppOf(ctx, exchanging)
		own := f.NewAppOf(ctx, `{"audience": "`+otherAudience+`"}`)
		forAPI := b.Tokens("resource", apiAudience, "scope", "openid webhook:read")["access_token"]
		forSteward := b.Tokens("scope", "openid webhook:read")["access_token"]
		requests := map[string]func() *providertest.Response{
			"client_credentials": func() *providertest.Response {
				return b.Post("/oauth/token", "grant_type", "client_credentials", "resource", apiAudience)
			},
			"exchange":                     func() *providertest.Response { return exchange(b, forSteward, "audience", apiAudience) },
			"exchange within the audience": func() *providertest.Response { return exchange(b, forAPI) },
		}
		refused := func(when string) {
			t.Helper()
			for name, request := range requests {
				if r := request(); r.Status != http.StatusBadRequest || r.JSON()["error"] != oauth.InvalidTarget {
					t.Errorf("%s, %s: got %d %v", when, name, r.Status, r.JSON()["error"])
				}
			}
		}
		allow := func(ids ...string) {
			t.Helper()
			server.Update(oidc.ClientPatch{Settings: oidc.Settings{AllowedClients: page.Some(ids)}})
		}
		refused("by default")
		allow("oac_unknown", own.ID)
		refused("while others are listed")
		allow(own.ID, b.ID)
		for name, request := range requests {
			token := request().Want(http.StatusOK).Text("access_token")
			if claims := providertest.Claims(t, token); claims["aud"] != apiAudience || !server.Active(token) {
				t.Errorf("%s: the audience's client gets %v", name, claims)
			}
		}
		allow()
		refused("when it is listed no more")
		exchange(b, fmt.Sprint(forSteward)).Want(http.StatusOK)
		exchange(b, fmt.Sprint(forSteward), "audience", otherAudience).Want(http.StatusOK)
		b.Post("/oauth/token", "grant_type", "client_credentials").Want(http.StatusOK)
	})
}
