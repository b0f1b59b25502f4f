package s3_test

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/tags"

	"steward/internal/object"
	"steward/internal/page"
)

func TestObjectIsStoredWithItsHeaders(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		content := "hello, world"
		expires := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
		info, err := f.client(b).PutObject(t.Context(), b.Name, "a/b.txt", strings.NewReader(content), int64(len(content)), minio.PutObjectOptions{
			ContentType: "text/plain", ContentEncoding: "identity", ContentDisposition: `attachment; filename="b.txt"`,
			ContentLanguage: "en", CacheControl: "max-age=60", Expires: expires,
			UserMetadata: map[string]string{"color": "red", "size": "XL"}, UserTags: map[string]string{"team": "a b/c"},
		})
		check(t, err)
		sum := md5.Sum([]byte(content))
		if want := hex.EncodeToString(sum[:]); info.ETag != want {
			t.Errorf("ETag = %q, want %q", info.ETag, want)
		}
		if got := f.get(b, "a/b.txt"); got != content {
			t.Errorf("content = %q, want %q", got, content)
		}
		stat, err := f.client(b).StatObject(t.Context(), b.Name, "a/b.txt", minio.StatObjectOptions{})
		check(t, err)
		want := http.Header{
			"Content-Type": {"text/plain"}, "Content-Encoding": {"identity"}, "Content-Language": {"en"}, "Cache-Control": {"max-age=60"},
			"Content-Disposition": {`attachment; filename="b.txt"`}, "Expires": {expires.Format(http.TimeFormat)},
			"X-Amz-Meta-Color": {"red"}, "X-Amz-Meta-Size": {"XL"}, "X-Amz-Storage-Class": {"STANDARD"}, "X-Amz-Tagging-Count": {"1"},
		}
		got := http.Header{}
		for name := range want {
			got[name] = stat.Metadata[name]
		}
		got.Set("Content-Type", stat.ContentType)
		got.Set("Expires", stat.Expires.UTC().Format(http.TimeFormat))
		got.Set("X-Amz-Tagging-Count", fmt.Sprint(stat.UserTagCount))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("headers (-want +got):\n%s", diff)
		}
		if stat.Size != int64(len(content)) || stat.ETag != info.ETag || time.Since(stat.LastModified) > time.Hour {
			t.Errorf("stat = %+v", stat)
		}
	})
}

func TestEmptyObject(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	f.put(b, "empty", "")
	if got := f.get(b, "empty"); got != "" {
		t.Errorf("content = %q", got)
	}
	f.do(call{method: "GET", path: "/docs/empty", by: b, header: map[string]string{"Range": "bytes=0-0"}}).
		want(t, "range of an empty object", http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
}

func TestRanges(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	f.put(b, "digits", "0123456789")
	for _, test := range []struct {
		header string
		status int
		body   string
		rng    string
	}{
		{"bytes=0-3", 206, "0123", "bytes 0-3/10"},
		{"bytes=7-", 206, "789", "bytes 7-9/10"},
		{"bytes=-2", 206, "89", "bytes 8-9/10"},
		{"bytes=8-100", 206, "89", "bytes 8-9/10"},
		{"bytes=-100", 206, "0123456789", "bytes 0-9/10"},
		{"lines=1-2", 200, "0123456789", ""},
		{"bytes=5-2", 200, "0123456789", ""},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			got := f.do(call{method: method, path: "/docs/digits", by: b, header: map[string]string{"Range": test.header}})
			body := test.body
			if method == "HEAD" {
				body = ""
			}
			if got.status != test.status || got.body != body || got.header.Get("Content-Range") != test.rng ||
				got.header.Get("Content-Length") != fmt.Sprint(len(test.body)) {
				t.Errorf("%s %s: got %d %q %v", method, test.header, got.status, got.body, got.header)
			}
		}
	}
	f.do(call{method: "GET", path: "/docs/digits", by: b, header: map[string]string{"Range": "bytes=10-"}}).
		want(t, "range after the end", http.StatusRequestedRangeNotSatisfiable, "InvalidRange")
}

