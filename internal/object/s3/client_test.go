package s3_test

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"

	"steward/internal/object"
)

// TestChecksumOfNoBytesInAPresignedURL presigns as the AWS SDK for JavaScript does: it signs the checksum of a body
// that it does not know yet.
func TestChecksumOfNoBytesInAPresignedURL(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	query := url.Values{
		"x-amz-checksum-crc32": {"AAAAAA=="}, "x-amz-sdk-checksum-algorithm": {"CRC32"}, "x-amz-meta-color": {"red"},
		"x-amz-storage-class": {"STANDARD_IA"}, "x-amz-tagging": {"team=storage"}, "x-id": {"PutObject"},
	}
	signed, err := f.client(b).PresignHeader(t.Context(), "PUT", b.Name, "a", time.Hour, query, nil)
	check(t, err)
	for _, content := range []string{"hello", ""} {
		f.open("PUT", signed.String(), content).want(t, "PUT", 200, "")
		got := f.do(call{method: "GET", path: "/docs/a", by: b, header: map[string]string{"X-Amz-Checksum-Mode": "ENABLED"}})
		h := got.header
		if got.body != content || h.Get("X-Amz-Meta-Color") != "red" || h.Get("X-Amz-Storage-Class") != "STANDARD_IA" || h.Get("X-Amz-Tagging-Count") != "1" {
			t.Errorf("%q: got %q %v", content, got.body, h)
		}
		if sum := h.Get("X-Amz-Checksum-Crc32"); sum != minio.ChecksumCRC32.EncodeToString([]byte(content)) {
			t.Errorf("%q: the checksum is %q", content, sum)
		}
	}
	query.Set("x-amz-server-side-encryption", "AES256")
	signed, err = f.client(b).PresignHeader(t.Context(), "PUT", b.Name, "a", time.Hour, query, nil)
	check(t, err)
	f.open("PUT", signed.String(), "x").want(t, "a header that is not carried out", 501, "NotImplemented")
	header := map[string]string{"X-Amz-Checksum-Crc32": "AAAAAA=="}
	f.do(call{method: "PUT", path: "/docs/a", by: b, body: "x", header: header}).want(t, "the same checksum in a header", 400, "BadDigest")
}

func TestAttributesAreThoseThatAreAskedFor(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	algorithm := minio.PutObjectOptions{UserMetadata: map[string]string{"X-Amz-Checksum-Algorithm": "CRC32C"}}
	id, parts := f.upload(b, "a", algorithm, randomBytes(5<<20), []byte("end"))
	_, err := f.core(b).CompleteMultipartUpload(t.Context(), b.Name, "a", id, parts, minio.PutObjectOptions{})
	check(t, err)
	for asked, want := range map[string][]string{
		"ETag, ObjectSize":            {"ETag", "ObjectSize"},
		"StorageClass":                {"StorageClass"},
		"Checksum,ObjectParts , ETag": {"ETag", "Checksum", "ObjectParts", "PartsCount>2<", "ChecksumType>COMPOSITE<"},
	} {
		got := f.do(call{method: "GET", path: "/docs/a?attributes", by: b, header: map[string]string{"X-Amz-Object-Attributes": asked}})
		for _, name := range []string{"ETag", "ObjectSize", "StorageClass", "Checksum", "ObjectParts", "PartsCount>2<", "ChecksumType>COMPOSITE<"} {
			wanted := strings.Contains(strings.Join(want, " ")+" ", name+" ")
			if got.status != 200 || strings.Contains(got.body, "<"+strings.TrimSuffix(name, "<")) != wanted {
				t.Errorf("%s: %s is there: %v, got %d %s", asked, name, !wanted, got.status, got.body)
			}
		}
	}
	for _, asked := range []string{"", "Size", "ETag, Etag"} {
		got := f.do(call{method: "GET", path: "/docs/a?attributes", by: b, header: map[string]string{"X-Amz-Object-Attributes": asked}})
		got.want(t, asked, 400, "")
	}
	head := f.do(call{method: "HEAD", path: "/docs/a?partNumber=2", by: b})
	if head.status != 206 || head.header.Get("X-Amz-Mp-Parts-Count") != "2" || head.header.Get("Content-Length") != "3" {
		t.Errorf("HEAD of a part: got %d %v", head.status, head.header)
	}
	f.do(call{method: "GET", path: "/docs/a?partNumber=3", by: b}).want(t, "a part that is not there", 416, "InvalidPartNumber")
	f.do(call{method: "GET", path: "/docs/a?partNumber=0", by: b}).want(t, "no part", 400, "InvalidArgument")
}

