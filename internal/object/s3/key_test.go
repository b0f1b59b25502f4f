package s3_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"

	"steward/internal/object"
)

var oddKeys = []string{
	"a", "a/b", "a/b/", "d//x", "x/", "/leading", "//two", "a..b", "..hidden", "x/../y", "x/./y", "...", "~tilde", "a b", " a", "a+b", "a%b", "a%2Fb",
	"a?b=c&d", "a#b", "a\\b", `"quoted"`, "'", "a:b@c;d,e=f", "<xml>&amp;", "ü", "u\u0308", "日本語/キー", "\U0001F600", "\u200b", "new\nline", "tab\t", "\x01\x7f",
	strings.Repeat("k", 1024), strings.Repeat("ü", 512), "UPPER", "upper",
}

func TestOddKeys(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		for _, key := range oddKeys {
			f.put(b, key, "content of "+key)
		}
		want := slices.Sorted(slices.Values(oddKeys))
		if diff := cmp.Diff(want, f.keys(b)); diff != "" {
			t.Errorf("index (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, f.listV2(b, "", "", 7)); diff != "" {
			t.Errorf("list (-want +got):\n%s", diff)
		}
		for _, key := range oddKeys {
			if got := f.get(b, key); got != "content of "+key {
				t.Errorf("content of %q = %q", key, got)
			}
			_, err := f.client(b).CopyObject(t.Context(), minio.CopyDestOptions{Bucket: b.Name, Object: key, ReplaceMetadata: true},
				minio.CopySrcOptions{Bucket: b.Name, Object: key})
			if err != nil {
				t.Errorf("copy of %q: %v", key, err)
			}
			check(t, f.client(b).RemoveObject(t.Context(), b.Name, key, minio.RemoveObjectOptions{}))
		}
		if got := f.keys(b); len(got) != 0 {
			t.Errorf("keys after deletion = %q", got)
		}
	})
}

func TestRefusedKeys(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	for path, code := range map[string]string{
		"/docs/" + strings.Repeat("k", 1025): "KeyTooLongError",
		"/docs/%FF":                          "InvalidURI",
		"/docs/a%00b":                        "InvalidURI",
		"/docs/%":                            "InvalidURI",
		"/docs/a%zz":                         "InvalidURI",
		"/docs/..":                           "",
		"/docs/../x":                         "",
		"/docs/a/../../x":                    "",
	} {
		for _, method := range []string{"PUT", "GET", "DELETE"} {
			if got := f.raw(b, method, path); got.status != 400 || !strings.Contains(got.body, code) {
				t.Errorf("%s %s: got %d %s, want %s", method, path, got.status, got.body, code)
			}
		}
	}
	if got := f.keys(b); len(got) != 0 {
		t.Errorf("keys = %q", got)
	}
}

// raw sends a path as it is.
func (f *fixture) raw(b *object.Bucket, method, path string) response {
	f.Helper()
	r := f.request(call{method: method, path: "/"})
	r.URL.Opaque = "//" + f.address + path
	f.sign(r, call{by: b})
	resp, err := http.DefaultClient.Do(r)
	check(f, err)
	defer resp.Body.Close()
	return response{resp.StatusCode, resp.Header, readAll(f, resp.Body)}
}
