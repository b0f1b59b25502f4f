// Package blobs opens the configured store for objects' bytes, and has the command that copies them
// to another one.
package blobs

import (
	"context"
	"fmt"
	"path/filepath"

	"steward/internal/app/config"
	"steward/internal/blob"
	"steward/internal/disk"
)

// Open opens the store for objects' bytes: files in the data directory, or a place in another S3
// server's bucket.
func Open(ctx context.Context, cfg config.Config) (blob.Store, error) {
	if cfg.BlobURL == nil {
		return openFiles(cfg)
	}
	options := *cfg.BlobURL
	options.AccessKey = string(cfg.BlobAccessKey)
	options.SecretKey = string(cfg.BlobSecretKey)
	store, err := blob.OpenS3(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("--blob-url: %w", err)
	}
	return store, nil
}

// OnDisk names the files in the data directory.
const OnDisk = "disk"

// Name returns the name of the store that Open opens: OnDisk, or a URL without credentials. Two URLs
// that differ only in the region share a name.
func Name(cfg config.Config) string {
	if cfg.BlobURL == nil {
		return OnDisk
	}
	options := *cfg.BlobURL
	options.Region = ""
	return options.String()
}

func openFiles(cfg config.Config) (blob.Store, error) {
	dir := filepath.Join(cfg.Data, "blobs")
	files, err := blob.OpenDisk(dir)
	if err != nil {
		return nil, err
	}
	files.Space = &disk.Space{Dir: dir, Reserve: cfg.DiskReserve}
	return files, nil
}
