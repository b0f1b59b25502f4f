package s3_test

import (
	"crypto/md5"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/object"
	"steward/internal/object/s3"
	"steward/internal/page"
)

// operations are all requests for a bucket and an upload in it, with what a caller sends who tries
// to read or change them.
func operations(bucket, upload string) map[string]call {
	deletion := "<Delete><Object><Key>secret</Key></Object></Delete>"
	sum := md5.Sum([]byte(deletion))
	copySource := func(extra map[string]string) map[string]string {
		h := map[string]string{"X-Amz-Copy-Source": "/" + bucket + "/secret"}
		maps.Copy(h, extra)
		return h
	}
	at := "/" + bucket
	key := at + "/secret"
	part := key + "?partNumber=1&uploadId=" + upload
	return map[string]call{
		"HeadBucket":            {method: "HEAD", path: at},
		"ListObjects":           {method: "GET", path: at},
		"ListObjectsV2":         {method: "GET", path: at + "?list-type=2"},
		"ListObjectVersions":    {method: "GET", path: at + "?versions="},
		"ListMultipartUploads":  {method: "GET", path: at + "?uploads="},
		"GetBucketLocation":     {method: "GET", path: at + "?location="},
		"GetBucketAcl":          {method: "GET", path: at + "?acl="},
		"GetBucketPolicy":       {method: "GET", path: at + "?policy="},
		"GetBucketCors":         {method: "GET", path: at + "?cors="},
		"GetBucketVersioning":   {method: "GET", path: at + "?versioning="},
		"GetBucketTagging":      {method: "GET", path: at + "?tagging="},
		"PutBucketPolicy":       {method: "PUT", path: at + "?policy=", body: "{}"},
		"PutBucketAcl":          {method: "PUT", path: at + "?acl=", header: map[string]string{"X-Amz-Acl": "public-read"}},
		"PutBucketVersioning":   {method: "PUT", path: at + "?versioning=", body: "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"},
		"DeleteBucketPolicy":    {method: "DELETE", path: at + "?policy="},
		"DeleteBucketCors":      {method: "DELETE", path: at + "?cors="},
		"DeleteBucket":          {method: "DELETE", path: at},
		"CreateBucket":          {method: "PUT", path: at},
		"DeleteObjects":         {method: "POST", path: at + "?delete=", body: deletion, header: map[string]string{"Content-Md5": base64Of(sum[:])}},
		"PutObject":             {method: "PUT", path: key, body: "changed"},
		"GetObject":             {method: "GET", path: key},
		"GetObjectRange":        {method: "GET", path: key, header: map[string]string{"Range": "bytes=0-1"}},
		"GetObjectPart":         {method: "GET", path: key + "?partNumber=1"},
		"HeadObject":            {method: "HEAD", path: key},
		"DeleteObject":          {method: "DELETE", path: key},
		"GetObjectTagging":      {method: "GET", path: key + "?tagging="},
		"PutObjectTagging":      {method: "PUT", path: key + "?tagging=", body: "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"},
		"DeleteObjectTagging":   {method: "DELETE", path: key + "?tagging="},
		"GetObjectAttributes":   {method: "GET", path: key + "?attributes=", header: map[string]string{"X-Amz-Object-Attributes": "ObjectSize"}},
		"GetObjectAcl":          {method: "GET", path: key + "?acl="},
		"PutObjectAcl":          {method: "PUT", path: key + "?acl=", header: map[string]string{"X-Amz-Acl": "public-read"}},
		"GetObjectRetention":    {method: "GET", path: key + "?retention="},
		"GetObjectLegalHold":    {method: "GET", path: key + "?legal-hold="},
		"RestoreObject":         {method: "POST", path: key + "?restore=", body: "<RestoreRequest><Days>1</Days></RestoreRequest>"},
		"SelectObjectContent":   {method: "POST", path: key + "?select=&select-type=2", body: "<SelectObjectContentRequest></SelectObjectContentRequest>"},
		"CreateMultipartUpload": {method: "POST", path: key + "?uploads="},
		"UploadPart":            {method: "PUT", path: part, body: "changed"},
		"UploadPartCopy":        {method: "PUT", path: part, header: copySource(nil)},
		"ListParts":             {method: "GET", path: key + "?uploadId=" + upload},
		"CompleteMultipart":     {method: "POST", path: key + "?uploadId=" + upload, body: "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>"},
		"AbortMultipartUpload":  {method: "DELETE", path: key + "?uploadId=" + upload},
		"CopyObjectWithin":      {method: "PUT", path: key + "2", header: copySource(nil)},
	}
}

// refused reports whether an operation was denied, or is refused for everybody.
func (r response) refused(name string) bool {
	return r.denied() || name == "SelectObjectContent" && r.status == http.StatusNotImplemented
}

