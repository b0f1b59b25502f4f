package e2e

import (
	"encoding/base64"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/tags"
)

// TestStorage uses a bucket with an S3 client, and checks after each step what the management API
// says about it.
func TestStorage(t *testing.T) {
	t.Parallel()
	eachStorage(t, func(t *testing.T, s *steward) {
		b := s.bucket("photos")
		b.checkTotals(0, 0)
		b.checkObjects()
		b.checkMultipart()
		b.checkLists()
		b.checkDeletions()
		b.remove()
		if got := b.signed("GET", "/photos/a", ""); got.status != http.StatusForbidden {
			t.Errorf("the credentials of a deleted bucket: got %d %s", got.status, got.body)
		}
		s.call("GET", "/storage/stats/photos", nil).want(404)
	})
}

// checkTotals fails unless the list, the statistics and the analytics say the same.
func (b bucket) checkTotals(count, size int64) {
	b.t.Helper()
	var list struct{ Total int64 }
	b.call("GET", "/storage/objects/"+b.name, nil).want(200).decode(&list)
	type totals struct {
		Count int64 `json:"object_count"`
		Size  int64 `json:"total_size"`
	}
	var stats totals
	b.call("GET", "/storage/stats/"+b.name, nil).want(200).decode(&stats)
	var all struct {
		Buckets []struct {
			totals
			Name string `json:"bucket_name"`
		}
		Summary struct {
			Count int64 `json:"total_object_count"`
			Size  int64 `json:"total_size"`
		}
	}
	b.call("GET", "/storage/analytics", nil).want(200).decode(&all)
	want := totals{count, size}
	if list.Total != count || stats != want || len(all.Buckets) != 1 || all.Buckets[0].totals != want || totals(all.Summary) != want {
		b.t.Errorf("total %d, statistics %+v, analytics %+v, want %d objects of %d bytes", list.Total, stats, all, count, size)
	}
}

// checkObjects writes, reads, copies and tags objects.
func (b bucket) checkObjects() {
	b.t.Helper()
	ctx, core := b.t.Context(), b.core()
	const text = "a text of some length"
	err := b.tryPut("a", text, minio.PutObjectOptions{
		ContentType: "text/plain", UserMetadata: map[string]string{"color": "red"}, UserTags: map[string]string{"state": "new"}, Checksum: minio.ChecksumCRC32C,
	})
	b.must(err)
	sum := crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli))
	want := base64.StdEncoding.EncodeToString([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)})
	info, err := core.StatObject(ctx, b.name, "a", minio.StatObjectOptions{Checksum: true})
	b.must(err)
	if info.ContentType != "text/plain" || info.UserMetadata["Color"] != "red" || info.ChecksumCRC32C != want || info.UserTagCount != 1 {
		b.t.Errorf("got %+v, want the checksum %s", info, want)
	}
	b.wantCode("a wrong checksum", b.tryPut("wrong", text, minio.PutObjectOptions{
		UserMetadata: map[string]string{"x-amz-checksum-crc32c": "AAAAAA=="}, DisableMultipart: true,
	}), "BadDigest")

	var part minio.GetObjectOptions
	b.must(part.SetRange(2, 5))
	if got := b.content("a", part); got != text[2:6] {
		b.t.Errorf("range: got %q", got)
	}
	var fresh minio.GetObjectOptions
	b.must(fresh.SetMatchETagExcept(info.ETag))
	if _, _, _, err := core.GetObject(ctx, b.name, "a", fresh); minio.ToErrorResponse(err).StatusCode != http.StatusNotModified {
		b.t.Errorf("an object that has not changed: %v", err)
	}
	var create minio.PutObjectOptions
	create.SetMatchETagExcept("*")
	b.wantCode("a write on condition", b.tryPut("a", "other", create), "PreconditionFailed")
	b.must(b.tryPut("a/b", "below", create))

	_, err = core.Client.CopyObject(ctx, minio.CopyDestOptions{Bucket: b.name, Object: "d//x"}, minio.CopySrcOptions{Bucket: b.name, Object: "a"})
	b.must(err)
	if got := b.get("d//x"); got != text || b.get("a/b") != "below" {
		b.t.Errorf("copy: got %q", got)
	}
	changed, err := tags.NewTags(map[string]string{"state": "old", "by": "me"}, true)
	b.must(err)
	b.must(core.PutObjectTagging(ctx, b.name, "a", changed, minio.PutObjectTaggingOptions{}))
	stored, err := core.GetObjectTagging(ctx, b.name, "a", minio.GetObjectTaggingOptions{})
	b.must(err)
	if diff := cmp.Diff(changed.ToMap(), stored.ToMap()); diff != "" {
		b.t.Errorf("tags (-want +got):\n%s", diff)
	}
	b.checkTotals(3, int64(2*len(text)+len("below")))
}

