package object

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"steward/internal/db"
	"steward/internal/id"
	"steward/internal/stamp"
)

// The workers below are called again and again by one replica at a time. Each does all that is due,
// in small transactions; one that is interrupted continues at the next call.

// Expire deletes the objects that are older than the ttl of their bucket.
func (s *Store) Expire(ctx context.Context) error {
	for last := ""; ; {
		buckets, err := db.Collect(s.DB.Read(ctx), s.scanBucket, `SELECT `+bucketColumns+` FROM buckets
			WHERE ttl_seconds IS NOT NULL AND id > $1 ORDER BY id LIMIT 100`, last)
		if err != nil {
			return fmt.Errorf("list buckets with ttl: %w", err)
		}
		if len(buckets) == 0 {
			return nil
		}
		for _, b := range buckets {
			if err := s.expireBucket(ctx, b); err != nil && !errors.Is(err, errConfigured) {
				return err
			}
			last = b.ID
		}
	}
}

const expiredText = `SELECT key FROM objects WHERE bucket_id = $1 AND modified_at <= $2 ORDER BY modified_at, key LIMIT $3`

func (s *Store) expireBucket(ctx context.Context, b *Bucket) error {
	before, ok := b.expiry(s.Now())
	if !ok {
		return nil
	}
	batch := s.limits().Batch
	for {
		keys, err := db.Collect(s.DB.Read(ctx), db.Value[string], expiredText, b.ID, before, batch)
		if err != nil {
			return fmt.Errorf("list expired objects: %w", err)
		}
		if len(keys) == 0 {
			return nil
		}
		if err := s.expireBatch(ctx, b, keys, before); err != nil || len(keys) < batch {
			return err
		}
	}
}

// errConfigured ends the expiry of a bucket whose ttl has changed, or which was deleted.
var errConfigured = errors.New("object: the ttl has changed")

// expireBatch deletes objects unless they were written again, or the ttl was changed, meanwhile.
func (s *Store) expireBatch(ctx context.Context, b *Bucket, keys []string, before stamp.Time) error {
	var changes []*change
	for _, key := range keys {
		changes = append(changes, &change{bucket: b, key: key, event: EventExpire, apply: func(old *Object) (*Object, error) {
			if old != nil && old.ModifiedAt > before {
				return old, nil
			}
			return nil, nil
		}})
	}
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		var ttl *int64
		if err := tx.Row(`SELECT ttl_seconds FROM buckets WHERE id = $1`, b.ID).Scan(&ttl); err != nil && !errors.Is(err, db.ErrNoRows) {
			return fmt.Errorf("read ttl: %w", err)
		}
		if ttl == nil || *ttl != *b.Config.TTL {
			return errConfigured
		}
		return s.changeAll(tx, changes)
	})
}

