package account_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
)

// canSignIn reports whether sign-in finds a user by address and by id.
func (f *fixture) canSignIn(email, userID string) bool {
	f.t.Helper()
	_, byEmail := f.store.UserByEmail(f.t.Context(), email)
	_, byID := f.store.UserByID(f.t.Context(), userID)
	if (byEmail == nil) != (byID == nil) {
		f.t.Errorf("by address: %v; by id: %v", byEmail, byID)
	}
	if byEmail != nil {
		wantKind(f.t, "sign in by address", byEmail, errs.NotFound)
		wantKind(f.t, "sign in by id", byID, errs.NotFound)
	}
	return byEmail == nil
}

func TestDisabledMemberHasNoAccess(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ann := f.add(f.owner, "ann@example.com", auth.Member)
		if !f.canSignIn("ann@example.com", ann.UserID) {
			t.Fatal("a member cannot sign in")
		}
		reset, _, err := f.store.ResetPassword(f.as(f.owner), f.owner, ann.UserID)
		must(t, err)

		must(t, f.disable(f.owner, ann.UserID, true))
		_, err = f.store.Role(t.Context(), ann.OrgID, ann.UserID)
		wantKind(t, "the role of a disabled member", err, errs.NotFound)
		if f.canSignIn("ann@example.com", ann.UserID) {
			t.Error("a disabled member can sign in")
		}
		_, err = f.store.ResetOf(t.Context(), reset)
		wantKind(t, "the link of a disabled member", err, errs.NotFound)
		want := []string{ann.OrgID + " " + ann.UserID, ann.UserID}
		if diff := cmp.Diff(want, f.gone); diff != "" {
			t.Error(diff)
		}
		members, err := f.store.Members(t.Context(), f.owner.OrgID)
		must(t, err)
		if len(members) != 2 || members[0].Disabled || !members[1].Disabled || members[1].Role != auth.Member {
			t.Errorf("members: %+v", members)
		}

		if want := ann.OrgID + " member.disable " + ann.UserID; last(f.audits()) != want {
			t.Errorf("audit log: %v, want %s", f.audits(), want)
		}

		must(t, f.disable(f.owner, ann.UserID, false))
		role, err := f.store.Role(t.Context(), ann.OrgID, ann.UserID)
		if err != nil || role != auth.Member || !f.canSignIn("ann@example.com", ann.UserID) {
			t.Errorf("after enabling the role is %q, %v", role, err)
		}
		_, err = f.store.ResetOf(t.Context(), reset)
		wantKind(t, "the old link of an enabled member", err, errs.NotFound)
		// What a running request left behind is removed; sessions are of the user and stay.
		if want = append(want, want[0]); !slices.Equal(f.gone, want) {
			t.Errorf("after enabling: %v, want %v", f.gone, want)
		}
	})
}

func TestSessionsEndWithTheLastEnabledMembership(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		other := f.organization("other@example.com")
		ann := f.add(f.owner, "ann@example.com", auth.Member)
		f.add(other, "ann@example.com", auth.Viewer)
		must(t, f.disable(f.owner, ann.UserID, true))
		if slices.Contains(f.gone, ann.UserID) || !f.canSignIn("ann@example.com", ann.UserID) {
			t.Fatalf("the user is a member of another organization: %v", f.gone)
		}
		must(t, f.remove(other, ann.UserID))
		if !slices.Contains(f.gone, ann.UserID) || f.canSignIn("ann@example.com", ann.UserID) {
			t.Errorf("the user has no enabled membership: %v", f.gone)
		}
	})
}

func TestSessionsEndWhenTwoOrganizationsDisableAUserAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		other := f.organization("other@example.com")
		ann := f.add(f.owner, "ann@example.com", auth.Member)
		f.add(other, "ann@example.com", auth.Viewer)
		var mu sync.Mutex
		ended := 0
		f.store.MemberGone = nil
		f.store.UserGone = []func(*db.Tx, string) error{func(*db.Tx, string) error {
			mu.Lock()
			defer mu.Unlock()
			ended++
			return nil
		}}
		for range 10 {
			var group sync.WaitGroup
			for _, owner := range []*auth.Caller{f.owner, other} {
				group.Go(func() {
					if err := f.disable(owner, ann.UserID, true); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			if ended == 0 {
				t.Fatal("the sessions did not end")
			}
			ended = 0
			must(t, f.disable(f.owner, ann.UserID, false))
			must(t, f.disable(other, ann.UserID, false))
		}
	})
}