// checkMultipart uploads an object in parts, and reads it across their boundaries.
func (b bucket) checkMultipart() {
	b.t.Helper()
	const size = 11 << 20
	content := randomText(size)
	_, err := b.core().Client.PutObject(b.t.Context(), b.name, "large", strings.NewReader(content), size, minio.PutObjectOptions{PartSize: 5 << 20})
	b.must(err)
	info, err := b.core().StatObject(b.t.Context(), b.name, "large", minio.StatObjectOptions{})
	b.must(err)
	if info.Size != size || !strings.HasSuffix(info.ETag, "-3") || b.get("large") != content {
		b.t.Errorf("%d bytes with ETag %s", info.Size, info.ETag)
	}
	var middle minio.GetObjectOptions
	b.must(middle.SetRange(5<<20-10, 10<<20+9))
	if got := b.content("large", middle); got != content[5<<20-10:10<<20+10] {
		b.t.Errorf("a range over three parts: %d bytes", len(got))
	}
	b.must(b.core().RemoveObject(b.t.Context(), b.name, "large", minio.RemoveObjectOptions{}))
}

// randomText returns bytes that are the same in every run.
func randomText(size int) string {
	text := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(text) // never fails
	return string(text)
}

// listed is the response of GET /storage/objects/{bucket}.
type listed struct {
	Objects []struct {
		Bucket       string `json:"bucket_name"`
		Key          string
		Size         int64
		LastModified time.Time `json:"last_modified"`
	}
	Total         int64
	Prefix        string
	Limit, Offset int
}

// objects returns a list of the management API.
func (b bucket) objects(query string) (l listed) {
	b.t.Helper()
	b.call("GET", "/storage/objects/"+b.name+"?"+query, nil).want(200).decode(&l)
	return l
}

// checkLists lists 300 objects in ten folders by delimiter, page, prefix and folder.
func (b bucket) checkLists() {
	b.t.Helper()
	core := b.core()
	for i := range 300 {
		if _, err := core.PutObject(b.t.Context(), b.name, fmt.Sprintf("year/%d/%03d", i%10, i), strings.NewReader("12345"), 5, "", "", minio.PutObjectOptions{}); err != nil {
			b.t.Fatal(err)
		}
	}
	first, err := core.ListObjectsV2(b.name, "year/", "", "", "/", 4)
	b.must(err)
	second, err := core.ListObjectsV2(b.name, "year/", "", first.NextContinuationToken, "/", 100)
	b.must(err)
	old, err := core.ListObjects(b.name, "", "", "/", 100)
	b.must(err)
	if len(first.CommonPrefixes) != 4 || !first.IsTruncated || len(second.CommonPrefixes) != 6 || second.IsTruncated ||
		len(old.CommonPrefixes) != 3 || len(old.Contents) != 1 || len(b.list("year/")) != 300 {
		b.t.Errorf("lists with delimiter: %+v, %+v, %+v", first, second, old)
	}
	page := b.objects("prefix=year/&limit=2&offset=298")
	if page.Total != 300 || len(page.Objects) != 2 || page.Objects[1].Key != "year/9/299" || page.Objects[0].Size != 5 ||
		page.Objects[0].Bucket != b.name || page.Prefix != "year/" || page.Limit != 2 || page.Offset != 298 {
		b.t.Errorf("the last page: %+v", page)
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
	b.call("GET", "/storage/folders/"+b.name, nil).want(200).decode(&view)
	want := []folder{{"a/", 1, 5}, {"d/", 1, 21}, {"year/", 300, 1500}}
	if diff := cmp.Diff(want, view.Folders); diff != "" || len(view.Objects) != 1 || view.Objects[0].Key != "a" {
		b.t.Errorf("folders (-want +got):\n%s%v", diff, view.Objects)
	}
	b.checkTotals(303, 1500+47)
}

// checkDeletions deletes several objects by one request, by key and by prefix.
func (b bucket) checkDeletions() {
	b.t.Helper()
	doomed := make(chan minio.ObjectInfo, 300)
	for _, o := range b.list("year/1/") {
		doomed <- o
	}
	close(doomed)
	for failed := range b.core().RemoveObjects(b.t.Context(), b.name, doomed, minio.RemoveObjectsOptions{}) {
		b.t.Errorf("%s: %v", failed.ObjectName, failed.Err)
	}
	b.checkTotals(273, 1350+47)
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
		if got := b.call("DELETE", "/storage/objects/"+b.name+"?"+d.query, nil).want(200).get("deleted_count"); got != d.count {
			b.t.Errorf("%s: deleted %v, want %v", d.query, got, d.count)
		}
	}
	for _, query := range []string{"", "prefix=", "key=a&prefix=b"} {
		b.call("DELETE", "/storage/objects/"+b.name+"?"+query, nil).want(422)
	}
	b.checkTotals(0, 0)
	if keys := b.keys(""); len(keys) > 0 {
		b.t.Errorf("keys after deletion: %q", keys)
	}
}
