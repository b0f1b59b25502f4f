package account_test

import (
	"strings"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/audit"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/seal"
)

// setupFixture is an installation after its first start, in which nobody can sign in.
type setupFixture struct {
	*testing.T
	setup *account.Setup
	first account.First
	now   time.Time
}

func newSetup(t *testing.T, d *db.DB) *setupFixture {
	t.Helper()
	f := &setupFixture{T: t, now: time.Date(2026, 11, 17, 11, 59, 0, 0, time.UTC)}
	store := &account.Store{DB: d, Now: func() time.Time { return f.now }, Audit: &audit.Store{Now: time.Now}}
	f.setup = &account.Setup{Store: store, Ring: newRing(t, 1)}
	must(t, d.Write(t.Context(), func(tx *db.Tx) (err error) {
		f.first, err = store.Bootstrap(tx, "", "")
		return err
	}))
	return f
}

func newRing(t *testing.T, fill byte) *seal.Ring {
	t.Helper()
	key := make([]byte, seal.KeySize)
	key[0] = fill
	ring, err := seal.NewRing(key)
	must(t, err)
	return ring
}

// token returns the token of the current link.
func (f *setupFixture) token() string {
	f.Helper()
	link, err := f.setup.Link(f.Context(), "https://steward.example")
	must(f.T, err)
	token, ok := strings.CutPrefix(link.Link, "https://steward.example/console/setup#")
	if !ok {
		f.Fatalf("the link is %s", link.Link)
	}
	return token
}

func (f *setupFixture) complete(token, email string) error {
	return f.setup.Store.DB.Write(f.Context(), func(tx *db.Tx) error {
		userID, err := f.setup.Complete(tx, token, account.FirstAccount{Email: email, OrgName: "Acme"}, "hash")
		if err == nil && userID != f.first.UserID {
			f.Errorf("it completes %s, not the owner of the root key", userID)
		}
		return err
	})
}

func TestSetupCompletesTheFirstOwnerOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newSetup(t, d)
		token := f.token()
		must(t, f.setup.Check(t.Context(), token))
		must(t, f.complete(token, "Ada@Example.com"))
		login, err := f.setup.Store.UserByEmail(t.Context(), "ada@example.com")
		if err != nil || login.ID != f.first.UserID || login.PasswordHash != "hash" {
			t.Errorf("got %+v, %v", login, err)
		}
		if name, err := f.setup.Store.OrgName(t.Context(), f.first.OrgID); err != nil || name != "Acme" {
			t.Errorf("the organization is %q, %v", name, err)
		}
		wantKind(t, "reuse", f.complete(token, "eve@example.com"), errs.Conflict)
		wantKind(t, "check after use", f.setup.Check(t.Context(), token), errs.Conflict)
		_, err = f.setup.Link(t.Context(), "")
		wantKind(t, "another link", err, errs.Conflict)
	})
}

// TestSetupStaysDone removes the address of the owner, as if all ways to sign in were lost.
func TestSetupStaysDone(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newSetup(t, d)
		token := f.token()
		must(t, f.complete(token, "ada@example.com"))
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`UPDATE users SET email = NULL, password_hash = NULL`)
			return err
		}))
		wantKind(t, "check", f.setup.Check(t.Context(), token), errs.Conflict)
		if pending, err := f.setup.Pending(t.Context()); pending || err != nil {
			t.Errorf("pending: %v, %v", pending, err)
		}
	})
}

func TestSetupLinksAreTheSameOnAllReplicasAndExpire(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newSetup(t, d)
		replica := *f.setup
		replica.Ring = newRing(t, 1)
		token := f.token()
		must(t, replica.Check(t.Context(), token))
		f.now = f.now.Add(-11 * time.Hour)
		if f.token() != token {
			t.Error("another start of the same period prints another link")
		}
		f.now = f.now.Add(23 * time.Hour)
		must(t, f.setup.Check(t.Context(), token))
		if f.token() == token {
			t.Error("a start of the next period prints the same link")
		}
		f.now = f.now.Add(time.Minute)
		wantKind(t, "expired", f.setup.Check(t.Context(), token), errs.NotFound)
		wantKind(t, "expired", f.complete(token, "ada@example.com"), errs.NotFound)
	})
}

func TestSetupRefusesGuessedTokens(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newSetup(t, d)
		token := f.token()
		stranger := *f.setup
		stranger.Ring = newRing(t, 2)
		foreign, err := stranger.Link(t.Context(), "")
		must(t, err)
		_, other, _ := strings.Cut(foreign.Link, "#")
		later := "_" + token[1:] // an expiry far away
		for _, guess := range []string{"", "x", "!", token[:11], token[:len(token)-4], token + "AAAA", later, other} {
			wantKind(t, guess, f.setup.Check(t.Context(), guess), errs.NotFound)
			wantKind(t, guess, f.complete(guess, "eve@example.com"), errs.NotFound)
		}
		must(t, f.setup.Check(t.Context(), token))
	})
}

// TestInstallationWithAnOwnerIsSetUp also covers installations of before there were links.
func TestInstallationWithAnOwnerIsSetUp(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newSetup(t, d)
		must(t, f.setup.Settle(t.Context()))
		token := f.token()
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`UPDATE users SET email = 'ada@example.com'`)
			return err
		}))
		wantKind(t, "with an owner", f.setup.Check(t.Context(), token), errs.Conflict)
		must(t, f.setup.Settle(t.Context()))
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			_, err := tx.Exec(`UPDATE users SET email = NULL`)
			return err
		}))
		wantKind(t, "once settled", f.setup.Check(t.Context(), token), errs.Conflict)
	})
}

func TestSetupRefusesAnAddressOfAnother(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newSetup(t, d)
		f.now = f.now.Add(time.Second)
		must(t, d.Write(t.Context(), func(tx *db.Tx) error {
			_, err := f.setup.Store.Bootstrap(tx, "ada@example.com", "")
			return err
		}))
		token := f.token()
		wantKind(t, "taken", f.complete(token, "ADA@example.com"), errs.Invalid)
		must(t, f.complete(token, "grace@example.com"))
	})
}

func TestFirstAccountIsChecked(t *testing.T) {
	good := account.FirstAccount{Email: "ada@example.com", OrgName: "Acme"}
	if problem := good.Problem(); problem != "" {
		t.Error(problem)
	}
	for _, bad := range []account.FirstAccount{
		{"", "Acme"},
		{"ada", "Acme"},
		{"Ada <ada@example.com>", "Acme"},
		{"ada@example.com\r\nBcc: eve@example.com", "Acme"},
		{strings.Repeat("a", 250) + "@example.com", "Acme"},
		{"ada@example.com", " "},
		{"ada@example.com", "A\r\nB"},
		{"ada@example.com", strings.Repeat("é", 257)},
	} {
		if bad.Problem() == "" {
			t.Errorf("%q is accepted", bad)
		}
	}
}
