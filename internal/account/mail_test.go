package account_test

import (
	"slices"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/audit"
	"steward/internal/audit/audittest"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/mail"
	"steward/internal/page"
	"steward/internal/seal"
)

// wantVerified checks whether the address of a user is proved.
func (f *fixture) wantVerified(what, userID string, want bool) {
	f.t.Helper()
	login, err := f.store.UserByID(f.t.Context(), userID)
	must(f.t, err)
	if login.EmailVerified != want {
		f.t.Errorf("%s: the address is verified: %t", what, login.EmailVerified)
	}
}

// mailInvitation returns the token of the link that is mailed.
func (f *fixture) mailInvitation(orgID, invitationID string) string {
	f.t.Helper()
	m, err := f.store.NewMailedInvitation(f.t.Context(), orgID, invitationID)
	must(f.t, err)
	return m.Token
}

func TestOnlyTheMailedInvitationProvesTheAddress(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ann, shown := f.invite(f.owner, "ann@example.com", auth.Member)
		mailed := f.mailInvitation(f.owner.OrgID, ann)
		userID, err := f.register(shown) // by who has invited
		must(t, err)
		f.wantVerified("the link that was shown", userID, false)
		f.wantNoInvitation("the other link", mailed, userID)

		bob, shown := f.invite(f.owner, "bob@example.com", auth.Member)
		mailed = f.mailInvitation(f.owner.OrgID, bob)
		i, err := f.store.InvitationByToken(t.Context(), mailed)
		if err != nil || i.Email != "bob@example.com" || i.Inviter != "owner@example.com" {
			t.Fatalf("got %+v, %v", i, err)
		}
		userID, err = f.register(mailed)
		must(t, err)
		f.wantVerified("the link that was mailed", userID, true)
		f.wantNoInvitation("the other link", shown, userID)
		_, err = f.store.NewMailedInvitation(t.Context(), f.owner.OrgID, bob)
		wantKind(t, "mail for an invitation that was accepted", err, errs.NotFound)

		other := f.organization("other@example.com")
		ann, _ = f.invite(other, "ann@example.com", auth.Member)
		member := f.members(f.owner)[1]
		mailed = f.mailInvitation(other.OrgID, ann)
		wantKind(t, "joining without a new password", f.join(mailed, member.ID), errs.Conflict)
		f.claimed = nil
		must(t, f.claim(mailed, member.ID))
		f.wantVerified("a mailed link of a user", member.ID, true)
		if !slices.Equal(f.claimed, []string{member.ID}) {
			t.Errorf("the ways to sign in of %q were removed", f.claimed)
		}
	})
}

// claim uses up an invitation of a user who sets a new password.
func (f *fixture) claim(token, userID string) error {
	return f.store.DB.Write(f.t.Context(), func(tx *db.Tx) error { return f.store.Claim(tx, token, userID, "hash") })
}

// TestOnlyTheMailedInvitationTakesAnAddress has an account whose user has not proved the address.
func TestOnlyTheMailedInvitationTakesAnAddress(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ann := f.add(f.owner, "ann@example.com", auth.Member)
		other, third := f.organization("other@example.com"), f.organization("third@example.com")
		again, shown := f.invite(other, "ann@example.com", auth.Admin)
		mailed := f.mailInvitation(other.OrgID, again)
		for token, unproved := range map[string]bool{shown: false, mailed: true} {
			i, err := f.store.InvitationByToken(t.Context(), token)
			if err != nil || i.UserID != ann.UserID || i.Unproved != unproved {
				t.Errorf("got %+v, %v", i, err)
			}
		}
		_, err := f.register(shown)
		wantKind(t, "the link that was shown", err, errs.Conflict)
		wantKind(t, "a new password by the link that was shown", f.claim(shown, ann.UserID), errs.NotFound)
		f.audit.Skip()
		userID, err := f.register(mailed)
		must(t, err)
		if userID == ann.UserID || !slices.Contains(f.audits(), f.owner.OrgID+" user.email_release "+ann.UserID) {
			t.Errorf("the new account is %s, and the log has %q", userID, f.audits())
		}
		f.wantVerified("the new account", userID, true)
		f.wantVerified("the old account", ann.UserID, false)
		if m := f.members(f.owner)[1]; m.ID != ann.UserID || m.Email != nil {
			t.Errorf("the first organization has %+v", m)
		}

		again, _ = f.invite(third, "ann@example.com", auth.Admin)
		mailed = f.mailInvitation(third.OrgID, again)
		_, err = f.register(mailed)
		wantKind(t, "a mailed link for an address that is proved", err, errs.Conflict)
		must(t, f.join(mailed, userID))
	})
}

