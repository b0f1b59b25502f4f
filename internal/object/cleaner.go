package object

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/stamp"
)

const (
	// Readers can still read a replaced or deleted object's bytes for garbageGrace.
	garbageGrace = 10 * time.Minute
	// maxUploadAge is the age at which we abort an upload.
	maxUploadAge = 7 * 24 * time.Hour
)

// Cleaner removes expired and unreferenced data. One replica at a time calls its methods again and again.
// Each call does everything that is due, in small transactions, so an interrupted one continues at the next
// call.
type Cleaner struct {
	DB      *db.DB
	Buckets *Buckets
	Index   *Index
	Blobs   *Blobs
	Now     func() time.Time
	// Log receives errors that no caller gets.
	Log *slog.Logger
}

// Expire deletes objects that are older than their bucket's ttl.
func (c *Cleaner) Expire(ctx context.Context) error {
	for last := ""; ; {
		buckets, err := c.Buckets.withTTL(ctx, last)
		if err != nil {
			return err
		}
		if len(buckets) == 0 {
			return nil
		}
		for _, b := range buckets {
			if err := c.expireBucket(ctx, b); err != nil && !errors.Is(err, errConfigured) {
				return err
			}
			last = b.ID
		}
	}
}

const expiredText = `SELECT key FROM objects WHERE bucket_id = $1 AND modified_at <= $2 ORDER BY modified_at, key LIMIT $3`

func (c *Cleaner) expireBucket(ctx context.Context, b *Bucket) error {
	before, ok := b.expiry(c.Now())
	if !ok {
		return nil
	}
	batch := c.Index.limits().Batch
	for {
		keys, err := db.Collect(c.DB.Read(ctx), db.Value[string], expiredText, b.ID, before, batch)
		if err != nil {
			return fmt.Errorf("list expired objects: %w", err)
		}
		if len(keys) == 0 {
			return nil
		}
		if err := c.expireBatch(ctx, b, keys, before); err != nil || len(keys) < batch {
			return err
		}
	}
}

// errConfigured stops expiring a bucket whose ttl has changed, or which was deleted.
var errConfigured = errors.New("object: the ttl has changed")

// expireBatch deletes objects, except those that were rewritten meanwhile. It stops if the ttl has changed.
func (c *Cleaner) expireBatch(ctx context.Context, b *Bucket, keys []string, before stamp.Time) error {
	var changes []*change
	for _, key := range keys {
		changes = append(changes, &change{bucket: b, key: key, event: EventExpire, apply: func(old *Object) (*Object, error) {
			if old != nil && old.ModifiedAt > before {
				return old, nil
			}
			return nil, nil
		}})
	}
	return c.DB.Write(ctx, func(tx *db.Tx) error {
		var ttl *int64
		if err := tx.Row(`SELECT ttl_seconds FROM buckets WHERE id = $1`, b.ID).Scan(&ttl); err != nil && !errors.Is(err, db.ErrNoRows) {
			return fmt.Errorf("read ttl: %w", err)
		}
		if ttl == nil || *ttl != *b.Config.TTL {
			return errConfigured
		}
		return c.Index.changeAll(tx, changes)
	})
}

// CollectGarbage deletes the blobs that lost their last reference longer ago than the grace period. It
// deletes the bytes before the row, so that after an interruption we still know about them.
func (c *Cleaner) CollectGarbage(ctx context.Context) error {
	batch := c.Index.limits().Batch
	for {
		before := stamp.Of(c.Now()).Add(-garbageGrace)
		ids, err := db.Collect(c.DB.Read(ctx), db.Value[string], garbageText, before, batch)
		if err != nil {
			return fmt.Errorf("list garbage: %w", err)
		}
		if err := c.deleteBlobs(ctx, ids); err != nil {
			return err
		}
		err = c.DB.Write(ctx, func(tx *db.Tx) error {
			return db.Bulk[string](ids).Send(tx, `DELETE FROM blobs WHERE id {IN v} AND garbage_at IS NOT NULL`)
		})
		if err != nil {
			return fmt.Errorf("delete rows of blobs: %w", err)
		}
		if len(ids) < batch {
			return nil
		}
	}
}

const garbageText = `SELECT id FROM blobs WHERE garbage_at IS NOT NULL AND garbage_at <= $1 ORDER BY garbage_at LIMIT $2`

