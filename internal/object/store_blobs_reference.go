package object

import (
	"context"
	"encoding/json"
	"fmt"

	"steward/internal/db"
)

// Reference is a blob that an object or an upload's part refers to.
type Reference struct {
	ID   string
	Size int64
}

// References reads referencePage rows at once.
const referencePage = 1000

// References calls f with the blobs that parts and objects refer to, a page at a time. It may miss
// concurrent writes.
func (s *Blobs) References(ctx context.Context, f func([]Reference) error) error {
	type part struct {
		uploadID string
		number   int64
		blob     blobRef
	}
	err := eachPage(func(last part) ([]part, error) {
		return db.Collect(s.DB.Read(ctx), func(r db.Row) (p part, err error) {
			return p, r.Scan(&p.uploadID, &p.number, &p.blob.id, &p.blob.size)
		}, partReferencesText, last.uploadID, last.number, referencePage)
	}, func(p part) []blobRef { return []blobRef{p.blob} }, f)
	if err != nil {
		return err
	}
	type row struct {
		bucketID, key string
		blobs         []blobRef
	}
	return eachPage(func(last row) ([]row, error) {
		return db.Collect(s.DB.Read(ctx), func(r db.Row) (o row, err error) {
			return o, r.Scan(&o.bucketID, &o.key, db.FromJSON(&o.blobs))
		}, objectReferencesText, last.bucketID, last.key, referencePage)
	}, func(o row) []blobRef { return o.blobs }, f)
}

// eachPage reads rows a page at a time, each after the last row of the page before it, and calls f with the
// blobs of each page.
func eachPage[T any](read func(last T) ([]T, error), blobs func(T) []blobRef, f func([]Reference) error) error {
	var last T
	for {
		rows, err := read(last)
		if err != nil {
			return fmt.Errorf("list references: %w", err)
		}
		if len(rows) == 0 {
			return nil
		}
		var refs []Reference
		for _, row := range rows {
			for _, b := range blobs(row) {
				refs = append(refs, Reference{b.id, b.size})
			}
		}
		if err := f(refs); err != nil {
			return err
		}
		last = rows[len(rows)-1]
	}
}

const partReferencesText = `SELECT upload_id, number, blob_id, size FROM object_parts
	WHERE (upload_id, number) > ($1, $2) ORDER BY upload_id, number LIMIT $3`

const objectReferencesText = `SELECT bucket_id, key, blobs FROM objects
	WHERE (bucket_id, key) > ($1, $2) ORDER BY bucket_id, key LIMIT $3`

// DecodeReferences decodes an object's blobs as its row stores them.
func DecodeReferences(text string) ([]Reference, error) {
	var blobs []blobRef
	if err := json.Unmarshal([]byte(text), &blobs); err != nil {
		return nil, fmt.Errorf("decode blobs: %w", err)
	}
	refs := make([]Reference, len(blobs))
	for i, b := range blobs {
		refs[i] = Reference{ID: b.id, Size: b.size}
	}
	return refs, nil
}

// Referred reports whether an object or a part refers to a blob.
func (s *Blobs) Referred(ctx context.Context, blobID string) (bool, error) {
	var n int64
	err := s.DB.Read(ctx).Row(`SELECT count(*) FROM blobs WHERE id = $1 AND garbage_at IS NULL`, blobID).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("look up blob: %w", err)
	}
	return n > 0, nil
}

// ReferredBytes returns the total size of References, except for objects in deleted buckets.
func (s *Blobs) ReferredBytes(ctx context.Context) (bytes int64, err error) {
	err = s.DB.Read(ctx).Row(`SELECT CAST(COALESCE((SELECT SUM(bytes) FROM bucket_totals), 0)
		+ COALESCE((SELECT SUM(size) FROM object_parts), 0) AS BIGINT)`).Scan(&bytes)
	if err != nil {
		return 0, fmt.Errorf("sum sizes: %w", err)
	}
	return bytes, nil
}
