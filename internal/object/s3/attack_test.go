package s3_test

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"steward/internal/blob"
	"steward/internal/object"
	"steward/internal/object/s3/sigv4/sigv4test"
	"steward/internal/page"
)

// chunkedCall is an upload in chunks, signed or with a trailer.
func (f *fixture) chunkedCall(b *object.Bucket, payload, body string, size int, header map[string]string) response {
	f.Helper()
	all := map[string]string{"X-Amz-Decoded-Content-Length": fmt.Sprint(size), "Content-Encoding": "aws-chunked"}
	maps.Copy(all, header)
	return f.do(call{method: "PUT", path: "/docs/a", by: b, payload: payload, body: body, header: all})
}

// TestChunksCannotBeSmuggled sends bodies in chunks that are not what they say. The next request on the connection
// is answered, and nothing is stored.
func TestChunksCannotBeSmuggled(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	const unsigned, signed = "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
	crc := map[string]string{"X-Amz-Trailer": "x-amz-checksum-crc32"}
	const sum = "x-amz-checksum-crc32:NhCmhg==\r\n\r\n" // of hello
	f.chunkedCall(b, unsigned, "5\r\nhello\r\n0\r\n"+sum, 5, crc).want(t, "a correct body", 200, "")
	f.do(call{method: "DELETE", path: "/docs/a", by: b}).want(t, "delete", 204, "")
	hidden := "PUT /docs/hidden HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"
	for what, test := range map[string]struct {
		payload, body string
		size          int
		header        map[string]string
	}{
		"a longer chunk":                {unsigned, "4\r\nhello\r\n0\r\n" + sum, 5, crc},
		"a shorter chunk":               {unsigned, "6\r\nhello\r\n0\r\n" + sum, 5, crc},
		"more than announced":           {unsigned, "5\r\nhello\r\n0\r\n" + sum, 4, crc},
		"less than announced":           {unsigned, "5\r\nhello\r\n0\r\n" + sum, 6, crc},
		"a request after the end":       {unsigned, "5\r\nhello\r\n0\r\n" + sum + hidden, 5, crc},
		"a chunk after the end":         {unsigned, "5\r\nhello\r\n0\r\n" + sum + "5\r\nhello\r\n", 5, crc},
		"a huge chunk":                  {unsigned, "fffffffffffffff\r\nhello\r\n0\r\n" + sum, 5, crc},
		"an overflowing size":           {unsigned, "10000000000000005\r\nhello\r\n0\r\n" + sum, 5, crc},
		"a negative size":               {unsigned, "-5\r\nhello\r\n0\r\n" + sum, 5, crc},
		"an endless line":               {unsigned, strings.Repeat("0", 100_000), 5, crc},
		"no trailer":                    {unsigned, "5\r\nhello\r\n0\r\n\r\n", 5, crc},
		"another trailer":               {unsigned, "5\r\nhello\r\n0\r\nx-amz-checksum-sha1:qvTGHdzF6KLavt4PO0gs2a6pQ00=\r\n\r\n", 5, crc},
		"two trailers":                  {unsigned, "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n" + sum, 5, crc},
		"a header as trailer":           {unsigned, "5\r\nhello\r\n0\r\nx-amz-meta-a:b\r\n" + sum, 5, crc},
		"a large trailer":               {unsigned, "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:" + strings.Repeat("A", 100_000) + "\r\n\r\n", 5, crc},
		"a trailer that is a signature": {unsigned, "5\r\nhello\r\n0\r\nx-amz-trailer-signature:00\r\n" + sum, 5, crc},
		"a wrong checksum":              {unsigned, "5\r\nhallo\r\n0\r\n" + sum, 5, crc},
		"a trailer nobody announced":    {unsigned, "5\r\nhello\r\n0\r\n" + sum, 5, nil},
		"a trailer of metadata":         {unsigned, "5\r\nhello\r\n0\r\n" + sum, 5, map[string]string{"X-Amz-Trailer": "x-amz-meta-a"}},
		"a trailer without chunks":      {"UNSIGNED-PAYLOAD", "hello", 5, crc},
		"unsigned chunks":               {signed, "5\r\nhello\r\n0\r\n\r\n", 5, nil},
		"wrong signatures":              {signed, "5;chunk-signature=" + strings.Repeat("0", 64) + "\r\nhello\r\n0;chunk-signature=" + strings.Repeat("0", 64) + "\r\n\r\n", 5, nil},
		"no signature at the end":       {signed, "0;chunk-signature=\r\n\r\n", 0, nil},
		"signatures of a curve":         {"STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD", "5\r\nhello\r\n0\r\n\r\n", 5, nil},
		"another encoding":              {"STREAMING-OTHER", "5\r\nhello\r\n0\r\n\r\n", 5, nil},
	} {
		got := f.chunkedCall(b, test.payload, test.body, test.size, test.header)
		if got.status != 400 && got.status != 403 && got.status != 501 {
			t.Errorf("%s: got %d %s", what, got.status, got.body)
		}
	}
	if keys := f.keys(b); len(keys) != 0 {
		t.Errorf("keys = %q", keys)
	}
}