// TestRangeOfAnotherObject continues a download after the object was replaced.
func TestRangeOfAnotherObject(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	etag := `"` + f.put(b, "a", "0123456789").ETag + `"`
	stat, err := f.client(b).StatObject(t.Context(), b.Name, "a", minio.StatObjectOptions{})
	check(t, err)
	for value, want := range map[string]string{
		etag: "56789", stat.LastModified.UTC().Format(http.TimeFormat): "56789", `"other"`: "0123456789",
		stat.LastModified.UTC().Add(-time.Hour).Format(http.TimeFormat): "0123456789",
	} {
		got := f.do(call{method: "GET", path: "/docs/a", by: b, header: map[string]string{"Range": "bytes=5-", "If-Range": value}})
		if got.body != want {
			t.Errorf("If-Range %s: got %d %q, want %q", value, got.status, got.body, want)
		}
	}
}

func TestConditionsOfReads(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	maxAge := "max-age=60"
	f.configure(b, object.Patch{CacheControl: page.Some(maxAge)})
	etag := `"` + f.put(b, "a", "x").ETag + `"`
	stat, err := f.client(b).StatObject(t.Context(), b.Name, "a", minio.StatObjectOptions{})
	check(t, err)
	modified := stat.LastModified.UTC().Format(http.TimeFormat)
	before := stat.LastModified.UTC().Add(-time.Hour).Format(http.TimeFormat)
	for _, test := range []struct {
		header, value string
		want          int
	}{
		{"If-Match", etag, 200},
		{"If-Match", `"other"`, 412},
		{"If-None-Match", etag, 304},
		{"If-None-Match", `"other"`, 200},
		{"If-Modified-Since", modified, 304},
		{"If-Modified-Since", before, 200},
		{"If-Unmodified-Since", modified, 200},
		{"If-Unmodified-Since", before, 412},
	} {
		for _, method := range []string{"GET", "HEAD"} {
			got := f.do(call{method: method, path: "/docs/a", by: b, header: map[string]string{test.header: test.value}})
			if got.status != test.want {
				t.Errorf("%s %s: %s: got %d, want %d", method, test.header, test.value, got.status, test.want)
			}
			h := got.header
			if test.want == 304 && (h.Get("ETag") != etag || h.Get("Last-Modified") != modified || h.Get("Cache-Control") != maxAge) {
				t.Errorf("%s %s: got %v", method, test.header, h)
			}
		}
	}
}

func TestConditionsOfWrites(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		put := func(content, header, value string) response {
			return f.do(call{method: "PUT", path: "/docs/a", by: b, body: content, header: map[string]string{header: value}})
		}
		put("1", "If-Match", `"x"`).want(t, "If-Match without an object", 404, "NoSuchKey")
		put("1", "If-None-Match", "*").want(t, "first write", 200, "")
		put("2", "If-None-Match", "*").want(t, "second write", 412, "PreconditionFailed")
		put("2", "If-Match", `"other"`).want(t, "If-Match of another object", 412, "PreconditionFailed")
		put("2", "If-None-Match", `"x"`).want(t, "If-None-Match with an ETag", 501, "NotImplemented")
		if got := f.get(b, "a"); got != "1" {
			t.Errorf("content = %q, want that of the first write", got)
		}
		sum := md5.Sum([]byte("1"))
		put("2", "If-Match", `"`+hex.EncodeToString(sum[:])+`"`).want(t, "If-Match of the object", 200, "")
		f.do(call{method: "DELETE", path: "/docs/a", by: b, header: map[string]string{"If-Match": `"other"`}}).
			want(t, "delete with If-Match of another object", 412, "PreconditionFailed")
		if got := f.get(b, "a"); got != "2" {
			t.Errorf("content = %q, want 2", got)
		}
	})
}

func TestOverwriteAndDelete(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		f.put(b, "a", "first")
		f.put(b, "a", "second")
		if got := f.get(b, "a"); got != "second" {
			t.Errorf("content = %q", got)
		}
		for range 2 {
			check(t, f.client(b).RemoveObject(t.Context(), b.Name, "a", minio.RemoveObjectOptions{}))
		}
		_, err := f.client(b).StatObject(t.Context(), b.Name, "a", minio.StatObjectOptions{})
		wantCode(t, "stat of a deleted object", err, "NoSuchKey")
		_, _, _, err = f.core(b).GetObject(t.Context(), b.Name, "a", minio.GetObjectOptions{})
		wantCode(t, "get of a deleted object", err, "NoSuchKey")
	})
}

