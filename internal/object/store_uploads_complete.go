package object

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"steward/internal/db"
	"steward/internal/stamp"
)

// Complete makes an object from the named parts, in the order of their numbers, and removes the upload with
// its other parts. If a client repeats the request within a day, it gets the first answer's key, ETag and
// checksum, whatever has become of the object. Errors are ErrNoUpload, ErrInvalidPart, ErrPartOrder,
// ErrPartTooSmall, PreconditionFailed, and any error from c.Checksum.
func (s *Uploads) Complete(ctx context.Context, b *Bucket, c CompleteRequest) (o Object, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		u, err := lockUpload(tx, uploadKey{b.ID, c.Key, c.UploadID})
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
		o, err = c.assemble(u, parts, cmp.Or(s.MinPart, MinPartSize))
		if err != nil {
			return err
		}
		return s.replace(tx, b, c, o)
	})
	if err != nil {
		return Object{}, err
	}
	return o, nil
}

// replace writes an object and removes the upload that it was made from.
func (s *Uploads) replace(tx *db.Tx, b *Bucket, c CompleteRequest, o Object) error {
	changed := &change{bucket: b, key: c.Key, event: EventComplete, origin: c.Origin, apply: func(old *Object) (*Object, error) {
		return &o, c.check(c.Key, b.current(old, s.Now()))
	}}
	o.ModifiedAt = stamp.Of(s.Now())
	if err := s.Index.changeAll(tx, []*change{changed}); err != nil {
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
	err := tx.Send(`INSERT INTO object_completions (upload_id, bucket_id, key, etag, checksum, completed_at)
		VALUES (@upload_id, @bucket_id, @key, @etag, @checksum, @completed_at)`,
		db.Args{
			"upload_id": c.UploadID, "bucket_id": b.ID, "key": c.Key, "etag": o.ETag,
			"checksum": toJSON(o.Attributes.Checksum, o.Attributes.Checksum == nil), "completed_at": o.ModifiedAt,
		})
	if err != nil {
		return fmt.Errorf("insert completion: %w", err)
	}
	return removeUpload(tx, c.UploadID, o.ModifiedAt)
}

// completed returns the object that completed an upload, or ErrNoUpload.
func (s *Uploads) completed(q db.Querier, b *Bucket, c CompleteRequest) (Object, error) {
	if !isText(c.Key) || !isText(c.UploadID) {
		return Object{}, ErrNoUpload
	}
	o := Object{BucketID: b.ID, Key: c.Key}
	err := q.Row(`SELECT etag, checksum FROM object_completions WHERE upload_id = $1 AND bucket_id = $2 AND key = $3 AND completed_at > $4`,
		c.UploadID, b.ID, c.Key, stamp.Of(s.Now()).Add(-completionPeriod)).Scan(&o.ETag, db.FromJSON(&o.Attributes.Checksum))
	if errors.Is(err, db.ErrNoRows) {
		return Object{}, ErrNoUpload
	}
	if err != nil {
		return Object{}, fmt.Errorf("read completion: %w", err)
	}
	if o.ETag != c.etag() {
		return Object{}, ErrNoUpload // a different request
	}
	return o, nil
}
