package object

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/page"
)

func patch(t *testing.T, text string) (p Patch) {
	t.Helper()
	must(t, json.Unmarshal([]byte(text), &p))
	return p
}

func encoded(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	must(t, err)
	return string(text)
}

type configIn = struct {
	Bucket string `path:"bucket" example:"invoices"`
	page.IfMatch
	Body Patch
}

type bucketIn = struct {
	Bucket string `path:"bucket" example:"invoices"`
}

type resetIn = struct {
	Bucket string `path:"bucket" example:"invoices"`
	page.IfMatch
}

const unconfigured = `{"bucket_name":"photos","storage_tier":null,"ttl":null,"public":null,"cache_control":null,"cors":null,` +
	`"additional_headers":null,"bucket_location":"local"}`

func TestConfig(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		f.bucket(alice, "photos")
		got, err := f.http.Config(as(alice), &bucketIn{"photos"})
		must(t, err)
		if text := encoded(t, got); text != unconfigured {
			t.Errorf("never configured: %s", text)
		}
		const cors = `{"allowed_origins":["https://*.example.com","*"],"allowed_methods":["GET"],"max_age_seconds":0}`
		for _, step := range []struct{ patch, want string }{
			{
				`{"storage_tier":"ARCHIVE","ttl":60,"public":true,"cache_control":"max-age=1","cors":` + cors + `,"additional_headers":{"X-A":"b"}}`,
				`{"bucket_name":"photos","storage_tier":"ARCHIVE","ttl":60,"public":true,"cache_control":"max-age=1","cors":` + cors +
					`,"additional_headers":{"X-A":"b"},"bucket_location":"local"}`,
			},
			{ // absent leaves, null resets, 0 clears the ttl; what is read-only is ignored
				`{"ttl":0,"cors":null,"bucket_name":"other","bucket_location":"x"}`,
				`{"bucket_name":"photos","storage_tier":"ARCHIVE","ttl":null,"public":true,"cache_control":"max-age=1","cors":null,` +
					`"additional_headers":{"X-A":"b"},"bucket_location":"local"}`,
			},
			{
				`{"storage_tier":null,"public":false,"cache_control":null,"additional_headers":null,"ttl":5}`,
				`{"bucket_name":"photos","storage_tier":null,"ttl":5,"public":false,"cache_control":null,"cors":null,` +
					`"additional_headers":null,"bucket_location":"local"}`,
			},
		} {
			updated, err := f.http.UpdateConfig(as(alice), &configIn{Bucket: "photos", Body: patch(t, step.patch)})
			must(t, err)
			got, err = f.http.Config(as(alice), &bucketIn{"photos"})
			must(t, err)
			for _, text := range []string{encoded(t, updated), encoded(t, got)} {
				if text != step.want {
					t.Errorf("after %s:\n%s, want\n%s", step.patch, text, step.want)
				}
			}
		}
		_, err = f.http.UpdateConfig(as(alice), &configIn{Bucket: "photos", IfMatch: page.IfMatch{IfMatch: `"1"`}})
		mustBe(t, err, errs.PreconditionFailed)
		_, err = f.http.ResetConfig(as(alice), &resetIn{Bucket: "photos", IfMatch: page.IfMatch{IfMatch: `"1"`}})
		mustBe(t, err, errs.PreconditionFailed)
		_, err = f.http.ResetConfig(as(alice), &resetIn{Bucket: "photos", IfMatch: page.IfMatch{IfMatch: got.ETag()}})
		must(t, err)
		got, err = f.http.Config(as(alice), &bucketIn{"photos"})
		must(t, err)
		if text := encoded(t, got); text != unconfigured {
			t.Errorf("after reset: %s", text)
		}
		want := []string{"bucket.create photos", "bucket.configure photos", "bucket.configure photos", "bucket.configure photos", "bucket.reset photos"}
		if diff := cmp.Diff(want, f.audit.Read("action || ' ' || target")); diff != "" {
			t.Errorf("audit -want +got:\n%s", diff)
		}
	})
}

