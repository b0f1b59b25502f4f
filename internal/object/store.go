package object

import (
	"log/slog"
	"time"

	"steward/internal/blob"
	"steward/internal/db"
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
	Log   *slog.Logger
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
