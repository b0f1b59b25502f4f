package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"steward/internal/account/organization"
	"steward/internal/app/config"
	"steward/internal/audit"
	"steward/internal/budget"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/object/s3"
	"steward/internal/resource"
	"steward/internal/resource/embedkv"
	"steward/internal/resource/libsql"
	"steward/internal/resource/postgres"
	"steward/internal/resource/rediskv"
)

// engines provides databases and key-value stores.
type engines struct {
	store      *resource.Store
	regions    []resource.Region
	embeddedDB *libsql.Engine  // for all embedded databases
	embeddedKV *embedkv.Engine // for all embedded key-value stores
	servers    []engineServer
	log        *slog.Logger
}

// engineServer is an engine on another server.
type engineServer struct {
	resource.Engine
	io.Closer
	name string // as in the configuration
}

// wireEngines returns the engines for all regions. Call open before you use them.
func (b base) wireEngines(auditLog *audit.Store, active *organization.Active) (*engines, error) {
	e := &engines{store: &resource.Store{DB: b.db, Ring: b.ring, Now: b.now, Audit: auditLog}, log: b.log}
	e.embeddedDB = &libsql.Engine{
		Dir: filepath.Join(b.cfg.Data, "databases"), Node: b.node, BaseURL: b.addresses.BaseURL, Rows: e.store,
		Active: active,
		Limits: libsql.Limits{Reserve: max(b.cfg.DiskReserve, 1)}, // 0 is the default
		Memory: budget.NewPool(b.poolSizes.databases, b.poolSizes.databases/8), Log: b.log, Now: b.now,
	}
	e.embeddedKV = &embedkv.Engine{
		Dir: filepath.Join(b.cfg.Data, "stores"), Node: b.node, URL: b.addresses.KVURL,
		Rows: e.store, Active: active,
		Connections:     budget.NewPool(min(descriptors()/4, 10_000), 16),
		Unauthenticated: budget.NewPool(min(descriptors()/16, 1000), 16),
		Memory:          budget.NewPool(b.poolSizes.keyValue, b.poolSizes.keyValue/8),
		KeyMemory:       budget.NewPool(cmp.Or(b.cfg.KVMemory, b.poolSizes.keys), embedkv.KeyGrant),
		ScriptMemory:    budget.NewPool(b.poolSizes.scripts, embedkv.ScriptGrant),
		Limits:          embedkv.Limits{Memory: b.cfg.KVStoreMemory},
		Disk:            b.dataDisk,
		Log:             b.log, Now: b.now,
	}
	b.db.Watch(resource.Cache, e.embeddedDB.Forget)
	b.db.Watch(resource.Cache, e.embeddedKV.Forget)
	for _, r := range b.cfg.Regions {
		region, err := e.region(r)
		if err != nil {
			e.closeServers()
			return nil, err
		}
		e.regions = append(e.regions, region)
	}
	return e, nil
}

// region returns a region with its engines, and adds those on other servers to servers.
func (e *engines) region(r config.Region) (resource.Region, error) {
	region := resource.Region{Region: r.Region, Description: r.Description, S3: r.S3.Kind == config.Embedded}
	switch r.DB.Kind {
	case config.Embedded:
		region.DB = e.embeddedDB
	case config.PostgreSQL:
		name := "db of region " + r.Region
		engine, err := postgres.New(string(r.DB.URL), e.log)
		if err != nil {
			return region, fmt.Errorf("%s: %w", name, err)
		}
		e.servers = append(e.servers, engineServer{engine, engine, name})
		region.DB = engine
	}
	switch r.KV.Kind {
	case config.Embedded:
		region.KV = e.embeddedKV
	case config.Redis:
		name := "kv of region " + r.Region
		engine, err := rediskv.New(string(r.KV.URL), e.log)
		if err != nil {
			return region, fmt.Errorf("%s: %w", name, err)
		}
		e.servers = append(e.servers, engineServer{engine, engine, name})
		region.KV = engine
	}
	return region, nil
}

