package s3_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/object"
	"steward/internal/object/s3"
	"steward/internal/object/s3/sigv4"
)

// The management route takes Presign as it is.
var _ = object.Handler{Presign: (&s3.Server{}).Presign}

func readAll(t testing.TB, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	check(t, err)
	return string(b)
}

func (f *fixture) presign(b *object.Bucket, method, key string, expiry time.Duration) string {
	f.Helper()
	u, err := f.server.Presign(b, key, method, expiry)
	check(f, err)
	return u
}

func (f *fixture) open(method, url, body string) response {
	f.Helper()
	r, err := http.NewRequestWithContext(f.Context(), method, url, strings.NewReader(body))
	check(f, err)
	resp, err := http.DefaultClient.Do(r)
	check(f, err)
	defer resp.Body.Close()
	return response{resp.StatusCode, resp.Header, readAll(f, resp.Body)}
}

func TestPresignedURLsWorkWithCurl(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	for _, key := range []string{"a/b.txt", "ü b+c%/日本 \U0001F600", "d//x", "a?b#c&d=e"} {
		put := exec.CommandContext(t.Context(), "curl", "-sS", "--fail", "-X", "PUT", "--data-binary", "content of "+key,
			f.presign(b, "PUT", key, time.Minute))
		if out, err := put.CombinedOutput(); err != nil {
			t.Errorf("PUT %q: %v: %s", key, err, out)
			continue
		}
		out, err := exec.CommandContext(t.Context(), "curl", "-sS", "--fail", f.presign(b, "GET", key, time.Minute)).CombinedOutput()
		if err != nil || string(out) != "content of "+key {
			t.Errorf("GET %q: %v: %s", key, err, out)
		}
	}
}

func TestPresignedURLIsForOneMethodKeyAndTime(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	f.put(b, "a", "x")
	get := f.presign(b, "GET", "a", time.Hour)
	f.open("GET", get, "").want(t, "GET", 200, "")
	f.open("PUT", get, "changed").want(t, "PUT with the URL of a GET", 403, "SignatureDoesNotMatch")
	f.open("DELETE", get, "").want(t, "DELETE with the URL of a GET", 403, "SignatureDoesNotMatch")
	f.open("GET", strings.Replace(get, "/docs/a?", "/docs/b?", 1), "").want(t, "another key", 403, "SignatureDoesNotMatch")
	f.open("GET", strings.Replace(get, "X-Amz-Expires=3600", "X-Amz-Expires=7200", 1), "").want(t, "longer", 403, "SignatureDoesNotMatch")
	for _, method := range []string{"GET", "PUT"} {
		target := url.URL{Scheme: "http", Host: f.address, Path: "/docs/a"}
		late := sigv4.Presign(sigv4.Presigned{
			Method: method, URL: target, AccessKey: b.AccessKey, Secret: b.SecretKey, Region: s3.DefaultRegion,
			At: time.Now().Add(-time.Hour - time.Second), Expires: time.Hour,
		})
		f.open(method, late, "late").want(t, "expired", 403, "AccessDenied")
	}
	if got := f.get(b, "a"); got != "x" {
		t.Errorf("content = %q", got)
	}
	for _, expiry := range []time.Duration{0, -time.Second, 8 * 24 * time.Hour} {
		if u, err := f.server.Presign(b, "a", "GET", expiry); err == nil {
			t.Errorf("expiry %s: %s", expiry, u)
		}
	}
}

func TestPresignedURLsOfAClient(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	put, err := f.client(b).PresignedPutObject(t.Context(), b.Name, "a/ü", time.Minute)
	check(t, err)
	f.open("PUT", put.String(), "x").want(t, "PUT", 200, "")
	get, err := f.client(b).PresignedGetObject(t.Context(), b.Name, "a/ü", time.Minute, map[string][]string{"response-content-type": {"text/html"}})
	check(t, err)
	got := f.open("GET", get.String(), "")
	if got.status != 200 || got.body != "x" || got.header.Get("Content-Type") != "text/html" {
		t.Errorf("GET: %+v", got)
	}
}

// TestUnreadBodyIsNoRequest sends requests whose bodies are not read, among them one that is a request
// itself, and expects an answer to each request and to nothing else.
func TestUnreadBodyIsNoRequest(t *testing.T) {
	f := start(t, dbtest.Open(t, db.SQLite), &s3.Server{})
	f.newBucket("docs")
	conn, err := net.Dial("tcp", f.address)
	check(t, err)
	defer conn.Close()
	r := bufio.NewReader(conn)
	hidden := "GET /hidden HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, body := range []string{hidden, strings.Repeat("x", 2<<20)} {
		for _, method := range []string{"PUT", "GET", "POST", "DELETE"} {
			_, err := fmt.Fprintf(conn, "%s /docs/seen HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", method, len(body), body)
			check(t, err)
			resp, err := http.ReadResponse(r, nil)
			check(t, err)
			text := readAll(t, resp.Body)
			check(t, resp.Body.Close())
			if resp.StatusCode < 400 || resp.Close || strings.Contains(text, "hidden") {
				t.Errorf("%s: got %d, close %v, %s", method, resp.StatusCode, resp.Close, text)
			}
		}
	}
	_, err = io.WriteString(conn, "GET /last HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	check(t, err)
	if rest := readAll(t, r); strings.Count(rest, "HTTP/1.1 ") != 1 || !strings.Contains(rest, "last") {
		t.Errorf("after the last request: %s", rest)
	}
}

// TestSignatureV2 shows that clients that sign in the old way are told what to set.
func TestSignatureV2(t *testing.T) {
	f := start(t, dbtest.Open(t, db.SQLite), &s3.Server{})
	b := f.newBucket("docs")
	old, err := minio.New(f.address, &minio.Options{Creds: credentials.NewStaticV2(b.AccessKey, b.SecretKey, ""), Region: s3.DefaultRegion})
	check(t, err)
	_, err = old.PutObject(t.Context(), b.Name, "a", strings.NewReader("x"), 1, minio.PutObjectOptions{})
	if err == nil || !strings.Contains(err.Error(), "s3v4") {
		t.Errorf("a header: %v", err)
	}
	signed, err := old.PresignedGetObject(t.Context(), b.Name, "a", time.Hour, nil)
	check(t, err)
	p := minio.NewPostPolicy()
	check(t, p.SetBucket(b.Name))
	check(t, p.SetKey("a"))
	check(t, p.SetExpires(time.Now().Add(time.Hour)))
	form, fields, err := old.PresignedPostPolicy(t.Context(), p)
	check(t, err)
	for what, got := range map[string]response{"a presigned URL": f.open("GET", signed.String(), ""), "a form": f.post(form.String(), fields, "x")} {
		got.want(t, what, 400, "InvalidRequest")
		if !strings.Contains(got.body, "s3v4") {
			t.Errorf("%s: %s", what, got.body)
		}
	}
}

// TestChecksumInPresignedURL shows that a checksum in the query is compared.
func TestChecksumInPresignedURL(t *testing.T) {
	f := start(t, dbtest.Open(t, db.SQLite), &s3.Server{})
	b := f.newBucket("docs")
	for value, status := range map[string]int{"y1VLBg==": 400, "jNwWgw==": 200} { // of other bytes, and of x
		signed, err := f.client(b).PresignHeader(t.Context(), "PUT", b.Name, "a", time.Hour, url.Values{"x-amz-checksum-crc32": {value}}, nil)
		check(t, err)
		f.open("PUT", signed.String(), "x").want(t, value, status, "")
	}
}
