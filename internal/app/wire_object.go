package app

import (
	"context"

	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/object"
	"steward/internal/object/s3"
	"steward/internal/resource"
	"steward/internal/webhook"
)

// s3Requests is how many S3 requests organizations share.
const s3Requests = 2000

// storage holds the object slice's parts.
type storage struct {
	buckets *object.Buckets
	totals  *object.Totals
	cleaner *object.Cleaner
	server  *s3.Server
	handler *object.Handler
}

// wireObjects returns the object slice's parts. The buckets' events go to webhooks.
func (b base) wireObjects(auditLog *audit.Store, hooks *webhook.Store) (s storage) {
	s.buckets = &object.Buckets{
		DB: b.db, Ring: b.ring, Now: b.now, Audit: auditLog,
		CreateWebhook: func(tx *db.Tx, b *object.Bucket) (string, error) {
			metadata := map[string]string{"type": "s3", "bucket_name": b.Name}
			return hooks.CreateInternalTx(tx, webhook.Creator{OrgID: b.OrgID, UserID: b.CreatedBy}, "Bucket "+b.Name, metadata)
		},
		DeleteWebhook: hooks.DeleteInternalTx,
	}
	b.db.Watch(object.Cache, s.buckets.Forget)
	blobs := &object.Blobs{DB: b.db, Store: b.blobs, Disk: b.databaseDisk, Now: b.now, Log: b.log}
	index := &object.Index{
		DB: b.db, Blobs: blobs, Now: b.now,
		Event: func(tx *db.Tx, b *object.Bucket, events []object.Event) error {
			return sendEvents(tx, hooks, b, events)
		},
	}
	s.totals = &object.Totals{DB: b.db, Now: b.now, Prices: b.cfg.StoragePrices}
	s.cleaner = &object.Cleaner{DB: b.db, Buckets: s.buckets, Index: index, Blobs: blobs, Now: b.now, Log: b.log}
	s.server = &s3.Server{
		Buckets: s.buckets, Index: index, Blobs: blobs,
		Uploads: &object.Uploads{DB: b.db, Index: index, Blobs: blobs, Now: b.now},
		Origin:  b.addresses.S3URL, Console: b.addresses.BaseURL, Domain: b.cfg.S3Domain, Log: b.log, Now: b.now,
		Messages: s3.NewMessages(b.poolSizes.messages), Slots: s3.NewSlots(s3Requests),
	}
	s.handler = &object.Handler{
		Buckets: s.buckets, Index: index, Totals: s.totals, Audit: auditLog,
		Presign: s.server.Presign, Expiry: b.cfg.PresignExpiry,
	}
	return s
}

// sendEvents turns a bucket's events into receipts at its internal webhook.
func sendEvents(tx *db.Tx, hooks *webhook.Store, b *object.Bucket, events []object.Event) error {
	bodies := make([][]byte, len(events))
	for i, e := range events {
		body, err := e.Notification(b)
		if err != nil {
			return err
		}
		bodies[i] = body
	}
	return hooks.AcceptEventsTx(tx, b.OrgID, b.WebhookID, bodies)
}

// bucketEngine returns the bucket engine for all regions.
func (s storage) bucketEngine() resource.Buckets {
	return resource.Buckets{
		Create: func(tx *db.Tx, caller *auth.Caller, region, name string, description *string) (resource.Bucket, error) {
			b, err := s.buckets.Create(tx, caller, object.NewBucket{Name: name, Region: region, Description: description})
			if err != nil {
				return resource.Bucket{}, err
			}
			return bucketResource(b, object.Usage{}), nil
		},
		Delete: func(tx *db.Tx, orgID, region, name string, ifEmpty bool) error {
			return s.buckets.Delete(tx, object.BucketRef{OrgID: orgID, Region: region, Name: name}, ifEmpty)
		},
		Rotate:        s.rotateBucket,
		List:          s.listBuckets,
		SigningRegion: s3.DefaultRegion, Origin: s.server.Origin, Domain: s.server.Domain,
	}
}

// rotateBucket gives a bucket in a region new credentials.
func (s storage) rotateBucket(tx *db.Tx, orgID, region, name string) (resource.Bucket, error) {
	b, err := s.buckets.RotateKeys(tx, object.BucketRef{OrgID: orgID, Region: region, Name: name})
	if err != nil {
		return resource.Bucket{}, err
	}
	return bucketResource(b, object.Usage{}), nil
}

func (s storage) listBuckets(ctx context.Context, orgID, region string) ([]resource.Bucket, error) {
	buckets, err := s.buckets.List(ctx, orgID, region)
	if err != nil {
		return nil, err
	}
	usage, err := s.totals.ByBucket(ctx, orgID)
	if err != nil {
		return nil, err
	}
	list := make([]resource.Bucket, len(buckets))
	for i, b := range buckets {
		list[i] = bucketResource(b, usage[b.ID])
	}
	return list, nil
}

func bucketResource(b *object.Bucket, u object.Usage) resource.Bucket {
	return resource.Bucket{
		Name: b.Name, OrgID: b.OrgID, Region: b.Region, Description: b.Description, Internal: b.Internal,
		AccessKey: b.AccessKey, SecretKey: b.SecretKey, CreatedAt: b.CreatedAt,
		Objects: u.Objects, Bytes: u.Bytes, LastEventAt: u.LastEventAt,
	}
}
