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

	"steward/internal/db"
	objects "steward/internal/object"
)

// configure changes the configuration of the bucket.
func (b bucket) configure(config object) {
	b.t.Helper()
	b.call("PUT", "/bucket/config/"+b.name, config).want(200)
}

// unconfigured is the configuration of a bucket that has none.
func (b bucket) unconfigured() object {
	return object{
		"bucket_name": b.name, "bucket_location": "local", "storage_tier": nil, "ttl": nil, "public": nil,
		"cache_control": nil, "cors": nil, "additional_headers": nil,
	}
}

func TestBucketConfigurationIsKeptAndReset(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		b := s.bucket("site")
		config := func() (c object) {
			s.call("GET", "/bucket/config/site", nil).want(200).decode(&c)
			return c
		}
		if diff := cmp.Diff(b.unconfigured(), config()); diff != "" {
			t.Errorf("at first (-want +got):\n%s", diff)
		}
		want := object{
			"storage_tier": "ARCHIVE", "ttl": 60.0, "public": true, "cache_control": "no-store",
			"cors": object{"allowed_origins": []any{"*"}}, "additional_headers": object{"X-A": "1"},
		}
		for name, value := range want {
			b.configure(object{name: value})
		}
		want["bucket_name"] = "site"
		want["bucket_location"] = "local"
		s.stop()
		s.start()
		if diff := cmp.Diff(want, config()); diff != "" {
			t.Errorf("after a restart (-want +got):\n%s", diff)
		}
		b.configure(object{"ttl": 0, "public": nil})
		want["ttl"] = nil
		want["public"] = nil
		if diff := cmp.Diff(want, config()); diff != "" {
			t.Errorf("two fields cleared (-want +got):\n%s", diff)
		}
		s.call("PUT", "/bucket/config/site", object{"storage_tier": "COLD"}).want(422)
		if reset := s.call("DELETE", "/bucket/config/site", nil).want(200); len(reset.body) > 0 {
			t.Errorf("the response is %q", reset.body)
		}
		if diff := cmp.Diff(b.unconfigured(), config()); diff != "" {
			t.Errorf("after the reset (-want +got):\n%s", diff)
		}
	})
}

func TestPublicBucketIsReadByAnybodyAndNothingElse(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		b, private := s.bucket("site"), s.bucket("private")
		b.put("index.html", "hello")
		private.put("index.html", "secret")
		s.s3("GET", "/site/index.html", "").want(403)
		b.configure(object{"public": true})
		if got := s.s3("GET", "/site/index.html", "", "Range", "bytes=1-2").want(206); string(got.body) != "el" {
			t.Errorf("got %q", got.body)
		}
		s.s3("HEAD", "/site/index.html", "").want(200)
		if got := private.signed("GET", "/site/index.html", "").want(200); string(got.body) != "hello" {
			t.Errorf("got %q", got.body)
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
			s.s3(r[0], r[1], r[2], headers...).wantDenied()
			if strings.HasPrefix(r[1], "/site") {
				private.signed(r[0], r[1], r[2], headers...).wantDenied()
			}
		}
		if got := b.keys(""); !slices.Equal(got, []string{"index.html"}) || b.get("index.html") != "hello" {
			t.Errorf("keys are %q", got)
		}
		b.configure(object{"public": false})
		s.s3("GET", "/site/index.html", "").want(403)
	})
}

