package s3_test

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
)

func TestChecksums(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	content := bytes.Repeat([]byte("steward "), 20_000) // several chunks
	for _, kind := range []minio.ChecksumType{
		minio.ChecksumCRC32, minio.ChecksumCRC32C, minio.ChecksumCRC64NVME, minio.ChecksumSHA1, minio.ChecksumSHA256,
	} {
		key := kind.String()
		_, err := f.client(b).PutObject(t.Context(), b.Name, key, bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{Checksum: kind})
		check(t, err)
		hash := kind.Hasher()
		hash.Write(content)
		want := base64Of(hash.Sum(nil))
		got := f.do(call{method: "GET", path: "/docs/" + key, by: b, header: map[string]string{"X-Amz-Checksum-Mode": "ENABLED"}})
		if sum := got.header.Get(kind.Key()); sum != want || got.header.Get("X-Amz-Checksum-Type") != "FULL_OBJECT" {
			t.Errorf("%s after a trailer: %q, want %q (%v)", key, sum, want, got.header)
		}
		header := map[string]string{kind.Key(): want}
		f.do(call{method: "PUT", path: "/docs/" + key, by: b, body: string(content), header: header}).want(t, key+" in a header", 200, "")
		f.do(call{method: "PUT", path: "/docs/wrong", by: b, body: "other", header: header}).want(t, key+" of something else", 400, "BadDigest")
	}
	if got := f.keys(b); slices.Contains(got, "wrong") {
		t.Errorf("an object with a wrong checksum was stored: %q", got)
	}
}

func TestBodyMustMatchItsDigests(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	sum := md5.Sum([]byte("other"))
	f.do(call{method: "PUT", path: "/docs/a", by: b, body: "x", header: map[string]string{"Content-Md5": base64Of(sum[:])}}).
		want(t, "wrong Content-MD5", 400, "BadDigest")
	f.do(call{method: "PUT", path: "/docs/a", by: b, body: "x", header: map[string]string{"Content-Md5": ""}}).
		want(t, "empty Content-MD5", 400, "InvalidDigest")
	f.do(call{method: "PUT", path: "/docs/a", by: b, body: "x", payload: strings.Repeat("0", 64)}).
		want(t, "wrong SHA-256", 400, "XAmzContentSHA256Mismatch")
	f.do(call{method: "PUT", path: "/docs/a", by: b, body: "x", header: map[string]string{"X-Amz-Decoded-Content-Length": "-1"}}).
		want(t, "negative length", 411, "MissingContentLength")
	f.do(call{method: "PUT", path: "/docs/a", by: b, body: "x", header: map[string]string{"X-Amz-Checksum-Sha512": base64Of(make([]byte, 64))}}).
		want(t, "unknown checksum", 501, "NotImplemented")
	if got := f.keys(b); len(got) != 0 {
		t.Errorf("keys = %q, want none", got)
	}
}

func TestInterruptedUploadLeavesNothing(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		r := f.request(call{method: "PUT", path: "/docs/a", by: b, payload: "UNSIGNED-PAYLOAD"})
		r.Body = io.NopCloser(failingReader{strings.NewReader(strings.Repeat("x", 100_000))})
		r.ContentLength = 200_000
		if resp, err := http.DefaultClient.Do(r); err == nil {
			resp.Body.Close()
			t.Errorf("got %s for half of a body", resp.Status)
		}
		f.put(b, "b", "x")
		if got := f.keys(b); !slices.Equal(got, []string{"b"}) {
			t.Errorf("keys = %q", got)
		}
	})
}

func TestUnsignedTrailer(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	put := func(key, content, sum string) response {
		body := fmt.Sprintf("%x\r\n%s\r\n0\r\nx-amz-checksum-crc32:%s\r\n\r\n", len(content), content, sum)
		return f.do(call{
			method: "PUT", path: "/docs/" + key, by: b, body: body, payload: "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
			header: map[string]string{
				"X-Amz-Trailer": "x-amz-checksum-crc32", "X-Amz-Decoded-Content-Length": fmt.Sprint(len(content)),
				"Content-Encoding": "aws-chunked,gzip",
			},
		})
	}
	hash := crc32.NewIEEE()
	_, _ = io.WriteString(hash, "hello")
	put("a", "hello", base64Of(hash.Sum(nil))).want(t, "right checksum", 200, "")
	put("b", "hallo", base64Of(hash.Sum(nil))).want(t, "wrong checksum", 400, "BadDigest")
	stat, err := f.client(b).StatObject(t.Context(), b.Name, "a", minio.StatObjectOptions{Checksum: true})
	check(t, err)
	if stat.Metadata.Get("Content-Encoding") != "gzip" || stat.ChecksumCRC32 != base64Of(hash.Sum(nil)) || stat.Size != 5 {
		t.Errorf("object = %+v", stat)
	}
	if got := f.keys(b); !slices.Equal(got, []string{"a"}) {
		t.Errorf("keys = %q", got)
	}
}
