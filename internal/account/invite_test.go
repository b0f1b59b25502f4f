package account_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"steward/internal/account"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
)

// members returns the members of the caller's organization.
func (f *fixture) members(caller *auth.Caller) []account.Member {
	f.t.Helper()
	list, err := f.store.Members(f.t.Context(), caller.OrgID)
	must(f.t, err)
	return list
}

func (f *fixture) reinvite(caller *auth.Caller, memberID string) (string, error) {
	_, token, err := f.store.Reinvite(f.as(caller), caller, memberID)
	return token, err
}

func (f *fixture) decline(token, userID string) error {
	return f.store.DB.Write(f.t.Context(), func(tx *db.Tx) error { return f.store.Decline(tx, token, userID) })
}

// wantNoInvitation checks that the link of an invitation neither shows nor does anything.
func (f *fixture) wantNoInvitation(what, token, userID string) {
	f.t.Helper()
	_, err := f.store.InvitationByToken(f.t.Context(), token)
	wantKind(f.t, what, err, errs.NotFound)
	_, err = f.register(token)
	wantKind(f.t, what, err, errs.NotFound)
	wantKind(f.t, what, f.join(token, userID), errs.NotFound)
	wantKind(f.t, what, f.decline(token, userID), errs.NotFound)
}

// TestInvitationsAreAlike invites an address that has an account elsewhere, and one that has none.
func TestInvitationsAreAlike(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		other := f.organization("other@example.com")
		known := f.add(other, "known@example.com", auth.Member)
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			return f.store.SetProfile(tx, known.UserID, account.UserProfile{FirstName: "Secret", PhotoURL: "https://a.example"})
		}))
		h := account.Handler{Store: f.store, BaseURL: "https://steward.example"}
		typed := "Typed"
		invite := func(email string) account.Invited {
			made, err := h.Invite(f.as(f.owner), &struct{ Body account.NewMember }{
				account.NewMember{Email: email, FirstName: &typed, Role: auth.Viewer},
			})
			must(t, err)
			if !strings.HasPrefix(made.ID, "inv_") || !strings.HasPrefix(made.Link, "https://steward.example/invite/") {
				t.Errorf("got %+v", made)
			}
			return made
		}
		alike := cmp.Options{
			cmpopts.IgnoreFields(account.Member{}, "ID", "Email"), cmpopts.IgnoreFields(account.Invited{}, "Link"),
			cmpopts.IgnoreUnexported(account.Member{}),
		}
		existing, unknown := invite("known@example.com"), invite("unknown@example.com")
		if diff := cmp.Diff(existing, unknown, alike); diff != "" {
			t.Error(diff)
		}
		list := f.members(f.owner)
		if len(list) != 3 {
			t.Fatalf("got %+v", list)
		}
		want := account.Member{
			FirstName: &typed, Role: auth.Viewer, Pending: true, ExpiresAt: new(stamp.Of(f.now).Add(7 * 24 * time.Hour)),
		}
		for _, m := range list[1:] {
			if diff := cmp.Diff(want, m, alike); diff != "" {
				t.Error(diff)
			}
		}
		found, err := f.store.SearchMembers(t.Context(), f.owner, "typed", 10)
		if err != nil || len(found) != 2 || found[0].ID != existing.ID {
			t.Errorf("found %v, %v", found, err)
		}
		for _, id := range []string{existing.ID, unknown.ID} {
			_, err := f.reinvite(f.owner, id)
			must(t, err)
			must(t, f.change(f.owner, id, account.MemberPatch{FirstName: page.Some("Again")}))
			wantKind(t, "disabled", f.disable(f.owner, id, true), errs.Conflict)
			photo := account.MemberPatch{PhotoURL: page.Some("https://b.example")}
			wantKind(t, "photo", f.change(f.owner, id, photo), errs.Forbidden)
			wantKind(t, "of another organization", f.change(other, id, account.MemberPatch{}), errs.NotFound)
			wantKind(t, "of another organization", f.remove(other, id), errs.NotFound)
			_, err = f.reinvite(other, id)
			wantKind(t, "of another organization", err, errs.NotFound)
			must(t, f.remove(f.owner, id))
			wantKind(t, "revoked", f.remove(f.owner, id), errs.NotFound)
		}
		login, err := f.store.UserByID(t.Context(), known.UserID)
		if err != nil || login.FirstName != "Secret" {
			t.Errorf("the user has become %+v, %v", login, err)
		}
		for _, email := range []string{"known@example.com", "owner@example.com"} {
			_, err := h.Invite(f.as(f.owner), &struct{ Body account.NewMember }{account.NewMember{Email: email, Role: auth.Viewer}})
			if email == "owner@example.com" {
				wantKind(t, "a member", err, errs.Conflict)
				continue
			}
			must(t, err)
			_, _, err = f.store.Invite(t.Context(), f.owner.OrgID, "", account.NewMember{Email: email, Role: auth.Viewer})
			wantKind(t, "twice", err, errs.Conflict)
		}
	})
}