func TestCORSAllowsConfiguredOriginsAndTheBaseURL(t *testing.T) {
	t.Parallel()
	s := start(t, "sqlite")
	b := s.bucket("site")
	b.put("a", "x")
	preflight := func(origin, method string) *response {
		t.Helper()
		return s.s3("OPTIONS", "/site/a", "", "Origin", origin, "Access-Control-Request-Method", method,
			"Access-Control-Request-Headers", "content-type")
	}
	const app = "https://app.example.com"
	allowed := func(r *response) string { return r.header.Get("Access-Control-Allow-Origin") }
	for _, method := range []string{"GET", "PUT", "POST", "DELETE"} {
		if got := preflight(s.URL, method).want(200); allowed(got) != s.URL {
			t.Errorf("%s from the base URL: %v", method, got.header)
		}
		preflight(app, method).want(403)
	}
	b.configure(object{"cors": object{
		"allowed_origins": []string{app}, "allowed_methods": []string{"PUT"}, "allowed_headers": []string{"content-type"},
		"expose_headers": []string{"X-Extra"}, "max_age_seconds": 60,
	}})
	if got := preflight(app, "PUT").want(200); allowed(got) != app || got.header.Get("Access-Control-Max-Age") != "60" {
		t.Errorf("preflight: %v", got.header)
	}
	preflight(app, "DELETE").want(403)
	preflight("https://evil.example.com", "PUT").want(403)
	if got := preflight(s.URL, "DELETE").want(200); allowed(got) != s.URL {
		t.Errorf("from the base URL: %v", got.header)
	}
	put := b.signed("PUT", "/site/a", "y", "Origin", app).want(200)
	if allowed(put) != app || !strings.Contains(put.header.Get("Access-Control-Expose-Headers"), "X-Extra") {
		t.Errorf("PUT: %v", put.header)
	}
	refused := s.s3("GET", "/site/a", "", "Origin", s.URL).want(403)
	if allowed(refused) != s.URL {
		t.Errorf("the console cannot read why it is refused: %v", refused.header)
	}
}

func TestConfiguredHeadersAndTier(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		b := s.bucket("site")
		b.put("standard", "1234")
		b.configure(object{
			"public": true, "cache_control": "public, max-age=60", "storage_tier": "INFREQUENT_ACCESS",
			"additional_headers": object{"X-Content-Type-Options": "nosniff"},
		})
		b.put("plain", "1234")
		s.must(b.tryPut("own", "1234", minio.PutObjectOptions{CacheControl: "no-store", StorageClass: "GLACIER_IR"}))
		for _, o := range []struct{ key, cache, class string }{
			{"standard", "public, max-age=60", "STANDARD"},
			{"plain", "public, max-age=60", "STANDARD_IA"},
			{"own", "no-store", "GLACIER_IR"},
		} {
			got := s.s3("GET", "/site/"+o.key, "").want(200).header
			if got.Get("Cache-Control") != o.cache || got.Get("X-Content-Type-Options") != "nosniff" || got.Get("X-Amz-Storage-Class") != o.class {
				t.Errorf("%s: %v", o.key, got)
			}
		}
		classes := map[string]string{}
		for _, o := range b.list("") {
			classes[o.Key] = o.StorageClass
		}
		if diff := cmp.Diff(map[string]string{"standard": "STANDARD", "plain": "STANDARD_IA", "own": "GLACIER_IR"}, classes); diff != "" {
			t.Errorf("classes (-want +got):\n%s", diff)
		}
		cost := s.call("GET", "/storage/analytics", nil).want(200).get("summary.cost_per_gb_month").(float64)
		if want := (0.02 + 0.01 + 0.004) / 3; cost < want-1e-9 || cost > want+1e-9 {
			t.Errorf("a GB costs %v, want %v", cost, want)
		}
	})
}

// TestObjectsExpire lets the worker run an hour later on the stopped installation.
func TestObjectsExpire(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		b, kept := s.bucket("logs"), s.bucket("kept")
		b.put("old", "123")
		kept.put("old", "45678")
		b.configure(object{"ttl": 3600})
		expire := func(after time.Duration) {
			now := func() time.Time { return time.Now().Add(after) }
			s.offlineObjects(now, func(ctx context.Context, _ *db.DB, cleaner *objects.Cleaner) { s.must(cleaner.Expire(ctx)) })
		}
		expire(59 * time.Minute)
		if b.get("old") != "123" {
			t.Error("the object has changed")
		}
		expire(time.Hour)
		got := b.signed("GET", "/logs/old", "").want(http.StatusNotFound)
		if !strings.Contains(string(got.body), "NoSuchKey") || b.objects("").Total != 0 || kept.objects("").Total != 1 || kept.get("old") != "45678" {
			t.Errorf("after an hour: %s", got.body)
		}
		if size := s.call("GET", "/storage/analytics", nil).want(200).get("summary.total_size"); size != 5.0 {
			t.Errorf("%v bytes", size)
		}
	})
}
