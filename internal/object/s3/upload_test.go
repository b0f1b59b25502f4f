package s3_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"steward/internal/object"
)

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(b)
	return b
}

func TestMultipartUploadByClient(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		content := randomBytes(25 << 20)
		info, err := f.client(b).PutObject(t.Context(), b.Name, "big", bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{
			PartSize: 10 << 20, ContentType: "application/zip", UserMetadata: map[string]string{"k": "v"}, UserTags: map[string]string{"t": "1"},
		})
		check(t, err)
		if !strings.HasSuffix(info.ETag, "-3") {
			t.Errorf("ETag = %q, want that of 3 parts", info.ETag)
		}
		if got := f.read(b, "big", minio.GetObjectOptions{}); !bytes.Equal(got, content) {
			t.Error("the content differs")
		}
		over := minio.GetObjectOptions{}
		check(t, over.SetRange(10<<20-5, 10<<20+5))
		if got := f.read(b, "big", over); !bytes.Equal(got, content[10<<20-5:10<<20+6]) {
			t.Error("the range over two parts differs")
		}
		if got := f.read(b, "big", minio.GetObjectOptions{PartNumber: 2}); !bytes.Equal(got, content[10<<20:20<<20]) {
			t.Errorf("part 2 has %d bytes", len(got))
		}
		stat, err := f.client(b).StatObject(t.Context(), b.Name, "big", minio.StatObjectOptions{})
		check(t, err)
		if stat.ContentType != "application/zip" || stat.UserMetadata["K"] != "v" || stat.UserTagCount != 1 {
			t.Errorf("stat = %+v", stat)
		}
		attributes, err := f.client(b).GetObjectAttributes(t.Context(), b.Name, "big", minio.ObjectAttributesOptions{})
		check(t, err)
		if len(attributes.ObjectParts.Parts) != 3 || attributes.ObjectParts.Parts[2].Size != 5<<20 {
			t.Errorf("parts = %+v", attributes.ObjectParts)
		}
	})
}

// upload uploads parts and returns them for completion.
func (f *fixture) upload(b *object.Bucket, key string, o minio.PutObjectOptions, parts ...[]byte) (string, []minio.CompletePart) {
	f.Helper()
	id, err := f.core(b).NewMultipartUpload(f.Context(), b.Name, key, o)
	check(f, err)
	var done []minio.CompletePart
	for i, content := range parts {
		p, err := f.core(b).PutObjectPart(f.Context(), b.Name, key, id, i+1, bytes.NewReader(content), int64(len(content)), minio.PutObjectPartOptions{})
		check(f, err)
		done = append(done, minio.CompletePart{PartNumber: p.PartNumber, ETag: p.ETag})
	}
	return id, done
}

func TestMultipartUploadStepByStep(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		first := randomBytes(5 << 20)
		id, parts := f.upload(b, "a", minio.PutObjectOptions{}, first, []byte("end"))
		l, err := f.core(b).ListObjectParts(t.Context(), b.Name, "a", id, 0, 1)
		check(t, err)
		if len(l.ObjectParts) != 1 || !l.IsTruncated || l.ObjectParts[0].Size != 5<<20 {
			t.Errorf("first page of parts = %+v", l)
		}
		l, err = f.core(b).ListObjectParts(t.Context(), b.Name, "a", id, l.NextPartNumberMarker, 1)
		check(t, err)
		if len(l.ObjectParts) != 1 || l.IsTruncated || l.ObjectParts[0].PartNumber != 2 {
			t.Errorf("second page of parts = %+v", l)
		}
		complete := func(parts ...minio.CompletePart) error {
			_, err := f.core(b).CompleteMultipartUpload(t.Context(), b.Name, "a", id, parts, minio.PutObjectOptions{})
			return err
		}
		wantCode(t, "wrong order", complete(parts[1], parts[0]), "InvalidPartOrder")
		wantCode(t, "wrong ETag", complete(minio.CompletePart{PartNumber: 1, ETag: parts[1].ETag}), "InvalidPart")
		wantCode(t, "missing part", complete(parts[0], minio.CompletePart{PartNumber: 9, ETag: parts[1].ETag}), "InvalidPart")
		if got := f.keys(b); len(got) != 0 {
			t.Errorf("keys before completion = %q", got)
		}
		check(t, complete(parts...))
		if got := f.get(b, "a"); got != string(first)+"end" {
			t.Errorf("content has %d bytes", len(got))
		}
		wantCode(t, "completion with other parts", complete(parts[0]), "NoSuchUpload")
	})
}

