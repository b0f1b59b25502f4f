package account_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/audit"
	"steward/internal/audit/audittest"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
)

func TestPasswordHashes(t *testing.T) {
	hash := account.HashPassword("correct horse")
	if !strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$") || hash == account.HashPassword("correct horse") {
		t.Fatalf("not a salted PHC string: %s", hash)
	}
	if !account.CheckPassword(hash, "correct horse") || account.CheckPassword(hash, "correct hors") ||
		account.CheckPassword("", "") || account.CheckPassword("$argon2id$v=19$m=1,t=1,p=1$!!$!!", "") {
		t.Fatal("a wrong password or hash was accepted")
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t *testing.T, what string, err error, want errs.Kind) {
	t.Helper()
	if errs.KindOf(err) != want {
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

// fixture is a store with an organization, on a clock that tests set.
type fixture struct {
	t     *testing.T
	store *account.Store
	owner *auth.Caller
	now   time.Time
	audit *audittest.Log
	// gone has the calls of MemberGone and UserGone, claimed has SignInsGone's.
	gone, claimed []string
}

func newFixture(t *testing.T, d *db.DB) *fixture {
	f := &fixture{t: t, now: time.Now(), audit: audittest.New(t, d)}
	f.store = &account.Store{DB: d, Now: func() time.Time { return f.now }, Audit: &audit.Store{Now: time.Now}}
	f.store.MemberGone = []func(*db.Tx, string, string) error{func(_ *db.Tx, orgID, userID string) error {
		f.gone = append(f.gone, orgID+" "+userID)
		return nil
	}}
	f.store.UserGone = []func(*db.Tx, string) error{func(_ *db.Tx, userID string) error {
		f.gone = append(f.gone, userID)
		return nil
	}}
	f.store.SignInsGone = []func(*db.Tx, string) error{func(_ *db.Tx, userID string) error {
		f.claimed = append(f.claimed, userID)
		return nil
	}}
	f.owner = f.organization("owner@example.com")
	return f
}

// audits returns "org action target" of each entry in the audit log.
func (f *fixture) audits() []string { return f.audit.Read("org_id || ' ' || action || ' ' || target") }

// organization creates an organization and returns its owner.
func (f *fixture) organization(email string) *auth.Caller {
	f.t.Helper()
	var first account.First
	must(f.t, f.store.DB.Write(f.t.Context(), func(tx *db.Tx) (err error) {
		first, err = f.store.Bootstrap(tx, email, "a password")
		return err
	}))
	return &auth.Caller{OrgID: first.OrgID, UserID: first.UserID, Role: auth.Owner}
}

// as returns the context of a caller's request.
func (f *fixture) as(caller *auth.Caller) context.Context { return auth.With(f.t.Context(), caller) }

// invite invites an address to the caller's organization, and returns the invitation's id and the token
// of its link.
func (f *fixture) invite(caller *auth.Caller, email string, role auth.Role) (invitationID, token string) {
	f.t.Helper()
	m, token, err := f.store.Invite(f.as(caller), caller.OrgID, caller.UserID, account.NewMember{Email: email, Role: role})
	must(f.t, err)
	return m.ID, token
}

// add adds a member to the caller's organization, who accepts an invitation, and returns the member.
func (f *fixture) add(caller *auth.Caller, email string, role auth.Role) *auth.Caller {
	f.t.Helper()
	_, token := f.invite(caller, email, role)
	i, err := f.store.InvitationByToken(f.t.Context(), token)
	must(f.t, err)
	if i.UserID == "" {
		i.UserID, err = f.register(token)
	} else {
		err = f.join(token, i.UserID)
	}
	must(f.t, err)
	return &auth.Caller{OrgID: caller.OrgID, UserID: i.UserID, Role: role}
}

// change changes a member of the caller's organization.
func (f *fixture) change(caller *auth.Caller, userID string, p account.MemberPatch) error {
	_, err := f.store.ChangeMember(f.as(caller), caller, userID, page.IfMatch{}, p)
	return err
}

// disable disables a member of the caller's organization, or enables one.
func (f *fixture) disable(caller *auth.Caller, userID string, disabled bool) error {
	return f.change(caller, userID, account.MemberPatch{Disabled: page.Some(disabled)})
}

func (f *fixture) remove(caller *auth.Caller, userID string) error {
	return f.store.RemoveMember(f.as(caller), caller, userID, page.IfMatch{})
}

// register accepts an invitation as a new person.
func (f *fixture) register(token string) (userID string, err error) {
	err = f.store.DB.Write(f.t.Context(), func(tx *db.Tx) (err error) {
		userID, err = f.store.Register(tx, token, "hash")
		return err
	})
	return userID, err
}

// join accepts an invitation as a user who is signed in.
func (f *fixture) join(token, userID string) error {
	return f.store.DB.Write(f.t.Context(), func(tx *db.Tx) error { return f.store.Join(tx, token, userID) })
}

func TestOnlyOwnersChangeOwners(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		admin := f.add(f.owner, "ann@example.com", auth.Admin)
		guest := f.add(f.owner, "guest@example.com", auth.Owner)
		invited, _ := f.invite(f.owner, "invited@example.com", auth.Owner)
		toOwner := account.MemberPatch{Role: page.Some(auth.Owner)}
		toViewer := account.MemberPatch{Role: page.Some(auth.Viewer)}
		wantKind(t, "an admin changes an owner", f.change(admin, f.owner.UserID, toViewer), errs.Forbidden)
		wantKind(t, "an admin becomes an owner", f.change(admin, admin.UserID, toOwner), errs.Forbidden)
		wantKind(t, "an admin disables an owner", f.disable(admin, f.owner.UserID, true), errs.Forbidden)
		wantKind(t, "an admin removes an owner", f.remove(admin, f.owner.UserID), errs.Forbidden)
		_, _, err := f.store.ResetPassword(f.as(admin), admin, f.owner.UserID)
		wantKind(t, "an admin resets the password of an owner", err, errs.Forbidden)
		for _, id := range []string{guest.UserID, invited} {
			_, _, err = f.store.Reinvite(f.as(admin), admin, id)
			wantKind(t, "an admin gets the invitation of an owner", err, errs.Forbidden)
		}
		_, _, err = f.store.ResetPassword(f.as(admin), admin, invited)
		wantKind(t, "an admin resets an invited owner", err, errs.Forbidden)
		wantKind(t, "an admin demotes an invited owner", f.change(admin, invited, toViewer), errs.Forbidden)
		wantKind(t, "an admin revokes the invitation of an owner", f.remove(admin, invited), errs.Forbidden)
		viewer, _ := f.invite(admin, "viewer@example.com", auth.Viewer)
		wantKind(t, "an admin promotes an invited viewer", f.change(admin, viewer, toOwner), errs.Forbidden)
		must(t, f.disable(f.owner, guest.UserID, true))
		wantKind(t, "an admin enables an owner", f.disable(admin, guest.UserID, false), errs.Forbidden)
		must(t, f.change(f.owner, admin.UserID, toOwner))
		must(t, f.remove(f.owner, f.owner.UserID))
	})
}

