package object

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/name"
	"steward/internal/waittest"
)

func TestValidName(t *testing.T) {
	for text, want := range map[string]bool{
		"abc": true, "a-b.c": true, "0ab": true, strings.Repeat("a", 63): true, "my.bucket.1": true, "1.2.3": true,
		"": false, "ab": false, strings.Repeat("a", 64): false, "Abc": false, "a_b": false, "-abc": false, "abc-": false, ".abc": false,
		"abc.": false, "a..b": false, "192.0.2.1": false, "xn--abc": false, "abc-s3alias": false, "a/b": false, "äbc": false, "abc\n": false,
	} {
		if name.ValidBucket(text) != want {
			t.Errorf("ValidBucket(%q) = %v", text, !want)
		}
	}
}

func TestBucketLife(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		var webhooks []string
		f.buckets.Webhooks = hooks{
			create: func(name string) { webhooks = append(webhooks, "create "+name) },
			remove: func(_ *db.Tx, orgID, webhookID string) error {
				webhooks = append(webhooks, "delete "+orgID+" "+webhookID)
				return nil
			},
		}
		made := f.bucket(alice, "photos")
		byName, err := f.buckets.ByName(t.Context(), "photos")
		must(t, err)
		byKey, err := f.buckets.ByAccessKey(t.Context(), made.AccessKey)
		must(t, err)
		for _, got := range []*Bucket{byName, byKey} {
			if diff := cmp.Diff(made, got, cmp.AllowUnexported(Bucket{})); diff != "" {
				t.Errorf("-made +got:\n%s", diff)
			}
		}
		if made.WebhookID != "wh_1" || len(made.AccessKey) != 20 || len(made.SecretKey) != 40 || made.OrgID != "org_a" {
			t.Errorf("made %+v", made)
		}
		var sealed []byte
		must(t, d.Read(t.Context()).Row(`SELECT secret FROM buckets`).Scan(&sealed))
		if strings.Contains(string(sealed), made.SecretKey) {
			t.Error("the secret is stored in plain text")
		}
		var rotated *Bucket
		must(t, d.Write(as(alice), func(tx *db.Tx) error {
			rotated, err = f.buckets.RotateKeys(tx, BucketRef{"org_a", "local", "photos"})
			return err
		}))
		_, err = f.buckets.ByAccessKey(t.Context(), made.AccessKey)
		mustBe(t, err, errs.NotFound)
		again, err := f.buckets.ByAccessKey(t.Context(), rotated.AccessKey)
		must(t, err)
		if again.SecretKey != rotated.SecretKey || again.SecretKey == made.SecretKey {
			t.Error("the secret is not new")
		}
		mustBe(t, f.deleteBucket(bob, "photos", false), errs.NotFound)
		f.put(made, "k", "x")
		mustBe(t, f.deleteBucket(alice, "photos", true), errs.Conflict)
		must(t, f.deleteBucket(alice, "photos", false))
		_, err = f.buckets.ByName(t.Context(), "photos")
		mustBe(t, err, errs.NotFound)
		_, err = f.buckets.ByAccessKey(t.Context(), rotated.AccessKey)
		mustBe(t, err, errs.NotFound)
		if diff := cmp.Diff([]string{"create Bucket photos", "delete org_a wh_1"}, webhooks); diff != "" {
			t.Errorf("webhooks -want +got:\n%s", diff)
		}
		if diff := cmp.Diff([]string{"bucket.create photos", "bucket.rotate photos", "bucket.delete photos"}, f.audit.Read("action || ' ' || target")); diff != "" {
			t.Errorf("audit -want +got:\n%s", diff)
		}
	})
}

func TestNewBucketHasNothingOfAnOldOneWithItsName(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		old := f.bucket(alice, "photos")
		for _, key := range listedKeys() {
			f.put(old, key, "x")
		}
		f.multipart(old, "m", "abc", "def")
		_, err := f.uploads.Create(t.Context(), old, PutRequest{Key: "k"})
		must(t, err)
		must(t, f.deleteBucket(alice, "photos", false))
		b := f.bucket(bob, "photos")
		listed, err := f.index.Page(t.Context(), b, "", 0, 10)
		must(t, err)
		if listed.Total != 0 || len(listed.Objects) != 0 {
			t.Errorf("%d objects", listed.Total)
		}
		f.put(b, "a", "new")
		must(t, f.cleaner.Purge(t.Context()))
		must(t, f.cleaner.Purge(t.Context()))
		if f.read(b, "a") != "new" {
			t.Error("other bytes")
		}
		f.check()
		left := map[string]bool{}
		f.set(left, `SELECT bucket_id FROM objects UNION SELECT bucket_id FROM object_blocks UNION SELECT bucket_id FROM object_uploads
			UNION SELECT bucket_id FROM bucket_purges`)
		if len(left) != 1 || !left[b.ID] {
			t.Errorf("rows of %v", left)
		}
	})
}

func TestBucketNames(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		create := func(n NewBucket) (b *Bucket, err error) {
			return b, d.Write(as(bob), func(tx *db.Tx) error {
				b, err = f.buckets.Create(tx, bob, n)
				return err
			})
		}
		f.bucket(alice, "photos")
		_, err := create(NewBucket{Name: "photos"})
		mustBe(t, err, errs.Conflict)
		_, err = create(NewBucket{Name: "Photos"})
		mustBe(t, err, errs.Invalid)
		b, err := create(NewBucket{Region: "here"})
		must(t, err)
		if !name.ValidBucket(b.Name) {
			t.Errorf("made the name %q", b.Name)
		}
		_, err = create(NewBucket{Name: "another", Region: "there"})
		must(t, err)
		for region, want := range map[string]int{"": 2, "here": 1, "there": 1, "nowhere": 0} {
			got, err := f.buckets.List(t.Context(), "org_b", region)
			must(t, err)
			if len(got) != want {
				t.Errorf("%d buckets in %q", len(got), region)
			}
		}
		for _, name := range []string{"\xff", "a\x00b", "../x", ""} {
			_, err := f.buckets.ByName(t.Context(), name)
			mustBe(t, err, errs.NotFound)
		}
	})
}

// TestCredentialsEndOnOtherReplicas has two processes with caches of their own.
func TestCredentialsEndOnOtherReplicas(t *testing.T) {
	options := dbtest.Options(t, db.Postgres)
	open := func() *fixture {
		d, err := db.Open(t.Context(), options)
		must(t, err)
		t.Cleanup(func() { must(t, d.Close()) })
		return newFixture(t, d, small)
	}
	here, there := open(), open()
	watch, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { there.db.RunWatch(watch) })
	defer func() {
		stop()
		running.Wait()
	}()
	b := here.bucket(alice, "photos")
	known := func(key string) bool {
		_, err := there.buckets.ByAccessKey(t.Context(), key)
		return err == nil
	}
	if !known(b.AccessKey) {
		t.Fatal("the new bucket is not known")
	}
	must(t, here.db.Write(as(alice), func(tx *db.Tx) (err error) {
		b, err = here.buckets.RotateKeys(tx, BucketRef{"org_a", "local", "photos"})
		return err
	}))
	if !known(b.AccessKey) {
		t.Fatal("the new key is not known")
	}
	must(t, here.deleteBucket(alice, "photos", false))
	waittest.True(t, "the end of the credentials", func() bool { return !known(b.AccessKey) })
	_, err := there.index.Put(t.Context(), b, PutRequest{Key: "k"}, strings.NewReader("x"), 1)
	mustBe(t, err, errs.NotFound)
}