func TestCredentialsOpenOneBucketOnly(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		mine := f.newBucket("mine")
		theirs := f.newBucket("theirs")
		f.put(theirs, "secret", "top secret")
		f.put(mine, "mine", "x")
		upload, _ := f.upload(theirs, "secret", minio.PutObjectOptions{}, []byte("part"))
		myUpload, _ := f.upload(mine, "mine", minio.PutObjectOptions{})
		tries := operations("theirs", upload)
		from := map[string]string{"X-Amz-Copy-Source": "/theirs/secret"}
		tries["CopyObject"] = call{method: "PUT", path: "/mine/stolen", header: from}
		tries["CopyObject, encoded"] = call{method: "PUT", path: "/mine/stolen", header: map[string]string{"X-Amz-Copy-Source": "theirs%2Fsecret"}}
		tries["CopyObject, replacing metadata"] = call{
			method: "PUT", path: "/mine/stolen",
			header: map[string]string{"X-Amz-Copy-Source": "/theirs/secret", "X-Amz-Metadata-Directive": "REPLACE", "X-Amz-Checksum-Algorithm": "SHA256"},
		}
		tries["UploadPartCopy from theirs"] = call{method: "PUT", path: "/mine/mine?partNumber=1&uploadId=" + myUpload, header: from}
		for name, c := range tries {
			c.by = mine
			if got := f.do(c); !got.refused(name) || strings.Contains(got.body, "top secret") {
				t.Errorf("%s with the credentials of another bucket: got %d %s", name, got.status, got.body)
			}
			c.by = nil
			if got := f.do(c); !got.refused(name) || got.status == 200 || strings.Contains(got.body, "top secret") {
				t.Errorf("%s without credentials: got %d %s", name, got.status, got.body)
			}
		}
		for name, c := range map[string]call{
			"UploadPart":   {method: "PUT", path: "/mine/secret?partNumber=1&uploadId=" + upload, body: "x"},
			"ListParts":    {method: "GET", path: "/mine/secret?uploadId=" + upload},
			"Abort":        {method: "DELETE", path: "/mine/secret?uploadId=" + upload},
			"Complete":     {method: "POST", path: "/mine/secret?uploadId=" + upload, body: "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>"},
			"PartCopy":     {method: "PUT", path: "/mine/secret?partNumber=1&uploadId=" + upload, header: map[string]string{"X-Amz-Copy-Source": "/mine/mine"}},
			"my other key": {method: "PUT", path: "/mine/other?partNumber=1&uploadId=" + myUpload, body: "x"},
		} {
			c.by = mine
			f.do(c).want(t, name+" with the upload of another bucket or key", 404, "NoSuchUpload")
		}
		if got := f.keys(mine); !slices.Equal(got, []string{"mine"}) {
			t.Errorf("my keys = %q", got)
		}
		if got := f.get(theirs, "secret"); got != "top secret" || !slices.Equal(f.keys(theirs), []string{"secret"}) {
			t.Errorf("their object = %q, keys = %q", got, f.keys(theirs))
		}
		buckets, err := f.client(mine).ListBuckets(t.Context())
		check(t, err)
		if len(buckets) != 1 || buckets[0].Name != "mine" {
			t.Errorf("buckets = %+v, want mine", buckets)
		}
	})
}

// denied reports whether a request was denied: as a whole, or for each key.
func (r response) denied() bool {
	return r.status == 403 || r.status == 200 && strings.Contains(r.body, "<Code>AccessDenied</Code>") && !strings.Contains(r.body, "<Deleted>")
}

func TestOwnerMayUseTheBucket(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("mine")
		f.put(b, "secret", "x")
		upload, _ := f.upload(b, "secret", minio.PutObjectOptions{})
		refused := map[string]int{
			"ListObjectVersions": 501, "GetBucketPolicy": 404, "GetBucketTagging": 404, "PutBucketPolicy": 501, "PutBucketAcl": 501,
			"PutBucketVersioning": 501, "DeleteBucketPolicy": 501, "DeleteBucketCors": 501, "DeleteBucket": 403, "CreateBucket": 409,
			"PutObjectAcl": 501, "GetObjectRetention": 501, "GetObjectLegalHold": 501, "RestoreObject": 501,
			"CompleteMultipart": 400, "SelectObjectContent": 501,
		}
		c := operations("mine", upload)
		last := []string{"DeleteObject", "DeleteObjects", "AbortMultipartUpload"}
		for name, o := range c {
			o.by = b
			want, isRefused := refused[name]
			if slices.Contains(last, name) {
				continue
			}
			got := f.do(o)
			if isRefused && got.status != want || !isRefused && got.status/100 != 2 {
				t.Errorf("%s: got %d %s", name, got.status, got.body)
			}
		}
		for _, name := range last {
			o := c[name]
			o.by = b
			if got := f.do(o); got.status/100 != 2 {
				t.Errorf("%s: got %d %s", name, got.status, got.body)
			}
		}
	})
}

