package s3_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/object"
	"steward/internal/object/s3"
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
	each(t, func(t *testing.T, f *fixture) {
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
	})
}

func TestPresignedURLIsForOneMethodKeyAndTime(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		f.put(b, "a", "x")
		get := f.presign(b, "GET", "a", time.Hour)
		f.open("GET", get, "").want(t, "GET", 200, "")
		f.open("PUT", get, "changed").want(t, "PUT with the URL of a GET", 403, "SignatureDoesNotMatch")
		f.open("DELETE", get, "").want(t, "DELETE with the URL of a GET", 403, "SignatureDoesNotMatch")
		f.open("GET", strings.Replace(get, "/docs/a?", "/docs/b?", 1), "").want(t, "another key", 403, "SignatureDoesNotMatch")
		f.open("GET", strings.Replace(get, "X-Amz-Expires=3600", "X-Amz-Expires=7200", 1), "").want(t, "longer", 403, "SignatureDoesNotMatch")
		f.server.Now = func() time.Time { return time.Now().Add(-time.Hour - time.Second) }
		f.open("GET", f.presign(b, "GET", "a", time.Hour), "").want(t, "expired", 403, "AccessDenied")
		f.open("PUT", f.presign(b, "PUT", "a", time.Hour), "late").want(t, "expired", 403, "AccessDenied")
		if got := f.get(b, "a"); got != "x" {
			t.Errorf("content = %q", got)
		}
		for _, expiry := range []time.Duration{0, -time.Second, 8 * 24 * time.Hour} {
			if u, err := f.server.Presign(b, "a", "GET", expiry); err == nil {
				t.Errorf("expiry %s: %s", expiry, u)
			}
		}
	})
}

func TestPresignedURLsOfAClient(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
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
	})
}

// post sends a form with a file as its last field.
func (f *fixture) post(url string, fields map[string]string, content string) response {
	f.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, value := range fields {
		check(f, form.WriteField(name, value))
	}
	file, err := form.CreateFormFile("file", filepath.Base("page.html"))
	check(f, err)
	_, err = io.WriteString(file, content)
	check(f, err)
	check(f, form.Close())
	r, err := http.NewRequestWithContext(f.Context(), http.MethodPost, url, &body)
	check(f, err)
	r.Header.Set("Content-Type", form.FormDataContentType())
	resp, err := http.DefaultClient.Do(r)
	check(f, err)
	defer resp.Body.Close()
	return response{resp.StatusCode, resp.Header, readAll(f, resp.Body)}
}

// policy returns the URL and fields of a form for keys with the prefix up/.
func (f *fixture) policy(b *object.Bucket, maximum int64) (string, map[string]string) {
	f.Helper()
	p := minio.NewPostPolicy()
	check(f, p.SetBucket(b.Name))
	check(f, p.SetKeyStartsWith("up/"))
	check(f, p.SetExpires(time.Now().Add(time.Hour)))
	check(f, p.SetContentLengthRange(1, maximum))
	check(f, p.SetContentType("text/html"))
	check(f, p.SetUserMetadata("color", "red"))
	url, fields, err := f.client(b).PresignedPostPolicy(f.Context(), p)
	check(f, err)
	fields["key"] = "up/ü page"
	return url.String(), fields
}

func TestForm(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		url, fields := f.policy(b, 1<<20)
		got := f.post(url, fields, "<html>")
		if got.status != 204 {
			t.Fatalf("got %d %s", got.status, got.body)
		}
		stat, err := f.client(b).StatObject(t.Context(), b.Name, "up/ü page", minio.StatObjectOptions{})
		check(t, err)
		if stat.ContentType != "text/html" || stat.UserMetadata["Color"] != "red" || f.get(b, "up/ü page") != "<html>" {
			t.Errorf("object = %+v", stat)
		}
		large := strings.Repeat("x", 300_000)
		f.post(url, fields, large).want(t, "larger than the fields may be", 204, "")
		if f.get(b, "up/ü page") != large {
			t.Error("the content differs")
		}
	})
}

