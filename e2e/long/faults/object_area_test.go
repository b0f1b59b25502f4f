package faults

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// bucket is the bucket of a tenant.
type bucket struct {
	u      *tenant
	name   string
	client minio.Core
}

func (u *tenant) newBucket() *bucket {
	u.t.Helper()
	name := strings.ToLower(strings.ReplaceAll(u.orgID, "_", "-"))
	env := u.create("s3", name)
	client, err := minio.NewCore(strings.TrimPrefix(u.cluster.s3, "http://"), &minio.Options{
		Creds:  credentials.NewStaticV4(env["S3_ACCESS_KEY_ID"], env["S3_SECRET_ACCESS_KEY"], ""),
		Region: env["S3_REGION"], MaxRetries: 1,
	})
	u.must(err)
	return &bucket{u, name, *client}
}

// objects stores objects in a bucket, every fourth one in parts.
func (u *tenant) objects() *area {
	b := u.newBucket()
	key := func(n int) string { return fmt.Sprintf("object-%d", n) }
	return &area{
		name:  "objects",
		write: func(ctx context.Context, n int) error { return b.put(ctx, key(n), n%4 == 3) },
		missing: func(ctx context.Context, acked []int) ([]int, error) {
			sizes, err := b.sizes(ctx)
			if err != nil {
				return nil, err
			}
			return missingOf(acked, func(n int) (bool, error) { return sizes[key(n)] > 0, nil })
		},
		inconsistent: b.inconsistent,
	}
}

// contentOf returns the bytes of a key, up to 64 KiB.
func contentOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return strings.Repeat(string(sum[:]), 1+int(sum[0])*8)
}

// put writes an object, in one part of a multipart upload if inParts.
func (b *bucket) put(ctx context.Context, key string, inParts bool) error {
	content := contentOf(key)
	size := int64(len(content))
	if !inParts {
		_, err := b.client.PutObject(ctx, b.name, key, strings.NewReader(content), size, "", "", minio.PutObjectOptions{})
		return err
	}
	upload, err := b.client.NewMultipartUpload(ctx, b.name, key, minio.PutObjectOptions{})
	if err != nil {
		return err
	}
	part, err := b.client.PutObjectPart(ctx, b.name, key, upload, 1, strings.NewReader(content), size, minio.PutObjectPartOptions{})
	if err != nil {
		return err
	}
	parts := []minio.CompletePart{{PartNumber: 1, ETag: part.ETag}}
	_, err = b.client.CompleteMultipartUpload(ctx, b.name, key, upload, parts, minio.PutObjectOptions{})
	return err
}

// sizes returns the sizes of the objects that S3 lists.
func (b *bucket) sizes(ctx context.Context) (map[string]int64, error) {
	sizes := map[string]int64{}
	for o := range b.client.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Recursive: true}) {
		if o.Err != nil {
			return nil, o.Err
		}
		sizes[o.Key] = o.Size
	}
	return sizes, nil
}

// inconsistent returns an error if an object has other bytes than were written, or if the totals are not
// those of the list.
func (b *bucket) inconsistent(ctx context.Context) error {
	sizes, err := b.sizes(ctx)
	if err != nil {
		return err
	}
	var total int64
	for key, size := range sizes {
		total += size
		if err := b.checkContent(ctx, key); err != nil {
			return err
		}
	}
	return b.checkTotals(ctx, int64(len(sizes)), total)
}

func (b *bucket) checkContent(ctx context.Context, key string) error {
	body, _, _, err := b.client.GetObject(ctx, b.name, key, minio.GetObjectOptions{})
	if err != nil {
		return fmt.Errorf("%s is listed: %w", key, err)
	}
	defer func() { _ = body.Close() }()
	content, err := io.ReadAll(body)
	if err == nil && string(content) != contentOf(key) {
		return fmt.Errorf("%s has other bytes", key)
	}
	return err
}

func (b *bucket) checkTotals(ctx context.Context, count, size int64) error {
	type totals struct {
		Count int64 `json:"object_count"`
		Size  int64 `json:"total_size"`
	}
	var list struct{ Total int64 }
	var stats totals
	var all struct {
		Summary struct {
			Count int64 `json:"total_object_count"`
			Size  int64 `json:"total_size"`
		}
	}
	for path, into := range map[string]any{"objects/" + b.name: &list, "stats/" + b.name: &stats, "analytics": &all} {
		if err := b.u.call(ctx, "GET", b.u.cluster.api+"/storage/"+path, nil, into); err != nil {
			return err
		}
	}
	want := totals{count, size}
	if list.Total != count || stats != want || totals(all.Summary) != want {
		return fmt.Errorf("total %d, statistics %+v, analytics %+v, want %+v", list.Total, stats, all, want)
	}
	return nil
}
