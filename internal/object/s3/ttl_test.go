package s3_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"steward/internal/object"
	"steward/internal/page"
)

// TestObjectPastItsTTLIsGoneAtOnce reads an object in every way before the worker has deleted it.
func TestObjectPastItsTTLIsGoneAtOnce(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("photos")
		f.configure(b, object.Patch{TTL: page.Some(int64(3600)), Public: page.Some(true)})
		f.put(b, "old", "content")
		written := time.Now()
		presigned, err := f.server.Presign(b, "old", "GET", time.Hour)
		check(t, err)
		anonymous := func(url string) int {
			resp, err := http.Get(url)
			check(t, err)
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body)
			return resp.StatusCode
		}
		source := map[string]string{"X-Amz-Copy-Source": "/photos/old"}
		reads := map[string]func() int{
			"GET":        func() int { return f.do(call{method: "GET", path: "/photos/old", by: b}).status },
			"HEAD":       func() int { return f.do(call{method: "HEAD", path: "/photos/old", by: b}).status },
			"tags":       func() int { return f.do(call{method: "GET", path: "/photos/old?tagging", by: b}).status },
			"copy":       func() int { return f.do(call{method: "PUT", path: "/photos/copy", header: source, by: b}).status },
			"presigned":  func() int { return anonymous(presigned) },
			"public GET": func() int { return anonymous(f.server.Origin + "/photos/old") },
		}
		for what, read := range reads {
			if got := read(); got != http.StatusOK {
				t.Errorf("%s within the ttl: %d", what, got)
			}
		}
		f.now = func() time.Time { return written.Add(time.Hour + time.Second) }
		for what, read := range reads {
			if got := read(); got != http.StatusNotFound {
				t.Errorf("%s past the ttl: %d, want 404", what, got)
			}
		}
		if len(f.keys(b)) == 0 {
			t.Fatal("the worker has deleted the object")
		}
		f.configure(b, object.Patch{TTL: page.Some(int64(7200))})
		if got := reads["GET"](); got != http.StatusOK {
			t.Errorf("GET within a longer ttl: %d", got)
		}
		f.configure(b, object.Patch{TTL: page.Some(int64(3600))})
		create := call{method: "PUT", path: "/photos/old", header: map[string]string{"If-None-Match": "*"}, body: "new", by: b}
		f.do(create).want(t, "creating what is past its ttl", 200, "")
		if got := f.get(b, "old"); got != "new" {
			t.Errorf("it was created as %q", got)
		}
	})
}
