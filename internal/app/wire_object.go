package app

import (
	"context"

	"steward/internal/audit"
	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/object"
	"steward/internal/object/s3"
	"steward/internal/resource"
	"steward/internal/webhook"
)

// storage holds the parts of the object slice.
type storage struct {
	store  *object.Store
	server *s3.Server
}

// wireObjects returns the parts of the object slice. The events of buckets go to webhooks.
func (b base) wireObjects(auditLog *audit.Store, hooks *webhook.Store) storage {
	store := &object.Store{
		DB: b.db, Blobs: b.blobs, Ring: b.ring, Now: b.now, Log: b.log, Audit: auditLog.Record,
		Prices: b.cfg.StoragePrices, Disk: b.databaseDisk,
		CreateWebhook: func(tx *db.Tx, b *object.Bucket) (string, error) {
			metadata := map[string]string{"type": "s3", "bucket_name": b.Name}
			return hooks.CreateInternalTx(tx, b.OrgID, b.CreatedBy, "Bucket "+b.Name, metadata)
		},
		DeleteWebhook: hooks.DeleteInternalTx,
		Event: func(tx *db.Tx, b *object.Bucket, events []object.Event) error {
			return sendEvents(tx, hooks, b, events)
		},
	}
	b.db.Watch(object.Cache, store.Forget)
	return storage{store: store, server: &s3.Server{
		Store: store, Origin: b.addresses.S3URL, Console: b.addresses.BaseURL, Domain: b.cfg.S3Domain, Log: b.log, Now: b.now,
	}}
}

// sendEvents makes events of a bucket receipts of its internal webhook.
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

// bucketEngine returns the engine of the buckets of all regions.
func (s storage) bucketEngine() resource.Buckets {
	return resource.Buckets{
		Create: func(tx *db.Tx, caller *auth.Caller, region, name string, description *string) (resource.Bucket, error) {
			b, err := s.store.CreateBucket(tx, caller, object.NewBucket{Name: name, Region: region, Description: description})
			if err != nil {
				return resource.Bucket{}, err
			}
			return bucketResource(b, object.Usage{}), nil
		},
		Delete:        s.store.DeleteBucket,
		Rotate:        s.rotateBucket,
		List:          s.buckets,
		SigningRegion: s3.DefaultRegion, Origin: s.server.Origin, Domain: s.server.Domain,
	}
}

// rotateBucket gives a bucket of a region new credentials.
func (s storage) rotateBucket(tx *db.Tx, orgID, region, name string) (resource.Bucket, error) {
	b, err := s.store.RotateKeys(tx, orgID, name)
	if err != nil {
		return resource.Bucket{}, err
	}
	if b.Region != region {
		return resource.Bucket{}, errs.Missing("bucket", name)
	}
	return bucketResource(b, object.Usage{}), nil
}

func (s storage) buckets(ctx context.Context, orgID, region string) ([]resource.Bucket, error) {
	buckets, err := s.store.Buckets(ctx, orgID, region)
	if err != nil {
		return nil, err
	}
	usage, err := s.store.UsageByBucket(ctx, orgID)
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
