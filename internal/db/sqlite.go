package db

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	_ "modernc.org/sqlite" // the driver "sqlite" for migrations

	"steward/internal/sqlite"
)

const defaultQueue = 4096

var (
	writerPragmas = []string{
		"journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)", "temp_store(MEMORY)", "cache_size(-16384)",
		"wal_autocheckpoint(4000)", "journal_size_limit(67108864)",
	}
	readerPragmas = []string{"query_only(ON)", "temp_store(MEMORY)", "cache_size(-4096)"}
)

// sqliteEngine is the engine for SQLite: one connection that writes, and a pool that reads.
type sqliteEngine struct {
	writer  *writer
	readers *readers
	once    sync.Once
	err     error
}

func (d *DB) openSQLite(ctx context.Context, o Options) error {
	d.dialect = SQLite
	if o.Path == "" {
		return errors.New("neither Path nor URL is set")
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return err
	}
	if err := d.startSQLite(ctx, path, o); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (d *DB) startSQLite(ctx context.Context, path string, o Options) error {
	if err := createPrivate(path); err != nil {
		return err
	}
	if err := d.migrateSQLite(ctx, path, o); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	conn, err := sqlite.Open(path, writerPragmas)
	if err != nil {
		return explainSQLite(err)
	}
	if err := assertDurable(conn); err != nil {
		return errors.Join(err, conn.Close())
	}
	readers, err := newReaders(path)
	if err != nil {
		return errors.Join(explainSQLite(err), conn.Close())
	}
	d.engine = &sqliteEngine{writer: newWriter(d, path, conn, o.Queue), readers: readers}
	return nil
}

// createPrivate creates the file if it does not exist. SQLite would let everybody read it; the -wal
// and -shm files inherit its permissions.
func createPrivate(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// assertDurable checks that the pragmas took effect: some file systems do not support WAL, and
// silently falling back would break Write's promise.
func assertDurable(conn *sqlite.Conn) error {
	var mode string
	if err := conn.ScanFirst("PRAGMA journal_mode", &mode); err != nil {
		return err
	}
	var synchronous int
	if err := conn.ScanFirst("PRAGMA synchronous", &synchronous); err != nil {
		return err
	}
	if mode != "wal" || synchronous != 2 {
		return fmt.Errorf("the file does not support journal_mode=WAL with synchronous=FULL (it has %q and %d)", mode, synchronous)
	}
	return nil
}

func (e *sqliteEngine) write(ctx context.Context, fn func(*Tx) error) (*Tx, error) {
	return e.writer.write(ctx, fn)
}

func (e *sqliteEngine) query(ctx context.Context, sql string, args []any) (Rows, error) {
	return e.readers.query(ctx, sql, args)
}

func (e *sqliteEngine) ping(ctx context.Context) error {
	var one int
	return lazyRow{e, ctx, "SELECT 1", nil}.Scan(&one)
}

func (e *sqliteEngine) concerns(context.Context) []Concern { return nil }

// close closes the writer's connection last: the last connection checkpoints the write-ahead log.
func (e *sqliteEngine) close() error {
	e.once.Do(func() {
		e.writer.batch.Close()
		e.err = errors.Join(e.readers.close(), e.writer.closeConn())
	})
	return e.err
}