func TestHeadersComeBackAsTheyWereSent(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	for sent, want := range map[string]string{
		"deflate, gzip": "deflate, gzip", "gzip": "gzip", "aws-chunked": "", "aws-chunked, deflate, gzip": "deflate, gzip", "gzip,aws-chunked": "gzip",
	} {
		f.do(call{method: "PUT", path: "/docs/a", by: b, body: "x", header: map[string]string{"Content-Encoding": sent}}).want(t, sent, 200, "")
		got := f.do(call{method: "HEAD", path: "/docs/a", by: b}).header
		if got.Get("Content-Encoding") != want {
			t.Errorf("%s: Content-Encoding is %q, want %q", sent, got.Get("Content-Encoding"), want)
		}
	}
	for sent, want := range map[string]string{
		"plain": "plain", "ÄMÄZÕÑ S3": "=?UTF-8?b?w4RNw4Raw5XDkSBTMw==?=", "=?UTF-8?B?w4Q=?=": "=?UTF-8?B?w4Q=?=", "\xc4": "=?UTF-8?b?w4Q=?=",
	} {
		f.do(call{method: "PUT", path: "/docs/a", by: b, body: "x", header: map[string]string{"X-Amz-Meta-Name": sent}}).want(t, sent, 200, "")
		if got := f.do(call{method: "HEAD", path: "/docs/a", by: b}).header.Get("X-Amz-Meta-Name"); got != want {
			t.Errorf("metadata %q is %q, want %q", sent, got, want)
		}
	}
	large := map[string]string{"X-Amz-Meta-Large": strings.Repeat("x", 2<<10)}
	f.do(call{method: "PUT", path: "/docs/a", by: b, body: "x", header: large}).want(t, "more than 2 KiB of metadata", 400, "MetadataTooLarge")
}

// TestWhatIsNotConfigured reads configurations as tools do that compare a bucket with what they expect.
func TestWhatIsNotConfigured(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	f.put(b, "a", "x")
	for sub, code := range map[string]string{
		"lifecycle": "NoSuchLifecycleConfiguration", "encryption": "ServerSideEncryptionConfigurationNotFoundError",
		"publicAccessBlock": "NoSuchPublicAccessBlockConfiguration", "website": "NoSuchWebsiteConfiguration",
		"replication": "ReplicationConfigurationNotFoundError", "tagging": "NoSuchTagSet", "policy": "NoSuchBucketPolicy",
		"object-lock": "ObjectLockConfigurationNotFoundError",
	} {
		f.do(call{method: "GET", path: "/docs?" + sub, by: b}).want(t, sub, 404, code)
	}
	for sub, root := range map[string]string{
		"logging": "BucketLoggingStatus", "notification": "NotificationConfiguration", "accelerate": "AccelerateConfiguration",
		"versioning": "VersioningConfiguration", "location": "LocationConstraint",
	} {
		got := f.do(call{method: "GET", path: "/docs?" + sub, by: b})
		if want := "<" + root + ` xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></` + root + ">"; got.status != 200 || !strings.HasSuffix(got.body, want) {
			t.Errorf("%s: got %d %s", sub, got.status, got.body)
		}
	}
	for _, path := range []string{"/docs?acl", "/docs/a?acl"} {
		var acl struct {
			Owner struct{ ID string }
			Grant []struct {
				Grantee    struct{ ID string }
				Permission string
			} `xml:"AccessControlList>Grant"`
		}
		got := f.do(call{method: "GET", path: path, by: b})
		check(t, xml.Unmarshal([]byte(got.body), &acl))
		if acl.Owner.ID != b.AccessKey || len(acl.Grant) != 1 || acl.Grant[0].Grantee.ID != b.AccessKey || acl.Grant[0].Permission != "FULL_CONTROL" {
			t.Errorf("%s: got %d %s", path, got.status, got.body)
		}
	}
	f.do(call{method: "GET", path: "/docs/none?acl", by: b}).want(t, "the ACL of nothing", 404, "NoSuchKey")
	for path, words := range map[string]string{"/docs?inventory": "GET with the sub-resource inventory", "/docs/a?torrent": "GET with the sub-resource torrent"} {
		if got := f.do(call{method: "GET", path: path, by: b}); got.status != 501 || !strings.Contains(got.body, words) {
			t.Errorf("%s: got %d %s", path, got.status, got.body)
		}
	}
	got := f.do(call{method: "PUT", path: "/docs/a", by: b, body: "x", header: map[string]string{"X-Amz-Server-Side-Encryption": "AES256"}})
	if got.status != 501 || !strings.Contains(got.body, "x-amz-server-side-encryption") {
		t.Errorf("encryption: got %d %s", got.status, got.body)
	}
}