// TestAcceptingOneInvitationOpensNoOther has two organizations invite the same new person.
func TestAcceptingOneInvitationOpensNoOther(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		other := f.organization("other@example.com")
		_, viewer := f.invite(f.owner, "ann@example.com", auth.Viewer)
		theirs, owner := f.invite(other, "ann@example.com", auth.Owner)
		userID, err := f.register(viewer)
		must(t, err)
		_, err = f.store.Role(t.Context(), other.OrgID, userID)
		wantKind(t, "the role in the other organization", err, errs.NotFound)
		_, err = f.register(owner)
		wantKind(t, "the other link sets a password", err, errs.Conflict)
		wantKind(t, "somebody else accepts", f.join(owner, f.owner.UserID), errs.NotFound)
		wantKind(t, "somebody else declines", f.decline(owner, f.owner.UserID), errs.NotFound)
		i, err := f.store.InvitationByToken(t.Context(), owner)
		if err != nil || i.UserID != userID || i.Role != auth.Owner || i.Inviter != "other@example.com" {
			t.Errorf("got %+v, %v", i, err)
		}
		f.audit.Skip()
		must(t, f.join(owner, userID))
		role, err := f.store.Role(t.Context(), other.OrgID, userID)
		if err != nil || role != auth.Owner {
			t.Errorf("the role is %s, %v", role, err)
		}
		if want := []string{other.OrgID + " member.accept " + theirs}; !slices.Equal(f.audits(), want) {
			t.Errorf("audit log: %v, want %v", f.audits(), want)
		}
		f.wantNoInvitation("used", owner, userID)
	})
}

// TestTwoInvitationsAcceptedAtOnceCreateOneUser registers with both links at the same time.
func TestTwoInvitationsAcceptedAtOnceCreateOneUser(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		other := f.organization("other@example.com")
		_, first := f.invite(f.owner, "ann@example.com", auth.Viewer)
		_, second := f.invite(other, "ann@example.com", auth.Owner)
		tokens := []string{first, second}
		results := make([]error, 2)
		var group sync.WaitGroup
		for i, token := range tokens {
			group.Go(func() { _, results[i] = f.register(token) })
		}
		group.Wait()
		if (results[0] == nil) == (results[1] == nil) {
			t.Fatalf("got %v and %v, want one success", results[0], results[1])
		}
		for i, err := range results {
			if err == nil {
				continue
			}
			wantKind(t, "the second one", err, errs.Conflict)
			invitation, err := f.store.InvitationByToken(t.Context(), tokens[i])
			must(t, err)
			must(t, f.join(tokens[i], invitation.UserID))
		}
	})
}

