package object

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/stamp"
)

// change is a change to one object.
type change struct {
	bucket *Bucket
	key    string
	event  string
	origin Origin
	// apply returns the object after the change: old to keep it, nil to delete it. old is nil if there is
	// none. If it returns an error, nothing changes. It may be called more than once.
	apply func(old *Object) (*Object, error)

	// Results.
	old, new *Object
	err      error
}

// Bytes estimates the size of the rows, for db.Gather.
func (c *change) Bytes() int { return 512 + 2*len(c.key) }

// Org returns the bucket's organization, for db.Gather.
func (c *change) Org() string { return c.bucket.OrgID }

// change makes changes in one transaction. A single change shares its transaction with other callers.
func (s *Index) change(ctx context.Context, changes ...*change) error {
	if len(changes) == 1 {
		if err := s.changes.Do(ctx, s.DB, changes[0], s.changeAll); err != nil {
			return err
		}
		return changes[0].err
	}
	return s.DB.Write(ctx, func(tx *db.Tx) error { return s.changeAll(tx, changes) })
}

// changeAll is the only function that changes object rows in existing buckets. It writes rows, blob
// references, blocks, totals, daily usage and events. A refused change gets its error; the others still
// happen.
func (s *Index) changeAll(tx *db.Tx, changes []*change) error {
	b := &batch{index: s, tx: tx, now: stamp.Of(s.Now()), rows: map[rowKey]*row{}, blobs: map[string]bool{}}
	if err := b.lock(changes); err != nil {
		return err
	}
	if err := b.read(changes); err != nil {
		return err
	}
	for _, c := range changes {
		b.apply(c)
	}
	for _, write := range []func() error{b.writeObjects, b.writeBlobs, b.writeBlocks, b.writeSums, b.writeEvents} {
		if err := write(); err != nil {
			return err
		}
	}
	return nil
}

// batch holds the changes in one transaction.
type batch struct {
	index   *Index
	tx      *db.Tx
	now     stamp.Time
	buckets []*Bucket // those that exist, ordered by id
	rows    map[rowKey]*row
	// blobs maps each blob whose references changed to whether it is in use now.
	blobs  map[string]bool
	events map[string][]Event // by bucket
}

type rowKey struct{ bucketID, key string }

// row is an object before and after the batch.
type row struct {
	bucket   *Bucket
	key      string
	old, new *Object
}

// lock locks the buckets in the order of their ids, so that two batches cannot deadlock.
func (b *batch) lock(changes []*change) error {
	byID := map[string]*Bucket{}
	for _, c := range changes {
		c.old, c.new, c.err = nil, nil, nil
		byID[c.bucket.ID] = c.bucket
	}
	b.events = map[string][]Event{}
	missing := map[string]error{}
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		bucket := byID[id]
		err := lock(b.tx, bucket)
		switch {
		case err == nil:
			b.buckets = append(b.buckets, bucket)
		case isMissing(err):
			missing[bucket.ID] = err
		default:
			return err
		}
	}
	for _, c := range changes {
		c.err = missing[c.bucket.ID]
	}
	return nil
}

func isMissing(err error) bool { return errs.KindOf(err) == errs.NotFound }

const objectColumns = `o.bucket_id, o.key, o.size, o.modified_at, o.tier, o.etag, COALESCE(o.content_type, ''), o.attributes, o.blobs`

func scanObject(r db.Row) (o Object, err error) {
	return o, r.Scan(&o.BucketID, &o.Key, &o.Size, &o.ModifiedAt, &o.Tier, &o.ETag, &o.ContentType, db.FromJSON(&o.Attributes),
		db.FromJSON(&o.blobs))
}

// read reads the rows that will change.
func (b *batch) read(changes []*change) error {
	var keys db.Bulk[rowKey]
	for _, c := range changes {
		at := rowKey{c.bucket.ID, c.key}
		if c.err != nil || b.rows[at] != nil {
			continue
		}
		b.rows[at] = &row{bucket: c.bucket, key: c.key}
		keys = append(keys, at)
	}
	found, err := db.CollectBulk(b.tx, keys, scanObject, `SELECT `+objectColumns+` FROM {v}
		JOIN objects o ON o.bucket_id = v.bucket_id AND o.key = v.key`)
	if err != nil {
		return fmt.Errorf("read objects: %w", err)
	}
	for i := range found {
		r := b.rows[rowKey{found[i].BucketID, found[i].Key}]
		r.old = &found[i]
		r.new = &found[i]
	}
	return nil
}

// apply makes a change in memory.
func (b *batch) apply(c *change) {
	if c.err != nil {
		return
	}
	r := b.rows[rowKey{c.bucket.ID, c.key}]
	c.old = r.new
	c.new, c.err = c.apply(c.old)
	if c.err != nil || c.new == c.old {
		return
	}
	r.new = c.new
	b.refer(c.old, false)
	b.refer(c.new, true)
	e := Event{Name: c.event, At: b.now, Key: c.key, Origin: c.origin}
	if c.new != nil {
		e.Size = c.new.Size
		e.ETag = c.new.ETag
	}
	b.events[c.bucket.ID] = append(b.events[c.bucket.ID], e)
}

