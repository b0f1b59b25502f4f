package s3_test

import (
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"pgregory.net/rapid"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/object"
	"steward/internal/object/s3"
)

// writes are the writes of S3 on an object and its bucket, each of which would change the object if
// what it is asked for was ignored.
func writes(key, upload string) []call {
	return []call{
		{method: "PUT", path: key, body: "changed"},
		{method: "PUT", path: key, header: map[string]string{"X-Amz-Copy-Source": "/docs/other"}},
		{method: "PUT", path: key + "?tagging=", body: "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>"},
		{method: "PUT", path: key + "?partNumber=1&uploadId=" + upload, body: "changed"},
		{method: "POST", path: key + "?uploads="},
		{method: "POST", path: key + "?uploadId=" + upload, body: "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>x</ETag></Part></CompleteMultipartUpload>"},
		{method: "DELETE", path: key},
		{method: "DELETE", path: key + "?tagging="},
		{method: "DELETE", path: key + "?uploadId=" + upload},
		{method: "POST", path: "/docs?delete=", body: "<Delete><Object><Key>a</Key></Object></Delete>"},
		{method: "PUT", path: "/docs"},
		{method: "DELETE", path: "/docs"},
	}
}

// with returns a call with another query name or header.
func (c call) with(query, header, value string) call {
	if query != "" {
		separator := "?"
		if strings.Contains(c.path, "?") {
			separator = "&"
		}
		c.path += separator + url.QueryEscape(query) + "=" + url.QueryEscape(value)
	}
	headers := map[string]string{}
	maps.Copy(headers, c.header)
	if header != "" {
		headers[header] = value
	}
	c.header = headers
	return c
}

// checkRefused fails unless a write is refused with 400 or 501.
func (f *fixture) checkRefused(t rapid.TB, c call) {
	got := f.do(c)
	if got.status != http.StatusNotImplemented && got.status != http.StatusBadRequest {
		t.Errorf("%s %s %v: got %d %s", c.method, c.path, c.header, got.status, got.body)
	}
}

// wantUnchanged fails unless the object a, its tags and its upload are what they were.
func (f *fixture) wantUnchanged(b *object.Bucket, upload string) {
	f.Helper()
	if got := f.get(b, "a"); got != "before" {
		f.Errorf("the object is %q", got)
	}
	stat, err := f.client(b).StatObject(f.Context(), b.Name, "a", minio.StatObjectOptions{})
	check(f, err)
	if stat.UserTagCount != 1 || stat.UserMetadata["Color"] != "red" {
		f.Errorf("the object has %d tags, metadata %v", stat.UserTagCount, stat.UserMetadata)
	}
	parts, err := f.core(b).ListObjectParts(f.Context(), b.Name, "a", upload, 0, 10)
	check(f, err)
	if len(parts.ObjectParts) != 0 {
		f.Errorf("the upload has %d parts", len(parts.ObjectParts))
	}
}

func (f *fixture) unchangeable() (b *object.Bucket, upload string) {
	f.Helper()
	b = f.newBucket("docs")
	f.put(b, "other", "other")
	_, err := f.client(b).PutObject(f.Context(), b.Name, "a", strings.NewReader("before"), 6,
		minio.PutObjectOptions{UserMetadata: map[string]string{"color": "red"}, UserTags: map[string]string{"k": "v"}})
	check(f, err)
	upload, _ = f.upload(b, "a", minio.PutObjectOptions{})
	return b, upload
}

func TestUnknownNamesAreRefused(t *testing.T) {
	f := start(t, dbtest.Open(t, db.SQLite), &s3.Server{})
	b, upload := f.unchangeable()
	calls := writes("/docs/a", upload)
	rapid.Check(t, func(r *rapid.T) {
		c := rapid.SampledFrom(calls).Draw(r, "write")
		c.by = b
		name := rapid.StringMatching(`q[a-zA-Z][a-zA-Z0-9-]{0,20}`).Draw(r, "name")
		value := rapid.StringMatching(`[a-zA-Z0-9]{0,8}`).Draw(r, "value")
		if rapid.Bool().Draw(r, "header") {
			f.checkRefused(r, c.with("", "X-Amz-"+name, value))
		} else {
			f.checkRefused(r, c.with(name, "", value))
		}
	})
	f.wantUnchanged(b, upload)
}

