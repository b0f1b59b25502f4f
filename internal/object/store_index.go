package object

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/stamp"
)

// maxDelete caps the keys in one deletion, as S3 does.
const maxDelete = 1000

// Index stores and lists a bucket's objects. Each change and everything that follows from it share one
// transaction (store_index_change.go).
type Index struct {
	DB    *db.DB
	Blobs *Blobs
	Now   func() time.Time
	// Webhooks get the events of changes, in the same transaction. It may be nil.
	Webhooks Webhooks
	// Limits override the default sizes. Zero values keep them.
	Limits Limits

	changes db.Gather[*change]
}

// Limits size blocks and batches.
type Limits struct {
	// A block with more than MaxBlock objects is split. A block with fewer than MinBlock is merged with a
	// neighbour if both have fewer than MergeBlock.
	MaxBlock, MergeBlock, MinBlock int64
	// Batch limits the objects that a bulk deletion changes in one transaction.
	Batch int
}

// limits returns the limits with the defaults filled in.
func (s *Index) limits() Limits {
	l := s.Limits
	return Limits{
		MaxBlock:   cmp.Or(l.MaxBlock, 2000),
		MergeBlock: cmp.Or(l.MergeBlock, 1000),
		MinBlock:   cmp.Or(l.MinBlock, 250),
		Batch:      cmp.Or(l.Batch, maxDelete),
	}
}

// Put writes an object. It reads r to its end; size is -1 if it is unknown. When it returns nil, both the
// bytes and the row are durable. It returns r's errors unchanged, Invalid, NotFound if the bucket is gone,
// PreconditionFailed, Malformed if r has another size, and Unavailable.
func (s *Index) Put(ctx context.Context, b *Bucket, p PutRequest, r io.Reader, size int64) (Object, error) {
	if err := checkPut(p); err != nil {
		return Object{}, err
	}
	if err := s.checkEarly(ctx, b, p); err != nil {
		return Object{}, err
	}
	bytes, err := s.Blobs.write(ctx, r, size, p.Checksum)
	if err != nil {
		return Object{}, err
	}
	o := Object{
		BucketID: b.ID, Key: p.Key, Size: bytes.ref.size, ETag: bytes.etag, ContentType: p.ContentType,
		Tier: cmp.Or(p.Tier, b.Tier()), Attributes: p.Attributes, blobs: []blobRef{bytes.ref},
	}
	if p.Checksum != nil {
		o.Attributes.Checksum = bytes.checksum
	}
	c := &change{bucket: b, key: p.Key, event: cmp.Or(p.Event, EventPut), origin: p.Origin, apply: func(old *Object) (*Object, error) {
		if err := p.check(p.Key, b.current(old, s.Now())); err != nil {
			return nil, err
		}
		if err := s.Blobs.checkAge(bytes.ref); err != nil {
			return nil, err
		}
		written := o
		written.ModifiedAt = stamp.Of(s.Now())
		return &written, nil
	}}
	if err := s.change(ctx, c); err != nil {
		s.Blobs.discard(c.err, bytes.ref)
		return Object{}, err
	}
	return *c.new, nil
}

func checkPut(p PutRequest) error {
	if err := checkKey(p.Key); err != nil {
		return err
	}
	var faults errs.Faults
	faults.Check(p.Tier == "" || slices.Contains(tiers, p.Tier), "tier", "expected STANDARD, INFREQUENT_ACCESS or ARCHIVE")
	a := p.Attributes
	texts := []string{p.ContentType, a.CacheControl, a.ContentDisposition, a.ContentEncoding, a.ContentLanguage, a.Expires}
	texts = slices.AppendSeq(slices.AppendSeq(texts, maps.Keys(a.Metadata)), maps.Values(a.Metadata))
	for _, tag := range a.Tags {
		texts = append(texts, tag.Key, tag.Value)
	}
	bytes := 0
	for _, text := range texts {
		bytes += len(text)
	}
	faults.Check(bytes <= maxAttributes, "attributes", "expected at most %d bytes", maxAttributes)
	faults.Check(!slices.ContainsFunc(texts, func(s string) bool { return !isText(s) }), "attributes", "expected UTF-8 without U+0000")
	return faults.Err()
}

// maxAttributes caps the texts that a client stores with an object, in bytes.
const maxAttributes = 16 << 10

// checkEarly refuses a write whose conditions already fail, before we read its bytes. The transaction
// checks them again.
func (s *Index) checkEarly(ctx context.Context, b *Bucket, p PutRequest) error {
	if p.Conditions == (Conditions{}) {
		return nil
	}
	old, err := s.Get(ctx, b, p.Key)
	switch {
	case err == nil:
		return p.check(p.Key, &old)
	case isMissing(err):
		return p.check(p.Key, nil)
	}
	return err
}

// Get returns an object. It returns NotFound if there is none, or if it is past the bucket's ttl.
func (s *Index) Get(ctx context.Context, b *Bucket, key string) (Object, error) {
	if checkKey(key) != nil {
		return Object{}, errs.New(errs.NotFound, "the object does not exist")
	}
	o, err := scanObject(s.DB.Read(ctx).Row(getText, b.ID, key))
	if errors.Is(err, db.ErrNoRows) {
		return Object{}, errs.Missing("object", key)
	}
	if err != nil {
		return Object{}, fmt.Errorf("read object: %w", err)
	}
	if b.current(&o, s.Now()) == nil {
		return Object{}, errs.Missing("object", key)
	}
	return o, nil
}

