package object

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"steward/internal/blob"
	"steward/internal/db"
	"steward/internal/disk"
	"steward/internal/seal"
)

// Cache names the cache of buckets: pass Store.Forget to DB.Watch with it.
const Cache = "object.buckets"

// Store has the SQL of this package and moves bytes to and from the blob store.
type Store struct {
	DB    *db.DB
	Blobs blob.Store
	Ring  *seal.Ring
	Now   func() time.Time
	// Log receives what is not returned to a caller.
	Log *slog.Logger
	// Disk is that of the database, unless it is elsewhere.
	Disk *disk.Space
	// Audit records who did something, in the same transaction.
	Audit func(tx *db.Tx, action, target string) error
	// Event is called in the transaction that changes objects of a bucket. It may be nil.
	Event func(tx *db.Tx, b *Bucket, events []Event) error
	// CreateWebhook creates the internal webhook of a bucket and returns its id; DeleteWebhook
	// deletes it. They may be nil.
	CreateWebhook func(tx *db.Tx, b *Bucket) (string, error)
	DeleteWebhook func(tx *db.Tx, orgID, webhookID string) error
	// Prices are in USD for a GB (10^9 bytes) and month. Tiers that are missing have the default
	// price.
	Prices map[Tier]float64
	// Limits are the sizes and periods; zero values mean the defaults.
	Limits Limits

	changes db.Gather[*change]
	byName  db.Cache[string, *Bucket]
	byKey   db.Cache[string, *Bucket]
}

// Limits are sizes and periods.
type Limits struct {
	// MaxBlock is the number of objects at which a block is split. A block with less than MinBlock
	// is merged with a neighbour if both have less than MergeBlock.
	MaxBlock, MergeBlock, MinBlock int64
	// Batch is the number of objects that one transaction of a bulk deletion changes.
	Batch int
	// MinPart is the minimum size of a part that is not the last one.
	MinPart int64
	// Grace is how long the bytes of a replaced or deleted object are kept for readers.
	Grace time.Duration
	// Orphan is the age at which bytes without a row are removed. A blob can be referred to only
	// for half of that time after its id was made.
	Orphan time.Duration
	// Upload is the age at which an upload is aborted.
	Upload time.Duration
}

// limits returns the limits with their defaults.
func (s *Store) limits() Limits {
	l := s.Limits
	return Limits{
		MaxBlock:   cmp.Or(l.MaxBlock, 2000),
		MergeBlock: cmp.Or(l.MergeBlock, 1000),
		MinBlock:   cmp.Or(l.MinBlock, 250),
		Batch:      cmp.Or(l.Batch, maxDelete),
		MinPart:    cmp.Or(l.MinPart, MinPartSize),
		Grace:      cmp.Or(l.Grace, 10*time.Minute),
		Orphan:     cmp.Or(l.Orphan, 24*time.Hour),
		Upload:     cmp.Or(l.Upload, 7*24*time.Hour),
	}
}

// totals counts what buckets hold.
var totals = db.NewCounters("bucket_totals", []string{"org_id", "bucket_id", "tier"}, []string{"objects", "bytes"})

// usage sums the changes of an organization by day. A day on which everything was deleted again has had
// data, too.
var usage = db.NewCounters("object_usage", []string{"org_id", "day", "tier"}, []string{"objects", "bytes"}).KeepZeros()

const secondsPerDay = 86400

// dayOf returns the day of a time in UTC, in days since 1970.
func dayOf(t time.Time) int64 { return t.Unix() / secondsPerDay }

// exists returns NotFound if the bucket was deleted since it was read from the cache.
func exists(q db.Querier, b *Bucket) error {
	var id string
	err := q.Row(`SELECT bucket_id FROM bucket_states WHERE bucket_id = $1`, b.ID).Scan(&id)
	return missingBucket(err, b)
}

// lock locks a bucket for a change of its objects until the transaction ends. It returns NotFound if
// the bucket was deleted. SQLite has one writer and needs no lock.
func lock(tx *db.Tx, b *Bucket) error {
	text := `SELECT bucket_id FROM bucket_states WHERE bucket_id = $1`
	if tx.Dialect() == db.Postgres {
		text += ` FOR UPDATE`
	}
	var id string
	return missingBucket(tx.Row(text, b.ID).Scan(&id), b)
}

func missingBucket(err error, b *Bucket) error {
	if errors.Is(err, db.ErrNoRows) {
		return noBucket(b.Name)
	}
	if err != nil {
		return fmt.Errorf("read state of bucket: %w", err)
	}
	return nil
}
