package object

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/stamp"
)

// Uploads stores multipart uploads and their parts.
type Uploads struct {
	DB    *db.DB
	Index *Index
	Blobs *Blobs
	Now   func() time.Time
	// MinPart is the smallest size for every part but the last, in bytes; 0 means MinPartSize.
	MinPart int64
}

// Create begins a multipart upload with p's key, content type, attributes and tier. It returns Invalid, or
// NotFound if the bucket is gone.
func (s *Uploads) Create(ctx context.Context, b *Bucket, p PutRequest) (Upload, error) {
	if err := checkPut(p); err != nil {
		return Upload{}, err
	}
	if err := s.Blobs.Disk.Room(); err != nil {
		return Upload{}, err
	}
	now := s.Now()
	u := Upload{
		ID: id.At(id.Upload, now) + id.Secret(16), BucketID: b.ID, Key: p.Key, ContentType: p.ContentType,
		Tier: cmp.Or(p.Tier, b.Tier()), Attributes: p.Attributes, CreatedAt: stamp.Of(now),
	}
	return u, s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := lock(tx, b); err != nil {
			return err
		}
		_, err := tx.Exec(`INSERT INTO object_uploads (id, bucket_id, key, tier, content_type, attributes, created_at)
			VALUES (@id, @bucket_id, @key, @tier, @content_type, @attributes, @created_at)`,
			db.Args{
				"id": u.ID, "bucket_id": u.BucketID, "key": u.Key, "tier": u.Tier, "content_type": db.Null(u.ContentType),
				"attributes": db.ToJSON(u.Attributes), "created_at": u.CreatedAt,
			})
		if err != nil {
			return fmt.Errorf("insert upload: %w", err)
		}
		return nil
	})
}

const uploadColumns = `id, bucket_id, key, tier, COALESCE(content_type, ''), attributes, created_at`

func scanUpload(r db.Row) (u Upload, err error) {
	return u, r.Scan(&u.ID, &u.BucketID, &u.Key, &u.Tier, &u.ContentType, db.FromJSON(&u.Attributes), &u.CreatedAt)
}

// Get returns an upload in progress, or ErrNoUpload.
func (s *Uploads) Get(ctx context.Context, b *Bucket, key, uploadID string) (Upload, error) {
	return findUpload(s.DB.Read(ctx), uploadKey{b.ID, key, uploadID}, "")
}

// uploadKey names an upload by everything that a request says about it.
type uploadKey struct{ bucketID, key, id string }

// lockUpload returns an upload and locks it until the transaction ends. To avoid deadlocks, everything that
// changes parts locks the upload first and then the bucket.
func lockUpload(tx *db.Tx, k uploadKey) (Upload, error) {
	return findUpload(tx, k, forUpdate(tx))
}

func findUpload(q db.Querier, k uploadKey, suffix string) (Upload, error) {
	if !isText(k.key) || !isText(k.id) {
		return Upload{}, ErrNoUpload
	}
	u, err := scanUpload(q.Row(`SELECT `+uploadColumns+` FROM object_uploads u WHERE id = $1 AND bucket_id = $2 AND key = $3
		AND EXISTS (SELECT 1 FROM bucket_states s WHERE s.bucket_id = u.bucket_id)`+suffix, k.id, k.bucketID, k.key))
	if errors.Is(err, db.ErrNoRows) {
		return Upload{}, ErrNoUpload
	}
	if err != nil {
		return Upload{}, fmt.Errorf("read upload: %w", err)
	}
	return u, nil
}

// PutPart stores a part. It reads r to its end; size is -1 if it is unknown. It returns the same errors as
// Put, and ErrNoUpload.
func (s *Uploads) PutPart(ctx context.Context, b *Bucket, p PartRequest, r io.Reader, size int64) (Part, error) {
	if p.Number < 1 || p.Number > MaxParts {
		return Part{}, errs.InvalidField("partNumber", "expected 1 to %d", MaxParts)
	}
	if _, err := s.Get(ctx, b, p.Key, p.UploadID); err != nil {
		return Part{}, err
	}
	bytes, err := s.Blobs.write(ctx, r, size, p.Checksum)
	if err != nil {
		return Part{}, err
	}
	part := Part{Number: p.Number, Size: bytes.ref.size, ETag: bytes.etag, Checksum: bytes.checksum, blob: bytes.ref.id}
	var refused error
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		part.ModifiedAt = stamp.Of(s.Now())
		refused = s.insertPart(tx, b, p, part)
		return refused
	})
	if err != nil {
		s.Blobs.discard(refused, bytes.ref)
		return Part{}, err
	}
	return part, nil
}

// insertPart inserts a part or replaces the one with its number.
func (s *Uploads) insertPart(tx *db.Tx, b *Bucket, p PartRequest, part Part) error {
	if _, err := lockUpload(tx, uploadKey{b.ID, p.Key, p.UploadID}); err != nil {
		return err
	}
	if err := s.Blobs.checkAge(blobRef{id: part.blob}); err != nil {
		return err
	}
	if _, err := tx.Exec(`UPDATE blobs SET garbage_at = $3 WHERE id IN
		(SELECT blob_id FROM object_parts WHERE upload_id = $1 AND number = $2)`, p.UploadID, p.Number, part.ModifiedAt); err != nil {
		return fmt.Errorf("mark blob as garbage: %w", err)
	}
	if err := tx.Send(`INSERT INTO blobs (id) VALUES ($1)`, part.blob); err != nil {
		return fmt.Errorf("insert blob: %w", err)
	}
	err := tx.Send(`INSERT INTO object_parts (upload_id, number, blob_id, size, etag, checksum, modified_at)
		VALUES (@upload_id, @number, @blob_id, @size, @etag, @checksum, @modified_at)
		ON CONFLICT (upload_id, number) DO UPDATE SET blob_id = excluded.blob_id, size = excluded.size, etag = excluded.etag,
		checksum = excluded.checksum, modified_at = excluded.modified_at`,
		db.Args{
			"upload_id": p.UploadID, "number": p.Number, "blob_id": part.blob, "size": part.Size, "etag": part.ETag,
			"checksum": toJSON(part.Checksum, part.Checksum == nil), "modified_at": part.ModifiedAt,
		})
	if err != nil {
		return fmt.Errorf("insert part: %w", err)
	}
	return nil
}

