package s3_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/object"
	"steward/internal/object/s3"
	"steward/internal/page"
)

func TestConfiguredHeaders(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("site")
	f.put(b, "plain", "x")
	_, err := f.client(b).PutObject(t.Context(), b.Name, "own", strings.NewReader("x"), 1, minio.PutObjectOptions{CacheControl: "no-store", ContentType: "text/css"})
	check(t, err)
	f.configure(b, object.Patch{
		CacheControl:      page.Some("public, max-age=3600"),
		AdditionalHeaders: page.Some(map[string]string{"X-Frame-Options": "DENY", "Content-Type": "text/evil"}),
	})
	for _, method := range []string{"GET", "HEAD"} {
		got := f.do(call{method: method, path: "/site/plain", by: b})
		if got.header.Get("Cache-Control") != "public, max-age=3600" || got.header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("%s: headers %v", method, got.header)
		}
		got = f.do(call{method: method, path: "/site/own", by: b})
		if got.header.Get("Cache-Control") != "no-store" || got.header.Get("Content-Type") != "text/css" || len(got.header.Values("Content-Type")) != 1 {
			t.Errorf("%s of an object with its own: headers %v", method, got.header)
		}
	}
	if got := f.do(call{method: "GET", path: "/site", by: b}); got.header.Get("X-Frame-Options") != "" {
		t.Errorf("headers of a list: %v", got.header)
	}
	check(t, f.buckets.ResetConfig(t.Context(), b, page.IfMatch{}))
	if got := f.do(call{method: "GET", path: "/site/plain", by: b}); got.header.Get("Cache-Control") != "" || got.header.Get("X-Frame-Options") != "" {
		t.Errorf("headers after a reset: %v", got.header)
	}
}

// TestConfiguredHeadersDoNotReplaceOthers has names in another spelling than that of the server.
func TestConfiguredHeadersDoNotReplaceOthers(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("site")
	_, err := f.client(b).PutObject(t.Context(), b.Name, "own", strings.NewReader("x"), 1, minio.PutObjectOptions{CacheControl: "no-store", ContentType: "text/css"})
	check(t, err)
	f.configure(b, object.Patch{AdditionalHeaders: page.Some(map[string]string{
		"content-type": "text/evil", "cache-CONTROL": "public", "accept-ranges": "none", "x-extra": "1",
	})})
	for _, method := range []string{"GET", "HEAD"} {
		got := f.do(call{method: method, path: "/site/own", by: b}).header
		for name, want := range map[string]string{"Content-Type": "text/css", "Cache-Control": "no-store", "Accept-Ranges": "bytes", "X-Extra": "1"} {
			if values := got.Values(name); len(values) != 1 || values[0] != want {
				t.Errorf("%s: %s is %q, want %q", method, name, values, want)
			}
		}
		for _, name := range []string{"X-Amz-Request-Id", "X-Amz-Id-2"} {
			if values := got.Values(name); len(values) != 1 || values[0] == "" {
				t.Errorf("%s: %s is %q", method, name, values)
			}
		}
	}
}