// TestBucketsAreNotCreated creates buckets as clients do that want to be sure of theirs.
func TestBucketsAreNotCreated(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("mine")
	f.newBucket("theirs")
	for name, code := range map[string]string{"mine": "BucketAlreadyOwnedByYou", "theirs": "AccessDenied", "new": "AccessDenied"} {
		wantCode(t, name, f.client(b).MakeBucket(t.Context(), name, minio.MakeBucketOptions{}), code)
	}
	if _, err := f.buckets.ByName(t.Context(), "new"); err == nil {
		t.Error("a bucket was created")
	}
}

func TestSignatures(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	f.put(b, "a", "x")
	get := call{method: "GET", path: "/docs/a", by: b}
	f.do(get).want(t, "valid signature", 200, "")
	wrong := *b
	wrong.SecretKey = strings.Repeat("x", len(b.SecretKey))
	f.do(call{method: "GET", path: "/docs/a", by: &wrong}).want(t, "wrong secret", 403, "SignatureDoesNotMatch")
	unknown := *b
	unknown.AccessKey = "nobody"
	f.do(call{method: "GET", path: "/docs/a", by: &unknown}).want(t, "unknown access key", 403, "InvalidAccessKeyId")
	f.do(call{method: "GET", path: "/docs/a", by: b, at: time.Now().Add(-time.Hour)}).want(t, "old signature", 403, "RequestTimeTooSkewed")
	f.do(call{method: "GET", path: "/docs/a", by: b, region: "eu-central-1"}).want(t, "other region", 400, "AuthorizationHeaderMalformed")
	f.do(call{method: "GET", path: "/docs/a"}).want(t, "no signature", 403, "AccessDenied")
	r := f.request(get)
	r.URL.Path = "/docs/b"
	resp, err := http.DefaultClient.Do(r)
	check(t, err)
	resp.Body.Close()
	if resp.StatusCode != 403 {
		t.Errorf("signature of another path: got %s", resp.Status)
	}
	f.do(call{method: "GET", path: "/unknown/a", by: b}).want(t, "unknown bucket", 404, "NoSuchBucket")
	f.do(call{method: "GET", path: "/docs/none", by: b}).want(t, "unknown key", 404, "NoSuchKey")
}

func TestRotatedAndDeletedCredentialsAreRefusedAtOnce(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		f.put(b, "a", "x")
		var rotated *object.Bucket
		check(t, f.db.Write(t.Context(), func(tx *db.Tx) (err error) {
			rotated, err = f.buckets.RotateKeys(tx, refOf(b))
			return err
		}))
		f.do(call{method: "GET", path: "/docs/a", by: b}).want(t, "old credentials", 403, "InvalidAccessKeyId")
		f.do(call{method: "GET", path: "/docs/a", by: rotated}).want(t, "new credentials", 200, "")
		check(t, f.db.Write(t.Context(), func(tx *db.Tx) error { return f.buckets.Delete(tx, refOf(b), false) }))
		f.do(call{method: "GET", path: "/docs/a", by: rotated}).want(t, "deleted bucket", 403, "InvalidAccessKeyId")
		f.do(call{method: "GET", path: "/docs/a"}).want(t, "deleted bucket, no credentials", 404, "NoSuchBucket")
		again := f.newBucket("docs")
		f.do(call{method: "GET", path: "/docs/a", by: again}).want(t, "new bucket of the same name", 404, "NoSuchKey")
	})
}

func TestPublicBucketIsReadButNeitherListedNorWritten(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("site")
		other := f.newBucket("other")
		f.put(b, "secret", "page")
		upload, _ := f.upload(b, "secret", minio.PutObjectOptions{}, []byte("part"))
		f.do(call{method: "GET", path: "/site/secret"}).want(t, "before", 403, "AccessDenied")
		f.configure(b, object.Patch{Public: page.Some(true)})
		if got := f.do(call{method: "GET", path: "/site/secret"}); got.status != 200 || got.body != "page" {
			t.Errorf("anonymous GET: got %d %s", got.status, got.body)
		}
		readable := []string{"GetObject", "GetObjectRange", "GetObjectPart", "HeadObject"}
		for name, c := range operations("site", upload) {
			for who, by := range map[string]*object.Bucket{"anonymous": nil, "another bucket": other} {
				c.by = by
				got := f.do(c)
				if slices.Contains(readable, name) {
					if got.status/100 != 2 {
						t.Errorf("%s by %s: got %d %s", name, who, got.status, got.body)
					}
				} else if !got.refused(name) {
					t.Errorf("%s by %s: got %d %s", name, who, got.status, got.body)
				}
			}
		}
		f.do(call{method: "GET", path: "/site/none"}).want(t, "unknown key", 404, "NoSuchKey")
		if got := f.get(b, "secret"); got != "page" || !slices.Equal(f.keys(b), []string{"secret"}) {
			t.Errorf("object = %q, keys = %q", got, f.keys(b))
		}
		f.put(b, "more", "the owner still may")
		check(t, f.client(b).RemoveObject(t.Context(), "site", "more", minio.RemoveObjectOptions{}))
		if got := f.listV2(b, "", "", 10); !slices.Equal(got, []string{"secret"}) {
			t.Errorf("the owner's list = %q", got)
		}
		f.configure(b, object.Patch{Public: page.Some(false)})
		f.do(call{method: "GET", path: "/site/secret"}).want(t, "after", 403, "AccessDenied")
	})
}