// CopyPart stores a range of an object as a part. It returns the errors of PutPart and Blobs.Open.
func (s *Uploads) CopyPart(ctx context.Context, b *Bucket, p PartRequest, src Range) (Part, error) {
	if src.Length < 0 {
		src.Length = src.Object.Size - src.Offset
	}
	r, err := s.Blobs.Open(ctx, src.Object, src.Offset, src.Length)
	if err != nil {
		return Part{}, err
	}
	defer func() { _ = r.Close() }()
	return s.PutPart(ctx, b, p, r, src.Length)
}

const partColumns = `number, blob_id, size, etag, checksum, modified_at`

func scanPart(r db.Row) (p Part, err error) {
	return p, r.Scan(&p.Number, &p.blob, &p.Size, &p.ETag, db.FromJSON(&p.Checksum), &p.ModifiedAt)
}

func listParts(q db.Querier, uploadID string, after, limit int) ([]Part, error) {
	parts, err := db.Collect(q, scanPart, `SELECT `+partColumns+` FROM object_parts WHERE upload_id = $1 AND number > $2
		ORDER BY number LIMIT $3`, uploadID, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list parts: %w", err)
	}
	return parts, nil
}

// Parts returns an upload's parts, or ErrNoUpload.
func (s *Uploads) Parts(ctx context.Context, b *Bucket, l PartsRequest) (p PartPage, err error) {
	err = s.DB.Snapshot(ctx, func(q db.Querier) error {
		if p.Upload, err = findUpload(q, uploadKey{b.ID, l.Key, l.UploadID}, ""); err != nil {
			return err
		}
		p.Parts, err = listParts(q, l.UploadID, l.After, l.Limit+1)
		return err
	})
	if len(p.Parts) > l.Limit {
		p.Parts = p.Parts[:l.Limit]
		p.Truncated = true
	}
	return p, err
}

const uploadsText = `SELECT ` + uploadColumns + ` FROM object_uploads
	WHERE bucket_id = @bucket_id AND (key, id) > (@from, @after_id) AND key < @to ORDER BY key, id LIMIT @limit`

// List returns a bucket's uploads, or NotFound if the bucket is gone.
func (s *Uploads) List(ctx context.Context, b *Bucket, r UploadsRequest) (p UploadPage, err error) {
	l, err := newLister(r.ListRequest)
	if err != nil {
		return p, err
	}
	if !isText(r.AfterID) {
		return p, errs.InvalidField("prefix", "expected UTF-8 without U+0000")
	}
	if r.AfterID != "" && r.After >= r.Prefix {
		l.keys.from = r.After
		p.NextID = r.AfterID
	}
	err = b.snapshot(ctx, s.DB, func(q db.Querier) error { return p.read(q, b, l) })
	p.Listed = l.Listed
	return p, err
}

func (p *UploadPage) read(q db.Querier, b *Bucket, l *lister) error {
	for limit, more := l.request.Limit+1, l.request.Limit > 0; more; {
		rows, err := db.Collect(q, scanUpload, uploadsText,
			db.Args{"bucket_id": b.ID, "from": l.keys.from, "after_id": p.NextID, "to": l.keys.to, "limit": limit})
		if err != nil {
			return fmt.Errorf("list uploads: %w", err)
		}
		before := l.entries
		for _, u := range rows {
			switch {
			case l.add(u.Key):
				p.Uploads = append(p.Uploads, u)
				p.NextID = u.ID
				l.keys.from = u.Key // which may have more uploads
			case !l.Truncated:
				p.NextID = ""
			}
		}
		more = len(rows) == limit && !l.Truncated
		// Where most uploads are below common prefixes, short chunks that begin after each prefix read fewer
		// rows than long ones.
		limit = min(max(2*(l.entries-before), 2), l.request.Limit-l.entries+1)
	}
	return nil
}

// removeUpload removes an upload and its parts. Their blobs become garbage.
func removeUpload(tx *db.Tx, uploadID string, now stamp.Time) error {
	if _, err := tx.Exec(`UPDATE blobs SET garbage_at = $2 WHERE id IN (SELECT blob_id FROM object_parts WHERE upload_id = $1)`,
		uploadID, now); err != nil {
		return fmt.Errorf("mark parts as garbage: %w", err)
	}
	if _, err := tx.Exec(`DELETE FROM object_parts WHERE upload_id = $1`, uploadID); err != nil {
		return fmt.Errorf("delete parts: %w", err)
	}
	if _, err := tx.Exec(`DELETE FROM object_uploads WHERE id = $1`, uploadID); err != nil {
		return fmt.Errorf("delete upload: %w", err)
	}
	return nil
}

// Abort removes an upload with its parts, or returns ErrNoUpload.
func (s *Uploads) Abort(ctx context.Context, b *Bucket, key, uploadID string) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		if _, err := lockUpload(tx, uploadKey{b.ID, key, uploadID}); err != nil {
			return err
		}
		return removeUpload(tx, uploadID, stamp.Of(s.Now()))
	})
}
