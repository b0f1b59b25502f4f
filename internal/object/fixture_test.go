package object

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/auth"
	"steward/internal/blob"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/seal"
)

// clock is a clock that a test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// fixture is the slice on a database and a directory.
type fixture struct {
	t     rapid.TB
	dir   string
	db    *db.DB
	clock *clock
	store *Store
	http  *Handler

	mu     sync.Mutex
	audit  []string
	events []Event
}

// small limits have blocks split and merge in tests of few objects.
var small = Limits{MaxBlock: 8, MergeBlock: 5, MinBlock: 3, Batch: 7, MinPart: 3}

func newFixture(t testing.TB, d *db.DB, limits Limits) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir(), db: d, clock: &clock{at: time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC)}}
	f.store = f.newStore(f.disk(), limits)
	f.http = &Handler{Store: f.store, Expiry: time.Hour}
	return f
}

// disk opens the directory of the blobs.
func (f *fixture) disk() *blob.Disk {
	f.t.Helper()
	disk, err := blob.OpenDisk(filepath.Join(f.dir, "blobs"))
	must(f.t, err)
	return disk
}

// newStore returns the store of a process.
func (f *fixture) newStore(blobs blob.Store, limits Limits) *Store {
	ring, err := seal.NewRing([]byte("0123456789abcdef0123456789abcdef"))
	must(f.t, err)
	s := &Store{
		DB: f.db, Blobs: blobs, Ring: ring, Now: f.clock.now, Log: slog.New(slog.DiscardHandler), Limits: limits,
		Audit: func(_ *db.Tx, action, target string) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.audit = append(f.audit, action+" "+target)
			return nil
		},
		Event: func(tx *db.Tx, b *Bucket, events []Event) error {
			tx.OnCommit(func() {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.events = append(f.events, events...)
			})
			return nil
		},
	}
	f.db.Watch(Cache, s.Forget)
	return s
}

var (
	alice = &auth.Caller{OrgID: "org_a", UserID: "usr_alice", Role: auth.Owner, KeyID: "key_a"}
	bob   = &auth.Caller{OrgID: "org_b", UserID: "usr_bob", Role: auth.Owner, KeyID: "key_b"}
	vera  = &auth.Caller{OrgID: "org_a", UserID: "usr_vera", Role: auth.Viewer, KeyID: "key_v"}
)

func as(c *auth.Caller) context.Context { return auth.With(context.Background(), c) }

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustBe(t rapid.TB, err error, kind errs.Kind) {
	t.Helper()
	if errs.KindOf(err) != kind {
		t.Fatalf("got %v, want %s", err, kind)
	}
}

func (f *fixture) bucket(c *auth.Caller, name string) *Bucket {
	f.t.Helper()
	var b *Bucket
	must(f.t, f.db.Write(as(c), func(tx *db.Tx) (err error) {
		b, err = f.store.CreateBucket(tx, c, NewBucket{Name: name, Region: "local"})
		return err
	}))
	return b
}

func (f *fixture) deleteBucket(c *auth.Caller, name string, ifEmpty bool) error {
	return f.db.Write(as(c), func(tx *db.Tx) error { return f.store.DeleteBucket(tx, c.OrgID, "local", name, ifEmpty) })
}

func (f *fixture) put(b *Bucket, key, content string) Object {
	f.t.Helper()
	o, err := f.store.Put(context.Background(), b, PutRequest{Key: key}, strings.NewReader(content), int64(len(content)))
	must(f.t, err)
	return o
}

func (f *fixture) read(b *Bucket, key string) string {
	f.t.Helper()
	o, err := f.store.Get(context.Background(), b, key)
	must(f.t, err)
	r, err := f.store.Open(context.Background(), o, 0, -1)
	must(f.t, err)
	all, err := io.ReadAll(r)
	must(f.t, err)
	must(f.t, r.Close())
	return string(all)
}

func (f *fixture) context() context.Context { return context.Background() }

// noMatch is an update without a condition.
var noMatch page.IfMatch
