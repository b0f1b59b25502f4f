package oidc

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
)

// TestRevokingAConsentRemovesWhatItsTokensCreated also checks that nothing is revoked if that fails.
func TestRevokingAConsentRemovesWhatItsTokensCreated(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		private := f.client(Settings{IsPublic: some(false)}).Client
		org, failed := f.caller.OrgID, errors.New("the removal fails")
		for name, test := range map[string]struct {
			revoke func() error
			want   []string
		}{
			"by a manager": {func() error { return f.RevokeUser(f.ctx, org, c.ID, "usr_1") }, []string{org + " " + c.ID + " usr_1"}},
			"by the user":  {func() error { return f.RevokeConsent(f.ctx, c.ID, "usr_1", "") }, []string{org + " " + c.ID + " usr_1"}},
			"all users":    {func() error { return f.RevokeAll(f.ctx, org, c.ID) }, []string{org + " " + c.ID + " "}},
			"a scope is declined": {func() error {
				_, err := f.SaveConsent(f.ctx, c.ID, "usr_1", []string{"openid"}, []string{"email"})
				return err
			}, []string{org + " " + c.ID + " usr_1"}},
			"the member leaves": {func() error {
				return f.DB.Write(f.ctx, func(tx *db.Tx) error { return f.ForgetMember(tx, org, "usr_1") })
			}, []string{org + " " + c.ID + " usr_1", org + " " + private.ID + " usr_1"}},
		} {
			before := f.consent(c.ID, "usr_1", "openid", "email")
			f.consent(private.ID, "usr_1", "openid")
			f.gone, f.goneErr = nil, failed
			if err := test.revoke(); !errors.Is(err, failed) || !f.live(before) {
				t.Errorf("%s: got %v, live: %v", name, err, f.live(before))
			}
			f.gone, f.goneErr = nil, nil
			must(t, test.revoke())
			if diff := cmp.Diff(test.want, f.gone); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
		f.gone = nil
		must(t, f.Delete(f.ctx, org, c.ID, page.IfMatch{}))
		if diff := cmp.Diff([]string{org + " " + c.ID + " "}, f.gone); diff != "" {
			t.Error("the client is deleted", diff)
		}
	})
}

func TestWiderConsentRemovesNothing(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		f.consent(c.ID, "usr_1", "openid")
		f.consent(c.ID, "usr_1", "openid", "email")
		if len(f.gone) != 0 {
			t.Error(f.gone)
		}
	})
}

func TestRequireConsent(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		c := f.client(Settings{}).Client
		require := func(clientID, userID string, scopes ...string) error {
			return f.DB.Write(f.ctx, func(tx *db.Tx) error {
				return f.RequireConsent(tx, &auth.Caller{OrgID: f.caller.OrgID, ClientID: clientID, UserID: userID}, scopes)
			})
		}
		f.consent(c.ID, "usr_1", "openid", "email")
		must(t, require(c.ID, "usr_1", "email"))
		wantKind(t, require(c.ID, "usr_1", "email", "webhook:read"), errs.Unauthorized)
		wantKind(t, require(c.ID, "usr_2"), errs.Unauthorized)
		wantKind(t, require("oac_none", "usr_1"), errs.Unauthorized)
		must(t, f.RevokeAll(f.ctx, f.caller.OrgID, c.ID))
		wantKind(t, require(c.ID, "usr_1", "email"), errs.Unauthorized)
	})
}
