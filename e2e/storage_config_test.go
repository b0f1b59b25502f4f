package e2e

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"

	"steward/e2e/installation"
	"steward/internal/db"
	objects "steward/internal/object"
)

// unconfiguredBucket is the configuration of a bucket that has none.
func unconfiguredBucket(b installation.Bucket) object {
	return object{
		"bucket_name": b.Name, "bucket_location": "local", "storage_tier": nil, "ttl": nil, "public": nil,
		"cache_control": nil, "cors": nil, "additional_headers": nil,
	}
}

func TestBucketConfigurationIsKeptAndReset(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		b := s.NewBucket("site")
		config := func() (c object) {
			s.Call("GET", "/bucket/config/site", nil).Want(200).Decode(&c)
			return c
		}
		if diff := cmp.Diff(unconfiguredBucket(b), config()); diff != "" {
			t.Errorf("at first (-want +got):\n%s", diff)
		}
		want := object{
			"storage_tier": "ARCHIVE", "ttl": 60.0, "public": true, "cache_control": "no-store",
			"cors": object{"allowed_origins": []any{"*"}}, "additional_headers": object{"X-A": "1"},
		}
		for name, value := range want {
			b.Configure(object{name: value})
		}
		want["bucket_name"] = "site"
		want["bucket_location"] = "local"
		s.Stop()
		s.Start()
		if diff := cmp.Diff(want, config()); diff != "" {
			t.Errorf("after a restart (-want +got):\n%s", diff)
		}
		b.Configure(object{"ttl": 0, "public": nil})
		want["ttl"] = nil
		want["public"] = nil
		if diff := cmp.Diff(want, config()); diff != "" {
			t.Errorf("two fields cleared (-want +got):\n%s", diff)
		}
		s.Call("PUT", "/bucket/config/site", object{"storage_tier": "COLD"}).Want(422)
		if reset := s.Call("DELETE", "/bucket/config/site", nil).Want(200); len(reset.Body) > 0 {
			t.Errorf("the response is %q", reset.Body)
		}
		if diff := cmp.Diff(unconfiguredBucket(b), config()); diff != "" {
			t.Errorf("after the reset (-want +got):\n%s", diff)
		}
	})
}

func TestPublicBucketIsReadByAnybodyAndNothingElse(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	b, private := s.NewBucket("site"), s.NewBucket("private")
	b.Put("index.html", "hello")
	private.Put("index.html", "secret")
	s.S3("GET", "/site/index.html", "").Want(403)
	b.Configure(object{"public": true})
	if got := s.S3("GET", "/site/index.html", "", "Range", "bytes=1-2").Want(206); string(got.Body) != "el" {
		t.Errorf("got %q", got.Body)
	}
	s.S3("HEAD", "/site/index.html", "").Want(200)
	if got := private.Signed("GET", "/site/index.html", "").Want(200); string(got.Body) != "hello" {
		t.Errorf("got %q", got.Body)
	}
	const deletion = "<Delete><Object><Key>index.html</Key></Object></Delete>"
	sum := md5.Sum([]byte(deletion))
	for _, r := range [][3]string{
		{"GET", "/site"},
		{"GET", "/site?list-type=2"},
		{"GET", "/site?uploads="},
		{"GET", "/site?policy="},
		{"PUT", "/site/index.html", "changed"},
		{"PUT", "/site/new", "new"},
		{"DELETE", "/site/index.html"},
		{"POST", "/site?delete=", deletion},
		{"POST", "/site/new?uploads="},
		{"PUT", "/site/index.html?tagging=", "<Tagging><TagSet></TagSet></Tagging>"},
		{"GET", "/private/index.html"},
	} {
		headers := []string{}
		if r[2] == deletion {
			headers = []string{"Content-Md5", base64.StdEncoding.EncodeToString(sum[:])}
		}
		s.S3(r[0], r[1], r[2], headers...).WantDenied()
		if strings.HasPrefix(r[1], "/site") {
			private.Signed(r[0], r[1], r[2], headers...).WantDenied()
		}
	}
	if got := b.Keys(""); !slices.Equal(got, []string{"index.html"}) || b.Get("index.html") != "hello" {
		t.Errorf("keys are %q", got)
	}
	b.Configure(object{"public": false})
	s.S3("GET", "/site/index.html", "").Want(403)
}

