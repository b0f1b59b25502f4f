package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

const (
	defaultQueue = 4096
	readerCount  = 6
	// maxStmts bounds the prepared statements of one connection; the whole product has a few hundred texts.
	maxStmts = 512
)

// lite is the engine for SQLite: one writer, some readers.
type lite struct {
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
	// Made by us, because SQLite would make it readable for all; -wal and -shm take over these rights.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	f.Close()
	pool, err := sql.Open("sqlite", writerDSN(path))
	if err != nil {
		return err
	}
	pool.SetMaxOpenConns(1)
	w, err := d.startWriter(ctx, pool, o)
	if err != nil {
		pool.Close()
		return fmt.Errorf("%s: %w", path, err)
	}
	r, err := newReaders(path)
	if err != nil {
		w.close()
		return fmt.Errorf("%s: %w", path, err)
	}
	d.engine = &lite{writer: w, readers: r}
	return nil
}

func (d *DB) startWriter(ctx context.Context, pool *sql.DB, o Options) (*writer, error) {
	if err := assertDurable(ctx, pool); err != nil {
		return nil, err
	}
	if err := d.migrate(ctx, pool); err != nil {
		return nil, err
	}
	return newWriter(d, pool, o.Queue)
}

// assertDurable asks what the pragmas came to: some file systems have no WAL, and a silent fall back would cost the promises of Write.
func assertDurable(ctx context.Context, pool *sql.DB) error {
	var mode string
	var sync int
	if err := pool.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return err
	}
	if err := pool.QueryRowContext(ctx, "PRAGMA synchronous").Scan(&sync); err != nil {
		return err
	}
	if mode != "wal" || sync != 2 {
		return fmt.Errorf("the file does not take journal_mode=WAL with synchronous=FULL (it has %q and %d)", mode, sync)
	}
	return nil
}

func writerDSN(path string) string {
	return dsn(path, "busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)", "temp_store(MEMORY)",
		"cache_size(-16384)", "wal_autocheckpoint(4000)", "journal_size_limit(67108864)")
}

func readerDSN(path string) string {
	return dsn(path, "busy_timeout(10000)", "query_only(ON)", "temp_store(MEMORY)", "cache_size(-4096)")
}

func dsn(path string, pragmas ...string) string {
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: url.Values{"_pragma": pragmas}.Encode()}
	return u.String()
}

func (l *lite) write(ctx context.Context, fn func(*Tx) error) (*Tx, error) {
	return l.writer.write(ctx, fn)
}

func (l *lite) query(ctx context.Context, sql string, args []any) (Rows, error) {
	return l.readers.query(ctx, sql, args)
}

func (l *lite) row(ctx context.Context, sql string, args []any) Row {
	return lazyRow{l.readers, ctx, sql, args}
}

func (l *lite) ping(ctx context.Context) error {
	var one int
	return l.row(ctx, "SELECT 1", nil).Scan(&one)
}

// close ends the writer last: its connection, as the last one, empties the write-ahead log into the file.
func (l *lite) close() error {
	l.once.Do(func() {
		l.writer.drain()
		l.readers.close()
		l.err = l.writer.close()
	})
	return l.err
}

var errNoConn = errors.New("the file could not be opened again")

// statements keeps the prepared statements of one connection, which is nil when there could be none.
type statements struct {
	conn *sql.Conn
	byQL map[string]*sql.Stmt
}

// boundLimit finds limits that are arguments. SQLite plans by their value and so prepares the statement again at every call; an expression
// hides the value from it.
var boundLimit = regexp.MustCompile(`\b(LIMIT|OFFSET) (\$\d+)`)

// of prepares a statement, or finds it. Contexts that can end make the driver start a goroutine for each call, so they stay outside.
func (s *statements) of(text string) (*sql.Stmt, error) {
	if s.conn == nil {
		return nil, errNoConn
	}
	if st, ok := s.byQL[text]; ok {
		return st, nil
	}
	st, err := s.conn.PrepareContext(context.Background(), boundLimit.ReplaceAllString(text, "$1 ($2 + 0)"))
	if err != nil {
		return nil, err
	}
	if len(s.byQL) >= maxStmts {
		s.dropOne()
	}
	s.byQL[text] = st
	return st, nil
}

func (s *statements) dropOne() {
	for text, st := range s.byQL {
		st.Close()
		delete(s.byQL, text)
		return
	}
}

// close gives the connection back to its pool, after its statements: SQLite keeps a connection with open statements alive, and its locks
// and the write-ahead log with it.
func (s *statements) close() error {
	if s.conn == nil {
		return nil
	}
	s.drop()
	return s.conn.Close()
}

// discard closes the connection for good; the pool makes another.
func (s *statements) discard() {
	if s.conn == nil {
		return
	}
	s.drop()
	_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
}

func (s *statements) drop() {
	for _, st := range s.byQL {
		st.Close()
	}
	clear(s.byQL)
}

// liteRows are the rows of database/sql with our errors.
type liteRows struct{ *sql.Rows }

func (r liteRows) Err() error { return explainSQLite(r.Rows.Err()) }
func (r liteRows) Close()     { r.Rows.Close() }