// TestCompletionCanBeRepeated repeats the request that completed an upload: on another replica, after
// the object was replaced and deleted, and until a day has passed.
func TestCompletionCanBeRepeated(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		path := func(id string) string { return "/docs/a?uploadId=" + id }
		for _, checksum := range []map[string]string{
			nil, {"X-Amz-Checksum-Algorithm": "CRC32C"}, {"X-Amz-Checksum-Algorithm": "CRC32", "X-Amz-Checksum-Type": "FULL_OBJECT"},
		} {
			id, parts := f.upload(b, "a", minio.PutObjectOptions{UserMetadata: checksum}, []byte("content"))
			body := fmt.Sprintf("<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>%s</ETag></Part></CompleteMultipartUpload>", parts[0].ETag)
			complete := call{method: "POST", path: path(id), by: b, body: body, header: map[string]string{"If-None-Match": "*"}}
			first := f.do(complete)
			first.want(t, "first", 200, "")
			if got := strings.Contains(first.body, "<ChecksumType>"); got != (checksum != nil) {
				t.Errorf("the first answer has a checksum: %v", got)
			}
			for what, change := range map[string]func(){
				"at once":  func() {},
				"replaced": func() { f.put(b, "a", "other") },
				"deleted": func() {
					check(t, f.client(b).RemoveObject(t.Context(), b.Name, "a", minio.RemoveObjectOptions{}))
				},
			} {
				change()
				if again := f.do(complete); again.status != 200 || again.body != first.body {
					t.Errorf("%s: got %d %s, want %s", what, again.status, again.body, first.body)
				}
			}
			replica := f.replica()
			if again := replica.do(complete); again.body != strings.ReplaceAll(first.body, f.address, replica.address) {
				t.Errorf("another replica: got %d %s, want %s", again.status, again.body, first.body)
			}
			check(t, f.client(b).RemoveObject(t.Context(), b.Name, "a", minio.RemoveObjectOptions{}))
			f.do(call{method: "POST", path: path(id), by: b, body: strings.Replace(body, parts[0].ETag, strings.Repeat("0", 32), 1)}).
				want(t, "another part", 404, "NoSuchUpload")
			f.do(call{method: "POST", path: strings.Replace(path(id), "/a", "/b", 1), by: b, body: body}).want(t, "another key", 404, "NoSuchUpload")
			if keys := f.keys(b); len(keys) != 0 {
				t.Errorf("keys = %q", keys)
			}
			f.now = func() time.Time { return time.Now().Add(25 * time.Hour) }
			f.do(complete).want(t, "after a day", 404, "NoSuchUpload")
			f.now = time.Now
		}
	})
}

func TestConcurrentCompletionsHaveOneAnswer(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		id, parts := f.upload(b, "a", minio.PutObjectOptions{}, []byte("content"))
		body := fmt.Sprintf("<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>%s</ETag></Part></CompleteMultipartUpload>", parts[0].ETag)
		answers := make([]response, 8)
		var group errgroup.Group
		for i := range answers {
			group.Go(func() error {
				answers[i] = f.do(call{method: "POST", path: "/docs/a?uploadId=" + id, by: b, body: body})
				return nil
			})
		}
		check(t, group.Wait())
		for _, a := range answers {
			if a.status != 200 || a.body != answers[0].body {
				t.Errorf("got %d %s, want %s", a.status, a.body, answers[0].body)
			}
		}
	})
}

func TestSmallPartIsRefused(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		id, parts := f.upload(b, "a", minio.PutObjectOptions{}, []byte("small"), []byte("end"))
		_, err := f.core(b).CompleteMultipartUpload(t.Context(), b.Name, "a", id, parts, minio.PutObjectOptions{})
		wantCode(t, "small part", err, "EntityTooSmall")
	})
}

