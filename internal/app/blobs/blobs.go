// Package blobs opens the configured store for objects' bytes, and has the command that copies them
// to another one.
package blobs

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"steward/internal/app/config"
	"steward/internal/blob"
	"steward/internal/cli/exit"
	"steward/internal/cli/session"
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

// Command returns the parent of the commands for objects' bytes.
func Command(p session.Program) *cobra.Command {
	return session.Parent("blob", "Move the bytes of objects to another store", copyCommand(p))
}

func copyCommand(p session.Program) *cobra.Command {
	var from, to string
	cmd := &cobra.Command{
		Use:   "copy --from disk --to s3://bucket/prefix?endpoint=https://host",
		Short: "Copy the bytes of all objects to an S3 cluster, or back to files",
		Long: `Copy the bytes of all objects from the files in the data directory to a bucket of an S3 cluster, or back.
One of --from and --to is "disk", the other a URL as in --blob-url of steward serve, with the
credentials in STEWARD_BLOB_ACCESS_KEY and STEWARD_BLOB_SECRET_KEY.

What is there already with the right size is skipped, so a copy that was interrupted continues where
it ended. Nothing is deleted. The server may be running; what it stores meanwhile is copied by running
the command again after it was stopped. Then start it with the other --blob-url.`,
		Args: config.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := newRequest(config.Given(cmd), p.Environ, from, to)
			if err != nil {
				return err
			}
			return copyBlobs(cmd.Context(), p, r)
		},
		DisableFlagsInUseLine: true,
	}
	cmd.Flags().StringVar(&from, "from", "", "`store` to copy from: disk, or an s3:// URL")
	cmd.Flags().StringVar(&to, "to", "", "`store` to copy to: disk, or an s3:// URL")
	config.AddFlags(cmd, "config", "data", "database-url", "database-pooler")
	return cmd
}

// newRequest returns the request for the stores that the flags --from and --to name.
func newRequest(flags map[string]string, environ []string, from, to string) (request, error) {
	switch {
	case from == OnDisk && to != OnDisk && to != "":
		flags["blob-url"] = to
	case to == OnDisk && from != OnDisk && from != "":
		flags["blob-url"] = from
	default:
		return request{}, exit.Usagef("one of --from and --to must be disk, the other an s3:// URL; see `steward blob copy --help`")
	}
	cfg, err := config.Load(flags, environ)
	return request{Config: cfg, ToDisk: to == OnDisk}, err
}