func TestInvalidConfig(t *testing.T) {
	for text, at := range map[string]string{
		`{"storage_tier":"GLACIER"}`: "body.storage_tier",
		`{"storage_tier":""}`:        "body.storage_tier",
		`{"ttl":-1}`:                 "body.ttl",
		`{"ttl":4000000000}`:         "body.ttl",
		`{"cache_control":"a\r\nb"}`: "body.cache_control",
		`{"cache_control":"` + strings.Repeat("x", 5000) + `"}`:            "body.cache_control",
		`{"cors":{"allowed_origins":["example.com"]}}`:                     "body.cors.allowed_origins[0]",
		`{"cors":{"allowed_origins":["https://a.b/path"]}}`:                "body.cors.allowed_origins[0]",
		`{"cors":{"allowed_origins":["https://*.*.b"]}}`:                   "body.cors.allowed_origins[0]",
		`{"cors":{"allowed_origins":["https://u@b"]}}`:                     "body.cors.allowed_origins[0]",
		`{"cors":{"allowed_methods":["PATCH"]}}`:                           "body.cors.allowed_methods[0]",
		`{"cors":{"allowed_headers":["a b"]}}`:                             "body.cors.allowed_headers[0]",
		`{"cors":{"expose_headers":["a:b"]}}`:                              "body.cors.expose_headers[0]",
		`{"cors":{"max_age_seconds":-1}}`:                                  "body.cors.max_age_seconds",
		`{"additional_headers":{"Set-Cookie":"a=b"}}`:                      "body.additional_headers.Set-Cookie",
		`{"additional_headers":{"transfer-encoding":"x"}}`:                 "body.additional_headers.transfer-encoding",
		`{"additional_headers":{"Connection":"x"}}`:                        "body.additional_headers.Connection",
		`{"additional_headers":{"X-Amz-Meta-A":"x"}}`:                      "body.additional_headers.X-Amz-Meta-A",
		`{"additional_headers":{"Content-Length":"1"}}`:                    "body.additional_headers.Content-Length",
		`{"additional_headers":{"a b":"x"}}`:                               "body.additional_headers.a b",
		`{"additional_headers":{"a":"x\ny"}}`:                              "body.additional_headers.a",
		`{"additional_headers":{"a":"` + strings.Repeat("x", 5000) + `"}}`: "body.additional_headers.a",
	} {
		_, err := patch(t, text).Apply(Config{})
		mustBe(t, err, errs.Invalid)
		if !strings.Contains(err.Error(), at+":") {
			t.Errorf("%.60s: %v, want a fault at %s", text, err, at)
		}
	}
	_, err := patch(t, `{"ttl":-1,"storage_tier":"x","cors":{"allowed_methods":["x"]}}`).Apply(Config{})
	if n := strings.Count(err.Error(), "body."); n != 3 {
		t.Errorf("%d faults: %v", n, err)
	}
	for _, text := range []string{
		`{"cors":{"allowed_origins":["*","http://localhost:3000","https://a.b","*://a.b"],"allowed_headers":["*","X-*"],"expose_headers":["ETag"]}}`,
		`{"additional_headers":{"X-Frame-Options":"DENY","Content-Security-Policy":"default-src 'none'"}}`, `{"additional_headers":{}}`, `{"cors":{}}`,
	} {
		_, err := patch(t, text).Apply(Config{})
		must(t, err)
	}
}

// TestPatchDoesNotChangeItsArgument: configurations are shared by requests.
func TestPatchDoesNotChangeItsArgument(t *testing.T) {
	ttl := int64(5)
	before := Config{TTL: &ttl, AdditionalHeaders: map[string]string{"a": "b"}}
	_, err := patch(t, `{"ttl":9,"additional_headers":{"c":"d"}}`).Apply(before)
	must(t, err)
	if *before.TTL != 5 || before.AdditionalHeaders["a"] != "b" || len(before.AdditionalHeaders) != 1 {
		t.Errorf("changed to %+v", before)
	}
}

// TestConcurrentPatchesAreAllKept has patches of different fields meet.
func TestConcurrentPatchesAreAllKept(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		f := newFixture(t, d, small)
		b := f.bucket(alice, "photos")
		var all sync.WaitGroup
		for _, text := range []string{`{"ttl":60}`, `{"public":true}`, `{"cache_control":"no-store"}`, `{"storage_tier":"ARCHIVE"}`, `{"cors":{}}`} {
			p := patch(t, text)
			all.Go(func() {
				if _, err := f.buckets.UpdateConfig(as(alice), b, p, noMatch); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		got, err := f.buckets.ByName(t.Context(), "photos")
		must(t, err)
		c := got.Config
		if c.TTL == nil || c.Public == nil || c.CacheControl == nil || c.StorageTier == nil || c.CORS == nil || got.version != 6 {
			t.Errorf("got %+v, version %d", c, got.version)
		}
	})
}