// checkTimeout bounds the check of a server at the start.
const checkTimeout = 10 * time.Second

// open opens the embedded engines and checks the servers. A server that does not respond may do so
// later; if it refuses its administrator, the configuration is wrong.
func (e *engines) open(ctx context.Context) error {
	if err := e.embeddedDB.Open(); err != nil {
		return fmt.Errorf("open databases: %w", err)
	}
	if err := e.embeddedKV.Open(); err != nil {
		return fmt.Errorf("open key-value stores: %w", err)
	}
	for _, s := range e.servers {
		limited, cancel := context.WithTimeout(ctx, checkTimeout)
		err := s.Check(limited)
		cancel()
		if errs.KindOf(err) == errs.Unavailable {
			e.log.Warn("an engine is not available yet", "engine", s.name, "error", err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// warnOfUnknownFiles logs that the data directory has files of databases or key-value stores without
// a row. We never remove them: a row goes only after its files, so somebody replaced the database
// with another one or with an old backup.
func (e *engines) warnOfUnknownFiles(ctx context.Context, node string) error {
	for t, dir := range map[resource.Type]string{resource.DB: e.embeddedDB.Dir, resource.KV: e.embeddedKV.Dir} {
		entries, err := os.ReadDir(dir) // before reading the rows: a row exists before its files
		if err != nil {
			return fmt.Errorf("read the directory of resources: %w", err)
		}
		known, err := e.store.IDs(ctx, node, t)
		if err != nil {
			return err
		}
		unknown := slices.DeleteFunc(entries, func(entry os.DirEntry) bool {
			return known[entry.Name()] || !id.Is(string(t), entry.Name())
		})
		if len(unknown) > 0 {
			e.log.Warn("files of resources that this database does not know; they are kept",
				"directory", dir, "count", len(unknown), "first", unknown[0].Name())
		}
	}
	return nil
}

// warnOfLocalFiles logs that other replicas cannot reach the embedded engines' files.
func (e *engines) warnOfLocalFiles(database db.Dialect, cfg config.Config) {
	if database == db.SQLite || cfg.InternalListen != "" {
		return
	}
	for _, r := range e.regions {
		if r.DB == resource.Databases(e.embeddedDB) || r.KV == resource.Stores(e.embeddedKV) {
			e.log.Warn("embedded databases and key-value stores are served only by the replica that created them; "+
				"set --internal-listen, or give the region engines that are servers", "region", r.Region)
		}
	}
}

// wireResources returns the resource manager, which takes its buckets from the object slice.
func (b base) wireResources(e *engines, s storage) *resource.Manager {
	return &resource.Manager{
		Store: e.store, Regions: e.regions, Embedded: resource.Region{DB: e.embeddedDB, KV: e.embeddedKV},
		Buckets: s.buckets, Totals: s.totals, Node: b.node, Log: b.log,
		S3: resource.S3Address{SigningRegion: s3.DefaultRegion, Origin: s.server.Origin, Domain: s.server.Domain},
	}
}

// serve serves the Redis protocol in the background, if there is a listener. When it ends, the
// channel receives the error.
func (e *engines) serve(listener net.Listener) <-chan error {
	if listener == nil {
		return nil
	}
	ended := make(chan error, 1)
	go func() { ended <- e.embeddedKV.Serve(listener) }()
	return ended
}

// close closes the embedded engines' connections and files.
func (e *engines) close(ctx context.Context) {
	if err := e.embeddedKV.Close(ctx); err != nil {
		e.log.Warn("close key-value stores", "error", err)
	}
	if err := e.embeddedDB.Close(ctx); err != nil {
		e.log.Warn("close databases", "error", err)
	}
}

// closeServers closes the connections to servers.
func (e *engines) closeServers() {
	for _, s := range e.servers {
		if err := s.Close(); err != nil {
			e.log.Warn("close the connections to an engine", "engine", s.name, "error", err)
		}
	}
}