// deleteBlobs deletes a few blobs at a time.
func (c *Cleaner) deleteBlobs(ctx context.Context, ids []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, blobID := range ids {
		group.Go(func() error { return c.Blobs.Store.Delete(ctx, blobID) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("delete blobs: %w", err)
	}
	return nil
}

// Sweep looks up sweepPage blobs at once.
const sweepPage = 1000

// Sweep deletes blobs without a row, left by processes that died between writing the bytes and the commit.
// It deletes only blobs so old that no write can refer to them any more.
func (c *Cleaner) Sweep(ctx context.Context) error {
	for cursor := ""; ; {
		before := c.Now().Add(-orphanAge)
		blobs, next, err := c.Blobs.Store.List(ctx, cursor, sweepPage)
		if err != nil {
			return fmt.Errorf("list blobs: %w", err)
		}
		var old []string
		for _, b := range blobs {
			if made, ok := id.BlobTime(b.ID); ok && made.Before(before) {
				old = append(old, b.ID)
			}
		}
		orphans, err := c.orphans(ctx, old)
		if err != nil {
			return err
		}
		if err := c.deleteBlobs(ctx, orphans); err != nil {
			return err
		}
		if len(orphans) > 0 {
			c.Log.Info("removed blobs that nothing refers to", "count", len(orphans))
		}
		if next == "" {
			return nil
		}
		cursor = next
	}
}

// orphans returns the ids that have no row.
func (c *Cleaner) orphans(ctx context.Context, ids []string) (orphans []string, err error) {
	found, err := db.CollectBulk(c.DB.Read(ctx), db.Bulk[string](ids), db.Value[string],
		`SELECT b.id FROM {v} JOIN blobs b ON b.id = v.value`)
	if err != nil {
		return nil, fmt.Errorf("look up blobs: %w", err)
	}
	known := map[string]bool{}
	for _, blobID := range found {
		known[blobID] = true
	}
	for _, blobID := range ids {
		if !known[blobID] {
			orphans = append(orphans, blobID)
		}
	}
	return orphans, nil
}

// AbortStaleUploads aborts uploads that were begun long ago and never completed.
func (c *Cleaner) AbortStaleUploads(ctx context.Context) error {
	before := stamp.Of(c.Now()).Add(-maxUploadAge)
	return c.removeUploads(ctx, `created_at < $1 ORDER BY created_at`, before)
}

// DeleteCompletions deletes the answers to uploads that were completed more than a day ago.
func (c *Cleaner) DeleteCompletions(ctx context.Context) error {
	before := stamp.Of(c.Now()).Add(-completionPeriod)
	for batch := int64(c.Index.limits().Batch); ; {
		var n int64
		err := c.DB.Write(ctx, func(tx *db.Tx) (err error) {
			n, err = tx.Exec(deleteCompletionsText, before, batch)
			return err
		})
		if err != nil {
			return fmt.Errorf("delete completions: %w", err)
		}
		if n < batch {
			return nil
		}
	}
}

const deleteCompletionsText = `DELETE FROM object_completions WHERE upload_id IN
	(SELECT upload_id FROM object_completions WHERE completed_at <= $1 ORDER BY completed_at LIMIT $2)`

// removeUploads removes the uploads that meet a condition.
func (c *Cleaner) removeUploads(ctx context.Context, condition string, arg any) error {
	for {
		ids, err := db.Collect(c.DB.Read(ctx), db.Value[string], `SELECT id FROM object_uploads WHERE `+condition+` LIMIT 100`, arg)
		if err != nil {
			return fmt.Errorf("list uploads: %w", err)
		}
		for _, uploadID := range ids {
			err := c.DB.Write(ctx, func(tx *db.Tx) error {
				// Changing the row locks the upload, unless somebody else has removed it.
				n, err := tx.Exec(`UPDATE object_uploads SET created_at = created_at WHERE id = $1`, uploadID)
				if err != nil || n == 0 {
					return err
				}
				return removeUpload(tx, uploadID, stamp.Of(c.Now()))
			})
			if err != nil {
				return err
			}
		}
		if len(ids) < 100 {
			return nil
		}
	}
}

// Purge removes deleted buckets' objects and uploads. Deleting a bucket has already subtracted its totals.
func (c *Cleaner) Purge(ctx context.Context) error {
	ids, err := db.Collect(c.DB.Read(ctx), db.Value[string], `SELECT bucket_id FROM bucket_purges ORDER BY bucket_id`)
	if err != nil {
		return fmt.Errorf("list purges: %w", err)
	}
	for _, bucketID := range ids {
		if err := c.purgeBucket(ctx, bucketID); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cleaner) purgeBucket(ctx context.Context, bucketID string) error {
	batch := c.Index.limits().Batch
	for n := batch; n == batch; {
		var err error
		if n, err = c.purgeObjects(ctx, bucketID, batch); err != nil {
			return err
		}
	}
	if err := c.removeUploads(ctx, `bucket_id = $1`, bucketID); err != nil {
		return err
	}
	return c.DB.Write(ctx, func(tx *db.Tx) error {
		for _, table := range []string{"object_blocks", "bucket_purges"} {
			if _, err := tx.Exec(`DELETE FROM `+table+` WHERE bucket_id = $1`, bucketID); err != nil {
				return fmt.Errorf("delete from %s: %w", table, err)
			}
		}
		return nil
	})
}

// purgeObjects removes up to limit objects from a deleted bucket. Their blobs become garbage.
func (c *Cleaner) purgeObjects(ctx context.Context, bucketID string, limit int) (n int, err error) {
	err = c.DB.Write(ctx, func(tx *db.Tx) error {
		type purged struct {
			key   string
			blobs []blobRef
		}
		some, err := db.Collect(tx, func(r db.Row) (p purged, err error) { return p, r.Scan(&p.key, db.FromJSON(&p.blobs)) },
			`SELECT key, blobs FROM objects WHERE bucket_id = $1 ORDER BY key LIMIT $2`, bucketID, limit)
		if err != nil {
			return fmt.Errorf("list objects: %w", err)
		}
		n = len(some)
		var keys db.Bulk[rowKey]
		var garbage db.Bulk[garbageRow]
		for _, p := range some {
			keys = append(keys, rowKey{bucketID, p.key})
			for _, ref := range p.blobs {
				garbage = append(garbage, garbageRow{ID: ref.id, GarbageAt: stamp.Of(c.Now())})
			}
		}
		if err := keys.Send(tx, deleteObjects); err != nil {
			return fmt.Errorf("delete objects: %w", err)
		}
		return writeBlobs(tx, nil, garbage)
	})
	return n, err
}