func TestInvitationLinkBecomesVoid(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		other := f.organization("other@example.com")
		for _, email := range []string{"new@example.com", "other@example.com"} {
			invited, token := f.invite(f.owner, email, auth.Viewer)
			must(t, f.change(f.owner, invited, account.MemberPatch{FirstName: page.Some("Ann")}))
			_, err := f.store.InvitationByToken(t.Context(), token)
			must(t, err) // a name changes nothing
			must(t, f.change(f.owner, invited, account.MemberPatch{Role: page.Some(auth.Owner)}))
			f.wantNoInvitation("of another role", token, other.UserID)
			if m := f.members(f.owner)[1]; m.ExpiresAt != nil || m.Role != auth.Owner || m.ETag() != `"3"` {
				t.Errorf("got %+v", m)
			}
			must(t, f.change(f.owner, invited, account.MemberPatch{Role: page.Some(auth.Viewer)}))
			f.wantNoInvitation("of the first role again", token, other.UserID)

			second, err := f.reinvite(f.owner, invited)
			must(t, err)
			third, err := f.reinvite(f.owner, invited)
			must(t, err)
			f.wantNoInvitation("replaced", second, other.UserID)
			must(t, f.remove(f.owner, invited))
			f.wantNoInvitation("revoked", third, other.UserID)
		}
		invited, token := f.invite(f.owner, "new@example.com", auth.Viewer)
		f.now = f.now.Add(7 * 24 * time.Hour)
		f.wantNoInvitation("expired", token, other.UserID)
		token, err := f.reinvite(f.owner, invited)
		must(t, err)
		userID, err := f.register(token)
		must(t, err)
		_, err = f.reinvite(f.owner, userID)
		wantKind(t, "accepted", err, errs.Conflict)
		_, err = f.reinvite(f.owner, "usr_none")
		wantKind(t, "no member", err, errs.NotFound)
	})
}

func TestUserDeclines(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		other := f.organization("other@example.com")
		invited, token := f.invite(f.owner, "other@example.com", auth.Admin)
		f.audit.Skip()
		must(t, f.decline(token, other.UserID))
		f.wantNoInvitation("declined", token, other.UserID)
		if list := f.members(f.owner); len(list) != 1 {
			t.Errorf("got %+v", list)
		}
		if want := []string{f.owner.OrgID + " member.decline " + invited}; !slices.Equal(f.audits(), want) {
			t.Errorf("audit log: %v, want %v", f.audits(), want)
		}
	})
}

// TestUserOfNoOrganizationAccepts has a user who was removed from the only organization: the password
// stays that of the user.
func TestUserOfNoOrganizationAccepts(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		other := f.organization("other@example.com")
		ann := f.add(f.owner, "ann@example.com", auth.Member)
		must(t, f.remove(f.owner, ann.UserID))
		_, token := f.invite(other, "ann@example.com", auth.Viewer)
		_, err := f.register(token)
		wantKind(t, "sets a password", err, errs.Conflict)
		if f.canSignIn("ann@example.com", ann.UserID) {
			t.Error("an invitation lets a user sign in")
		}
		login, err := f.store.InvitedUser(t.Context(), token, "ann@example.com")
		if err != nil || login.ID != ann.UserID || login.PasswordHash != "hash" {
			t.Errorf("got %+v, %v", login, err)
		}
		_, err = f.store.InvitedUser(t.Context(), token, "other@example.com")
		wantKind(t, "another address", err, errs.NotFound)
		must(t, f.join(token, ann.UserID))
		if !f.canSignIn("ann@example.com", ann.UserID) {
			t.Error("the member cannot sign in")
		}
	})
}

