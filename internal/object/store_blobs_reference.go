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
	if err := s.partReferences(ctx, f); err != nil {
		return err
	}
	return s.objectReferences(ctx, f)
}

func (s *Blobs) partReferences(ctx context.Context, f func([]Reference) error) error {
	type part struct {
		uploadID string
		number   int64
		Reference
	}
	var last part
	for {
		parts, err := db.Collect(s.DB.Read(ctx), func(r db.Row) (p part, err error) {
			return p, r.Scan(&p.uploadID, &p.number, &p.ID, &p.Size)
		}, partReferencesText, last.uploadID, last.number, referencePage)
		if err != nil {
			return fmt.Errorf("list parts: %w", err)
		}
		if len(parts) == 0 {
			return nil
		}
		refs := make([]Reference, len(parts))
		for i, p := range parts {
			refs[i] = p.Reference
		}
		if err := f(refs); err != nil {
			return err
		}
		last = parts[len(parts)-1]
	}
}

const partReferencesText = `SELECT upload_id, number, blob_id, size FROM object_parts
	WHERE (upload_id, number) > ($1, $2) ORDER BY upload_id, number LIMIT $3`

func (s *Blobs) objectReferences(ctx context.Context, f func([]Reference) error) error {
	type row struct {
		bucketID, key string
		blobs         []blobRef
	}
	var last row
	for {
		rows, err := db.Collect(s.DB.Read(ctx), func(r db.Row) (o row, err error) {
			return o, r.Scan(&o.bucketID, &o.key, db.FromJSON(&o.blobs))
		}, objectReferencesText, last.bucketID, last.key, referencePage)
		if err != nil {
			return fmt.Errorf("list objects: %w", err)
		}
		if len(rows) == 0 {
			return nil
		}
		var refs []Reference
		for _, o := range rows {
			for _, b := range o.blobs {
				refs = append(refs, Reference{b.id, b.size})
			}
		}
		if err := f(refs); err != nil {
			return err
		}
		last = rows[len(rows)-1]
	}
}

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
