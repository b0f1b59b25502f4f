package selfservice_test

import (
	"net/http"
	"testing"

	"steward/internal/db"
	"steward/internal/oidc/provider/providertest"
	"steward/internal/oidc/upstream"
)

func TestUsersAreToldOfLinkedProviders(t *testing.T) {
	providertest.Each(t, func(t *testing.T, f *providertest.Fixture) {
		mail := f.ServeWithMail()
		there := f.NewStranger()
		u := f.NewUpstream(there.Settings())
		b := f.Browser()
		b.SignIn(b.Get(f.URL + "/account"))
		mail.Want("device " + providertest.OwnerEmail)
		providertest.Must(t, f.DB.Write(f.Ctx, func(tx *db.Tx) error {
			return f.Provider.Upstreams.Store.PutIdentity(tx, upstream.Identity{
				OrgID: f.OrgID, UserID: f.UserID, Issuer: u.Issuer, Subject: "1", Linked: true,
			})
		}))
		b.Post("/account/upstream/unlink", "upstream", u.ID).Want(http.StatusSeeOther)
		mail.Want("identity_removed " + providertest.OwnerEmail)
		b.Post("/account/upstream/unlink", "upstream", u.ID).Want(http.StatusSeeOther)
		mail.Want() // it was gone
	})
}