// getText finds nothing if the bucket was deleted after we cached it.
const getText = `SELECT ` + objectColumns + ` FROM objects o WHERE o.bucket_id = $1 AND o.key = $2
	AND EXISTS (SELECT 1 FROM bucket_states s WHERE s.bucket_id = $1)`

// Delete deletes up to 1,000 objects in one transaction and returns the keys that existed. With IfMatch it
// takes one key, and returns NotFound or PreconditionFailed.
func (s *Index) Delete(ctx context.Context, b *Bucket, d DeleteRequest) (deleted []string, err error) {
	if len(d.Keys) > maxDelete || d.IfMatch != "" && len(d.Keys) != 1 {
		return nil, errs.InvalidField("keys", "expected at most %d keys, or one with a condition", maxDelete)
	}
	var changes []*change
	for _, key := range d.Keys {
		if checkKey(key) != nil {
			continue // no object can have it
		}
		changes = append(changes, &change{bucket: b, key: key, event: EventDelete, origin: d.Origin, apply: func(old *Object) (*Object, error) {
			return nil, Conditions{IfMatch: d.IfMatch}.check(key, b.current(old, s.Now()))
		}})
	}
	if len(changes) == 0 {
		return nil, nil
	}
	if err := s.change(ctx, changes...); err != nil {
		return nil, err
	}
	for _, c := range changes {
		if c.err != nil {
			return nil, c.err // the bucket is gone
		}
		if c.old != nil && c.new == nil {
			deleted = append(deleted, c.key)
		}
	}
	return deleted, nil
}

// DeletePrefix deletes all objects with a prefix, in transactions of bounded size. If it is interrupted, it
// returns the number deleted so far with the error; call it again to continue. Objects written meanwhile
// may stay. It calls first in the first transaction.
func (s *Index) DeletePrefix(ctx context.Context, b *Bucket, prefix string, o Origin, first func(*db.Tx) error) (deleted int64, err error) {
	if !isText(prefix) {
		return 0, nil
	}
	keys := withPrefix(prefix)
	for {
		some, err := db.Collect(s.DB.Read(ctx), db.Value[string],
			`SELECT key FROM objects WHERE bucket_id = $1 AND key >= $2 AND key < $3 ORDER BY key LIMIT $4`,
			b.ID, keys.from, keys.to, s.limits().Batch)
		if err != nil {
			return deleted, fmt.Errorf("list keys: %w", err)
		}
		if len(some) == 0 {
			return deleted, nil
		}
		var gone []string
		err = s.DB.Write(ctx, func(tx *db.Tx) error {
			if gone, err = s.Delete(tx.Context(), b, DeleteRequest{Keys: some, Origin: o}); err != nil || deleted > 0 {
				return err
			}
			return first(tx)
		})
		if err != nil {
			return deleted, err
		}
		deleted += int64(len(gone))
		keys.from = after(some[len(some)-1])
	}
}

// Copy copies src, an object that Get returned, with p's content type and attributes. A copy onto itself
// changes only the row. It returns the same errors as Put, and Conflict if src changes while it is copied
// onto itself.
func (s *Index) Copy(ctx context.Context, src Object, dst *Bucket, p PutRequest) (Object, error) {
	p.Event = cmp.Or(p.Event, EventCopy)
	if src.BucketID == dst.ID && src.Key == p.Key {
		return s.copyOntoItself(ctx, src, dst, p)
	}
	r, err := s.Blobs.Open(ctx, src, 0, -1)
	if err != nil {
		return Object{}, err
	}
	defer func() { _ = r.Close() }()
	return s.Put(ctx, dst, p, r, src.Size)
}

func (s *Index) copyOntoItself(ctx context.Context, src Object, b *Bucket, p PutRequest) (Object, error) {
	if err := checkPut(p); err != nil {
		return Object{}, err
	}
	c := &change{bucket: b, key: p.Key, event: p.Event, origin: p.Origin}
	return s.modify(ctx, c, func(o Object) (Object, error) {
		if err := p.check(p.Key, &o); err != nil {
			return o, err
		}
		if !slices.Equal(o.blobs, src.blobs) {
			return o, errs.New(errs.Conflict, "the object has changed while it was copied")
		}
		kept := o.Attributes
		o.Attributes = p.Attributes
		o.Attributes.Checksum = kept.Checksum
		o.Attributes.PartChecksums = kept.PartChecksums
		o.ContentType = p.ContentType
		o.Tier = cmp.Or(p.Tier, b.Tier())
		o.ModifiedAt = stamp.Of(s.Now())
		return o, nil
	})
}

// SetTags replaces an object's tags; nil removes them. It returns NotFound and Invalid.
func (s *Index) SetTags(ctx context.Context, b *Bucket, key string, tags Tags, o Origin) (Object, error) {
	if err := checkPut(PutRequest{Key: key, Attributes: Attributes{Tags: tags}}); err != nil {
		return Object{}, err
	}
	c := &change{bucket: b, key: key, event: EventTag, origin: o}
	if len(tags) == 0 {
		c.event = EventUntag
	}
	return s.modify(ctx, c, func(o Object) (Object, error) {
		o.Attributes.Tags = tags
		return o, nil
	})
}

// modify makes a change that replaces an existing object, and sets c.apply for it. It returns NotFound
// without an object.
func (s *Index) modify(ctx context.Context, c *change, to func(Object) (Object, error)) (Object, error) {
	c.apply = func(old *Object) (*Object, error) {
		if c.bucket.current(old, s.Now()) == nil {
			return nil, errs.Missing("object", c.key)
		}
		o, err := to(*old)
		return &o, err
	}
	if err := s.change(ctx, c); err != nil {
		return Object{}, err
	}
	return *c.new, nil
}