func TestLastEnabledOwnerStays(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		second := f.add(f.owner, "second@example.com", auth.Owner)
		must(t, f.disable(f.owner, second.UserID, true))
		me := f.owner.UserID
		wantKind(t, "disable", f.disable(f.owner, me, true), errs.Conflict)
		wantKind(t, "remove", f.remove(f.owner, me), errs.Conflict)
		wantKind(t, "demote", f.change(f.owner, me, account.MemberPatch{Role: page.Some(auth.Admin)}), errs.Conflict)
		must(t, f.remove(f.owner, second.UserID)) // does not count
		third := f.add(f.owner, "third@example.com", auth.Owner)
		must(t, f.disable(f.owner, me, true))
		first, err := f.store.FirstOwner(t.Context())
		if err != nil || first.UserID != third.UserID {
			t.Errorf("the first owner is %s, %v; want %s", first.UserID, err, third.UserID)
		}
	})
}

func TestTwoOwnersCannotDisableEachOther(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		second := f.add(f.owner, "second@example.com", auth.Owner)
		f.store.MemberGone = nil
		f.store.UserGone = nil
		results := make([]error, 2)
		var group sync.WaitGroup
		for i, userID := range []string{second.UserID, f.owner.UserID} {
			group.Go(func() { results[i] = f.disable(f.owner, userID, true) })
		}
		group.Wait()
		if (results[0] == nil) == (results[1] == nil) {
			t.Fatalf("got %v and %v, want one success", results[0], results[1])
		}
		for _, err := range results {
			if err != nil {
				wantKind(t, "the second one", err, errs.Conflict)
			}
		}
	})
}

func TestConcurrentChangesOfAMemberAreAllApplied(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.store.MemberGone = nil
		f.store.UserGone = nil
		ann := f.add(f.owner, "ann@example.com", auth.Member)
		var group sync.WaitGroup
		for _, p := range []account.MemberPatch{
			{Role: page.Some(auth.Viewer)},
			{Disabled: page.Some(true)},
		} {
			group.Go(func() {
				if err := f.change(f.owner, ann.UserID, p); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		members, err := f.store.Members(t.Context(), f.owner.OrgID)
		must(t, err)
		m := members[1]
		if m.Role != auth.Viewer || !m.Disabled || m.ETag() != `"3"` {
			t.Errorf("got %+v", m)
		}
	})
}

func TestNamesShowAllThatTheyContain(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		h := account.Handler{Store: f.store, BaseURL: "https://steward.example"}
		ctx := f.as(f.owner)
		ann, _ := f.invite(f.owner, "ann@example.com", auth.Member)
		for _, bad := range []string{"A\u202enn", "A\x00", "A\u200bnn", "A\nnn", " "} {
			_, err := h.Invite(ctx, &struct{ Body account.NewMember }{
				account.NewMember{Email: "bob@example.com", FirstName: &bad, LastName: &bad, Role: auth.Member},
			})
			wantKind(t, "invite", err, errs.Invalid)
			wantKind(t, "first name", f.change(f.owner, ann, account.MemberPatch{FirstName: page.Some(bad)}), errs.Invalid)
			wantKind(t, "last name", f.change(f.owner, ann, account.MemberPatch{LastName: page.Some(bad)}), errs.Invalid)
			_, err = h.CreateProject(ctx, &struct{ Body account.NewProject }{account.NewProject{Name: bad}})
			wantKind(t, "project", err, errs.Invalid)
		}
		must(t, f.change(f.owner, ann, account.MemberPatch{FirstName: page.Some("Zoë"), LastName: page.Some("")}))
		null := page.Opt[bool]{Sent: true, Null: true}
		wantKind(t, "disabled: null", f.change(f.owner, ann, account.MemberPatch{Disabled: null}), errs.Invalid)
	})
}

func TestProfileForSDKsHasNoNull(t *testing.T) {
	last := "Lee"
	p, ok := account.Profile{ID: "usr_1", LastName: &last}.SDK().(account.Profile)
	if !ok || *p.Email != "" || *p.FirstName != "" || *p.LastName != "Lee" {
		t.Errorf("got %+v", p)
	}
}
