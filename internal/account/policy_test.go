package account_test

import (
	"slices"
	"testing"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
)

// require has the organization of a caller require a factor of members.
func (f *fixture) require(caller *auth.Caller, factor account.Factor, from auth.Role) {
	f.t.Helper()
	_, err := f.store.ChangeOrg(f.as(caller), caller, page.IfMatch{}, account.OrgPatch{
		RequireMFA: page.Some(account.RequireMFA{Factor: factor, From: from}),
	})
	must(f.t, err)
}

func (f *fixture) wantLevel(userID, want string) {
	f.t.Helper()
	got, err := f.store.RequiredLevel(f.store.DB.Read(f.t.Context()), userID)
	if err != nil || got != want {
		f.t.Errorf("the required level is %q, %v, want %q", got, err, want)
	}
}

func TestStrongestRequirementOfAllOrganizationsCounts(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		other := f.organization("other@example.com")
		admin := f.add(f.owner, "admin@example.com", auth.Admin)
		f.add(other, "admin@example.com", auth.Viewer)
		f.wantLevel(admin.UserID, "")
		f.require(f.owner, account.AnyFactor, auth.Owner)
		f.wantLevel(admin.UserID, "")
		f.wantLevel(f.owner.UserID, "mfa")
		f.require(f.owner, account.AnyFactor, auth.Member)
		f.wantLevel(admin.UserID, "mfa")
		f.require(other, account.Passkey, auth.Member)
		f.wantLevel(admin.UserID, "mfa")
		f.require(other, account.Passkey, auth.Viewer)
		f.wantLevel(admin.UserID, "phr")
		_, err := f.store.ChangeMember(f.as(other), other, admin.UserID, page.IfMatch{}, account.MemberPatch{Disabled: page.Some(true)})
		must(t, err)
		f.wantLevel(admin.UserID, "mfa")
		none := account.OrgPatch{RequireMFA: page.Opt[account.RequireMFA]{Sent: true, Null: true}, Name: page.Some("Acme")}
		after, err := f.store.ChangeOrg(f.as(f.owner), f.owner, page.IfMatch{}, none)
		if err != nil || after.RequireMFA != nil || after.Name != "Acme" {
			t.Errorf("got %+v, %v", after, err)
		}
		f.wantLevel(admin.UserID, "")
	})
}

func TestOwnersClearFactorsOfTheirMembersOnly(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		var cleared []string
		f.store.FactorsGone = []func(*db.Tx, string) error{func(_ *db.Tx, userID string) error {
			cleared = append(cleared, userID)
			return nil
		}}
		other := f.organization("other@example.com")
		ann := f.add(f.owner, "ann@example.com", auth.Owner)
		both := f.add(f.owner, "both@example.com", auth.Viewer)
		f.add(other, "both@example.com", auth.Viewer)
		pending, _ := f.invite(f.owner, "new@example.com", auth.Viewer)
		f.audit.Skip()
		for memberID, want := range map[string]errs.Kind{
			f.owner.UserID: errs.Forbidden, other.UserID: errs.NotFound, both.UserID: errs.Forbidden,
			pending: errs.Conflict, "inv_none": errs.NotFound,
		} {
			wantKind(t, memberID, f.store.ClearFactors(f.as(f.owner), f.owner, memberID), want)
		}
		if cleared != nil || len(f.audits()) != 0 {
			t.Errorf("cleared %v, recorded %v", cleared, f.audits())
		}
		must(t, f.store.ClearFactors(f.as(f.owner), f.owner, ann.UserID))
		if want := []string{f.owner.OrgID + " member.clear_factors " + ann.UserID}; !slices.Equal(f.audits(), want) {
			t.Errorf("recorded %v, want %v", f.audits(), want)
		}
		if !slices.Equal(cleared, []string{ann.UserID}) {
			t.Errorf("cleared %v", cleared)
		}
	})
}