func TestCopyFromPublicBucket(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		site := f.newBucket("site")
		f.configure(site, object.Patch{Public: page.Some(true)})
		f.put(site, "page", "x")
		mine := f.newBucket("mine")
		_, err := f.client(mine).CopyObject(t.Context(), minio.CopyDestOptions{Bucket: "mine", Object: "copy"}, minio.CopySrcOptions{Bucket: "site", Object: "page"})
		check(t, err)
		if got := f.get(mine, "copy"); got != "x" {
			t.Errorf("copy = %q", got)
		}
	})
}

func TestBucketsAreNeitherCreatedNorDeleted(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	wantCode(t, "create", f.client(b).MakeBucket(t.Context(), "another", minio.MakeBucketOptions{}), "AccessDenied")
	wantCode(t, "delete", f.client(b).RemoveBucket(t.Context(), "docs"), "AccessDenied")
	exists, err := f.client(b).BucketExists(t.Context(), "docs")
	if err != nil || !exists {
		t.Errorf("BucketExists = %v, %v", exists, err)
	}
}

func TestPathsCannotLeaveABucket(t *testing.T) {
	f := onSQLite(t)
	mine := f.newBucket("mine")
	theirs := f.newBucket("theirs")
	f.put(theirs, "secret", "top secret")
	for _, path := range []string{
		"/mine/../theirs/secret", "/mine/%2e%2e/theirs/secret", "/mine/..%2ftheirs%2fsecret", "/mine/%2E%2E%2Ftheirs/secret",
		"/mine/./../theirs/secret", "/mine//theirs/secret", "/mine%2f..%2ftheirs/secret", "/mine/..%5ctheirs%5csecret",
		"/mine/%252e%252e/theirs/secret", "/mine%00/secret", "/theirs%2Fsecret", "/mine/%c0%ae%c0%ae/theirs/secret",
	} {
		for _, method := range []string{"GET", "HEAD", "DELETE"} {
			r := f.request(call{method: method, path: "/"})
			r.URL.Opaque = "//" + f.address + path
			f.sign(r, call{by: mine})
			resp, err := http.DefaultClient.Do(r)
			check(t, err)
			resp.Body.Close()
			if resp.StatusCode == 200 || resp.StatusCode/100 == 5 {
				t.Errorf("%s %s: got %s", method, path, resp.Status)
			}
		}
	}
	if got := f.get(theirs, "secret"); got != "top secret" {
		t.Errorf("their object = %q", got)
	}
}

func TestMessagesAreLimited(t *testing.T) {
	f := start(t, dbtest.Open(t, db.SQLite), &s3.Server{})
	for _, line := range []string{
		"POST /docs?delete=", "PUT /docs/a?tagging=", "PUT /docs", "POST /docs/a?uploadId=x",
		"POST /docs?delete= HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x", "POST /docs/a HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=x",
	} {
		conn, err := net.Dial("tcp", f.address)
		check(t, err)
		if !strings.Contains(line, "HTTP/1.1") {
			line += " HTTP/1.1"
		}
		_, err = fmt.Fprintf(conn, "%s\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", line, 8<<20+1, strings.Repeat("x", 8<<10))
		check(t, err)
		answer, _ := io.ReadAll(conn) // it may end with a reset
		if !strings.Contains(string(answer), "<Code>MaxMessageLengthExceeded</Code>") {
			t.Errorf("%s: %s", line, answer)
		}
		check(t, conn.Close())
	}
}

func TestManyClientsAtOnce(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		c := f.client(b)
		failed := make(chan error, 16)
		for i := range 16 {
			go func() {
				content := fmt.Sprint("content of ", i)
				_, err := c.PutObject(t.Context(), b.Name, fmt.Sprint("key-", i), strings.NewReader(content), int64(len(content)), minio.PutObjectOptions{})
				failed <- err
			}()
		}
		for range 16 {
			check(t, <-failed)
		}
		for i := range 16 {
			if got := f.get(b, fmt.Sprint("key-", i)); got != fmt.Sprint("content of ", i) {
				t.Errorf("key-%d = %q", i, got)
			}
		}
	})
}
