package app

import (
	"steward/internal/account/organization"
	"steward/internal/audit"
	"steward/internal/object"
	"steward/internal/object/s3"
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
func (b base) wireObjects(auditLog *audit.Store, active *organization.Active, hooks *webhook.Store) (s storage) {
	s.buckets = &object.Buckets{
		DB: b.db, Ring: b.ring, Now: b.now, Audit: auditLog,
		Webhooks: hooks, Active: active,
	}
	b.db.Watch(object.Cache, s.buckets.Forget)
	blobs := &object.Blobs{DB: b.db, Store: b.blobs, Disk: b.databaseDisk, Now: b.now, Log: b.log}
	index := &object.Index{DB: b.db, Blobs: blobs, Now: b.now, Webhooks: hooks}
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