// TestWhatIsNotCarriedOutIsRefused sends what S3 knows and this server does not.
func TestWhatIsNotCarriedOutIsRefused(t *testing.T) {
	f := onSQLite(t)
	b, upload := f.unchangeable()
	for _, sub := range []string{
		"renameObject", "encryption", "restore", "torrent", "annotation", "legal-hold", "retention", "acl", "attributes", "select",
		"versions", "append", "Tagging", "policy", "cors", "lifecycle", "versioning", "object-lock", "website", "metrics", "uploadid", "x-amz-meta-color", "x-amz-tagging", "X-Amz-Server-Side-Encryption",
	} {
		for _, c := range writes("/docs/a", upload) {
			c.by = b
			f.checkRefused(t, c.with(sub, "", ""))
		}
	}
	for _, method := range []string{"PUT", "DELETE"} {
		for _, sub := range []string{
			"accelerate", "acl", "analytics", "cors", "encryption", "intelligent-tiering", "inventory", "lifecycle", "logging", "metrics",
			"notification", "object-lock", "ownershipControls", "policy", "publicAccessBlock", "replication", "requestPayment", "tagging",
			"versioning", "website",
		} {
			f.checkRefused(t, call{method: method, path: "/docs?" + sub + "=", by: b, body: "{}"})
		}
	}
	f.checkRefused(t, call{method: "PUT", path: "/docs?acl=", by: b, header: map[string]string{"X-Amz-Acl": "private"}})
	f.checkRefused(t, call{method: "PUT", path: "/docs/a?acl=", by: b, header: map[string]string{"X-Amz-Acl": "public-read"}})
	for _, path := range []string{"/docs?acl", "/docs/a?acl", "/docs/a"} {
		f.do(call{method: "PUT", path: path, by: b, header: map[string]string{"X-Amz-Acl": "public-ready"}}).
			want(t, path+" with an ACL that S3 does not know", 400, "InvalidArgument")
	}
	f.checkRefused(t, call{method: "PUT", path: "/docs?versioning=", by: b, body: "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"})
	f.checkRefused(t, call{method: "PUT", path: "/docs/a?retention=", by: b, body: "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2050-01-01T00:00:00Z</RetainUntilDate></Retention>"})
	f.checkRefused(t, call{method: "PUT", path: "/docs/a?legal-hold=", by: b, body: "<LegalHold><Status>ON</Status></LegalHold>"})
	f.checkRefused(t, call{method: "POST", path: "/docs/a?restore=", by: b, body: "<RestoreRequest><Days>1</Days></RestoreRequest>"})
	for name, value := range map[string]string{
		"X-Amz-Server-Side-Encryption":                                "AES256",
		"x-amz-server-side-encryption":                                "aws:kms",
		"X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id":                 "k",
		"X-Amz-Server-Side-Encryption-Customer-Algorithm":             "AES256",
		"X-Amz-Server-Side-Encryption-Bucket-Key-Enabled":             "true",
		"X-Amz-Write-Offset-Bytes":                                    "6",
		"X-Amz-Acl":                                                   "public-read",
		"X-Amz-Grant-Read":                                            `uri="http://acs.amazonaws.com/groups/global/AllUsers"`,
		"X-Amz-Website-Redirect-Location":                             "/elsewhere",
		"X-Amz-Object-Lock-Mode":                                      "GOVERNANCE",
		"X-Amz-Object-Lock-Retain-Until-Date":                         "2050-01-01T00:00:00Z",
		"X-Amz-Object-Lock-Legal-Hold":                                "ON",
		"X-Amz-Bypass-Governance-Retention":                           "true",
		"X-Amz-Mfa":                                                   "serial 123456",
		"X-Amz-If-Match-Size":                                         "1",
		"X-Amz-If-Match-Last-Modified-Time":                           "Mon, 02 Jan 2006 15:04:05 GMT",
		"X-Amz-Copy-Source-Server-Side-Encryption-Customer-Algorithm": "AES256",
	} {
		for _, c := range writes("/docs/a", upload) {
			c.by = b
			f.checkRefused(t, c.with("", name, value))
		}
	}
	for _, name := range []string{"X-Amz-Checksum-Sha512", "X-Amz-Checksum-Md5", "X-Amz-Checksum-Xxhash64", "X-Amz-Checksum-None"} {
		f.checkRefused(t, call{method: "PUT", path: "/docs/a", by: b, body: "changed", header: map[string]string{name: "AAAA"}})
	}
	f.checkRefused(t, call{method: "PUT", path: "/docs/a", by: b, body: "x", header: map[string]string{"X-Amz-Storage-Class": "OUTPOSTS"}})
	f.wantUnchanged(b, upload)
}