func TestMailedInvitationIsVoidWithTheOther(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ann, _ := f.invite(f.owner, "ann@example.com", auth.Member)
		first := f.mailInvitation(f.owner.OrgID, ann)
		second := f.mailInvitation(f.owner.OrgID, ann)
		f.wantNoInvitation("a mail that was sent again", first, "usr_none")
		_, err := f.reinvite(f.owner, ann)
		must(t, err)
		f.wantNoInvitation("a renewed invitation", second, "usr_none")
		third := f.mailInvitation(f.owner.OrgID, ann)
		must(t, f.change(f.owner, ann, account.MemberPatch{Role: page.Some(auth.Owner)}))
		f.wantNoInvitation("another role", third, "usr_none")
		_, err = f.store.NewMailedInvitation(t.Context(), f.owner.OrgID, ann)
		wantKind(t, "mail for a void link", err, errs.NotFound)
		_, err = f.reinvite(f.owner, ann)
		must(t, err)
		fourth := f.mailInvitation(f.owner.OrgID, ann)
		must(t, f.remove(f.owner, ann))
		f.wantNoInvitation("a revoked invitation", fourth, "usr_none")
		bob, _ := f.invite(f.owner, "bob@example.com", auth.Member)
		fifth := f.mailInvitation(f.owner.OrgID, bob)
		f.now = f.now.Add(8 * 24 * time.Hour)
		f.wantNoInvitation("an old invitation", fifth, "usr_none")
		_, err = f.store.NewMailedInvitation(t.Context(), f.owner.OrgID, bob)
		wantKind(t, "mail for an old invitation", err, errs.NotFound)
	})
}

func TestInvitationsAskForMail(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ring, err := seal.NewRing(make([]byte, seal.KeySize))
		must(t, err)
		f.store.Mail = &mail.Store{DB: d, Ring: ring, Now: time.Now}
		ann, _ := f.invite(f.owner, "ann@example.com", auth.Member)
		_, err = f.reinvite(f.owner, ann)
		must(t, err)
		_, _, err = f.store.Invite(f.as(f.owner), f.owner.OrgID, f.owner.UserID,
			account.NewMember{Email: "ann@example.com", Role: auth.Member})
		wantKind(t, "a second invitation", err, errs.Conflict)
		var mails int
		must(t, d.Read(t.Context()).Row(`SELECT count(*) FROM mails WHERE kind = 'invitation'`).Scan(&mails))
		if mails != 2 {
			t.Errorf("%d mails", mails)
		}
	})
}

func TestOnlyTheMailedResetProvesTheAddress(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ann := f.add(f.owner, "ann@example.com", auth.Member)
		_, err := f.useReset(f.reset(ann.UserID), "second")
		must(t, err)
		f.wantVerified("a link of an owner", ann.UserID, false)

		f.add(f.organization("other@example.com"), "ann@example.com", auth.Viewer) // a member elsewhere as well
		token, _, err := f.store.NewMailedReset(t.Context(), "ann@example.com")
		must(t, err)
		_, _, err = f.store.NewMailedReset(t.Context(), "ann@example.com")
		wantKind(t, "a second link a moment later", err, errs.NotFound)
		f.claimed = nil
		_, err = f.useReset(token, "third")
		must(t, err)
		f.wantVerified("a mailed link", ann.UserID, true)
		f.wantVoid("a used link", token)

		f.now = f.now.Add(time.Hour)
		token, _, err = f.store.NewMailedReset(t.Context(), "ann@example.com")
		must(t, err)
		_, err = f.useReset(token, "fourth")
		must(t, err)
		if !slices.Equal(f.claimed, []string{ann.UserID}) {
			t.Errorf("the ways to sign in of %q were removed", f.claimed)
		}
		var shown string
		must(t, f.store.DB.Write(t.Context(), func(tx *db.Tx) (err error) {
			shown, _, err = f.store.NewReset(tx, ann.UserID)
			return err
		}))
		_, err = f.useReset(shown, "fifth")
		must(t, err)
		f.wantVerified("a link that somebody else has seen", ann.UserID, false)
	})
}

func TestOwnersLinkReplacesTheMailedOne(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ann := f.add(f.owner, "ann@example.com", auth.Member)
		mailed, _, err := f.store.NewMailedReset(t.Context(), "ann@example.com")
		must(t, err)
		shown := f.reset(ann.UserID)
		f.wantVoid("the mailed link", mailed)
		_, err = f.useReset(shown, "second")
		must(t, err)
		f.wantVerified("the link of an owner", ann.UserID, false)
	})
}

func TestWhoCannotSignInGetsNoLink(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ann := f.add(f.owner, "ann@example.com", auth.Member)
		must(t, f.disable(f.owner, ann.UserID, true))
		f.invite(f.owner, "invited@example.com", auth.Member)
		for _, email := range []string{"ann@example.com", "invited@example.com", "nobody@example.com", ""} {
			_, _, err := f.store.NewMailedReset(t.Context(), email)
			wantKind(t, email, err, errs.NotFound)
		}
	})
}

// askEmail notes that a user wants another address.
func (f *fixture) askEmail(userID, email string) {
	f.t.Helper()
	must(f.t, f.store.DB.Write(f.t.Context(), func(tx *db.Tx) error { return f.store.RequestEmail(tx, userID, email) }))
}

