package registration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"steward/internal/audit"
	"steward/internal/audit/audittest"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/oidc/registration"
)

// fixture is a store on a real database with a clock that tests advance.
type fixture struct {
	*registration.Store
	t     *testing.T
	ctx   context.Context
	owner *auth.Caller
	now   time.Time
}

func each(t *testing.T, test func(t *testing.T, f *fixture)) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := &fixture{
			t: t, now: time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC),
			owner: &auth.Caller{OrgID: "org_1", UserID: "usr_1", Role: auth.Owner},
		}
		f.ctx = auth.With(t.Context(), f.owner)
		_, err := d.Exec(t.Context(), `INSERT INTO orgs (id, name, created_at) VALUES ('org_1', 'o', 0)`)
		must(t, err)
		f.Store = &registration.Store{
			DB: d, Now: func() time.Time { return f.now },
			Audit: &audit.Store{Now: time.Now},
		}
		test(t, f)
	})
}

func (f *fixture) create(caller *auth.Caller, n registration.NewToken) registration.Created {
	f.t.Helper()
	made, err := f.Create(f.ctx, caller, n)
	must(f.t, err)
	return made
}

// use counts a use of a token.
func (f *fixture) use(value string) error {
	return f.DB.Write(f.ctx, func(tx *db.Tx) error { return f.Use(tx, value) })
}

// wantRefused requires that a token can be neither checked nor used.
func (f *fixture) wantRefused(value, why string) {
	f.t.Helper()
	if _, err := f.Check(f.ctx, value); !errors.Is(err, registration.ErrToken) {
		f.t.Errorf("%s: Check returns %v", why, err)
	}
	if err := f.use(value); !errors.Is(err, registration.ErrToken) {
		f.t.Errorf("%s: Use returns %v", why, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestTokenEndsWithItsUsesAndItsTime(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		twice := f.create(f.owner, registration.NewToken{Name: new("twice"), Uses: new(int64(2))})
		hour := f.create(f.owner, registration.NewToken{ExpiresIn: new(int64(3600))})
		forever := f.create(f.owner, registration.NewToken{})
		for range 2 {
			must(t, f.use(twice.Value))
		}
		f.wantRefused(twice.Value, "used up")
		must(t, f.use(hour.Value))
		f.now = f.now.Add(time.Hour)
		f.wantRefused(hour.Value, "expired")
		f.wantRefused("", "empty")
		f.wantRefused(forever.Value+"x", "unknown")
		g, err := f.Check(f.ctx, forever.Value)
		must(t, err)
		if g.OrgID != "org_1" || !g.Allows("thread:write") {
			t.Errorf("got %+v", g)
		}
		list, err := f.List(f.ctx, "org_1")
		must(t, err)
		if len(list) != 3 || list[2].Used != 2 || list[2].Name != "twice" {
			t.Errorf("got %+v", list)
		}
		must(t, f.Delete(f.ctx, f.owner, forever.ID))
		f.wantRefused(forever.Value, "deleted")
	})
}

func TestTokenBelongsToOneOrganization(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		made := f.create(f.owner, registration.NewToken{})
		stranger := &auth.Caller{OrgID: "org_2", UserID: "usr_2", Role: auth.Owner}
		if err := f.Delete(f.ctx, stranger, made.ID); errs.KindOf(err) != errs.NotFound {
			t.Errorf("a stranger deletes the token: %v", err)
		}
		list, err := f.List(f.ctx, "org_2")
		must(t, err)
		if len(list) != 0 {
			t.Errorf("a stranger sees %+v", list)
		}
	})
}

func TestTokenAllowsNoMoreThanItsCreatorHas(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		restricted := *f.owner
		restricted.Scopes = []string{"oauth:write", "thread:read", "openid"}
		g, err := f.Check(f.ctx, f.create(&restricted, registration.NewToken{}).Value)
		must(t, err)
		for scope, want := range map[string]bool{"openid": true, "email": true, "thread:read": true, "thread:write": false} {
			if g.Allows(scope) != want {
				t.Errorf("%s: %v", scope, !want)
			}
		}
	})
}

func TestOrganizationHasAHundredTokensThatCanBeUsed(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		f.create(f.owner, registration.NewToken{ExpiresIn: new(int64(60))})
		for range 99 {
			f.create(f.owner, registration.NewToken{})
		}
		_, err := f.Create(f.ctx, f.owner, registration.NewToken{})
		if errs.KindOf(err) != errs.Conflict {
			t.Errorf("got %v", err)
		}
		f.now = f.now.Add(time.Minute)
		f.create(f.owner, registration.NewToken{}) // instead of the one that has expired
		list, err := f.List(f.ctx, "org_1")
		must(t, err)
		actions := audittest.New(t, f.DB).Read("action")
		if len(list) != 100 || len(actions) != 101 {
			t.Errorf("%d tokens, %d entries of the audit log", len(list), len(actions))
		}
	})
}