func TestEmptyContinuationToken(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	f.plant(b, []string{"a", "b"})
	got := f.do(call{method: "GET", path: "/docs?list-type=2&continuation-token=", by: b})
	if got.status != 200 || !strings.Contains(got.body, "<ContinuationToken></ContinuationToken>") || strings.Count(got.body, "<Key>") != 2 {
		t.Errorf("got %d %s", got.status, got.body)
	}
}

func TestErrorsOfParts(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	f.put(b, "src", "0123456789")
	id, _ := f.upload(b, "a", minio.PutObjectOptions{})
	path := "/docs/a?partNumber=1&uploadId=" + id
	copyOf := func(span string) response {
		return f.do(call{method: "PUT", path: path, by: b, header: map[string]string{"X-Amz-Copy-Source": "/docs/src", "X-Amz-Copy-Source-Range": span}})
	}
	copyOf("bytes=0-10").want(t, "a range after the end", 416, "InvalidRange")
	copyOf("bytes=0").want(t, "no range", 400, "InvalidArgument")
	copyOf("bytes=5-2").want(t, "a range backwards", 400, "InvalidArgument")
	copyOf("bytes=2-3").want(t, "a range", 200, "")
	// The same part is sent twice, as by a client that has not seen the first answer.
	for range 2 {
		f.do(call{method: "PUT", path: path, by: b, body: "again"}).want(t, "a part", 200, "")
	}
	etag := f.do(call{method: "PUT", path: path, by: b, body: "again", header: map[string]string{"X-Amz-Checksum-Crc32": minio.ChecksumCRC32.EncodeToString([]byte("again"))}}).header.Get("Etag")
	f.do(call{method: "PUT", path: path, by: b, body: "again"}).want(t, "the part without its checksum", 200, "")
	complete := func(part string) response {
		return f.do(call{method: "POST", path: "/docs/a?uploadId=" + id, by: b, body: "<CompleteMultipartUpload>" + part + "</CompleteMultipartUpload>"})
	}
	complete("").want(t, "no parts", 400, "MalformedXML")
	complete("<Part><PartNumber>1</PartNumber></Part>").want(t, "no ETag", 400, "MalformedXML")
	complete("<Part><PartNumber>0</PartNumber><ETag>x</ETag></Part>").want(t, "no part", 400, "InvalidArgument")
	complete("<Part><PartNumber>1</PartNumber><ETag>x</ETag></Part>").want(t, "another part", 400, "InvalidPart")
	first := "<Part><PartNumber>1</PartNumber><ETag>" + strings.Repeat("0", 32) + "</ETag></Part>"
	last := "<Part><PartNumber>1</PartNumber><ETag>" + etag + "</ETag></Part>"
	complete(last+first).want(t, "an answer that is not the last", 400, "InvalidPart")
	complete(first+last).want(t, "both answers for the part", 200, "")
}

// TestMultipartAnswersHaveTheTypeOfTheChecksum follows an upload with each type.
func TestMultipartAnswersHaveTheTypeOfTheChecksum(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	for _, test := range []struct{ algorithm, kind, want string }{
		{"CRC32", "", "COMPOSITE"}, {"crc32c", "FULL_OBJECT", "FULL_OBJECT"}, {"CRC64NVME", "", "FULL_OBJECT"}, {"SHA256", "COMPOSITE", "COMPOSITE"},
	} {
		header := map[string]string{"X-Amz-Checksum-Algorithm": test.algorithm}
		if test.kind != "" {
			header["X-Amz-Checksum-Type"] = test.kind
		}
		created := f.do(call{method: "POST", path: "/docs/a?uploads", by: b, header: header})
		if created.header.Get("X-Amz-Checksum-Type") != test.want || created.header.Get("X-Amz-Checksum-Algorithm") != strings.ToUpper(test.algorithm) {
			t.Errorf("%v: created with %v", test, created.header)
		}
		var upload struct {
			UploadID string `xml:"UploadId"`
		}
		check(t, xml.Unmarshal([]byte(created.body), &upload))
		part := f.do(call{method: "PUT", path: "/docs/a?partNumber=1&uploadId=" + upload.UploadID, by: b, body: "x"})
		body := fmt.Sprintf("<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>%s</ETag></Part></CompleteMultipartUpload>", part.header.Get("Etag"))
		done := f.do(call{method: "POST", path: "/docs/a?uploadId=" + upload.UploadID, by: b, body: body})
		if !strings.Contains(done.body, "<ChecksumType>"+test.want+"</ChecksumType>") {
			t.Errorf("%v: completed with %s", test, done.body)
		}
	}
	for algorithm, kind := range map[string]string{"SHA1": "FULL_OBJECT", "CRC64NVME": "COMPOSITE", "CRC32": "OTHER", "": "COMPOSITE"} {
		header := map[string]string{"X-Amz-Checksum-Algorithm": algorithm, "X-Amz-Checksum-Type": kind}
		f.do(call{method: "POST", path: "/docs/a?uploads", by: b, header: header}).want(t, algorithm+" "+kind, 400, "InvalidRequest")
	}
}

