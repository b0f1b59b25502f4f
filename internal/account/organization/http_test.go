package organization_test

import (
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/account/organization"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/id"
)

// TestConfinedUserKnowsNoOtherOrganization has an owner of the first organization who has signed in with the
// provider of another one.
func TestConfinedUserKnowsNoOtherOrganization(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		accounts := &account.Store{DB: d, Now: time.Now, Audit: func(*db.Tx, string, string) error { return nil }}
		other := account.First{OrgID: id.New(id.Org), ProjectID: id.New(id.Project)}
		if err := d.Write(t.Context(), func(tx *db.Tx) error {
			first, err := accounts.Bootstrap(tx, "ada@example.com", "a good password")
			if err != nil {
				return err
			}
			other.UserID = first.UserID
			return accounts.InsertOwned(tx, other, "Other")
		}); err != nil {
			t.Fatal(err)
		}
		alone := false
		h := &organization.Handler{Store: &organization.Store{
			Accounts: accounts, NeedsProvider: func(*db.Tx, string) (bool, error) { return alone, nil },
		}}
		caller := &auth.Caller{UserID: other.UserID, OrgID: other.OrgID, Role: auth.Owner}
		for _, caller.Confined = range []bool{false, true} {
			want := 2
			if caller.Confined {
				want = 1
			}
			ctx := auth.With(t.Context(), caller)
			listed, err := accounts.Orgs(ctx, caller)
			if err != nil || len(listed) != want {
				t.Errorf("confined %t: the list is %+v, %v", caller.Confined, listed, err)
			}
			profile, err := h.WhoAmI(ctx, nil)
			if err != nil || len(profile.Organizations) != want || profile.CreatesOrgs == caller.Confined || profile.InFirstOrg {
				t.Errorf("confined %t: the profile is %+v, %v", caller.Confined, profile, err)
			}
		}
		create := func(what string, want errs.Kind) {
			t.Helper()
			_, err := h.Create(auth.With(t.Context(), caller), &struct{ Body organization.New }{organization.New{Name: "Third"}})
			if errs.KindOf(err) != want {
				t.Errorf("%s creates an organization: %v", what, err)
			}
		}
		create("a confined user", errs.Forbidden)
		h.Open = true
		create("a confined user, where everybody may", errs.Forbidden)
		caller.Confined = false
		caller.KeyID = "key_1"
		alone = true
		create("the API key of a user of a provider", errs.Forbidden)
		alone = false
		create("the API key of another user", "")
	})
}