// TestSignaturesCannotBeReused sends the signature of one request with another one.
func TestSignaturesCannotBeReused(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	other := f.newBucket("other")
	f.put(b, "a", "before")
	send := func(what string, sign func(r *http.Request), change func(r *http.Request), body string) {
		t.Helper()
		r := f.request(call{method: "PUT", path: "/docs/a", body: "after"})
		sign(r)
		change(r)
		if body != "" {
			r.Body = io.NopCloser(strings.NewReader(body))
			r.ContentLength = int64(len(body))
		}
		resp, err := http.DefaultClient.Do(r)
		check(t, err)
		defer resp.Body.Close()
		if text := readAll(t, resp.Body); resp.StatusCode/100 != 4 {
			t.Errorf("%s: got %s %s", what, resp.Status, text)
		}
	}
	signer := sigv4test.Signer{Access: b.AccessKey, Secret: b.SecretKey, Payload: sigv4test.Hash("after")}
	sign := func(r *http.Request) { signer.Sign(r) }
	keep := func(*http.Request) {}
	send("another body", sign, keep, "forged")
	send("a longer body", sign, keep, "after all")
	send("another key", sign, func(r *http.Request) { r.URL.Path = "/docs/b" }, "")
	send("another bucket", sign, func(r *http.Request) { r.URL.Path = "/other/a" }, "")
	send("a sub-resource", sign, func(r *http.Request) { r.URL.RawQuery = "tagging" }, "")
	send("DELETE", sign, func(r *http.Request) { r.Method = "DELETE" }, "")
	send("metadata", sign, func(r *http.Request) { r.Header.Set("X-Amz-Meta-A", "b") }, "")
	send("a copy", sign, func(r *http.Request) { r.Header.Set("X-Amz-Copy-Source", "/docs/a") }, "")
	send("an unsigned payload", sign, func(r *http.Request) { r.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD") }, "forged")
	send("unsigned chunks", sign, func(r *http.Request) {
		r.Header.Set("X-Amz-Content-Sha256", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
		r.Header.Set("X-Amz-Decoded-Content-Length", "6")
	}, "6\r\nforged\r\n0\r\n\r\n")
	send("a header that was left out", func(r *http.Request) {
		r.Header.Set("X-Amz-Tagging", "a=b")
		hidden := signer
		hidden.Unsigned = []string{"x-amz-tagging"}
		hidden.Sign(r)
	}, keep, "")
	send("another access key", sign, func(r *http.Request) {
		r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), b.AccessKey, other.AccessKey, 1))
	}, "")
	send("next week", func(r *http.Request) {
		late := signer
		late.At = time.Now().Add(7 * 24 * time.Hour)
		late.Sign(r)
	}, keep, "")
	presigned := f.presign(b, "GET", "a", time.Hour)
	for what, url := range map[string]string{
		"as header, too": presigned, "with a sub-resource": presigned + "&tagging", "twice": presigned + "&" + presigned[strings.Index(presigned, "?")+1:],
		"with a header": presigned + "&response-content-type=text/html", "of more headers": strings.Replace(presigned, "=host&", "=host%3Brange&", 1),
	} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
		check(t, err)
		if what == "as header, too" {
			sigv4test.Signer{Access: b.AccessKey, Secret: b.SecretKey, Payload: sigv4test.Hash("")}.Sign(r)
		}
		resp, err := http.DefaultClient.Do(r)
		check(t, err)
		if resp.Body.Close(); resp.StatusCode/100 != 4 {
			t.Errorf("a presigned URL %s: got %s", what, resp.Status)
		}
	}
	if keys := append(f.keys(b), f.keys(other)...); !slices.Equal(keys, []string{"a"}) || f.get(b, "a") != "before" {
		t.Errorf("keys = %q", keys)
	}
}

