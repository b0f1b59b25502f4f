package object

import (
	"errors"
	"time"

	"steward/internal/errs"
	"steward/internal/page"
	"steward/internal/stamp"
)

// Bucket is a bucket with its credentials and configuration. It is shared by requests and must not
// be changed.
type Bucket struct {
	ID          string
	Name        string
	OrgID       string
	Region      string
	Description *string
	AccessKey   string
	SecretKey   string
	Internal    bool
	// WebhookID is the internal webhook that gets the events, or "".
	WebhookID string
	Config    Config
	CreatedBy string
	CreatedAt stamp.Time
	UpdatedAt stamp.Time

	version int64
}

// ETag returns the row's version.
func (b *Bucket) ETag() string { return page.ETag(b.version) }

// Tier returns the tier of objects that are written without one.
func (b *Bucket) Tier() Tier {
	if b.Config.StorageTier == nil {
		return Standard
	}
	return *b.Config.StorageTier
}

// expiry returns the time up to which objects must have been written to be past the ttl, or false if
// the bucket has none.
func (b *Bucket) expiry(now time.Time) (stamp.Time, bool) {
	if b.Config.TTL == nil {
		return 0, false
	}
	return stamp.Of(now) - stamp.Time(*b.Config.TTL)*1_000_000, true
}

// current returns an object, or nil if it is past the ttl: then it is as good as deleted, although
// Expire may not have come by yet.
func (b *Bucket) current(o *Object, now time.Time) *Object {
	if before, ok := b.expiry(now); ok && o != nil && o.ModifiedAt <= before {
		return nil
	}
	return o
}

// BucketRef names a bucket of an organization in a region.
type BucketRef struct{ OrgID, Region, Name string }

// NewBucket is a bucket to be created.
type NewBucket struct {
	// Name is chosen if it is empty.
	Name        string
	Region      string
	Description *string
	Internal    bool
}

// ErrNoBucket distinguishes a NotFound that concerns a bucket from one that concerns an object, with
// errors.Is.
var ErrNoBucket = errors.New("object: no such bucket")

func noBucket(name string) error { return noBucketError{errs.Missing("bucket", name)} }

type noBucketError struct{ e *errs.Error }

func (n noBucketError) Error() string        { return n.e.Error() }
func (n noBucketError) Unwrap() error        { return n.e }
func (n noBucketError) Is(target error) bool { return target == ErrNoBucket }

// Usage is what a bucket holds.
type Usage struct {
	Objects     int64
	Bytes       int64
	LastEventAt *stamp.Time
}
