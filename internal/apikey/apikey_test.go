package apikey_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/account"
	"steward/internal/apikey"
	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/id"
)

func TestChangingOneCharacterMakesAKeyImplausible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := apikey.NewValue()
		if len(value) != 52 || !apikey.Plausible(value) {
			t.Fatalf("%s is not a plausible key", value)
		}
		i := rapid.IntRange(3, len(value)-1).Draw(t, "at")
		other := rapid.SampledFrom([]byte(id.Base62)).Filter(func(b byte) bool { return b != value[i] }).Draw(t, "other")
		if typo := value[:i] + string(other) + value[i+1:]; apikey.Plausible(typo) {
			t.Fatalf("%s and %s are both plausible", value, typo)
		}
	})
}

func TestOperatorsKeysArePlausible(t *testing.T) {
	for value, want := range map[string]bool{
		"":                              false,
		"sk_short":                      false,
		strings.Repeat("x", 19):         false,
		strings.Repeat("x", 20):         true, // a root key chosen by the operator
		"sk_" + strings.Repeat("-", 49): true, // of the right length, but not base62
	} {
		if apikey.Plausible(value) != want {
			t.Errorf("Plausible(%q) is not %v", value, want)
		}
	}
}

// fixture is a store with an owner, a key of the owner, and a clock.
type fixture struct {
	store   *apikey.Store
	checker *apikey.Checker
	caller  *auth.Caller
	value   string
	now     atomic.Int64

	// consented records the calls of Consented, which returns consent.
	consented []string
	consent   error
}

func newFixture(t *testing.T, d *db.DB) *fixture {
	f := &fixture{
		caller: &auth.Caller{OrgID: id.New(id.Org), UserID: id.New(id.User), Role: auth.Owner},
		value:  apikey.NewValue(),
	}
	f.now.Store(time.Date(2026, 11, 15, 0, 0, 0, 0, time.UTC).UnixMicro())
	f.store = &apikey.Store{
		DB: d, Now: func() time.Time { return time.UnixMicro(f.now.Load()) },
		Audit: &audit.Store{Now: time.Now}, Accounts: &account.Store{DB: d, Now: time.Now, Audit: &audit.Store{Now: time.Now}},
		Consented: func(_ *db.Tx, caller *auth.Caller, scopes []string) error {
			f.consented = append(f.consented, caller.ClientID+" "+strings.Join(scopes, " "))
			return f.consent
		},
	}
	f.checker = &apikey.Checker{Store: f.store}
	d.Watch(auth.Callers, f.checker.Forget)
	d.Watch(auth.Callers, f.store.Forget)
	err := d.Write(t.Context(), func(tx *db.Tx) error {
		if _, err := tx.Exec(`INSERT INTO orgs (id, name, created_at) VALUES ($1, 'o', 0)`,
			f.caller.OrgID); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO users (id, version, created_at, updated_at) VALUES ($1, 1, 0, 0)`,
			f.caller.UserID); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO members (org_id, user_id, role, version, created_at, updated_at)
			VALUES ($1, $2, 'owner', 1, 0, 0)`, f.caller.OrgID, f.caller.UserID); err != nil {
			return err
		}
		return f.store.MakeRoot(tx, f.caller.OrgID, f.caller.UserID, f.value)
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) advance(d time.Duration) { f.now.Add(d.Microseconds()) }

func TestExpiredKeysAreRefused(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		soon := time.UnixMicro(f.now.Load()).Add(time.Hour).Format(time.RFC3339)
		h := &apikey.Handler{Store: f.store}
		created, err := h.Create(auth.With(t.Context(), f.caller),
			&struct{ Body apikey.NewKey }{apikey.NewKey{Name: "k", ExpiresAt: &soon}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.checker.Authenticate(t.Context(), created.Value); err != nil {
			t.Fatalf("refused before it expired: %v", err)
		}
		f.advance(time.Hour)
		if _, err := f.checker.Authenticate(t.Context(), created.Value); errs.KindOf(err) != errs.Unauthorized {
			t.Fatalf("an expired key: %v", err)
		}
	})
}

func TestKnownKeysAreNotReadAgain(t *testing.T) {
	d := dbtest.Open(t, db.SQLite)
	f := newFixture(t, d)
	if _, err := f.checker.Authenticate(t.Context(), f.value); err != nil {
		t.Fatal(err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel() // reads with this context fail
	if _, err := f.checker.Authenticate(cancelled, f.value); err != nil {
		t.Fatalf("a known key was read again: %v", err)
	}
	if _, err := f.checker.Authenticate(cancelled, apikey.NewValue()); err == nil {
		t.Fatal("an unknown key was not read")
	}
}

func TestKeysActWithTheCurrentRole(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		set := func(statement string) {
			err := d.Write(t.Context(), func(tx *db.Tx) error {
				if _, err := tx.Exec(statement, f.caller.UserID); err != nil {
					return err
				}
				return tx.Invalidate(auth.Callers)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		set(`UPDATE members SET role = 'viewer' WHERE user_id = $1`)
		if c, err := f.checker.Authenticate(t.Context(), f.value); err != nil || c.Role != auth.Viewer {
			t.Fatalf("got %+v, %v", c, err)
		}
		set(`UPDATE members SET disabled = TRUE WHERE user_id = $1`)
		if _, err := f.checker.Authenticate(t.Context(), f.value); errs.KindOf(err) != errs.Unauthorized {
			t.Fatalf("a key of a disabled member: %v", err)
		}
		set(`DELETE FROM members WHERE user_id = $1`)
		if _, err := f.checker.Authenticate(t.Context(), f.value); errs.KindOf(err) != errs.Unauthorized {
			t.Fatalf("a key of a removed member: %v", err)
		}
	})
}

func TestFlushStoresTheLastUse(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		var keyID string
		for range 3 {
			f.advance(time.Second)
			c, err := f.checker.Authenticate(t.Context(), f.value)
			if err != nil {
				t.Fatal(err)
			}
			keyID = c.KeyID
		}
		for range 2 {
			if err := f.checker.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			k, err := f.store.Get(t.Context(), f.caller, keyID)
			if err != nil || k.LastUsedAt == nil || int64(*k.LastUsedAt) != f.now.Load() {
				t.Fatalf("got %+v, %v", k, err)
			}
		}
	})
}

func TestKeysOfOthersAreNotFound(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d)
		c, err := f.checker.Authenticate(t.Context(), f.value)
		if err != nil {
			t.Fatal(err)
		}
		for _, other := range []*auth.Caller{
			{OrgID: f.caller.OrgID, UserID: "usr_other", Role: auth.Member},
			{OrgID: "org_other", UserID: f.caller.UserID, Role: auth.Owner},
		} {
			if _, err := f.store.Get(t.Context(), other, c.KeyID); errs.KindOf(err) != errs.NotFound {
				t.Errorf("%+v can see the key: %v", other, err)
			}
		}
	})
}
