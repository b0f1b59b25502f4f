package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"steward/internal/app/config"
	"steward/internal/app/datadir"
	"steward/internal/budget"
	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/job"
	"steward/internal/resource"
	"steward/internal/resource/embedkv"
	"steward/internal/resource/libsql"
	"steward/internal/resource/postgres"
	"steward/internal/resource/rediskv"
)

// engines holds what provides databases and key-value stores.
type engines struct {
	store     *resource.Store
	regions   []resource.Region
	databases *libsql.Engine  // of all regions with embedded databases
	stores    *embedkv.Engine // of all regions with embedded key-value stores
	servers   []engineServer
	log       *slog.Logger
}

// engineServer is an engine that is another server.
type engineServer struct {
	resource.Engine
	name  string // as in the configuration
	close func() error
}

func wireEngines(
	cfg config.Config, d *database, at datadir.Addresses, sizes memory, record func(*db.Tx, string, string) error,
	log *slog.Logger, now func() time.Time,
) (*engines, error) {
	e := &engines{store: &resource.Store{DB: d.db, Ring: d.ring, Now: now, Audit: record}, log: log}
	e.databases = &libsql.Engine{
		Dir: filepath.Join(cfg.Data, "databases"), Node: d.node, BaseURL: at.BaseURL, Lookup: e.store.ByID,
		Limits: libsql.Limits{Reserve: max(cfg.DiskReserve, 1)}, // 0 is the default
		Memory: budget.NewPool(sizes.databases, sizes.databases/8), Log: log, Now: now,
	}
	e.stores = &embedkv.Engine{
		Dir: filepath.Join(cfg.Data, "stores"), Node: d.node, URL: at.KVURL, ByID: e.store.ByID, ByPassword: e.store.ByPassword,
		Connections:     budget.NewPool(min(descriptors()/4, 10_000), 16),
		Unauthenticated: budget.NewPool(min(descriptors()/16, 1000), 16),
		Memory:          budget.NewPool(sizes.stores, sizes.stores/8),
		Disk:            d.disk,
		Log:             log, Now: now,
	}
	d.db.Watch(resource.Cache, e.databases.Forget)
	d.db.Watch(resource.Cache, e.stores.Forget)
	for _, r := range cfg.Regions {
		region, err := e.region(r)
		if err != nil {
			e.closeServers()
			return nil, err
		}
		e.regions = append(e.regions, region)
	}
	return e, nil
}

func (e *engines) region(r config.Region) (resource.Region, error) {
	region := resource.Region{Region: r.Region, Description: r.Description, S3: r.S3.Kind == config.Embedded}
	switch r.DB.Kind {
	case config.Embedded:
		region.DB = e.databases
	case config.PostgreSQL:
		name := "db of region " + r.Region
		engine, err := postgres.New(string(r.DB.URL), e.log)
		if err != nil {
			return region, fmt.Errorf("%s: %w", name, err)
		}
		e.servers = append(e.servers, engineServer{engine, name, engine.Close})
		region.DB = engine
	}
	switch r.KV.Kind {
	case config.Embedded:
		region.KV = e.stores
	case config.Redis:
		name := "kv of region " + r.Region
		engine, err := rediskv.New(string(r.KV.URL), e.log)
		if err != nil {
			return region, fmt.Errorf("%s: %w", name, err)
		}
		e.servers = append(e.servers, engineServer{engine, name, engine.Close})
		region.KV = engine
	}
	return region, nil
}

// checkTimeout bounds the check of a server at the start.
const checkTimeout = 10 * time.Second

// open opens the embedded engines and checks the servers. One that does not respond may do so later;
// one that refuses its administrator is a mistake in the configuration.
func (e *engines) open(ctx context.Context) error {
	if err := e.databases.Open(); err != nil {
		return fmt.Errorf("open databases: %w", err)
	}
	if err := e.stores.Open(); err != nil {
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

// warnIfUnknown logs that the data directory has files of databases or key-value stores without a row.
// They are never removed: a row goes only after its files, so the database was replaced by another one
// or by an old backup.
func (e *engines) warnIfUnknown(ctx context.Context, node string) error {
	for t, dir := range map[resource.Type]string{resource.DB: e.databases.Dir, resource.KV: e.stores.Dir} {
		entries, err := os.ReadDir(dir) // before the rows: a row is there before its files
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

// warnIfLocal logs that replicas cannot serve the files of embedded engines.
func (e *engines) warnIfLocal(d *db.DB) {
	if d.Dialect() == db.SQLite {
		return
	}
	for _, r := range e.regions {
		if r.DB == resource.Databases(e.databases) || r.KV == resource.Stores(e.stores) {
			e.log.Warn("embedded databases and key-value stores are served only by the replica that created them; "+
				"give the region engines that are servers", "region", r.Region)
		}
	}
}

// manager returns the manager of resources, whose buckets are those of the object store.
func (e *engines) manager(d *database, s storage) *resource.Manager {
	return &resource.Manager{Store: e.store, Regions: e.regions, Buckets: s.engine(), Node: d.node, Log: e.log}
}

// start starts the background loops of the engines.
func (e *engines) start(g *job.Group) {
	g.Go(e.databases.Run)
	g.Go(e.stores.Run)
}

// serve serves the Redis protocol in the background, if there is a listener. The channel receives why
// it ended.
func (e *engines) serve(listener net.Listener) <-chan error {
	if listener == nil {
		return nil
	}
	ended := make(chan error, 1)
	go func() { ended <- e.stores.Serve(listener) }()
	return ended
}

// close closes connections to the embedded engines, and their files.
func (e *engines) close(ctx context.Context) {
	if err := e.stores.Close(ctx); err != nil {
		e.log.Warn("close key-value stores", "error", err)
	}
	if err := e.databases.Close(ctx); err != nil {
		e.log.Warn("close databases", "error", err)
	}
}

// closeServers closes the connections to servers.
func (e *engines) closeServers() {
	for _, s := range e.servers {
		if err := s.close(); err != nil {
			e.log.Warn("close the connections to an engine", "engine", s.name, "error", err)
		}
	}
}