func TestDeleteMany(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		for _, key := range []string{"a", "b", "c/d", "keep"} {
			f.put(b, key, key)
		}
		objects := make(chan minio.ObjectInfo, 10)
		for _, key := range []string{"a", "b", "c/d", "a", "never was"} {
			objects <- minio.ObjectInfo{Key: key}
		}
		close(objects)
		for result := range f.client(b).RemoveObjectsWithResult(t.Context(), b.Name, objects, minio.RemoveObjectsOptions{}) {
			check(t, result.Err)
		}
		if got := f.keys(b); !slices.Equal(got, []string{"keep"}) {
			t.Errorf("keys = %q", got)
		}
	})
}

func TestDeleteManyReportsEachInvalidKey(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	f.put(b, "a", "a")
	body := "<Delete><Object><Key>a</Key></Object><Object><Key>" + strings.Repeat("x", 1025) + "</Key></Object></Delete>"
	sum := md5.Sum([]byte(body))
	got := f.do(call{method: "POST", path: "/docs?delete=", by: b, body: body, header: map[string]string{"Content-Md5": base64Of(sum[:])}})
	if got.status != 200 || !strings.Contains(got.body, "<Deleted><Key>a</Key>") || !strings.Contains(got.body, "<Code>KeyTooLongError</Code>") {
		t.Errorf("got %d %s", got.status, got.body)
	}
	many := "<Delete>" + strings.Repeat("<Object><Key>a</Key></Object>", 1001) + "</Delete>"
	sum = md5.Sum([]byte(many))
	f.do(call{method: "POST", path: "/docs?delete=", by: b, body: many, header: map[string]string{"Content-Md5": base64Of(sum[:])}}).
		want(t, "1,001 keys", 400, "MalformedXML")
}

func TestCopy(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		c := f.client(b)
		_, err := c.PutObject(t.Context(), b.Name, "a b/ü", strings.NewReader("x"), 1, minio.PutObjectOptions{
			ContentType: "text/plain", UserMetadata: map[string]string{"color": "red"}, UserTags: map[string]string{"k": "v"},
		})
		check(t, err)
		src := minio.CopySrcOptions{Bucket: b.Name, Object: "a b/ü"}
		_, err = c.CopyObject(t.Context(), minio.CopyDestOptions{Bucket: b.Name, Object: "copy"}, src)
		check(t, err)
		stat, err := c.StatObject(t.Context(), b.Name, "copy", minio.StatObjectOptions{})
		check(t, err)
		if stat.ContentType != "text/plain" || stat.UserMetadata["Color"] != "red" || stat.UserTagCount != 1 || f.get(b, "copy") != "x" {
			t.Errorf("copy = %+v", stat)
		}
		_, err = c.CopyObject(t.Context(), minio.CopyDestOptions{
			Bucket: b.Name, Object: "copy", ReplaceMetadata: true, UserMetadata: map[string]string{"color": "blue"}, ReplaceTags: true,
		}, minio.CopySrcOptions{Bucket: b.Name, Object: "copy"})
		check(t, err)
		stat, err = c.StatObject(t.Context(), b.Name, "copy", minio.StatObjectOptions{})
		check(t, err)
		if stat.UserMetadata["Color"] != "blue" || stat.UserTagCount != 0 || f.get(b, "copy") != "x" {
			t.Errorf("copy onto itself = %+v", stat)
		}
		_, err = c.CopyObject(t.Context(), minio.CopyDestOptions{Bucket: b.Name, Object: "copy"}, minio.CopySrcOptions{Bucket: b.Name, Object: "copy"})
		wantCode(t, "copy onto itself without a change", err, "InvalidRequest")
		_, err = c.CopyObject(t.Context(), minio.CopyDestOptions{Bucket: b.Name, Object: "x"}, minio.CopySrcOptions{Bucket: b.Name, Object: "none"})
		wantCode(t, "copy of nothing", err, "NoSuchKey")
		src.MatchETag = "other"
		_, err = c.CopyObject(t.Context(), minio.CopyDestOptions{Bucket: b.Name, Object: "x"}, src)
		wantCode(t, "copy with a condition", err, "PreconditionFailed")
		src = minio.CopySrcOptions{Bucket: b.Name, Object: "a b/ü", NoMatchETag: stat.ETag}
		_, err = c.CopyObject(t.Context(), minio.CopyDestOptions{Bucket: b.Name, Object: "x"}, src)
		wantCode(t, "copy unless it is the same", err, "PreconditionFailed")
	})
}

