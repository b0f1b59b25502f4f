package account_test

import (
	"strings"
	"testing"
	"time"

	"steward/internal/account"
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

type fixture struct {
	store *account.Store
	owner *auth.Caller
}

func newFixture(t *testing.T, d *db.DB) fixture {
	s := &account.Store{DB: d, Now: time.Now, Audit: func(*db.Tx, string, string) error { return nil }}
	var first account.First
	err := d.Write(t.Context(), func(tx *db.Tx) (err error) {
		first, err = s.Bootstrap(tx, "owner@example.com", "a password")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fixture{s, &auth.Caller{OrgID: first.OrgID, UserID: first.UserID, Role: auth.Owner}}
}

func TestOnlyOwnersChangeOwners(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ann, _, err := f.store.Invite(t.Context(), f.owner.OrgID, f.owner.UserID,
			account.NewMember{Email: "ann@example.com", Role: auth.Admin})
		if err != nil {
			t.Fatal(err)
		}
		admin := &auth.Caller{OrgID: f.owner.OrgID, UserID: ann.ID, Role: auth.Admin}
		toOwner := account.MemberPatch{Role: page.Some(auth.Owner)}
		toViewer := account.MemberPatch{Role: page.Some(auth.Viewer)}
		_, err = f.store.ChangeMember(t.Context(), admin, f.owner.UserID, page.IfMatch{}, toViewer)
		if errs.KindOf(err) != errs.Forbidden {
			t.Errorf("an admin changed an owner: %v", err)
		}
		_, err = f.store.ChangeMember(t.Context(), admin, ann.ID, page.IfMatch{}, toOwner)
		if errs.KindOf(err) != errs.Forbidden {
			t.Errorf("an admin became an owner: %v", err)
		}
		err = f.store.RemoveMember(t.Context(), admin, f.owner.UserID, page.IfMatch{})
		if errs.KindOf(err) != errs.Forbidden {
			t.Errorf("an admin removed an owner: %v", err)
		}
		if _, err := f.store.ChangeMember(t.Context(), f.owner, ann.ID, page.IfMatch{}, toOwner); err != nil {
			t.Fatalf("an owner cannot add an owner: %v", err)
		}
		if err := f.store.RemoveMember(t.Context(), f.owner, f.owner.UserID, page.IfMatch{}); err != nil {
			t.Fatalf("the first of two owners cannot leave: %v", err)
		}
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
		at := time.Now()
		f.store.Now = func() time.Time { return at }
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