func TestAbortedUpload(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		id, parts := f.upload(b, "a", minio.PutObjectOptions{}, []byte("x"))
		check(t, f.core(b).AbortMultipartUpload(t.Context(), b.Name, "a", id))
		wantCode(t, "second abort", f.core(b).AbortMultipartUpload(t.Context(), b.Name, "a", id), "NoSuchUpload")
		_, err := f.core(b).CompleteMultipartUpload(t.Context(), b.Name, "a", id, parts, minio.PutObjectOptions{})
		wantCode(t, "completion", err, "NoSuchUpload")
		_, err = f.core(b).PutObjectPart(t.Context(), b.Name, "a", id, 1, strings.NewReader("x"), 1, minio.PutObjectPartOptions{})
		wantCode(t, "part", err, "NoSuchUpload")
	})
}

func TestListUploads(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		for _, key := range []string{"a", "a", "b/1", "b/2", "c"} {
			f.upload(b, key, minio.PutObjectOptions{})
		}
		for _, test := range []struct {
			prefix, delimiter string
			want              []string
		}{
			{"", "", []string{"a", "a", "b/1", "b/2", "c"}},
			{"", "/", []string{"a", "a", "b/", "c"}},
			{"b/", "", []string{"b/1", "b/2"}},
		} {
			for _, size := range []int{1, 2, 1000} {
				if got := f.listUploads(b, test.prefix, test.delimiter, size); !slices.Equal(got, test.want) {
					t.Errorf("uploads of %q by %q in pages of %d = %q, want %q", test.prefix, test.delimiter, size, got, test.want)
				}
			}
		}
	})
}

func (f *fixture) listUploads(b *object.Bucket, prefix, delimiter string, size int) (all []string) {
	f.Helper()
	for key, id := "", ""; ; {
		l, err := f.core(b).ListMultipartUploads(f.Context(), b.Name, prefix, key, id, delimiter, size)
		check(f, err)
		for _, u := range l.Uploads {
			all = append(all, u.Key)
		}
		for _, p := range l.CommonPrefixes {
			all = append(all, p.Prefix)
		}
		if !l.IsTruncated {
			slices.Sort(all)
			return all
		}
		key = l.NextKeyMarker
		id = l.NextUploadIDMarker
	}
}

func TestCopyPart(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		content := randomBytes(6 << 20)
		_, err := f.client(b).PutObject(t.Context(), b.Name, "src", bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{})
		check(t, err)
		for _, o := range []minio.PutObjectOptions{{}, {UserMetadata: map[string]string{"X-Amz-Checksum-Algorithm": "CRC32C"}}} {
			id, err := f.core(b).NewMultipartUpload(t.Context(), b.Name, "dst", o)
			check(t, err)
			first, err := f.core(b).CopyObjectPart(t.Context(), b.Name, "src", b.Name, "dst", id, 1, 1, 5<<20, nil)
			check(t, err)
			second, err := f.core(b).CopyObjectPart(t.Context(), b.Name, "src", b.Name, "dst", id, 2, 0, 10, nil)
			check(t, err)
			_, err = f.core(b).CompleteMultipartUpload(t.Context(), b.Name, "dst", id, []minio.CompletePart{first, second}, minio.PutObjectOptions{})
			check(t, err)
			want := slices.Concat(content[1:1+5<<20], content[:10])
			if got := f.get(b, "dst"); got != string(want) {
				t.Errorf("%v: content has %d bytes, want %d", o.UserMetadata, len(got), len(want))
			}
		}
	})
}