func TestTags(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		f.put(b, "a", "x")
		want := map[string]string{"team": "storage", "cost": "1+2 = 3"}
		set, err := tags.MapToObjectTags(want)
		check(t, err)
		c := f.client(b)
		check(t, c.PutObjectTagging(t.Context(), b.Name, "a", set, minio.PutObjectTaggingOptions{}))
		got, err := c.GetObjectTagging(t.Context(), b.Name, "a", minio.GetObjectTaggingOptions{})
		check(t, err)
		if !maps.Equal(got.ToMap(), want) {
			t.Errorf("tags = %v, want %v", got.ToMap(), want)
		}
		check(t, c.RemoveObjectTagging(t.Context(), b.Name, "a", minio.RemoveObjectTaggingOptions{}))
		got, err = c.GetObjectTagging(t.Context(), b.Name, "a", minio.GetObjectTaggingOptions{})
		check(t, err)
		if len(got.ToMap()) != 0 {
			t.Errorf("tags = %v, want none", got.ToMap())
		}
		wantCode(t, "tags of nothing", c.PutObjectTagging(t.Context(), b.Name, "none", set, minio.PutObjectTaggingOptions{}), "NoSuchKey")
	})
}

// TestTagsKeepTheirOrder stores tags in each of the ways, in an order that is not that of their keys.
func TestTagsKeepTheirOrder(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		keys := strings.Split("zulu alpha m k-9 b:c ä 1 Z", " ")
		header := make([]string, len(keys))
		document := "<Tagging><TagSet>"
		for i, key := range keys {
			header[i] = url.QueryEscape(key) + "=" + strconv.Itoa(i)
			document += fmt.Sprintf("<Tag><Key>%s</Key><Value>%d</Value></Tag>", key, i)
		}
		document += "</TagSet></Tagging>"
		tagging := map[string]string{"X-Amz-Tagging": strings.Join(header, "&")}
		f.do(call{method: "PUT", path: "/docs/put", by: b, header: tagging, body: "x"}).want(t, "put", 200, "")
		f.put(b, "tagged", "x")
		f.do(call{method: "PUT", path: "/docs/tagged?tagging=", by: b, body: document}).want(t, "tag", 200, "")
		f.do(call{method: "PUT", path: "/docs/copied", by: b, header: map[string]string{"X-Amz-Copy-Source": "/docs/tagged"}}).want(t, "copy", 200, "")
		for _, key := range f.keys(b) {
			got := f.do(call{method: "GET", path: "/docs/" + key + "?tagging=", by: b})
			var tags struct {
				TagSet struct{ Tag []struct{ Key, Value string } }
			}
			check(t, xml.Unmarshal([]byte(got.body), &tags))
			got.want(t, key, 200, "")
			for i, tag := range tags.TagSet.Tag {
				if len(tags.TagSet.Tag) != len(keys) || tag.Key != keys[i] || tag.Value != strconv.Itoa(i) {
					t.Fatalf("%s: tags = %v", key, tags)
				}
			}
		}
	})
}