func TestNamesAndPhotoBelongToTheUser(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		f.organization("other@example.com")
		ann := f.add(f.owner, "ann@example.com", auth.Member)
		for _, p := range []account.MemberPatch{
			{FirstName: page.Some("Ann")},
			{LastName: page.Some("Lee")},
			{PhotoURL: page.Some("https://a.example/a.png")},
			{Role: page.Some(auth.Viewer), FirstName: page.Some("Ann")},
		} {
			wantKind(t, "change", f.change(f.owner, ann.UserID, p), errs.Forbidden)
		}
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			return f.store.SetProfile(tx, ann.UserID, account.UserProfile{FirstName: "Ann"})
		}))
		must(t, f.change(f.owner, ann.UserID, account.MemberPatch{FirstName: page.Some("Ann"), Role: page.Some(auth.Viewer)}))
		if m := f.members(f.owner)[1]; *m.FirstName != "Ann" || m.LastName != nil || m.Role != auth.Viewer {
			t.Errorf("got %+v", m)
		}
	})
}

func TestProfiles(t *testing.T) {
	for p, want := range map[account.UserProfile]bool{
		{}: true,
		{FirstName: "Zoë", LastName: "Lee", PhotoURL: "https://a.example/z.png"}: true,
		{PhotoURL: "http://127.0.0.1:8080/z.png"}:                                true,
		{PhotoURL: "http://localhost/z.png"}:                                     true,
		{PhotoURL: "http://a.example/z.png"}:                                     false,
		{PhotoURL: "javascript:alert(1)"}:                                        false,
		{PhotoURL: "https://"}:                                                   false,
		{PhotoURL: "https://a.example/" + strings.Repeat("a", 2048)}:             false,
		{FirstName: "A\u202enn"}:                                                 false,
		{LastName: strings.Repeat("a", 257)}:                                     false,
	} {
		if problem := p.Problem(); (problem == "") != want {
			t.Errorf("%+v: %q", p, problem)
		}
	}
}

// TestOldInvitationsAreRemoved keeps one whose link has expired for a month, to be renewed.
func TestOldInvitationsAreRemoved(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		other := f.organization("other@example.com")
		f.invite(f.owner, "ann@example.com", auth.Member)
		f.reset(f.add(f.owner, "bob@example.com", auth.Member).UserID)
		f.now = f.now.Add(30 * 24 * time.Hour)
		f.invite(other, "ann@example.com", auth.Member)
		must(t, f.store.PurgeLinks(t.Context()))
		if list := f.members(f.owner); len(list) != 3 {
			t.Errorf("after 30 days: %+v", list)
		}
		var resets int
		must(t, d.Read(t.Context()).Row(`SELECT count(*) FROM password_resets`).Scan(&resets))
		if resets != 0 {
			t.Errorf("%d resets are left", resets)
		}
		f.now = f.now.Add(7*24*time.Hour + time.Minute)
		must(t, f.store.PurgeLinks(t.Context()))
		if list := f.members(f.owner); len(list) != 2 {
			t.Errorf("after 37 days: %+v", list)
		}
		if list := f.members(other); len(list) != 2 {
			t.Errorf("the other organization has %+v", list)
		}
	})
}

func TestMembersAreSeenInTheirOrganization(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		other := f.organization("other@example.com")
		ann := f.add(f.owner, "ann@example.com", auth.Member)
		f.add(other, "ann@example.com", auth.Member)
		seen := &account.Seen{Store: f.store}
		seen.Note(ann)
		seen.Note(&auth.Caller{OrgID: f.owner.OrgID, ClientID: "oac_1"})
		must(t, seen.Flush(t.Context()))
		first := stamp.Of(f.now)
		for _, m := range append(f.members(f.owner), f.members(other)...) {
			if want := m.ID == ann.UserID && m.JoinedAt != nil; m.LastSeenAt != nil && (!want || *m.LastSeenAt != first) {
				t.Errorf("got %+v", m)
			}
		}
		if m := f.members(other)[1]; m.LastSeenAt != nil {
			t.Errorf("the other organization sees %+v", m)
		}
		f.now = f.now.Add(time.Minute)
		seen.Note(ann)
		must(t, seen.Flush(t.Context()))
		if m := f.members(f.owner)[1]; m.LastSeenAt == nil || *m.LastSeenAt != stamp.Of(f.now) || m.ETag() != `"1"` {
			t.Errorf("got %+v", m)
		}
	})
}