// TestResponseHeadersCannotBeInjected asks for headers of the response with what begins another one.
func TestResponseHeadersCannotBeInjected(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	f.put(b, "a", "x")
	for _, name := range []string{"content-type", "content-disposition", "cache-control", "content-language", "content-encoding", "expires"} {
		for _, value := range []string{"x%0d%0aSet-Cookie:%20a=b", "x%0aSet-Cookie:%20a=b", "x%0d%0a%0d%0a<script>", "%00", "x%7f", "%ff"} {
			got := f.do(call{method: "GET", path: "/docs/a?response-" + name + "=" + value, by: b})
			if got.status != 400 || got.header.Get("Set-Cookie") != "" || strings.Contains(got.body, "<script>") {
				t.Errorf("%s %s: got %d %v %s", name, value, got.status, got.header, got.body)
			}
		}
	}
	for _, name := range []string{"set-cookie", "location", "x-amz-meta-a", "transfer-encoding", "content-length"} {
		got := f.do(call{method: "GET", path: "/docs/a?response-" + name + "=5", by: b})
		if got.status != 200 || got.body != "x" || got.header.Get("Set-Cookie")+got.header.Get("Location")+got.header.Get("X-Amz-Meta-A") != "" {
			t.Errorf("%s: got %d %v", name, got.status, got.header)
		}
	}
	f.do(call{method: "GET", path: "/docs/a?response-content-type=text/css", by: b}).want(t, "a header", 200, "")
}

// TestRefusedUploadIsNotRead has a client wait for the permission to send a body, as many do.
func TestRefusedUploadIsNotRead(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	wrong := *b
	wrong.SecretKey = "x"
	for want, by := range map[string]*object.Bucket{"HTTP/1.1 403": &wrong, "HTTP/1.1 100": b} {
		r := f.request(call{method: "PUT", path: "/docs/a", by: by, payload: "UNSIGNED-PAYLOAD", header: map[string]string{"Expect": "100-continue"}})
		r.ContentLength = 1 << 20
		r.Body = io.NopCloser(strings.NewReader(""))
		var conn net.Conn = f.dial(r)
		line, err := bufio.NewReader(conn).ReadString('\n')
		check(t, err)
		if !strings.HasPrefix(line, want) {
			t.Errorf("got %q, want %s", line, want)
		}
		check(t, conn.Close())
	}
}

// TestRepeatedNamesAreRefused sends a signed header in two pieces, and a query parameter twice. The signature fits
// both, since it covers headers joined by commas and the query sorted.
func TestRepeatedNamesAreRefused(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	f.plant(b, []string{"a", "a,b"})
	r := f.request(call{method: "PUT", path: "/docs/copy", by: b, header: map[string]string{"X-Amz-Copy-Source": "/docs/a,b"}})
	r.Header["X-Amz-Copy-Source"] = []string{"/docs/a", "b"}
	resp, err := http.DefaultClient.Do(r)
	check(t, err)
	defer resp.Body.Close()
	if text := readAll(t, resp.Body); resp.StatusCode != 400 {
		t.Errorf("a copy of another object: got %s %s", resp.Status, text)
	}
	if keys := f.keys(b); !slices.Equal(keys, []string{"a", "a,b"}) {
		t.Errorf("keys = %q", keys)
	}
	f.do(call{method: "GET", path: "/docs?max-keys=1&max-keys=2", by: b}).want(t, "a parameter twice", 400, "InvalidArgument")
	r = f.request(call{method: "PUT", path: "/docs/b", by: b, header: map[string]string{"X-Amz-Meta-Colors": "red,blue"}})
	r.Header["X-Amz-Meta-Colors"] = []string{"red", "blue"}
	resp, err = http.DefaultClient.Do(r)
	check(t, err)
	if resp.Body.Close(); resp.StatusCode != 200 {
		t.Errorf("metadata that is a list: got %s", resp.Status)
	}
}

