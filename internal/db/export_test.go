package db

import (
	"context"
	"database/sql"
	"io/fs"
	"log/slog"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

// Waiting tells how many have to wait for the next batch.
func (g *Gather[T]) Waiting() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

// OpenOld gives a database with the schema of an older version, without what Open does beyond that.
func OpenOld(ctx context.Context, o Options, version int64) (*sql.DB, error) {
	d, driver, name := &DB{dialect: SQLite, log: slog.New(slog.DiscardHandler)}, "sqlite", dsn(o.Path)
	if o.URL != "" {
		d.dialect, driver, name = Postgres, "pgx", o.URL
	}
	pool, err := sql.Open(driver, name)
	if err != nil {
		return nil, err
	}
	files, err := fs.Sub(migrations, "migrations/"+d.dialect.String())
	if err != nil {
		return nil, err
	}
	provider, err := d.provider(pool, files)
	if err != nil {
		return nil, err
	}
	_, err = provider.UpTo(ctx, version)
	return pool, err
}