// CollectGarbage deletes the blobs whose last reference was removed longer ago than the grace period:
// first the bytes, then the row, so that an interruption leaves the row.
func (s *Store) CollectGarbage(ctx context.Context) error {
	batch := s.limits().Batch
	for {
		before := stamp.Of(s.Now()).Add(-s.limits().Grace)
		ids, err := db.Collect(s.DB.Read(ctx), db.Value[string], garbageText, before, batch)
		if err != nil {
			return fmt.Errorf("list garbage: %w", err)
		}
		if err := s.deleteBlobs(ctx, ids); err != nil {
			return err
		}
		err = s.DB.Write(ctx, func(tx *db.Tx) error {
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

// deleteBlobs deletes blobs, a few at a time.
func (s *Store) deleteBlobs(ctx context.Context, ids []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, blobID := range ids {
		group.Go(func() error { return s.Blobs.Delete(ctx, blobID) })
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("delete blobs: %w", err)
	}
	return nil
}

// sweepPage is the number of blobs that Sweep looks up at once.
const sweepPage = 1000

// Sweep deletes blobs that nothing refers to: what a process that ended between the write of the
// bytes and the commit left. It deletes only blobs so old that no write can refer to them any more.
func (s *Store) Sweep(ctx context.Context) error {
	for cursor := ""; ; {
		before := s.Now().Add(-s.limits().Orphan)
		blobs, next, err := s.Blobs.List(ctx, cursor, sweepPage)
		if err != nil {
			return fmt.Errorf("list blobs: %w", err)
		}
		var old []string
		for _, b := range blobs {
			if made, ok := id.BlobTime(b.ID); ok && made.Before(before) {
				old = append(old, b.ID)
			}
		}
		orphans, err := s.orphans(ctx, old)
		if err != nil {
			return err
		}
		if err := s.deleteBlobs(ctx, orphans); err != nil {
			return err
		}
		if len(orphans) > 0 {
			s.Log.Info("removed blobs that nothing refers to", "count", len(orphans))
		}
		if next == "" {
			return nil
		}
		cursor = next
	}
}

// orphans returns those of some blobs that have no row.
func (s *Store) orphans(ctx context.Context, ids []string) (orphans []string, err error) {
	found, err := db.CollectBulk(s.DB.Read(ctx), db.Bulk[string](ids), db.Value[string],
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
func (s *Store) AbortStaleUploads(ctx context.Context) error {
	before := stamp.Of(s.Now()).Add(-s.limits().Upload)
	return s.removeUploads(ctx, `created_at < $1 ORDER BY created_at`, before)
}

// DeleteCompletions deletes the answers to uploads that were completed more than a day ago.
func (s *Store) DeleteCompletions(ctx context.Context) error {
	before := stamp.Of(s.Now()).Add(-completionPeriod)
	for batch := int64(s.limits().Batch); ; {
		var n int64
		err := s.DB.Write(ctx, func(tx *db.Tx) (err error) {
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
func (s *Store) removeUploads(ctx context.Context, condition string, arg any) error {
	for {
		ids, err := db.Collect(s.DB.Read(ctx), db.Value[string], `SELECT id FROM object_uploads WHERE `+condition+` LIMIT 100`, arg)
		if err != nil {
			return fmt.Errorf("list uploads: %w", err)
		}
		for _, uploadID := range ids {
			if err := s.DB.Write(ctx, func(tx *db.Tx) error { return s.removeLocked(tx, uploadID) }); err != nil {
				return err
			}
		}
		if len(ids) < 100 {
			return nil
		}
	}
}

// removeLocked locks an upload and removes it, unless somebody else has removed it.
func (s *Store) removeLocked(tx *db.Tx, uploadID string) error {
	n, err := tx.Exec(`UPDATE object_uploads SET created_at = created_at WHERE id = $1`, uploadID)
	if err != nil || n == 0 {
		return err
	}
	return s.removeUpload(tx, uploadID)
}

// Purge removes the objects and uploads of deleted buckets, whose totals were subtracted when the
// bucket was deleted.
func (s *Store) Purge(ctx context.Context) error {
	ids, err := db.Collect(s.DB.Read(ctx), db.Value[string], `SELECT bucket_id FROM bucket_purges ORDER BY bucket_id`)
	if err != nil {
		return fmt.Errorf("list purges: %w", err)
	}
	for _, bucketID := range ids {
		if err := s.purgeBucket(ctx, bucketID); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) purgeBucket(ctx context.Context, bucketID string) error {
	batch := s.limits().Batch
	for n := batch; n == batch; {
		var err error
		if n, err = s.purgeObjects(ctx, bucketID, batch); err != nil {
			return err
		}
	}
	if err := s.removeUploads(ctx, `bucket_id = $1`, bucketID); err != nil {
		return err
	}
	return s.DB.Write(ctx, func(tx *db.Tx) error {
		for _, table := range []string{"object_blocks", "bucket_purges"} {
			if _, err := tx.Exec(`DELETE FROM `+table+` WHERE bucket_id = $1`, bucketID); err != nil {
				return fmt.Errorf("delete from %s: %w", table, err)
			}
		}
		return nil
	})
}

// purgeObjects removes up to limit objects of a deleted bucket, whose blobs become garbage.
func (s *Store) purgeObjects(ctx context.Context, bucketID string, limit int) (n int, err error) {
	err = s.DB.Write(ctx, func(tx *db.Tx) error {
		type purged struct{ key, blobs string }
		some, err := db.Collect(tx, func(r db.Row) (p purged, err error) { return p, r.Scan(&p.key, &p.blobs) },
			`SELECT key, blobs FROM objects WHERE bucket_id = $1 ORDER BY key LIMIT $2`, bucketID, limit)
		if err != nil {
			return fmt.Errorf("list objects: %w", err)
		}
		n = len(some)
		var keys db.Bulk[rowKey]
		var garbage db.Bulk[garbageRow]
		for _, p := range some {
			keys = append(keys, rowKey{bucketID, p.key})
			var refs []blobRef
			if err := json.Unmarshal([]byte(p.blobs), &refs); err != nil {
				return fmt.Errorf("decode blobs: %w", err)
			}
			for _, ref := range refs {
				garbage = append(garbage, garbageRow{ID: ref.id, GarbageAt: stamp.Of(s.Now())})
			}
		}
		if err := keys.Send(tx, deleteObjects); err != nil {
			return fmt.Errorf("delete objects: %w", err)
		}
		return writeBlobs(tx, nil, garbage)
	})
	return n, err
}