// TestNamesThatNoHeaderCanHave presigns parameters and sends fields that would have to be stored as metadata.
func TestNamesThatNoHeaderCanHave(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	for what, query := range map[string]url.Values{
		"a space":      {"x-amz-meta-a b": {"1"}},
		"a line":       {"x-amz-meta-a\r\nb": {"1"}},
		"in two cases": {"x-amz-meta-a": {"1"}, "X-Amz-Meta-A": {"2"}},
	} {
		signed, err := f.client(b).PresignHeader(t.Context(), "PUT", b.Name, "a", time.Hour, query, nil)
		check(t, err)
		f.open("PUT", signed.String(), "x").want(t, what, 400, "InvalidArgument")
	}
	fields := map[string]string{"key": "a", "x-amz-meta-a b": "1"}
	f.signFormWith(b, fields, []any{
		[]any{"starts-with", "$key", ""},
		[]any{"starts-with", "$x-amz-meta-a b", ""},
		[]any{"starts-with", "$x-amz-algorithm", ""},
		[]any{"starts-with", "$x-amz-credential", ""},
		[]any{"starts-with", "$x-amz-date", ""},
	})
	f.post(f.server.Origin+"/docs", fields, "x").want(t, "a field with a space", 400, "InvalidArgument")
	if keys := f.keys(b); len(keys) != 0 {
		t.Errorf("keys = %q", keys)
	}
}

// TestFileNameCannotMultiplyAForm has a form that needs 60 MB once its file's name is put in. It has no signature.
func TestFileNameCannotMultiplyAForm(t *testing.T) {
	f := onSQLite(t)
	f.newBucket("docs")
	parts := []formPart{{"key", "", strings.Repeat("${filename}", 2000)}, {"file", strings.Repeat("x", 30_000), "x"}}
	f.postParts(f.server.Origin+"/docs", parts).want(t, "a long name", 400, "MaxMessageLengthExceeded")
	parts[1].filename = "short"
	f.postParts(f.server.Origin+"/docs", parts).want(t, "a short name", 403, "AccessDenied")
}

// TestErrorsAreNotCachedLikeObjects reads an object that may be cached for a year in ways that fail.
func TestErrorsAreNotCachedLikeObjects(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("site")
	f.configure(b, object.Patch{Public: page.Some(true)})
	_, err := f.client(b).PutObject(t.Context(), b.Name, "a", strings.NewReader("x"), 1, minio.PutObjectOptions{
		CacheControl: "public, max-age=31536000", Expires: time.Now().AddDate(1, 0, 0), ContentEncoding: "gzip",
	})
	check(t, err)
	f.blobs.openErr = blob.ErrUnavailable
	for what, c := range map[string]call{
		"a range after the end":    {path: "/site/a", header: map[string]string{"Range": "bytes=5-"}},
		"a condition":              {path: "/site/a", header: map[string]string{"If-Match": "other"}},
		"a header for anybody":     {path: "/site/a?response-content-type=text/html"},
		"bytes that are not there": {path: "/site/a"},
	} {
		c.method = "GET"
		got := f.do(c)
		if got.status < 400 || got.header.Get("Cache-Control")+got.header.Get("Expires")+got.header.Get("Content-Encoding") != "" {
			t.Errorf("%s: got %d %v", what, got.status, got.header)
		}
		if want := map[bool]string{true: "bytes */1"}[got.status == 416]; got.header.Get("Content-Range") != want {
			t.Errorf("%s: Content-Range is %q, want %q", what, got.header.Get("Content-Range"), want)
		}
	}
}
