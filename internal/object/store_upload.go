package object

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/stamp"
)

// CreateUpload begins a multipart upload with the key, content type, attributes and tier of p. It
// returns Invalid, and NotFound if the bucket is gone.
func (s *Store) CreateUpload(ctx context.Context, b *Bucket, p PutRequest) (Upload, error) {
	if err := checkPut(p); err != nil {
		return Upload{}, err
	}
	if err := s.Disk.Room(); err != nil {
		return Upload{}, err
	}
	now := s.Now()
	u := Upload{
		ID: id.At(id.Upload, now) + id.Secret(16), BucketID: b.ID, Key: p.Key, ContentType: p.ContentType,
		Tier: cmp.Or(p.Tier, b.Tier()), Attributes: p.Attributes, CreatedAt: stamp.Of(now),
	}
	attributes, err := json.Marshal(u.Attributes)
	if err != nil {
		return Upload{}, fmt.Errorf("encode attributes: %w", err)
	}
	return u, s.DB.Write(ctx, func(tx *db.Tx) error {
		if err := lock(tx, b); err != nil {
			return err
		}
		if _, err := tx.Exec(`INSERT INTO object_uploads (`+uploadColumns+`) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			u.ID, u.BucketID, u.Key, u.Tier, db.Null(u.ContentType), string(attributes), u.CreatedAt); err != nil {
			return fmt.Errorf("insert upload: %w", err)
		}
		return nil
	})
}

const uploadColumns = `id, bucket_id, key, tier, content_type, attributes, created_at`

func scanUpload(r db.Row) (u Upload, err error) {
	var contentType *string
	var attributes string
	if err := r.Scan(&u.ID, &u.BucketID, &u.Key, &u.Tier, &contentType, &attributes, &u.CreatedAt); err != nil {
		return u, err
	}
	if contentType != nil {
		u.ContentType = *contentType
	}
	if err := json.Unmarshal([]byte(attributes), &u.Attributes); err != nil {
		return u, fmt.Errorf("decode attributes: %w", err)
	}
	return u, nil
}

// Upload returns an upload under way, or ErrNoUpload.
func (s *Store) Upload(ctx context.Context, b *Bucket, key, uploadID string) (Upload, error) {
	return findUpload(s.DB.Read(ctx), b, key, uploadID, "")
}

// lockUpload returns an upload and locks it until the transaction ends. All that changes parts locks
// their upload first, and then the bucket.
func lockUpload(tx *db.Tx, b *Bucket, key, uploadID string) (Upload, error) {
	suffix := ""
	if tx.Dialect() == db.Postgres {
		suffix = " FOR UPDATE"
	}
	return findUpload(tx, b, key, uploadID, suffix)
}

func findUpload(q db.Querier, b *Bucket, key, uploadID, suffix string) (Upload, error) {
	if !isText(key) || !isText(uploadID) {
		return Upload{}, ErrNoUpload
	}
	u, err := scanUpload(q.Row(`SELECT `+uploadColumns+` FROM object_uploads u WHERE id = $1 AND bucket_id = $2 AND key = $3
		AND EXISTS (SELECT 1 FROM bucket_states s WHERE s.bucket_id = u.bucket_id)`+suffix, uploadID, b.ID, key))
	if errors.Is(err, db.ErrNoRows) {
		return Upload{}, ErrNoUpload
	}
	if err != nil {
		return Upload{}, fmt.Errorf("read upload: %w", err)
	}
	return u, nil
}

// PutPart stores a part, whose bytes it reads from r to its end; size is -1 if it is not known. Errors
// are those of Put, and ErrNoUpload.
func (s *Store) PutPart(ctx context.Context, b *Bucket, p PartRequest, r io.Reader, size int64) (Part, error) {
	if p.Number < 1 || p.Number > MaxParts {
		return Part{}, errs.InvalidField("partNumber", "expected 1 to %d", MaxParts)
	}
	if _, err := s.Upload(ctx, b, p.Key, p.UploadID); err != nil {
		return Part{}, err
	}
	bytes, err := s.write(ctx, r, size, p.Checksum)
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
		s.discard(refused, bytes.ref)
		return Part{}, err
	}
	return part, nil
}

// insertPart inserts a part, or replaces the one with its number.
func (s *Store) insertPart(tx *db.Tx, b *Bucket, p PartRequest, part Part) error {
	if _, err := lockUpload(tx, b, p.Key, p.UploadID); err != nil {
		return err
	}
	if err := s.checkAge(blobRef{id: part.blob}); err != nil {
		return err
	}
	checksum, err := toJSON(part.Checksum, part.Checksum == nil)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(`UPDATE blobs SET garbage_at = $3 WHERE id IN
		(SELECT blob_id FROM object_parts WHERE upload_id = $1 AND number = $2)`, p.UploadID, p.Number, part.ModifiedAt); err != nil {
		return fmt.Errorf("mark blob as garbage: %w", err)
	}
	if err := tx.Send(`INSERT INTO blobs (id) VALUES ($1)`, part.blob); err != nil {
		return fmt.Errorf("insert blob: %w", err)
	}
	if err := tx.Send(`INSERT INTO object_parts (upload_id, number, blob_id, size, etag, checksum, modified_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (upload_id, number) DO UPDATE SET blob_id = excluded.blob_id,
		size = excluded.size, etag = excluded.etag, checksum = excluded.checksum, modified_at = excluded.modified_at`,
		p.UploadID, p.Number, part.blob, part.Size, part.ETag, checksum, part.ModifiedAt); err != nil {
		return fmt.Errorf("insert part: %w", err)
	}
	return nil
}

// CopyPart stores a range of an object as a part; length -1 means all that follow. Errors are those
// of PutPart and Open.
func (s *Store) CopyPart(ctx context.Context, b *Bucket, p PartRequest, src Object, offset, length int64) (Part, error) {
	if length < 0 {
		length = src.Size - offset
	}
	r, err := s.Open(ctx, src, offset, length)
	if err != nil {
		return Part{}, err
	}
	defer func() { _ = r.Close() }()
	return s.PutPart(ctx, b, p, r, length)
}

const partColumns = `number, blob_id, size, etag, checksum, modified_at`

func scanPart(r db.Row) (p Part, err error) {
	var checksum *string
	if err := r.Scan(&p.Number, &p.blob, &p.Size, &p.ETag, &checksum, &p.ModifiedAt); err != nil {
		return p, err
	}
	return p, fromJSON(checksum, &p.Checksum)
}

func listParts(q db.Querier, uploadID string, after, limit int) ([]Part, error) {
	parts, err := db.Collect(q, scanPart, `SELECT `+partColumns+` FROM object_parts WHERE upload_id = $1 AND number > $2
		ORDER BY number LIMIT $3`, uploadID, after, limit)
	if err != nil {
		return nil, fmt.Errorf("list parts: %w", err)
	}
	return parts, nil
}

// Parts returns the parts of an upload with numbers above after, or ErrNoUpload.
func (s *Store) Parts(ctx context.Context, b *Bucket, key, uploadID string, after, limit int) (p PartPage, err error) {
	err = s.DB.Snapshot(ctx, func(q db.Querier) error {
		if p.Upload, err = findUpload(q, b, key, uploadID, ""); err != nil {
			return err
		}
		p.Parts, err = listParts(q, uploadID, after, limit+1)
		return err
	})
	if len(p.Parts) > limit {
		p.Parts = p.Parts[:limit]
		p.Truncated = true
	}
	return p, err
}

// Uploads returns uploads with a prefix after the one with afterKey and afterID; if afterID is empty,
// after all of afterKey.
func (s *Store) Uploads(ctx context.Context, b *Bucket, prefix, afterKey, afterID string, limit int) (p UploadPage, err error) {
	if !isText(prefix) || !isText(afterKey) || !isText(afterID) {
		return p, errs.InvalidField("prefix", "expected UTF-8 without U+0000")
	}
	if afterID == "" {
		afterID = "~" // sorts after every id
	}
	keys := withPrefix(prefix)
	err = s.DB.Snapshot(ctx, func(q db.Querier) error {
		if err := exists(q, b); err != nil {
			return err
		}
		p.Uploads, err = db.Collect(q, scanUpload, `SELECT `+uploadColumns+` FROM object_uploads
			WHERE bucket_id = $1 AND key >= $2 AND key < $3 AND (key, id) > ($4, $5) ORDER BY key, id LIMIT $6`,
			b.ID, keys.from, keys.to, afterKey, afterID, limit+1)
		if err != nil {
			return fmt.Errorf("list uploads: %w", err)
		}
		return nil
	})
	if len(p.Uploads) > limit {
		p.Uploads = p.Uploads[:limit]
		p.Truncated = true
	}
	return p, err
}

// CompleteUpload makes an object of the parts that are named, in the order of their numbers, and
// removes the upload with its other parts. A repeated request within a day has the key, the ETag and
// the checksum of the first one, whatever has become of the object. Errors are ErrNoUpload, ErrInvalidPart, ErrPartOrder,
// ErrPartTooSmall, PreconditionFailed, and those of c.Checksum.
func (s *Store) CompleteUpload(ctx context.Context, b *Bucket, c CompleteRequest) (o Object, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		u, err := lockUpload(tx, b, c.Key, c.UploadID)
		if errors.Is(err, ErrNoUpload) {
			o, err = s.completed(tx, b, c)
			return err
		}
		if err != nil {
			return err
		}
		parts, err := listParts(tx, u.ID, 0, MaxParts)
		if err != nil {
			return err
		}
		o, err = c.assemble(u, parts, s.limits().MinPart)
		if err != nil {
			return err
		}
		return s.replaceUpload(tx, b, c, o)
	})
	if err != nil {
		return Object{}, err
	}
	return o, nil
}

// replaceUpload writes an object in place of the upload that it was made of.
func (s *Store) replaceUpload(tx *db.Tx, b *Bucket, c CompleteRequest, o Object) error {
	changed := &change{bucket: b, key: c.Key, event: EventComplete, origin: c.Origin, apply: func(old *Object) (*Object, error) {
		return &o, c.check(c.Key, b.current(old, s.Now()))
	}}
	o.ModifiedAt = stamp.Of(s.Now())
	if err := s.changeAll(tx, []*change{changed}); err != nil {
		return err
	}
	if changed.err != nil {
		return changed.err
	}
	type partKey struct {
		UploadID string
		Number   int
	}
	used := make(db.Bulk[partKey], len(c.Parts))
	for i, p := range c.Parts {
		used[i] = partKey{UploadID: c.UploadID, Number: p.Number}
	}
	if err := used.Send(tx, `DELETE FROM object_parts AS p {USING v} WHERE p.upload_id = v.upload_id AND p.number = v.number`); err != nil {
		return fmt.Errorf("delete parts: %w", err)
	}
	if err := s.insertCompletion(tx, b, c, o); err != nil {
		return err
	}
	return s.removeUpload(tx, c.UploadID)
}

// completed returns what an upload was completed with, or ErrNoUpload.
func (s *Store) completed(q db.Querier, b *Bucket, c CompleteRequest) (Object, error) {
	if !isText(c.Key) || !isText(c.UploadID) {
		return Object{}, ErrNoUpload
	}
	o := Object{BucketID: b.ID, Key: c.Key}
	var checksum *string
	err := q.Row(`SELECT etag, checksum FROM object_completions WHERE upload_id = $1 AND bucket_id = $2 AND key = $3 AND completed_at > $4`,
		c.UploadID, b.ID, c.Key, stamp.Of(s.Now()).Add(-completionPeriod)).Scan(&o.ETag, &checksum)
	if errors.Is(err, db.ErrNoRows) {
		return Object{}, ErrNoUpload
	}
	if err != nil {
		return Object{}, fmt.Errorf("read completion: %w", err)
	}
	if o.ETag != c.etag() {
		return Object{}, ErrNoUpload // another request
	}
	if err := fromJSON(checksum, &o.Attributes.Checksum); err != nil {
		return Object{}, err
	}
	return o, nil
}

func (s *Store) insertCompletion(tx *db.Tx, b *Bucket, c CompleteRequest, o Object) error {
	checksum, err := toJSON(o.Attributes.Checksum, o.Attributes.Checksum == nil)
	if err != nil {
		return err
	}
	if err := tx.Send(`INSERT INTO object_completions (upload_id, bucket_id, key, etag, checksum, completed_at)
		VALUES ($1, $2, $3, $4, $5, $6)`, c.UploadID, b.ID, c.Key, o.ETag, checksum, o.ModifiedAt); err != nil {
		return fmt.Errorf("insert completion: %w", err)
	}
	return nil
}

// removeUpload removes an upload and its parts, whose blobs become garbage.
func (s *Store) removeUpload(tx *db.Tx, uploadID string) error {
	if _, err := tx.Exec(`UPDATE blobs SET garbage_at = $2 WHERE id IN (SELECT blob_id FROM object_parts WHERE upload_id = $1)`,
		uploadID, stamp.Of(s.Now())); err != nil {
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

// AbortUpload removes an upload with its parts, or returns ErrNoUpload.
func (s *Store) AbortUpload(ctx context.Context, b *Bucket, key, uploadID string) error {
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		if _, err := lockUpload(tx, b, key, uploadID); err != nil {
			return err
		}
		return s.removeUpload(tx, uploadID)
	})
}