func TestStorageClassIsThatOfTheTier(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		for tier, want := range map[object.Tier]string{object.InfrequentAccess: "STANDARD_IA", object.Archive: "GLACIER_IR"} {
			b := f.newBucket("tier-" + strings.ToLower(strings.ReplaceAll(string(tier), "_", "-")))
			f.configure(b, object.Patch{StorageTier: page.Some(tier)})
			f.put(b, "a", "x")
			got := f.do(call{method: "HEAD", path: "/" + b.Name + "/a", by: b})
			if class := got.header.Get("X-Amz-Storage-Class"); class != want {
				t.Errorf("%s: class %q, want %q", tier, class, want)
			}
			for o := range f.client(b).ListObjects(t.Context(), b.Name, minio.ListObjectsOptions{}) {
				if o.StorageClass != want {
					t.Errorf("%s: listed class %q, want %q", tier, o.StorageClass, want)
				}
			}
		}
	})
}

func TestStorageClassOfARequestWins(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		f.configure(b, object.Patch{StorageTier: page.Some(object.Archive)})
		class := func(key string) string {
			return f.do(call{method: "HEAD", path: "/docs/" + key, by: b}).header.Get("X-Amz-Storage-Class")
		}
		send := func(method, path, body, class string, headers ...string) response {
			c := call{method: method, path: path, body: body, by: b, header: map[string]string{"X-Amz-Storage-Class": class}}
			for i := 0; i < len(headers); i += 2 {
				c.header[headers[i]] = headers[i+1]
			}
			return f.do(c)
		}
		for sent, want := range map[string]string{"": "GLACIER_IR", "STANDARD": "STANDARD", "ONEZONE_IA": "STANDARD_IA", "GLACIER": "GLACIER_IR"} {
			send("PUT", "/docs/put", "x", sent).want(t, "PUT", 200, "")
			if got := class("put"); got != want {
				t.Errorf("PUT with %q: got %s, want %s", sent, got, want)
			}
			_, err := f.client(b).PutObject(t.Context(), b.Name, "parts", bytes.NewReader(make([]byte, 6<<20)), 6<<20,
				minio.PutObjectOptions{StorageClass: sent, PartSize: 5 << 20})
			check(t, err)
			if got := class("parts"); got != want {
				t.Errorf("upload in parts with %q: got %s, want %s", sent, got, want)
			}
		}
		for _, path := range []string{"/docs/copy", "/docs/put"} { // also onto itself
			send("PUT", path, "", "STANDARD_IA", "X-Amz-Copy-Source", "/docs/put").want(t, "copy", 200, "")
			if got := class(strings.TrimPrefix(path, "/docs/")); got != "STANDARD_IA" {
				t.Errorf("copy to %s: got %s", path, got)
			}
		}
		send("PUT", "/docs/none", "x", "COLD").want(t, "PUT", 400, "InvalidStorageClass")
	})
}

func TestObjectAttributes(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	_, err := f.client(b).PutObject(t.Context(), b.Name, "a", strings.NewReader("x"), 1, minio.PutObjectOptions{Checksum: minio.ChecksumSHA256})
	check(t, err)
	got, err := f.client(b).GetObjectAttributes(t.Context(), b.Name, "a", minio.ObjectAttributesOptions{})
	check(t, err)
	if got.ObjectSize != 1 || got.StorageClass != "STANDARD" || got.Checksum.ChecksumSHA256 == "" {
		t.Errorf("attributes = %+v", got)
	}
}

// TestDeletionOfAVersionThatIsMissing deletes versions in a message. Only null is there.
func TestDeletionOfAVersionThatIsMissing(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	f.plant(b, []string{"a", "b"})
	message := `<Delete><Object><Key>a</Key><VersionId>other</VersionId></Object><Object><Key>b</Key><VersionId>null</VersionId></Object></Delete>`
	sum := md5.Sum([]byte(message))
	got := f.do(call{method: "POST", path: "/docs?delete", by: b, body: message, header: map[string]string{"Content-Md5": base64Of(sum[:])}})
	if got.status != 200 || !strings.Contains(got.body, "<Error><Key>a</Key><VersionId>other</VersionId><Code>InvalidArgument</Code>") ||
		!strings.Contains(got.body, "<Deleted><Key>b</Key><VersionId>null</VersionId></Deleted>") {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if keys := f.keys(b); !slices.Equal(keys, []string{"a"}) {
		t.Errorf("keys = %q", keys)
	}
}