func TestRequireCreatesUnknownProjects(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		confined := *f.owner
		confined.ProjectID = "prj_mine"
		for _, c := range []struct {
			caller  *auth.Caller
			project string
			want    errs.Kind
		}{
			{f.owner, "prj_theirs", ""},
			{f.owner, "prj_theirs", ""},
			{&confined, "prj_mine", ""},
			{&confined, "prj_theirs", errs.Forbidden},
			{f.owner, "no spaces", errs.Invalid},
			{f.owner, "", errs.Invalid},
		} {
			err := d.Write(t.Context(), func(tx *db.Tx) error {
				return f.store.EnsureProject(tx, c.caller, "body.projectId", c.project)
			})
			if errs.KindOf(err) != c.want {
				t.Errorf("%q as %q: %v", c.project, c.caller.ProjectID, err)
			}
		}
		all, err := f.store.Projects(t.Context(), f.owner, page.Paging{Limit: 10})
		must(t, err)
		mine, err := f.store.Projects(t.Context(), &confined, page.Paging{Limit: 10})
		must(t, err)
		if len(all.Items) != 3 || len(mine.Items) != 1 || mine.Items[0].Name != "prj_mine" {
			t.Fatalf("listed %v and %v", all, mine)
		}
	})
}

func TestPagesListProjectsOfTheSameTimeOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		names := []string{"a", "B", "c", "D", "e"}
		listed := map[string]int{}
		for _, p := range names {
			must(t, d.Write(t.Context(), func(tx *db.Tx) error { return f.store.EnsureProject(tx, f.owner, "", p) }))
		}
		next := page.Paging{Limit: 2}
		for pages := 1; ; pages++ {
			result, err := f.store.Projects(t.Context(), f.owner, next)
			must(t, err)
			for _, p := range result.Items {
				listed[p.ID]++
			}
			if next.Cursor = result.Next; next.Cursor == "" {
				break
			}
			if pages > 3 {
				t.Fatal("there are more pages than projects")
			}
		}
		for _, p := range names {
			if listed[p] != 1 {
				t.Errorf("project %s is listed %d times", p, listed[p])
			}
		}
	})
}

func last(list []string) string { return list[len(list)-1] }
