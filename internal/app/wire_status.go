package app

import (
	"context"
	"os"
	"path/filepath"

	"steward/internal/errs"
	"steward/internal/resource"
	"steward/internal/stamp"
	"steward/internal/status"
)

// wireStatus returns the status handler.
func (p *parts) wireStatus() *status.Handler {
	b := p.base
	h := &status.Handler{
		Version: Version(), StartedAt: stamp.Of(b.now()),
		Processes: &status.Processes{DB: b.db, Now: b.now, Log: b.log, ID: b.processID, KeyID: b.ring.KeyID(), Dir: b.cfg.Data},
		Disk:      b.dataDisk, Accounts: p.accounts,
		Nodes: p.nodes.directory, Resources: p.engines.store, Webhooks: p.webhooks.store,
		Engines: &status.Engines{All: b.engineChecks(p.engines.regions), Log: b.log},
	}
	if p.backups != nil {
		h.Backup = p.backups.status
	}
	return h
}

// engineChecks returns all regions' engines with their checks.
func (b base) engineChecks(regions []resource.Region) []status.Engine {
	var all []status.Engine
	for _, r := range regions {
		if r.S3 {
			name, check := b.blobCheck()
			all = append(all, status.Engine{Region: r.Region, Type: string(resource.S3), Name: name, Check: check})
		}
		if r.DB != nil {
			all = append(all, status.Engine{Region: r.Region, Type: string(resource.DB), Name: r.DB.Name(), Check: r.DB.Check})
		}
		if r.KV != nil {
			all = append(all, status.Engine{Region: r.Region, Type: string(resource.KV), Name: r.KV.Name(), Check: r.KV.Check})
		}
	}
	return all
}

// blobCheck returns the name of the store for objects' bytes, and its check.
func (b base) blobCheck() (name string, check func(context.Context) error) {
	if b.cfg.BlobURL == nil {
		return "disk", func(context.Context) error {
			if _, err := os.Stat(filepath.Join(b.cfg.Data, "blobs")); err != nil {
				return errs.Unavailablef(err, "the directory of objects cannot be used")
			}
			return nil
		}
	}
	return "s3", func(ctx context.Context) error {
		if _, _, err := b.blobs.List(ctx, "", 1); err != nil {
			return errs.Unavailablef(err, "the S3 server that keeps the objects cannot be used now")
		}
		return nil
	}
}
