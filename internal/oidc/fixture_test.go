package oidc

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/oidc/keys"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/stamp"
)

// bench is a store on a real database with an organization and its owner, and a clock that tests move.
type bench struct {
	*Store
	t      testing.TB
	h      *Handler
	caller *auth.Caller
	ctx    context.Context
	clock  *atomic.Int64
	audits []string
}

func newBench(t testing.TB, d *db.DB) *bench {
	t.Helper()
	b := &bench{t: t, clock: &atomic.Int64{}}
	b.clock.Store(time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC).UnixMicro())
	b.Store = b.replica(d)
	ring, err := seal.NewRing(make([]byte, seal.KeySize))
	must(t, err)
	signing := &keys.Store{DB: d, Ring: ring, Now: b.now, Audit: b.Store.Audit}
	d.Watch(keys.Cache, signing.Forget)
	b.h = &Handler{Store: b.Store, Keys: signing, BaseURL: "https://steward.example"}
	b.caller = b.member(id.New(id.Org), auth.Owner)
	b.ctx = auth.With(t.Context(), b.caller)
	return b
}

// replica is another process on the same database.
func (b *bench) replica(d *db.DB) *Store {
	s := &Store{
		DB: d, Now: b.now,
		Audit: func(_ *db.Tx, action, target string) error {
			b.audits = append(b.audits, action+" "+target)
			return nil
		},
		Project: func(_ *db.Tx, _ *auth.Caller, location, projectID string) error {
			if !id.Foreign(projectID) {
				return errs.Wrong(location, "expected a project id")
			}
			return nil
		},
	}
	d.Watch(Cache, s.Forget)
	d.Watch(auth.Callers, s.Forget)
	return s
}

func (b *bench) now() time.Time { return time.UnixMicro(b.clock.Load()) }

func (b *bench) pass(d time.Duration) { b.clock.Add(d.Microseconds()) }

// member adds a user to an organization.
func (b *bench) member(orgID string, role auth.Role) *auth.Caller {
	b.t.Helper()
	c := &auth.Caller{UserID: id.New(id.User), OrgID: orgID, Role: role, KeyID: id.New(id.Key)}
	must(b.t, b.DB.Write(b.t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO members (org_id, user_id, role, version, created_at, updated_at) VALUES ($1, $2, $3, 1, $4, $4)`,
			c.OrgID, c.UserID, c.Role, stamp.Of(b.now()))
		return err
	}))
	return c
}

func (b *bench) leaves(orgID, userID string) {
	b.t.Helper()
	must(b.t, b.DB.Write(b.t.Context(), func(tx *db.Tx) error {
		if _, err := tx.Exec(`DELETE FROM members WHERE org_id = $1 AND user_id = $2`, orgID, userID); err != nil {
			return err
		}
		if err := b.ForgetMember(tx, orgID, userID); err != nil {
			return err
		}
		return tx.Bump(auth.Callers)
	}))
}

// client makes a client with these settings.
func (b *bench) client(s Settings) Created {
	b.t.Helper()
	c, err := b.h.Create(b.ctx, &struct{ Body NewClient }{NewClient{
		Name: "Notes", Description: "Keeps notes", HomepageURL: "https://notes.example", Settings: s,
	}})
	must(b.t, err)
	b.pass(time.Second)
	return c
}

func (b *bench) consent(clientID, userID string, scopes ...string) Consent {
	b.t.Helper()
	c, err := b.SaveConsent(b.ctx, clientID, userID, append([]string{}, scopes...), nil)
	must(b.t, err)
	b.pass(time.Second)
	return c
}

func (b *bench) live(c Consent) bool {
	b.t.Helper()
	live, err := b.Live(b.ctx, c.ClientID, c.UserID, c.ClientEpoch, c.Epoch)
	must(b.t, err)
	return live
}

func (b *bench) userCount(clientID string) int64 {
	b.t.Helper()
	l, err := b.Get(b.ctx, b.caller.OrgID, clientID)
	must(b.t, err)
	return l.UserCount
}

// rows counts the rows of a table.
func (b *bench) rows(table string) (n int) {
	b.t.Helper()
	must(b.t, b.DB.Read(b.ctx).Row(`SELECT count(*) FROM `+table).Scan(&n))
	return n
}

// each runs a test on both databases.
func each(t *testing.T, test func(t *testing.T, b *bench)) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) { test(t, newBench(t, d)) })
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

var whole = page.Paging{Limit: 1000}
