package s3_test

import (
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"

	"steward/internal/object"
)

func base64Of(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

var tree = []string{"a", "a/b", "a/c/d", "b/", "b//x", "c", "d/1", "d/2", "e"}

func (f *fixture) plant(b *object.Bucket, keys []string) {
	f.Helper()
	for _, key := range keys {
		f.put(b, key, key)
	}
}

func TestListPagesWithDelimiter(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		f.plant(b, tree)
		for _, test := range []struct {
			prefix, delimiter string
			want              []string
		}{
			{"", "", tree},
			{"", "/", []string{"a", "a/", "b/", "c", "d/", "e"}},
			{"a/", "/", []string{"a/b", "a/c/"}},
			{"b/", "/", []string{"b/", "b//"}},
			{"d", "", []string{"d/1", "d/2"}},
			{"none", "", nil},
		} {
			for _, size := range []int{1, 2, 3, 1000} {
				if diff := cmp.Diff(test.want, f.listV1(b, test.prefix, test.delimiter, size)); diff != "" {
					t.Errorf("v1 of %q by %q in pages of %d (-want +got):\n%s", test.prefix, test.delimiter, size, diff)
				}
				if diff := cmp.Diff(test.want, f.listV2(b, test.prefix, test.delimiter, size)); diff != "" {
					t.Errorf("v2 of %q by %q in pages of %d (-want +got):\n%s", test.prefix, test.delimiter, size, diff)
				}
			}
		}
	})
}

func (f *fixture) listV1(b *object.Bucket, prefix, delimiter string, size int) (all []string) {
	f.Helper()
	for marker := ""; ; {
		l, err := f.core(b).ListObjects(b.Name, prefix, marker, delimiter, size)
		check(f, err)
		all = append(all, merged(l.Contents, l.CommonPrefixes)...)
		if !l.IsTruncated {
			return all
		}
		marker = l.NextMarker
	}
}

func (f *fixture) listV2(b *object.Bucket, prefix, delimiter string, size int) (all []string) {
	f.Helper()
	for token := ""; ; {
		l, err := f.core(b).ListObjectsV2(b.Name, prefix, "", token, delimiter, size)
		check(f, err)
		all = append(all, merged(l.Contents, l.CommonPrefixes)...)
		if !l.IsTruncated {
			return all
		}
		token = l.NextContinuationToken
	}
}

func merged(objects []minio.ObjectInfo, prefixes []minio.CommonPrefix) (all []string) {
	for _, o := range objects {
		all = append(all, o.Key)
	}
	for _, p := range prefixes {
		all = append(all, p.Prefix)
	}
	slices.Sort(all)
	return all
}

func TestListStartsAfterKey(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		f.plant(b, tree)
		l, err := f.core(b).ListObjectsV2(b.Name, "", "b/", "", "", 1000)
		check(t, err)
		if got := merged(l.Contents, nil); !slices.Equal(got, []string{"b//x", "c", "d/1", "d/2", "e"}) {
			t.Errorf("keys after b/ = %q", got)
		}
		f.do(call{method: "GET", path: "/docs?list-type=2&max-keys=0", by: b}).want(t, "no keys", 200, "")
		f.do(call{method: "GET", path: "/docs?list-type=2&continuation-token=%21", by: b}).want(t, "invalid token", 400, "InvalidArgument")
		f.do(call{method: "GET", path: "/docs?list-type=2&prefix=%FF", by: b}).want(t, "prefix that is not UTF-8", 400, "InvalidArgument")
		f.do(call{method: "GET", path: "/docs?list-type=2&encoding-type=hex", by: b}).want(t, "unknown encoding", 400, "InvalidArgument")
	})
}

func TestListedKeysKeepEveryCharacter(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		want := []string{"a\x01b", "a b", "a%20b", "a&b<c>", "a+b", "ü/\U0001F600", "日本"}
		f.plant(b, want)
		slices.Sort(want)
		if diff := cmp.Diff(want, f.listV2(b, "", "", 1000)); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
		got := f.do(call{method: "GET", path: "/docs?list-type=2&prefix=a%2B", by: b})
		if !strings.Contains(got.body, "<Key>a+b</Key>") {
			t.Errorf("without an encoding: %s", got.body)
		}
	})
}

func TestListOfLongKeysIsCutIntoPages(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		var want []string
		for i := range 600 {
			want = append(want, fmt.Sprintf("%04d", i)+strings.Repeat(`"`, 1020))
		}
		for _, key := range want {
			_, err := f.index.Put(t.Context(), b, object.PutRequest{Key: key}, strings.NewReader(""), 0)
			check(t, err)
		}
		if got := f.listV2(b, "", "", 1000); !slices.Equal(got, want) {
			t.Errorf("%d keys, want %d", len(got), len(want))
		}
	})
}

// TestListsHaveKindsOfChecksums compares what lists say of checksums with what the objects have.
func TestListsHaveKindsOfChecksums(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		f.do(call{method: "PUT", path: "/docs/none", by: b, body: "x"}).want(t, "put", 200, "")
		for _, c := range []minio.ChecksumType{minio.ChecksumSHA256, minio.ChecksumCRC64NVME} {
			_, err := f.client(b).PutObject(t.Context(), b.Name, c.String(), strings.NewReader("x"), 1, minio.PutObjectOptions{Checksum: c})
			check(t, err)
		}
		id, parts := f.upload(b, "parts", minio.PutObjectOptions{UserMetadata: map[string]string{"X-Amz-Checksum-Algorithm": "CRC32C"}}, []byte("x"))
		listed := f.do(call{method: "GET", path: "/docs/parts?uploadId=" + id, by: b}).body + f.do(call{method: "GET", path: "/docs?uploads=", by: b}).body
		const kind = "<ChecksumAlgorithm>CRC32C</ChecksumAlgorithm><ChecksumType>COMPOSITE</ChecksumType>"
		if strings.Count(listed, kind) != 2 {
			t.Errorf("parts and uploads: %s", listed)
		}
		_, err := f.core(b).CompleteMultipartUpload(t.Context(), b.Name, "parts", id, parts, minio.PutObjectOptions{})
		check(t, err)
		for _, path := range []string{"/docs", "/docs?list-type=2"} {
			var list struct {
				Contents []struct{ Key, ChecksumAlgorithm, ChecksumType string }
			}
			check(t, xml.Unmarshal([]byte(f.do(call{method: "GET", path: path, by: b}).body), &list))
			got := map[string]string{}
			for _, o := range list.Contents {
				got[o.Key] = o.ChecksumAlgorithm + " " + o.ChecksumType
			}
			want := map[string]string{
				"none": " ", "SHA256": "SHA256 FULL_OBJECT", "CRC64NVME": "CRC64NVME FULL_OBJECT", "parts": "CRC32C COMPOSITE",
			}
			if !maps.Equal(got, want) {
				t.Errorf("%s: %q, want %q", path, got, want)
			}
		}
	})
}