// TestReadsIgnoreUnknownNames shows that GET and HEAD refuse sub-resources only.
func TestReadsIgnoreUnknownNames(t *testing.T) {
	f := start(t, dbtest.Open(t, db.SQLite), &s3.Server{})
	b, _ := f.unchangeable()
	for _, method := range []string{"GET", "HEAD"} {
		for _, sub := range []string{"torrent", "legal-hold", "retention", "annotation", "restore", "renameObject", "select", "encryption"} {
			f.do(call{method: method, path: "/docs/a?" + sub + "=", by: b}).want(t, method+" "+sub, 501, "")
		}
		for _, sub := range []string{"versions", "inventory", "metrics", "analytics", "intelligent-tiering", "metadataTable", "session"} {
			f.do(call{method: method, path: "/docs?" + sub + "=", by: b}).want(t, method+" bucket "+sub, 501, "")
		}
		for _, name := range []string{"v", "utm_source", "location", "x-amz-foo", "response-content-type", "x-id"} {
			f.do(call{method: method, path: "/docs/a?" + name + "=1", by: b, header: map[string]string{"X-Amz-Foo": "1"}}).want(t, method+" "+name, 200, "")
		}
	}
}

// TestKnownNamesAreAccepted sends what clients of S3 add to requests of all kinds.
func TestKnownNamesAreAccepted(t *testing.T) {
	f := start(t, dbtest.Open(t, db.SQLite), &s3.Server{})
	b := f.newBucket("docs")
	headers := map[string]string{
		"X-Amz-User-Agent": "aws-sdk-js/3", "X-Amz-Expected-Bucket-Owner": b.AccessKey, "X-Amz-Request-Payer": "requester",
		"X-Amz-Sdk-Checksum-Algorithm": "CRC32", "X-Amz-Checksum-Crc32": "jNwWgw==", "X-Amz-Cf-Id": "x", "X-Amzn-Trace-Id": "Root=1", "Amz-Sdk-Request": "attempt=1",
	}
	for _, acl := range []string{"private", "bucket-owner-full-control"} {
		headers["X-Amz-Acl"] = acl
		f.do(call{method: "PUT", path: "/docs/a?x-id=PutObject&x-amz-user-agent=x&x-amz-acl=private", by: b, header: headers, body: "x"}).want(t, acl, 200, "")
	}
	delete(headers, "X-Amz-Acl")
	f.do(call{method: "DELETE", path: "/docs/a?x-id=DeleteObject&versionId=null", by: b, header: headers}).want(t, "DELETE", 204, "")
	f.do(call{method: "PUT", path: "/docs", by: b, header: map[string]string{"X-Amz-Acl": "private"}}).want(t, "CreateBucket", 409, "BucketAlreadyOwnedByYou")
}

func TestCopyConditions(t *testing.T) {
	f := start(t, dbtest.Open(t, db.SQLite), &s3.Server{})
	b := f.newBucket("docs")
	f.put(b, "a", "source")
	f.put(b, "b", "target")
	for name, value := range map[string]string{"If-None-Match": "*", "If-Match": `"other"`} {
		f.do(call{method: "PUT", path: "/docs/b", by: b, header: map[string]string{"X-Amz-Copy-Source": "/docs/a", name: value}}).
			want(t, name, 412, "PreconditionFailed")
	}
	if got := f.get(b, "b"); got != "target" {
		t.Errorf("the object is %q", got)
	}
}