// mailEmail returns the token of the link that is mailed to the new address.
func (f *fixture) mailEmail(userID, email string) string {
	f.t.Helper()
	c, token, err := f.store.NewMailedEmail(f.t.Context(), userID)
	must(f.t, err)
	if c.Email != email || c.UserID != userID {
		f.t.Fatalf("got %+v", c)
	}
	return token
}

func (f *fixture) useEmail(token, userID string) error {
	return f.store.DB.Write(f.t.Context(), func(tx *db.Tx) error { return f.store.UseEmailChange(tx, token, userID) })
}

// wantNoEmail checks that the link of a change of address is void.
func (f *fixture) wantNoEmail(what, token, userID string) {
	f.t.Helper()
	_, err := f.store.EmailChangeOf(f.t.Context(), token)
	wantKind(f.t, what, err, errs.NotFound)
	wantKind(f.t, what, f.useEmail(token, userID), errs.NotFound)
}

func TestMailedLinkChangesTheAddressOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ann := f.add(f.owner, "ann@example.com", auth.Member)
		reset := f.reset(ann.UserID)
		f.askEmail(ann.UserID, "Anna@example.com")
		_, err := f.store.EmailChangeOf(t.Context(), "")
		wantKind(t, "a link that was not mailed yet", err, errs.NotFound)
		token := f.mailEmail(ann.UserID, "anna@example.com")
		wantKind(t, "the link of another user", f.useEmail(token, f.owner.UserID), errs.NotFound)
		must(t, f.useEmail(token, ann.UserID))
		login, err := f.store.UserByEmail(t.Context(), "anna@example.com")
		if err != nil || login.ID != ann.UserID || !login.EmailVerified {
			t.Errorf("got %+v, %v", login, err)
		}
		_, err = f.store.UserByEmail(t.Context(), "ann@example.com")
		wantKind(t, "the address of before", err, errs.NotFound)
		f.wantNoEmail("a used link", token, ann.UserID)
		f.wantVoid("a link to reset the password of before", reset)
	})
}

func TestLinkOfAnAddressIsVoid(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		for what, change := range map[string]func(f *fixture, userID string){
			"a new link":      func(f *fixture, userID string) { f.mailEmail(userID, "new@example.com") },
			"another request": func(f *fixture, userID string) { f.askEmail(userID, "newer@example.com") },
			"another password": func(f *fixture, userID string) {
				_, err := f.useReset(f.reset(userID), "second")
				must(t, err)
			},
			"another role": func(f *fixture, userID string) {
				must(t, f.change(f.owner, userID, account.MemberPatch{Role: page.Some(auth.Admin)}))
			},
			"the address was taken": func(f *fixture, _ string) { f.organization("new@example.com") },
			"a day":                 func(f *fixture, _ string) { f.now = f.now.Add(25 * time.Hour) },
		} {
			f := newFixtureNamed(t, d, what)
			ann := f.add(f.owner, "ann-"+f.owner.OrgID+"@example.com", auth.Member)
			f.askEmail(ann.UserID, "new@example.com")
			token := f.mailEmail(ann.UserID, "new@example.com")
			change(f, ann.UserID)
			f.wantNoEmail(what, token, ann.UserID)
			_, err := d.Exec(t.Context(), `UPDATE users SET email = NULL WHERE email = 'new@example.com'`)
			must(t, err)
		}
	})
}

// newFixtureNamed returns a fixture with an organization whose owner has an address of its own.
func newFixtureNamed(t *testing.T, d *db.DB, what string) *fixture {
	t.Helper()
	f := &fixture{t: t, now: time.Now(), audit: audittest.New(t, d)}
	f.store = &account.Store{DB: d, Now: func() time.Time { return f.now }, Audit: &audit.Store{Now: time.Now}}
	f.owner = f.organization("owner of " + what + "@example.com")
	return f
}

func TestTakenAddressGetsNoMail(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		ann := f.add(f.owner, "ann@example.com", auth.Member)
		f.askEmail(ann.UserID, "owner@example.com")
		_, _, err := f.store.NewMailedEmail(t.Context(), ann.UserID)
		wantKind(t, "the address of the owner", err, errs.NotFound)
		_, _, err = f.store.NewMailedEmail(t.Context(), f.owner.UserID)
		wantKind(t, "a user who wants none", err, errs.NotFound)
	})
}

func TestOldChangesOfAddressesArePurged(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		count := func() (n int) {
			must(t, d.Read(t.Context()).Row(`SELECT count(*) FROM email_changes`).Scan(&n))
			return n
		}
		f.askEmail(f.owner.UserID, "new@example.com")
		must(t, f.store.PurgeLinks(t.Context()))
		before := count()
		f.now = f.now.Add(25 * time.Hour)
		must(t, f.store.PurgeLinks(t.Context()))
		if before != 1 || count() != 0 {
			t.Errorf("%d before, %d after", before, count())
		}
	})
}
