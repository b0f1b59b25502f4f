package object

import (
	"errors"
	"time"

	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
)

// Bucket is a bucket with its credentials and configuration. Requests share it, so do not change it.
type Bucket struct {
	ID          string
	Name        string
	OrgID       string
	Region      string
	Description *string
	AccessKey   string
	SecretKey   string
	Internal    bool
	// WebhookID is the internal webhook that receives the bucket's events, or "".
	WebhookID string
	Config    Config
	CreatedBy string
	CreatedAt stamp.Time
	UpdatedAt stamp.Time

	version int64
}

// ETag returns the row's version.
func (b *Bucket) ETag() string { return page.ETag(b.version) }

// Tier returns the tier for objects that are written without one.
func (b *Bucket) Tier() Tier {
	if b.Config.StorageTier == nil {
		return Standard
	}
	return *b.Config.StorageTier
}

// expiry returns the cutoff for the bucket's ttl: objects last written at this time or before have expired.
// It returns false if the bucket has no ttl.
func (b *Bucket) expiry(now time.Time) (stamp.Time, bool) {
	if b.Config.TTL == nil {
		return 0, false
	}
	return stamp.Of(now) - stamp.Time(*b.Config.TTL)*1_000_000, true
}

// current returns an object, or nil if it has expired. It then counts as deleted, even if Expire has not
// run yet.
func (b *Bucket) current(o *Object, now time.Time) *Object {
	if before, ok := b.expiry(now); ok && o != nil && o.ModifiedAt <= before {
		return nil
	}
	return o
}

// BucketRef names a bucket by organization, region and name.
type BucketRef struct{ OrgID, Region, Name string }

// NewBucket describes a bucket to create.
type NewBucket struct {
	// Name is generated if it is empty.
	Name        string
	Region      string
	Description *string
	Internal    bool
}

// ErrNoBucket tells, with errors.Is, a missing bucket from a missing object. Both are NotFound.
var ErrNoBucket = errors.New("object: no such bucket")

func noBucket(name string) error {
	err := errs.Missing("bucket", name)
	err.Cause = ErrNoBucket
	return err
}

// Usage says how much a bucket holds.
type Usage struct {
	Objects     int64
	Bytes       int64
	LastEventAt *stamp.Time
}
