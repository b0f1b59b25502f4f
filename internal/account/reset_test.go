package account_test

import (
	"slices"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
)

// reset returns the token of a link for a member of the first organization.
func (f *fixture) reset(userID string) string {
	f.t.Helper()
	token, expires, err := f.store.ResetPassword(f.as(f.owner), f.owner, userID)
	must(f.t, err)
	if want := stamp.Of(f.now).Add(time.Hour); expires != want {
		f.t.Errorf("the link expires at %v, want %v", expires, want)
	}
	return token
}

// useReset sets a password with a token, and signs in.
func (f *fixture) useReset(token, password string) (userID string, err error) {
	err = f.store.DB.Write(f.t.Context(), func(tx *db.Tx) (err error) {
		var mailed bool
		userID, mailed, err = f.store.UseReset(tx, token, account.HashPassword(password))
		if err != nil || !mailed {
			return err
		}
		return f.store.ProveEmail(tx, userID)
	})
	return userID, err
}

// wantVoid checks that a link neither names a user nor sets a password.
func (f *fixture) wantVoid(what, token string) {
	f.t.Helper()
	_, err := f.store.ResetOf(f.t.Context(), token)
	wantKind(f.t, what, err, errs.NotFound)
	_, err = f.useReset(token, "stolen")
	wantKind(f.t, what, err, errs.NotFound)
}

func TestResetLinkSetsAPasswordOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ann := f.add(f.owner, "ann@example.com", auth.Member)
		token := f.reset(ann.UserID)
		login, err := f.store.ResetOf(t.Context(), token)
		if err != nil || login.ID != ann.UserID || login.Email != "ann@example.com" {
			t.Fatalf("got %+v, %v", login, err)
		}
		userID, err := f.useReset(token, "second")
		if err != nil || userID != ann.UserID {
			t.Fatalf("got %s, %v", userID, err)
		}
		login, err = f.store.UserByID(t.Context(), ann.UserID)
		must(t, err)
		if !account.CheckPassword(login.PasswordHash, "second") {
			t.Error("the password was not replaced")
		}
		f.wantVoid("a used link", token)
		if want := f.owner.OrgID + " member.reset_password " + ann.UserID; last(f.audits()) != want {
			t.Errorf("audit log: %v, want %s", f.audits(), want)
		}
	})
}

func TestResetLinkBecomesVoid(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		other := f.organization("other@example.com")
		ann := f.add(f.owner, "ann@example.com", auth.Viewer)

		token := f.reset(ann.UserID)
		newer := f.reset(ann.UserID)
		f.wantVoid("after a newer one", token)

		must(t, d.Write(t.Context(), func(tx *db.Tx) error { return f.store.SetPassword(tx, ann.UserID, "another hash") }))
		f.wantVoid("after the password was changed", newer)

		token = f.reset(ann.UserID)
		f.now = f.now.Add(time.Hour)
		f.wantVoid("after an hour", token)

		token = f.reset(ann.UserID)
		must(t, f.change(f.owner, ann.UserID, account.MemberPatch{Role: page.Some(auth.Owner)}))
		f.wantVoid("after the promotion", token)
		must(t, f.change(f.owner, ann.UserID, account.MemberPatch{Role: page.Some(auth.Viewer)}))
		f.wantVoid("after the role was changed back", token)

		token = f.reset(ann.UserID)
		must(t, f.disable(f.owner, ann.UserID, true))
		must(t, f.disable(f.owner, ann.UserID, false))
		f.wantVoid("after the member was disabled and enabled", token)

		token = f.reset(ann.UserID)
		must(t, f.remove(f.owner, ann.UserID))
		f.wantVoid("after the member was removed", token)
		f.add(f.owner, "ann@example.com", auth.Viewer)
		f.wantVoid("after the member has come back", token)

		token = f.reset(ann.UserID)
		f.invite(other, "ann@example.com", auth.Member)
		_, err := f.store.ResetOf(t.Context(), token)
		must(t, err) // an invitation that nobody has accepted changes nothing
		f.add(f.organization("third@example.com"), "ann@example.com", auth.Member)
		f.wantVoid("after the user joined another organization", token)
	})
}

func TestResetIsRefused(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		other := f.organization("other@example.com")
		ann := f.add(f.owner, "ann@example.com", auth.Member)
		try := func(userID string) error {
			_, _, err := f.store.ResetPassword(f.as(f.owner), f.owner, userID)
			return err
		}
		wantKind(t, "no such user", try("usr_none"), errs.NotFound)
		wantKind(t, "no such invitation", try("inv_none"), errs.NotFound)
		pending, _ := f.invite(f.owner, "pending@example.com", auth.Member)
		wantKind(t, "pending", try(pending), errs.Conflict)
		theirs, _ := f.invite(other, "pending@example.com", auth.Member)
		wantKind(t, "pending in another organization", try(theirs), errs.NotFound)
		wantKind(t, "of another organization", try(other.UserID), errs.NotFound)
		f.add(other, "ann@example.com", auth.Member)
		must(t, f.disable(other, ann.UserID, true))
		wantKind(t, "of another organization too", try(ann.UserID), errs.Forbidden)
		must(t, f.remove(other, ann.UserID))
		must(t, try(ann.UserID))
		must(t, f.disable(f.owner, ann.UserID, true))
		wantKind(t, "disabled", try(ann.UserID), errs.Conflict)
		nameless := f.organization("")
		_, _, err := f.store.ResetPassword(f.as(nameless), nameless, nameless.UserID)
		wantKind(t, "without an address", err, errs.Conflict)
	})
}

// TestResetSetsAFirstPassword has a member without a password, as an earlier version could have.
func TestResetSetsAFirstPassword(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ann := f.add(f.owner, "ann@example.com", auth.Member)
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`UPDATE users SET password_hash = NULL WHERE id = $1`, ann.UserID)
			return err
		}))
		_, err := f.useReset(f.reset(ann.UserID), "first")
		must(t, err)
	})
}

func TestOperatorResetsAnyPassword(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		other := f.organization("other@example.com")
		f.add(other, "owner@example.com", auth.Member)
		f.audit.Skip()
		token, expires, err := f.store.ResetByEmail(t.Context(), " Owner@Example.com", false)
		must(t, err)
		if want := stamp.Of(f.now).Add(time.Hour); expires != want {
			t.Errorf("the link expires at %v, want %v", expires, want)
		}
		userID, err := f.useReset(token, "new")
		if err != nil || userID != f.owner.UserID {
			t.Errorf("got %s, %v", userID, err)
		}
		want := []string{
			f.owner.OrgID + " member.reset_password " + f.owner.UserID,
			other.OrgID + " member.reset_password " + f.owner.UserID,
		}
		slices.Sort(want)
		if !slices.Equal(f.audits(), want) {
			t.Errorf("audit log: %v, want %v", f.audits(), want)
		}
		_, _, err = f.store.ResetByEmail(t.Context(), "nobody@example.com", false)
		wantKind(t, "unknown address", err, errs.NotFound)
		ann := f.add(f.owner, "ann@example.com", auth.Member)
		must(t, f.disable(f.owner, ann.UserID, true))
		_, _, err = f.store.ResetByEmail(t.Context(), "ann@example.com", false)
		wantKind(t, "disabled", err, errs.Conflict)
	})
}