func TestCORS(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("site")
	f.put(b, "a", "x")
	preflight := func(origin, method, headers string) response {
		return f.do(call{method: "OPTIONS", path: "/site/a", header: map[string]string{
			"Origin": origin, "Access-Control-Request-Method": method, "Access-Control-Request-Headers": headers,
		}})
	}
	const app = "https://app.example.com"
	if got := preflight(app, "GET", ""); got.status != 403 || got.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("without a configuration: got %d %v", got.status, got.header)
	}
	maxAge := int64(600)
	f.configure(b, object.Patch{CORS: page.Some(object.CORS{
		AllowedOrigins: []string{"https://*.example.com"}, AllowedMethods: []string{"GET", "PUT"},
		AllowedHeaders: []string{"content-type", "x-amz-*"}, ExposeHeaders: []string{"x-amz-request-id"}, MaxAgeSeconds: &maxAge,
	})})
	got := preflight(app, "PUT", "content-type, x-amz-date")
	want := map[string]string{
		"Access-Control-Allow-Origin": app, "Access-Control-Allow-Methods": "GET, PUT", "Access-Control-Max-Age": "600",
		"Access-Control-Allow-Headers": "content-type, x-amz-date",
	}
	for name, value := range want {
		if got.status != 200 || got.header.Get(name) != value {
			t.Errorf("preflight: got %d, %s = %q, want %q", got.status, name, got.header.Get(name), value)
		}
	}
	for what, refused := range map[string]response{
		"origin": preflight("https://evil.example.org", "GET", ""), "method": preflight(app, "DELETE", ""), "header": preflight(app, "PUT", "x-other"),
	} {
		if refused.status != 403 || refused.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("preflight with another %s: got %d %v", what, refused.status, refused.header)
		}
	}
	got = f.do(call{method: "GET", path: "/site/a", by: b, header: map[string]string{"Origin": app}})
	if got.header.Get("Access-Control-Allow-Origin") != app || !strings.Contains(got.header.Get("Access-Control-Expose-Headers"), "x-amz-request-id") {
		t.Errorf("GET: headers %v", got.header)
	}
	got = f.do(call{method: "GET", path: "/site/a", by: b, header: map[string]string{"Origin": "https://evil.example.org"}})
	if got.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("GET from another origin: headers %v", got.header)
	}
}

func TestConsoleIsAlwaysAllowed(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("site")
	f.put(b, "a", "x")
	for _, configured := range []bool{false, true} {
		if configured {
			f.configure(b, object.Patch{CORS: page.Some(object.CORS{AllowedOrigins: []string{"*"}})})
		}
		got := f.do(call{method: "OPTIONS", path: "/site/a", header: map[string]string{
			"Origin": console, "Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "content-type",
		}})
		if got.status != 200 || got.header.Get("Access-Control-Allow-Origin") != console {
			t.Errorf("preflight: got %d %v", got.status, got.header)
		}
		for path, by := range map[string]*object.Bucket{"/site/a": b, "/site/none": b, "/unknown/a": nil, "/site/b": nil} {
			got := f.do(call{method: "GET", path: path, by: by, header: map[string]string{"Origin": console}})
			if got := got.header.Values("Access-Control-Allow-Origin"); len(got) != 1 || got[0] != console {
				t.Errorf("GET %s: Access-Control-Allow-Origin = %q", path, got)
			}
		}
	}
}

func TestVirtualHostedStyle(t *testing.T) {
	const domain = "s3.example.com"
	f := start(t, dbtest.Open(t, db.SQLite), &s3.Server{Domain: domain})
	for _, name := range []string{"docs", "a.b.c", "s3.example.com", "www.example.org"} {
		b := f.newBucket(name)
		c, err := minio.New(domain, &minio.Options{
			Creds: credentials.NewStaticV4(b.AccessKey, b.SecretKey, ""), BucketLookup: minio.BucketLookupDNS, Region: s3.DefaultRegion,
			Transport: f.dialing(), MaxRetries: 1,
		})
		check(t, err)
		_, err = c.PutObject(t.Context(), name, "a/ü b", strings.NewReader(name), int64(len(name)), minio.PutObjectOptions{})
		check(t, err)
		if got := f.get(b, "a/ü b"); got != name {
			t.Errorf("%s in path style: %q", name, got)
		}
		_, err = c.StatObject(t.Context(), name, "a/ü b", minio.StatObjectOptions{})
		check(t, err)
		for o := range c.ListObjects(t.Context(), name, minio.ListObjectsOptions{Recursive: true}) {
			check(t, o.Err)
			if o.Key != "a/ü b" {
				t.Errorf("%s: key %q", name, o.Key)
			}
		}
	}
}

// dialing returns a transport that connects to the server whatever the host is.
func (f *fixture) dialing() http.RoundTripper {
	t := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, f.address)
	}}
	f.Cleanup(t.CloseIdleConnections)
	return t
}