func TestMultipartChecksums(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		content := randomBytes(11 << 20)
		for _, kind := range []minio.ChecksumType{
			minio.ChecksumCRC32, minio.ChecksumCRC32C, minio.ChecksumSHA1, minio.ChecksumSHA256,
			minio.ChecksumCRC64NVME, minio.ChecksumFullObjectCRC32, minio.ChecksumFullObjectCRC32C,
		} {
			info, err := f.client(b).PutObject(t.Context(), b.Name, "a", bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{
				PartSize: 5 << 20, Checksum: kind,
			})
			if err != nil {
				t.Errorf("%s: %v", kind, err)
				continue
			}
			got := f.do(call{method: "HEAD", path: "/docs/a", by: b, header: map[string]string{"X-Amz-Checksum-Mode": "ENABLED"}})
			value := got.header.Get(kind.Key())
			hash := kind.Hasher()
			hash.Write(content)
			switch got.header.Get("X-Amz-Checksum-Type") {
			case "FULL_OBJECT":
				if want := base64Of(hash.Sum(nil)); value != want {
					t.Errorf("%s: %q, want %q", kind, value, want)
				}
			case "COMPOSITE":
				if !strings.HasSuffix(value, "-3") {
					t.Errorf("%s: %q, want that of 3 parts", kind, value)
				}
			default:
				t.Errorf("%s: headers %v (upload %+v)", kind, got.header, info)
			}
		}
	})
}

func TestComposeObject(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		first := randomBytes(5 << 20)
		_, err := f.client(b).PutObject(t.Context(), b.Name, "1", bytes.NewReader(first), int64(len(first)), minio.PutObjectOptions{})
		check(t, err)
		f.put(b, "2", "end")
		_, err = f.client(b).ComposeObject(t.Context(), minio.CopyDestOptions{Bucket: b.Name, Object: "all"},
			minio.CopySrcOptions{Bucket: b.Name, Object: "1"}, minio.CopySrcOptions{Bucket: b.Name, Object: "2"})
		check(t, err)
		if got := f.get(b, "all"); got != string(first)+"end" {
			t.Errorf("content has %d bytes", len(got))
		}
		copied, err := f.client(b).CopyObject(t.Context(), minio.CopyDestOptions{Bucket: b.Name, Object: "copy"}, minio.CopySrcOptions{Bucket: b.Name, Object: "all"})
		check(t, err)
		if got := f.get(b, "copy"); got != string(first)+"end" {
			t.Errorf("copy %+v has %d bytes", copied, len(got))
		}
	})
}

func TestUploadOfUnknownSize(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		content := randomBytes(12 << 20)
		_, err := f.client(b).PutObject(t.Context(), b.Name, "a", io.MultiReader(bytes.NewReader(content)), -1, minio.PutObjectOptions{PartSize: 5 << 20})
		check(t, err)
		if got := f.get(b, "a"); got != string(content) {
			t.Errorf("content has %d bytes", len(got))
		}
	})
}

func TestCopyOfPartsHasOneChecksum(t *testing.T) {
	each(t, func(t *testing.T, f *fixture) {
		b := f.newBucket("docs")
		content := randomBytes(6 << 20)
		_, err := f.client(b).PutObject(t.Context(), b.Name, "src", bytes.NewReader(content), int64(len(content)), minio.PutObjectOptions{
			PartSize: 5 << 20, Checksum: minio.ChecksumSHA256,
		})
		check(t, err)
		for algorithm, kind := range map[string]minio.ChecksumType{"": minio.ChecksumSHA256, "CRC32C": minio.ChecksumCRC32C} {
			header := map[string]string{"X-Amz-Copy-Source": "/docs/src"}
			if algorithm != "" {
				header["X-Amz-Checksum-Algorithm"] = algorithm
			}
			f.do(call{method: "PUT", path: "/docs/dst", by: b, header: header}).want(t, "copy", 200, "")
			hash := kind.Hasher()
			hash.Write(content)
			got := f.do(call{method: "HEAD", path: "/docs/dst", by: b, header: map[string]string{"X-Amz-Checksum-Mode": "ENABLED"}})
			if sum := got.header.Get(kind.Key()); sum != base64Of(hash.Sum(nil)) {
				t.Errorf("%s: %q, want %q", kind, sum, base64Of(hash.Sum(nil)))
			}
			if got := f.get(b, "dst"); got != string(content) {
				t.Errorf("%s: the content differs", kind)
			}
		}
	})
}
