package s3_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"runtime"
	"slices"
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

// formPart is a part of a form.
type formPart struct{ name, filename, value string }

// postParts sends a form with parts in their order.
func (f *fixture) postParts(url string, parts []formPart) response {
	f.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, p := range parts {
		disposition := fmt.Sprintf(`form-data; name="%s"`, p.name)
		if p.filename != "" {
			disposition += fmt.Sprintf(`; filename="%s"`, p.filename)
		}
		w, err := form.CreatePart(textproto.MIMEHeader{"Content-Disposition": {disposition}})
		check(f, err)
		_, err = io.WriteString(w, p.value)
		check(f, err)
	}
	check(f, form.Close())
	r, err := http.NewRequestWithContext(f.Context(), http.MethodPost, url, &body)
	check(f, err)
	r.Header.Set("Content-Type", form.FormDataContentType())
	resp, err := http.DefaultClient.Do(r)
	check(f, err)
	defer resp.Body.Close()
	return response{resp.StatusCode, resp.Header, readAll(f, resp.Body)}
}

// post sends a form with a file as its last field.
func (f *fixture) post(url string, fields map[string]string, content string) response {
	f.Helper()
	parts := []formPart{}
	for name, value := range fields {
		parts = append(parts, formPart{name: name, value: value})
	}
	return f.postParts(url, append(parts, formPart{"file", "page.html", content}))
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
	f := onSQLite(t)
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
}

// TestFormFile sends forms whose file is neither the first part with a file name nor the last part.
func TestFormFile(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		const size = 1000
		url, fields := f.policy(b, size)
		fields["key"] = "up/${filename}-${filename}"
		parts := []formPart{}
		for name, value := range fields {
			parts = append(parts, formPart{name, "blob", value}) // as FormData sends a Blob
		}
		content := strings.Repeat("x", size)
		for filename, key := range map[string]string{
			"page.html": "page.html", `C:\\dir\\win.txt`: "win.txt", "/etc/x.conf": "x.conf", "": "", "ü +.txt": "ü +.txt",
		} {
			got := f.postParts(url, append(slices.Clone(parts), formPart{"file", filename, content}, formPart{"submit", "", "Upload"}, formPart{"file", "x", "second"}))
			got.want(t, filename, 204, "")
			if key := "up/" + key + "-" + key; f.get(b, key) != content {
				t.Errorf("%s has another content", key)
			}
		}
		before := len(f.keys(b))
		for what, test := range map[string]struct {
			parts  []formPart
			status int
		}{
			"too large":         {append(slices.Clone(parts), formPart{"file", "new", content + "x"}), 400},
			"empty":             {append(slices.Clone(parts), formPart{"file", "new", ""}, formPart{"submit", "", "Upload"}), 400},
			"no file":           {append(slices.Clone(parts), formPart{"upload", "new", content}), 400},
			"above":             {append(slices.Clone(parts), formPart{"key", "", "up/../../${filename}"}, formPart{"file", "new", content}), 400},
			"another prefix":    {append(slices.Clone(parts), formPart{"key", "", "${filename}"}, formPart{"file", "new", content}), 403},
			"of another prefix": {append(slices.Clone(parts), formPart{"key", "", "${filename}"}, formPart{"file", "up/new", content}), 403},
		} {
			if got := f.postParts(url, test.parts); got.status != test.status {
				t.Errorf("%s: got %d %s, want %d", what, got.status, got.body, test.status)
			}
		}
		if after := len(f.keys(b)); after != before {
			t.Errorf("%d new keys", after-before)
		}
	})
}

// signForm adds a policy that allows the fields of a form, and its signature.
func (f *fixture) signForm(b *object.Bucket, fields map[string]string) {
	f.Helper()
	conditions := []any{}
	for name, value := range fields {
		conditions = append(conditions, map[string]string{name: value})
	}
	for _, name := range []string{"x-amz-algorithm", "x-amz-credential", "x-amz-date"} {
		conditions = append(conditions, []string{"starts-with", "$" + name, ""})
	}
	f.signFormWith(b, fields, conditions)
}

// signFormWith adds a policy with conditions, and its signature.
func (f *fixture) signFormWith(b *object.Bucket, fields map[string]string, conditions []any) {
	f.Helper()
	now := time.Now().UTC()
	day := now.Format("20060102")
	fields["x-amz-algorithm"] = "AWS4-HMAC-SHA256"
	fields["x-amz-credential"] = b.AccessKey + "/" + day + "/us-east-1/s3/aws4_request"
	fields["x-amz-date"] = now.Format("20060102T150405Z")
	policy, err := json.Marshal(map[string]any{"expiration": now.Add(time.Hour), "conditions": conditions})
	check(f, err)
	fields["policy"] = base64Of(policy)
	key := []byte("AWS4" + b.SecretKey)
	for _, text := range []string{day, "us-east-1", "s3", "aws4_request", fields["policy"]} {
		hash := hmac.New(sha256.New, key)
		hash.Write([]byte(text))
		key = hash.Sum(nil)
	}
	fields["x-amz-signature"] = hex.EncodeToString(key)
}

// TestFieldsThatAreNotCarriedOutAreRefused sends fields that a policy allows and this server does not.
func TestFieldsThatAreNotCarriedOutAreRefused(t *testing.T) {
	f := start(t, dbtest.Open(t, db.SQLite), &s3.Server{})
	b := f.newBucket("docs")
	post := func(name, value string) response {
		fields := map[string]string{"key": "a", "bucket": b.Name, name: value}
		f.signForm(b, fields)
		return f.post(f.server.Origin+"/docs", fields, "x")
	}
	for name, value := range map[string]string{
		"acl": "public-read", "x-amz-server-side-encryption": "AES256", "x-amz-object-lock-mode": "COMPLIANCE", "x-amz-foo": "1",
		"x-amz-website-redirect-location": "/b", "x-amz-checksum-sha512": "AAAA", "x-amz-storage-class": "OUTPOSTS",
	} {
		if got := post(name, value); got.status != 400 && got.status != 501 {
			t.Errorf("%s: got %d %s", name, got.status, got.body)
		}
	}
	if keys := f.keys(b); len(keys) != 0 {
		t.Errorf("keys = %q", keys)
	}
	post("acl", "private").want(t, "private", 204, "")
	post("x-amz-storage-class", "STANDARD_IA").want(t, "storage class", 204, "")
	if class := f.do(call{method: "HEAD", path: "/docs/a", by: b}).header.Get("X-Amz-Storage-Class"); class != "STANDARD_IA" {
		t.Errorf("storage class = %q", class)
	}
}

func TestFormsAreStreamed(t *testing.T) {
	f := start(t, dbtest.Open(t, db.SQLite), &s3.Server{})
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