func TestRefusedForms(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		other := f.newBucket("other")
		for what, test := range map[string]struct {
			change func(fields map[string]string)
			status int
		}{
			"another key":         {func(m map[string]string) { m["key"] = "elsewhere" }, 403},
			"no key":              {func(m map[string]string) { delete(m, "key") }, 400},
			"key above":           {func(m map[string]string) { m["key"] = "up/../../x" }, 400},
			"another type":        {func(m map[string]string) { m["Content-Type"] = "text/evil" }, 403},
			"wrong signature":     {func(m map[string]string) { m["x-amz-signature"] = strings.Repeat("0", 64) }, 403},
			"no signature":        {func(m map[string]string) { delete(m, "x-amz-signature") }, 403},
			"nothing":             {func(m map[string]string) { clear(m); m["key"] = "up/x" }, 403},
			"huge field":          {func(m map[string]string) { m["x-amz-meta-color"] = strings.Repeat("x", 1<<20) }, 400},
			"header in a header":  {func(m map[string]string) { m["x-amz-meta-color"] = "red\r\nSet-Cookie: a=b" }, 403},
			"line in disposition": {func(m map[string]string) { m["content-disposition"] = "x\r\nSet-Cookie: a=b" }, 403},
		} {
			url, fields := f.policy(b, 1<<20)
			test.change(fields)
			if got := f.post(url, fields, "x"); got.status != test.status {
				t.Errorf("%s: got %d %s, want %d", what, got.status, got.body, test.status)
			}
		}
		url, fields := f.policy(b, 100_000)
		f.post(url, fields, strings.Repeat("x", 100_001)).want(t, "too large", 400, "EntityTooLarge")
		f.post(strings.Replace(url, "/docs/", "/other/", 1), fields, "x").want(t, "another bucket", 403, "AccessDenied")
		if keys := append(f.keys(b), f.keys(other)...); len(keys) != 0 {
			t.Errorf("keys = %q", keys)
		}
	})
}

// TestUnreadBodyIsNoRequest sends requests whose bodies are not read, among them one that is a request
// itself, and expects an answer to each request and to nothing else.
func TestUnreadBodyIsNoRequest(t *testing.T) {
	f := start(t, dbtest.Open(t, db.SQLite), s3.Server{})
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

func TestFormsAreStreamed(t *testing.T) {
	f := start(t, dbtest.Open(t, db.SQLite), s3.Server{})
	b := f.newBucket("docs")
	const size = 64 << 20
	url, fields := f.policy(b, size)
	var around bytes.Buffer
	form := multipart.NewWriter(&around)
	for name, value := range fields {
		check(t, form.WriteField(name, value))
	}
	_, err := form.CreateFormFile("file", "big")
	check(t, err)
	head := around.String()
	around.Reset()
	check(t, form.Close())
	runtime.GC()
	var before, peak atomic.Uint64
	measure(&before)
	file := &watchedReader{left: size, hash: sha256.New(), peak: &peak}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, io.MultiReader(strings.NewReader(head), file, strings.NewReader(around.String())))
	check(t, err)
	r.Header.Set("Content-Type", form.FormDataContentType())
	r.ContentLength = int64(len(head)) + size + int64(around.Len())
	resp, err := http.DefaultClient.Do(r)
	check(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		t.Fatalf("got %s: %s", resp.Status, readAll(t, resp.Body))
	}
	if used := int64(peak.Load()) - int64(before.Load()); used > 24<<20 {
		t.Errorf("%d MiB of memory for %d MiB", used>>20, size>>20)
	}
	sum := sha256.Sum256(f.read(b, fields["key"], minio.GetObjectOptions{}))
	if !bytes.Equal(sum[:], file.hash.Sum(nil)) {
		t.Error("the content differs")
	}
}