func TestCORSAllowsConfiguredOriginsAndTheBaseURL(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	b := s.NewBucket("site")
	b.Put("a", "x")
	preflight := func(origin, method string) *installation.Response {
		t.Helper()
		return s.S3("OPTIONS", "/site/a", "", "Origin", origin, "Access-Control-Request-Method", method,
			"Access-Control-Request-Headers", "content-type")
	}
	const app = "https://app.example.com"
	allowed := func(r *installation.Response) string { return r.Header.Get("Access-Control-Allow-Origin") }
	for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
		if got := preflight(s.URL, method).Want(200); allowed(got) != s.URL {
			t.Errorf("%s from the base URL: %v", method, got.Header)
		}
		preflight(app, method).Want(403)
	}
	b.Configure(object{"cors": object{
		"allowed_origins": []string{app}, "allowed_methods": []string{"PUT"}, "allowed_headers": []string{"content-type"},
		"expose_headers": []string{"X-Extra"}, "max_age_seconds": 60,
	}})
	if got := preflight(app, "PUT").Want(200); allowed(got) != app || got.Header.Get("Access-Control-Max-Age") != "60" {
		t.Errorf("preflight: %v", got.Header)
	}
	preflight(app, "DELETE").Want(403)
	preflight("https://evil.example.com", "PUT").Want(403)
	if got := preflight(s.URL, "DELETE").Want(200); allowed(got) != s.URL {
		t.Errorf("from the base URL: %v", got.Header)
	}
	put := b.Signed("PUT", "/site/a", "y", "Origin", app).Want(200)
	if allowed(put) != app || !strings.Contains(put.Header.Get("Access-Control-Expose-Headers"), "X-Extra") {
		t.Errorf("PUT: %v", put.Header)
	}
	refused := s.S3("GET", "/site/a", "", "Origin", s.URL).Want(403)
	if allowed(refused) != s.URL {
		t.Errorf("the console cannot read why it is refused: %v", refused.Header)
	}
}

func TestConfiguredHeadersAndTier(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		b := s.NewBucket("site")
		b.Put("standard", "1234")
		b.Configure(object{
			"public": true, "cache_control": "public, max-age=60", "storage_tier": "INFREQUENT_ACCESS",
			"additional_headers": object{"X-Content-Type-Options": "nosniff"},
		})
		b.Put("plain", "1234")
		s.Must(b.TryPut("own", "1234", minio.PutObjectOptions{CacheControl: "no-store", StorageClass: "GLACIER_IR"}))
		for _, o := range []struct{ key, cache, class string }{
			{"standard", "public, max-age=60", "STANDARD"},
			{"plain", "public, max-age=60", "STANDARD_IA"},
			{"own", "no-store", "GLACIER_IR"},
		} {
			got := s.S3("GET", "/site/"+o.key, "").Want(200).Header
			if got.Get("Cache-Control") != o.cache || got.Get("X-Content-Type-Options") != "nosniff" || got.Get("X-Amz-Storage-Class") != o.class {
				t.Errorf("%s: %v", o.key, got)
			}
		}
		classes := map[string]string{}
		for _, o := range b.List("") {
			classes[o.Key] = o.StorageClass
		}
		if diff := cmp.Diff(map[string]string{"standard": "STANDARD", "plain": "STANDARD_IA", "own": "GLACIER_IR"}, classes); diff != "" {
			t.Errorf("classes (-want +got):\n%s", diff)
		}
		cost := s.Call("GET", "/storage/analytics", nil).Want(200).Get("summary.cost_per_gb_month").(float64)
		if want := (0.02 + 0.01 + 0.004) / 3; cost < want-1e-9 || cost > want+1e-9 {
			t.Errorf("a GB costs %v, want %v", cost, want)
		}
	})
}

// TestObjectsExpire lets the worker run an hour later on the stopped installation.
func TestObjectsExpire(t *testing.T) {
	t.Parallel()
	installation.Each(t, func(t *testing.T, s *installation.Steward) {
		b, kept := s.NewBucket("logs"), s.NewBucket("kept")
		b.Put("old", "123")
		kept.Put("old", "45678")
		b.Configure(object{"ttl": 3600})
		expire := func(after time.Duration) {
			now := func() time.Time { return time.Now().Add(after) }
			offlineObjects(s, now, func(ctx context.Context, _ *db.DB, cleaner *objects.Cleaner) { s.Must(cleaner.Expire(ctx)) })
		}
		expire(59 * time.Minute)
		if b.Get("old") != "123" {
			t.Error("the object has changed")
		}
		expire(time.Hour)
		got := b.Signed("GET", "/logs/old", "").Want(http.StatusNotFound)
		if !strings.Contains(string(got.Body), "NoSuchKey") || b.ListObjects("").Total != 0 || kept.ListObjects("").Total != 1 || kept.Get("old") != "45678" {
			t.Errorf("after an hour: %s", got.Body)
		}
		if size := s.Call("GET", "/storage/analytics", nil).Want(200).Get("summary.total_size"); size != 5.0 {
			t.Errorf("%v bytes", size)
		}
	})
}
