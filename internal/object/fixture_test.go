package object

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/audit"
	"steward/internal/audit/audittest"
	"steward/internal/auth"
	"steward/internal/blob"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/seal"
	"steward/internal/webhook"
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
	http  *Handler
	parts

	mu     sync.Mutex
	audit  *audittest.Log
	events []Event
}

// parts are the parts of the slice in one process.
type parts struct {
	buckets *Buckets
	blobs   *Blobs
	index   *Index
	uploads *Uploads
	totals  *Totals
	cleaner *Cleaner
}

// small limits have blocks split and merge in tests of few objects.
var small = Limits{MaxBlock: 8, MergeBlock: 5, MinBlock: 3, Batch: 7}

func newFixture(t testing.TB, d *db.DB, limits Limits) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir(), db: d, audit: audittest.New(t, d), clock: &clock{at: time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC)}}
	f.parts = f.newParts(f.disk(), limits)
	f.http = &Handler{Buckets: f.buckets, Index: f.index, Totals: f.totals, Audit: f.buckets.Audit, Expiry: time.Hour}
	return f
}

// disk opens the directory of the blobs.
func (f *fixture) disk() *blob.Disk {
	f.t.Helper()
	disk, err := blob.OpenDisk(filepath.Join(f.dir, "blobs"))
	must(f.t, err)
	return disk
}

// newParts returns the parts of a process.
func (f *fixture) newParts(bytes blob.Store, limits Limits) (p parts) {
	now := f.clock.now
	log := slog.New(slog.DiscardHandler)
	ring, err := seal.NewRing([]byte("0123456789abcdef0123456789abcdef"))
	must(f.t, err)
	p.buckets = &Buckets{DB: f.db, Ring: ring, Now: now, Audit: &audit.Store{Now: now}}
	p.blobs = &Blobs{DB: f.db, Store: bytes, Now: now, Log: log}
	p.index = &Index{DB: f.db, Blobs: p.blobs, Now: now, Webhooks: hooks{event: f.event}, Limits: limits}
	p.uploads = &Uploads{DB: f.db, Index: p.index, Blobs: p.blobs, Now: now, MinPart: 3}
	p.totals = &Totals{DB: f.db, Now: now}
	p.cleaner = &Cleaner{DB: f.db, Buckets: p.buckets, Index: p.index, Blobs: p.blobs, Now: now, Log: log}
	f.db.Watch(Cache, p.buckets.Forget)
	return p
}

// event keeps events that are committed.
func (f *fixture) event(tx *db.Tx, bodies [][]byte) error {
	tx.OnCommit(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, body := range bodies {
			f.events = append(f.events, parseEvent(f.t, body))
		}
	})
	return nil
}

// parseEvent returns what tests read in a notification.
func parseEvent(t rapid.TB, body []byte) Event {
	var n struct {
		Records []struct {
			EventName         string
			RequestParameters struct{ SourceIPAddress string }
			S3                struct {
				Object struct {
					Key, ETag string
					Size      int64
				}
			}
		}
	}
	must(t, json.Unmarshal(body, &n))
	r := n.Records[0]
	key, err := url.QueryUnescape(r.S3.Object.Key)
	must(t, err)
	return Event{
		Name: r.EventName, Key: key, Size: r.S3.Object.Size, ETag: r.S3.Object.ETag,
		Origin: Origin{Address: r.RequestParameters.SourceIPAddress},
	}
}

// hooks are webhooks that tests watch; nil functions do nothing.
type hooks struct {
	create func(name string)
	remove func(tx *db.Tx, orgID, webhookID string) error
	event  func(tx *db.Tx, bodies [][]byte) error
}

func (h hooks) CreateInternalTx(_ *db.Tx, _ webhook.Creator, name string, _ map[string]string) (string, error) {
	if h.create != nil {
		h.create(name)
	}
	return "wh_1", nil
}

func (h hooks) DeleteInternalTx(tx *db.Tx, orgID, webhookID string) error {
	if h.remove == nil {
		return nil
	}
	return h.remove(tx, orgID, webhookID)
}

func (h hooks) AcceptEventsTx(tx *db.Tx, _, _ string, bodies [][]byte) error {
	return h.event(tx, bodies)
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
		b, err = f.buckets.Create(tx, c, NewBucket{Name: name, Region: "local"})
		return err
	}))
	return b
}

func (f *fixture) deleteBucket(c *auth.Caller, name string, ifEmpty bool) error {
	ref := BucketRef{c.OrgID, "local", name}
	return f.db.Write(as(c), func(tx *db.Tx) error { return f.buckets.Delete(tx, ref, ifEmpty) })
}

func (f *fixture) put(b *Bucket, key, content string) Object {
	f.t.Helper()
	o, err := f.index.Put(context.Background(), b, PutRequest{Key: key}, strings.NewReader(content), int64(len(content)))
	must(f.t, err)
	return o
}

func (f *fixture) read(b *Bucket, key string) string {
	f.t.Helper()
	o, err := f.index.Get(context.Background(), b, key)
	must(f.t, err)
	r, err := f.blobs.Open(context.Background(), o, 0, -1)
	must(f.t, err)
	all, err := io.ReadAll(r)
	must(f.t, err)
	must(f.t, r.Close())
	return string(all)
}

func (f *fixture) context() context.Context { return context.Background() }

// noMatch is an update without a condition.
var noMatch page.IfMatch