// TestConditionsOfFormsInAnyCase has a policy as some libraries write it.
func TestConditionsOfFormsInAnyCase(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	post := func(content string, conditions []any, fields map[string]string) response {
		for _, name := range []string{"key", "x-amz-algorithm", "x-amz-credential", "x-amz-date"} {
			conditions = append(conditions, []any{"Starts-With", "$" + strings.ToUpper(name), ""})
		}
		f.signFormWith(b, fields, conditions)
		return f.post(f.server.Origin+"/docs", fields, content)
	}
	sum := minio.ChecksumSHA256.EncodeToString([]byte("hello"))
	conditions := []any{
		map[string]string{"Bucket": "docs"},
		[]any{"EQ", "$Content-Type", "text/plain"},
		[]any{"Content-Length-Range", 1, "5"},
		map[string]string{"X-Amz-Checksum-SHA256": sum},
		map[string]string{"Success_Action_Status": "201"},
	}
	fields := map[string]string{"key": "a", "Content-Type": "text/plain", "x-amz-checksum-sha256": sum, "success_action_status": "201"}
	got := post("hello", conditions, fields)
	if got.status != 201 || !strings.Contains(got.body, "<PostResponse><Location>"+f.server.Origin+"/docs/a</Location><Bucket>docs</Bucket><Key>a</Key>") ||
		got.header.Get("X-Amz-Checksum-Sha256") != sum {
		t.Errorf("got %d %s %v", got.status, got.body, got.header)
	}
	post("hallo", conditions, fields).want(t, "another file", 400, "BadDigest")
	fields["x-amz-meta-extra"] = "1"
	post("hello", conditions, fields).want(t, "a field without a condition", 403, "AccessDenied")
	delete(fields, "x-amz-meta-extra")
	for what, condition := range map[string]any{
		"another operator": []any{"ends-with", "$key", "a"}, "a number": map[string]any{"acl": 1}, "no field": []any{"eq", "key", "a"},
		"two parts": []any{"eq", "$key"}, "a text": "key", "no sizes": []any{"content-length-range", "a", "b"}, "negative": []any{"content-length-range", -1, 5},
	} {
		post("hello", append(conditions[:len(conditions):len(conditions)], condition), fields).want(t, what, 400, "InvalidPolicyDocument")
	}
}

// TestFilesAreSentWhole reads objects of sizes around those that change how they are sent, and ranges of them.
func TestFilesAreSentWhole(t *testing.T) {
	f := onSQLite(t)
	b := f.newBucket("docs")
	for _, size := range []int{0, 1, 511, 512, 513, 16 << 10, 16<<10 + 1, 1 << 20, 9<<20 + 7} {
		content := string(randomBytes(size))
		_, err := f.index.Put(t.Context(), b, object.PutRequest{Key: "a"}, strings.NewReader(content), int64(size))
		check(t, err)
		if got := f.do(call{method: "GET", path: "/docs/a", by: b}); got.body != content {
			t.Errorf("%d bytes: got %d, status %d", size, len(got.body), got.status)
		}
		if size > 2 {
			got := f.do(call{method: "GET", path: "/docs/a", by: b, header: map[string]string{"Range": fmt.Sprintf("bytes=1-%d", size-2)}})
			if got.status != http.StatusPartialContent || got.body != content[1:size-1] {
				t.Errorf("all but two of %d bytes: got %d, status %d", size, len(got.body), got.status)
			}
		}
	}
}
