package e2e

import (
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/tags"

	"steward/e2e/installation"
)

// TestStorage uses a bucket with an S3 client, and checks after each step what the management API
// says about it.
func TestStorage(t *testing.T) {
	t.Parallel()
	installation.EachStorage(t, func(t *testing.T, s *installation.Steward) {
		b := s.NewBucket("photos")
		b.CheckTotals(0, 0)
		checkObjects(b)
		checkMultipart(b)
		checkLists(b)
		checkDeletions(b)
		b.Remove()
		if got := b.Signed("GET", "/photos/a", ""); got.Status != http.StatusForbidden {
			t.Errorf("the credentials of a deleted bucket: got %d %s", got.Status, got.Body)
		}
		s.Call("GET", "/storage/stats/photos", nil).Want(404)
	})
}

// checkObjects writes, reads, copies and tags objects.
func checkObjects(b installation.Bucket) {
	b.T.Helper()
	ctx, core := b.T.Context(), b.Core()
	const text = "a text of some length"
	err := b.TryPut("a", text, minio.PutObjectOptions{
		ContentType: "text/plain", UserMetadata: map[string]string{"color": "red"}, UserTags: map[string]string{"state": "new"}, Checksum: minio.ChecksumCRC32C,
	})
	b.Must(err)
	sum := crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli))
	want := base64.StdEncoding.EncodeToString([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
	info, err := core.StatObject(ctx, b.Name, "a", minio.StatObjectOptions{Checksum: true})
	b.Must(err)
	if info.ContentType != "text/plain" || info.UserMetadata["Color"] != "red" || info.ChecksumCRC32C != want || info.UserTagCount != 1 {
		b.T.Errorf("got %+v, want the checksum %s", info, want)
	}
	b.WantCode("a wrong checksum", b.TryPut("wrong", text, minio.PutObjectOptions{
		UserMetadata: map[string]string{"x-amz-checksum-crc32c": "AAAAAA=="}, DisableMultipart: true,
	}), "BadDigest")

	var part minio.GetObjectOptions
	b.Must(part.SetRange(2, 5))
	if got := b.Content("a", part); got != text[2:6] {
		b.T.Errorf("range: got %q", got)
	}
	var fresh minio.GetObjectOptions
	b.Must(fresh.SetMatchETagExcept(info.ETag))
	if _, _, _, err := core.GetObject(ctx, b.Name, "a", fresh); minio.ToErrorResponse(err).StatusCode != http.StatusNotModified {
		b.T.Errorf("an object that has not changed: %v", err)
	}
	var create minio.PutObjectOptions
	create.SetMatchETagExcept("*")
	b.WantCode("a write on condition", b.TryPut("a", "other", create), "PreconditionFailed")
	b.Must(b.TryPut("a/b", "below", create))

	_, err = core.Client.CopyObject(ctx, minio.CopyDestOptions{Bucket: b.Name, Object: "d//x"}, minio.CopySrcOptions{Bucket: b.Name, Object: "a"})
	b.Must(err)
	if got := b.Get("d//x"); got != text || b.Get("a/b") != "below" {
		b.T.Errorf("copy: got %q", got)
	}
	changed, err := tags.NewTags(map[string]string{"state": "old", "by": "me"}, true)
	b.Must(err)
	b.Must(core.PutObjectTagging(ctx, b.Name, "a", changed, minio.PutObjectTaggingOptions{}))
	stored, err := core.GetObjectTagging(ctx, b.Name, "a", minio.GetObjectTaggingOptions{})
	b.Must(err)
	if diff := cmp.Diff(changed.ToMap(), stored.ToMap()); diff != "" {
		b.T.Errorf("tags (-want +got):\n%s", diff)
	}
	b.CheckTotals(3, int64(2*len(text)+len("below")))
}

// checkMultipart uploads an object in parts, and reads it across their boundaries.
func checkMultipart(b installation.Bucket) {
	b.T.Helper()
	const size = 11 << 20
	content := installation.RandomText(size)
	_, err := b.Core().Client.PutObject(b.T.Context(), b.Name, "large", strings.NewReader(content), size, minio.PutObjectOptions{PartSize: 5 << 20})
	b.Must(err)
	info, err := b.Core().StatObject(b.T.Context(), b.Name, "large", minio.StatObjectOptions{})
	b.Must(err)
	if info.Size != size || !strings.HasSuffix(info.ETag, "-3") || b.Get("large") != content {
		b.T.Errorf("%d bytes with ETag %s", info.Size, info.ETag)
	}
	var middle minio.GetObjectOptions
	b.Must(middle.SetRange(5<<20-10, 10<<20+9))
	if got := b.Content("large", middle); got != content[5<<20-10:10<<20+10] {
		b.T.Errorf("a range over three parts: %d bytes", len(got))
	}
	b.Must(b.Core().RemoveObject(b.T.Context(), b.Name, "large", minio.RemoveObjectOptions{}))
}

// checkLists lists 300 objects in ten folders by delimiter, page, prefix and folder.
func checkLists(b installation.Bucket) {
	b.T.Helper()
	core := b.Core()
	for i := range 300 {
		if _, err := core.PutObject(b.T.Context(), b.Name, fmt.Sprintf("year/%d/%03d", i%10, i), strings.NewReader("12345"), 5, "", "", minio.PutObjectOptions{}); err != nil {
			b.T.Fatal(err)
		}
	}
	first, err := core.ListObjectsV2(b.Name, "year/", "", "", "/", 4)
	b.Must(err)
	second, err := core.ListObjectsV2(b.Name, "year/", "", first.NextContinuationToken, "/", 100)
	b.Must(err)
	old, err := core.ListObjects(b.Name, "", "", "/", 100)
	b.Must(err)
	if len(first.CommonPrefixes) != 4 || !first.IsTruncated || len(second.CommonPrefixes) != 6 || second.IsTruncated ||
		len(old.CommonPrefixes) != 3 || len(old.Contents) != 1 || len(b.List("year/")) != 300 {
		b.T.Errorf("lists with delimiter: %+v, %+v, %+v", first, second, old)
	}
	page := b.ListObjects("prefix=year/&limit=2&offset=298")
	if page.Total != 300 || len(page.Objects) != 2 || page.Objects[1].Key != "year/9/299" || page.Objects[0].Size != 5 ||
		page.Objects[0].Bucket != b.Name || page.Prefix != "year/" || page.Limit != 2 || page.Offset != 298 {
		b.T.Errorf("the last page: %+v", page)
	}
	type folder struct {
		Prefix string
		Count  int64 `json:"object_count"`
		Size   int64 `json:"total_size"`
	}
	var view struct {
		Folders []folder
		Objects []struct{ Key string }
	}
	b.Call("GET", "/storage/folders/"+b.Name, nil).Want(200).Decode(&view)
	want := []folder{{"a/", 1, 5}, {"d/", 1, 21}, {"year/", 300, 1500}}
	if diff := cmp.Diff(want, view.Folders); diff != "" || len(view.Objects) != 1 || view.Objects[0].Key != "a" {
		b.T.Errorf("folders (-want +got):\n%s%v", diff, view.Objects)
	}
	b.CheckTotals(303, 1500+47)
}

// checkDeletions deletes several objects by one request, by key and by prefix.
func checkDeletions(b installation.Bucket) {
	b.T.Helper()
	doomed := make(chan minio.ObjectInfo, 300)
	for _, o := range b.List("year/1/") {
		doomed <- o
	}
	close(doomed)
	for failed := range b.Core().RemoveObjects(b.T.Context(), b.Name, doomed, minio.RemoveObjectsOptions{}) {
		b.T.Errorf("%s: %v", failed.ObjectName, failed.Err)
	}
	b.CheckTotals(273, 1350+47)
	for _, d := range []struct {
		query string
		count float64
	}{
		{"prefix=year/2", 30},
		{"key=year/3/003", 1},
		{"key=year/3/003", 0},
		{"key=" + url.QueryEscape("d//x"), 1},
		{"prefix=year/", 239},
		{"prefix=a", 2},
	} {
		if got := b.Call("DELETE", "/storage/objects/"+b.Name+"?"+d.query, nil).Want(200).Get("deleted_count"); got != d.count {
			b.T.Errorf("%s: deleted %v, want %v", d.query, got, d.count)
		}
	}
	for _, query := range []string{"", "prefix=", "key=a&prefix=b"} {
		b.Call("DELETE", "/storage/objects/"+b.Name+"?"+query, nil).Want(422)
	}
	b.CheckTotals(0, 0)
	if keys := b.Keys(""); len(keys) > 0 {
		b.T.Errorf("keys after deletion: %q", keys)
	}
}