// refer notes whether an object's blobs are in use.
func (b *batch) refer(o *Object, referred bool) {
	if o == nil {
		return
	}
	for _, ref := range o.blobs {
		b.blobs[ref.id] = referred
	}
}

const upsertObjects = `INSERT INTO objects (bucket_id, key, size, modified_at, tier, etag, content_type, attributes, blobs, checksum)
	SELECT v.bucket_id, v.key, v.size, v.modified_at, v.tier, v.etag, v.content_type, v.attributes, v.blobs, v.checksum FROM {v} WHERE true
	ON CONFLICT (bucket_id, key) DO UPDATE SET size = excluded.size, modified_at = excluded.modified_at, tier = excluded.tier,
	etag = excluded.etag, content_type = excluded.content_type, attributes = excluded.attributes, blobs = excluded.blobs,
	checksum = excluded.checksum`

const deleteObjects = `DELETE FROM objects AS o {USING v} WHERE o.bucket_id = v.bucket_id AND o.key = v.key`

func (b *batch) writeObjects() error {
	var written db.Bulk[objectRow]
	var deleted db.Bulk[rowKey]
	for at, r := range b.rows {
		switch {
		case r.new == r.old:
		case r.new == nil:
			deleted = append(deleted, at)
		default:
			written = append(written, newObjectRow(r.new))
		}
	}
	if err := written.Send(b.tx, upsertObjects); err != nil {
		return fmt.Errorf("write objects: %w", err)
	}
	if err := deleted.Send(b.tx, deleteObjects); err != nil {
		return fmt.Errorf("delete objects: %w", err)
	}
	return nil
}

type objectRow struct {
	BucketID, Key     string
	Size              int64
	ModifiedAt        stamp.Time
	Tier              Tier
	ETag              string
	ContentType       *string
	Attributes, Blobs string
	Checksum          *string
}

func newObjectRow(o *Object) objectRow {
	return objectRow{
		BucketID: o.BucketID, Key: o.Key, Size: o.Size, ModifiedAt: o.ModifiedAt, Tier: o.Tier, ETag: o.ETag,
		ContentType: db.Null(o.ContentType), Attributes: db.ToJSON(o.Attributes), Blobs: db.ToJSON(o.blobs),
		Checksum: db.Null(o.Attributes.Checksum.kind()),
	}
}

// garbageRow is a blob with the time when it lost its last reference.
type garbageRow struct {
	ID        string
	GarbageAt stamp.Time
}

// writeBlobs inserts new references and marks blobs that lost theirs as garbage.
func (b *batch) writeBlobs() error {
	var all db.Bulk[string]
	var garbage db.Bulk[garbageRow]
	for id, referred := range b.blobs {
		all = append(all, id)
		if !referred {
			garbage = append(garbage, garbageRow{ID: id, GarbageAt: b.now})
		}
	}
	return writeBlobs(b.tx, all, garbage)
}

func writeBlobs(tx *db.Tx, referred db.Bulk[string], garbage db.Bulk[garbageRow]) error {
	if err := referred.Send(tx, `INSERT INTO blobs (id) SELECT v.value FROM {v} WHERE true ON CONFLICT (id) DO NOTHING`); err != nil {
		return fmt.Errorf("insert blobs: %w", err)
	}
	if err := garbage.Send(tx, `UPDATE blobs AS b SET garbage_at = v.garbage_at {FROM v} WHERE b.id = v.id`); err != nil {
		return fmt.Errorf("mark blobs as garbage: %w", err)
	}
	return nil
}

// writeSums books each row's difference in its bucket's totals and the day's usage.
func (b *batch) writeSums() error {
	for _, r := range b.rows {
		if err := b.book(r, r.old, -1); err != nil {
			return err
		}
		if err := b.book(r, r.new, 1); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) book(r *row, o *Object, sign int64) error {
	if o == nil || r.old == r.new {
		return nil
	}
	return book(b.tx, b.now, r.bucket, tierSums{o.Tier, sums{sign, sign * o.Size}})
}

func (b *batch) writeEvents() error {
	for _, bucket := range b.buckets {
		events := b.events[bucket.ID]
		if len(events) == 0 {
			continue
		}
		if err := b.tx.Send(`UPDATE bucket_states SET last_event_at = $2 WHERE bucket_id = $1`, bucket.ID, b.now); err != nil {
			return fmt.Errorf("update state of bucket: %w", err)
		}
		if b.index.Webhooks == nil {
			continue
		}
		bodies := make([][]byte, len(events))
		for i, e := range events {
			body, err := e.Notification(bucket)
			if err != nil {
				return err
			}
			bodies[i] = body
		}
		if err := b.index.Webhooks.AcceptEventsTx(b.tx, bucket.OrgID, bucket.WebhookID, bodies); err != nil {
			return fmt.Errorf("record events: %w", err)
		}
	}
	return nil
}
