package migrate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"steward/internal/app/blobs"
	"steward/internal/app/config"
	"steward/internal/app/inventory"
	"steward/internal/blob"
	"steward/internal/db"
	"steward/internal/db/move"
	"steward/internal/db/tablecopy"
	"steward/internal/errs"
	"steward/internal/object"
)

const (
	// storeTimeout bounds how long an S3 server may do nothing. It is short, because users wait for
	// it at the end.
	storeTimeout = 10 * time.Second
	// copyMemory bounds the blobs' bytes in memory at the same time.
	copyMemory = 32 << 20
)

// BlobRequest tells where to move the objects' bytes.
type BlobRequest struct {
	// URL is disk or s3://…, or empty if they stay where they are.
	URL       string `json:"url"`
	AccessKey string `json:"access_key"`
	SecretKey string `json:"secret_key"`
}

// newBlobRequest returns a request with the credentials from the settings, if it needs them.
func newBlobRequest(url string, cfg config.Config) BlobRequest {
	if url == "" || url == blobs.OnDisk {
		return BlobRequest{URL: url}
	}
	return BlobRequest{URL: url, AccessKey: string(cfg.BlobAccessKey), SecretKey: string(cfg.BlobSecretKey)}
}

// config returns settings with the store that the bytes move to.
func (r BlobRequest) config(cfg config.Config) (config.Config, error) {
	cfg.BlobURL = nil
	if r.URL == blobs.OnDisk {
		return cfg, nil
	}
	options, err := blob.ParseS3URL(r.URL)
	if err != nil {
		return cfg, errs.New(errs.Invalid, "--blob-url must be disk, or a URL such as s3://bucket/prefix?endpoint=https://host")
	}
	options.Timeout = storeTimeout
	cfg.BlobURL = &options
	cfg.BlobAccessKey = config.Secret(r.AccessKey)
	cfg.BlobSecretKey = config.Secret(r.SecretKey)
	return cfg, nil
}

// setting tells how to start a server that uses the store, or returns "" if that does not change.
func (r BlobRequest) setting() string {
	switch r.URL {
	case "":
		return ""
	case blobs.OnDisk:
		return "  without --blob-url\n"
	}
	options, err := blob.ParseS3URL(r.URL)
	if err != nil {
		return "" // no such request succeeds
	}
	return fmt.Sprintf("  --blob-url '%s', with STEWARD_BLOB_ACCESS_KEY and STEWARD_BLOB_SECRET_KEY\n", options)
}

// blobMove copies the objects' bytes to another store, before their rows are copied.
type blobMove struct {
	copier blob.Copier
	// store is the other store's name.
	store string
	job   *job

	mu     sync.Mutex
	copied int64
}

// openBlobs opens the stores for bytes. It returns nil if the bytes stay where they are.
func (j *job) openBlobs(ctx context.Context, r BlobRequest) (*blobMove, error) {
	if err := CheckStore(ctx, j.source, j.cfg); err != nil {
		return nil, err
	}
	if r.URL == "" {
		return nil, nil
	}
	cfg, err := r.config(j.cfg)
	if err != nil {
		return nil, err
	}
	if blobs.Name(cfg) == blobs.Name(j.cfg) {
		return nil, errs.New(errs.Invalid, "the bytes of objects are at --blob-url %s already: leave it out", blobs.Name(cfg))
	}
	to, err := blobs.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	old := j.cfg
	if old.BlobURL != nil {
		options := *old.BlobURL
		options.Timeout = storeTimeout
		old.BlobURL = &options
	}
	from, err := blobs.Open(ctx, old)
	if err != nil {
		return nil, fmt.Errorf("open the store that has the bytes of objects: %w", err)
	}
	referred := &object.Blobs{DB: j.source}
	copier := blob.Copier{From: from, To: to, Needed: referred.Referred, Memory: semaphore.NewWeighted(copyMemory)}
	return &blobMove{copier: copier, store: blobs.Name(cfg), job: j}, nil
}

// before copies the bytes for rows in the table blobs. Rows that refer to bytes have their sizes,
// which it compares. It implements move.Mover.Before.
func (b *blobMove) before(ctx context.Context, t tablecopy.Table, rows []tablecopy.Row) error {
	if t.Name != "blobs" && !inventory.HasSizes(t.Name) {
		return nil
	}
	return blob.Each(ctx, rows, func(ctx context.Context, row tablecopy.Row) error {
		if t.Name != "blobs" {
			return inventory.CheckSizes(ctx, b.copier.From, t, row)
		}
		blobID := inventory.Blob(t, row)
		if blobID == "" {
			return nil
		}
		if _, err := b.copier.Copy(ctx, blobID, -1); err != nil {
			return fmt.Errorf("copy the bytes of blob %s: %w", blobID, err)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.copied++
		b.job.report(Event{Stage: "bytes", Table: "blobs", Rows: b.copied})
		return nil
	})
}

// count returns the number of blobs that are in the other store.
func (b *blobMove) count() int64 {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.copied
}

// CheckStore returns Conflict if the objects' bytes were moved to a store other than the one in the
// settings, and no server has started since. With cfg.Force it accepts the one in the settings all
// the same.
func CheckStore(ctx context.Context, d *db.DB, cfg config.Config) error {
	store, err := move.Store(d.Read(ctx))
	if err != nil || store == "" {
		return err
	}
	if store == blobs.Name(cfg) || cfg.Force {
		return move.ForgetStore(ctx, d)
	}
	start := "with --blob-url '" + store + "'"
	if store == blobs.OnDisk {
		start = "without --blob-url"
	}
	return errs.New(errs.Conflict, "the bytes of objects were moved to %s: start %s, or with --force if they are at another place now", store, start)
}
