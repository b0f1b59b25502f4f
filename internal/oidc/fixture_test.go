package oidc

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/account"
	"steward/internal/audit"
	"steward/internal/audit/audittest"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/oidc/keys"
	"steward/internal/oidc/keys/keystest"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// fixture is a store on a real database with an organization and its owner, and a clock that tests
// advance.
type fixture struct {
	*Store
	t      testing.TB
	h      *Handler
	caller *auth.Caller
	ctx    context.Context
	clock  *atomic.Int64
	// gone has the calls of ConsentGone, which returns goneErr.
	gone    []string
	goneErr error
}

func newFixture(t testing.TB, d *db.DB) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: &atomic.Int64{}}
	f.clock.Store(time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC).UnixMicro())
	f.Store = f.replica(d)
	ring, err := seal.NewRing(make([]byte, seal.KeySize))
	must(t, err)
	signing := &keys.Store{DB: d, Ring: ring, Now: f.now, Log: slog.New(slog.DiscardHandler), Audit: f.Store.Audit, NewRSA: keystest.NewRSA()}
	d.Watch(keys.Cache, signing.Forget)
	f.h = &Handler{Store: f.Store, Keys: signing, BaseURL: "https://steward.example"}
	f.caller = f.member(id.New(id.Org), auth.Owner)
	f.ctx = auth.With(t.Context(), f.caller)
	return f
}

// audits returns the action and the target of each entry in the audit log.
func (f *fixture) audits() []string {
	return audittest.New(f.t, f.DB).Read("action || ' ' || target")
}

// replica returns the store of another process on the same database.
func (f *fixture) replica(d *db.DB) *Store {
	s := &Store{
		DB: d, Now: f.now,
		Audit:    &audit.Store{Now: f.now},
		Accounts: &account.Store{DB: d, Now: f.now, Audit: &audit.Store{Now: f.now}},
		ConsentGone: []func(*db.Tx, string, string, string) error{
			func(_ *db.Tx, orgID, clientID, userID string) error {
				f.gone = append(f.gone, orgID+" "+clientID+" "+userID)
				return f.goneErr
			},
		},
	}
	d.Watch(Cache, s.Forget)
	d.Watch(auth.Callers, s.Forget)
	return s
}

func (f *fixture) now() time.Time { return time.UnixMicro(f.clock.Load()) }

func (f *fixture) advance(d time.Duration) { f.clock.Add(d.Microseconds()) }

// member adds a new user to an organization.
func (f *fixture) member(orgID string, role auth.Role) *auth.Caller {
	f.t.Helper()
	c := &auth.Caller{UserID: id.New(id.User), OrgID: orgID, Role: role, KeyID: id.New(id.Key)}
	must(f.t, f.DB.Write(f.t.Context(), func(tx *db.Tx) error {
		if _, err := tx.Exec(`INSERT INTO orgs (id, name, created_at) VALUES ($1, 'o', 0)
			ON CONFLICT (id) DO NOTHING`, c.OrgID); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO members (org_id, user_id, role, version, created_at, updated_at)
			VALUES ($1, $2, $3, 1, $4, $4)`, c.OrgID, c.UserID, c.Role, stamp.Of(f.now()))
		return err
	}))
	return c
}

// removeMember removes a user from an organization.
func (f *fixture) removeMember(orgID, userID string) {
	f.t.Helper()
	must(f.t, f.DB.Write(f.t.Context(), func(tx *db.Tx) error {
		if _, err := tx.Exec(`DELETE FROM members WHERE org_id = $1 AND user_id = $2`, orgID, userID); err != nil {
			return err
		}
		if err := f.ForgetMember(tx, orgID, userID); err != nil {
			return err
		}
		return tx.Invalidate(auth.Callers)
	}))
}

// client creates a client.
func (f *fixture) client(s Settings) Created {
	f.t.Helper()
	c, err := f.h.Create(f.ctx, &CreateRequest{Body: NewClient{
		Name: "Notes", Description: "Keeps notes", HomepageURL: "https://notes.example", Settings: s,
	}})
	must(f.t, err)
	f.advance(time.Second)
	return c
}

func (f *fixture) consent(clientID, userID string, scopes ...string) Consent {
	f.t.Helper()
	c, err := f.SaveConsent(f.ctx, clientID, userID, append([]string{}, scopes...), nil)
	must(f.t, err)
	f.advance(time.Second)
	return c
}

func (f *fixture) live(c Consent) bool {
	f.t.Helper()
	live, err := f.Live(f.ctx, c.ClientID, c.UserID, c.ClientEpoch, c.Epoch)
	must(f.t, err)
	return live
}

func (f *fixture) userCount(clientID string) int64 {
	f.t.Helper()
	l, err := f.Get(f.ctx, f.caller.OrgID, clientID)
	must(f.t, err)
	return l.UserCount
}

// rows returns the number of rows in a table.
func (f *fixture) rows(table string) (n int) {
	f.t.Helper()
	must(f.t, f.DB.Read(f.ctx).Row(`SELECT count(*) FROM `+table).Scan(&n))
	return n
}

// each runs a test on both databases.
func each(t *testing.T, test func(t *testing.T, f *fixture)) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(t, newFixture(t, d)) })
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantKind(t testing.TB, err error, kind errs.Kind) {
	t.Helper()
	if errs.KindOf(err) != kind {
		t.Errorf("got %q (%v), want %q", errs.KindOf(err), err, kind)
	}
}

// whole is a page that is larger than the lists of these tests.
var whole = page.Paging{Limit: 1000}
