package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	_ "modernc.org/sqlite" // the driver "sqlite", for migrations

	"steward/internal/db/sqlite"
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
	if err := d.startSQLite(ctx, path, o); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func (d *DB) startSQLite(ctx context.Context, path string, o Options) error {
	conn, err := connect(path, writerPragmas)
	if err != nil {
		return explainSQLite(err)
	}
	err = assertDurable(conn)
	if err == nil {
		err = d.migrateSQLite(ctx, path)
	}
	if err != nil {
		return errors.Join(err, conn.close())
	}
	d.engine = &lite{writer: newWriter(d, path, conn, o.Queue), readers: newReaders(path)}
	return nil
}

// migrateSQLite goes through database/sql, since goose does.
func (d *DB) migrateSQLite(ctx context.Context, path string) error {
	pool, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return err
	}
	defer pool.Close()
	pool.SetMaxOpenConns(1)
	return d.migrate(ctx, pool)
}

// assertDurable asks what the pragmas came to: some file systems have no WAL, and a silent fall back would cost the promises of Write.
func assertDurable(s statements) error {
	var mode string
	var sync int
	if err := s.first("PRAGMA journal_mode", &mode); err != nil {
		return err
	}
	if err := s.first("PRAGMA synchronous", &sync); err != nil {
		return err
	}
	if mode != "wal" || sync != 2 {
		return fmt.Errorf("the file does not take journal_mode=WAL with synchronous=FULL (it has %q and %d)", mode, sync)
	}
	return nil
}

var (
	writerPragmas = []string{
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)", "temp_store(MEMORY)", "cache_size(-16384)",
		"wal_autocheckpoint(4000)", "journal_size_limit(67108864)",
	}
	readerPragmas = []string{"busy_timeout(10000)", "query_only(ON)", "temp_store(MEMORY)", "cache_size(-4096)"}
)

// dsn names the file with the writer's pragmas to database/sql.
func dsn(path string) string {
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: url.Values{"_pragma": writerPragmas}.Encode()}
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
	conn   *sqlite.Conn
	byText map[string]*sqlite.Stmt
}

func connect(path string, pragmas []string) (statements, error) {
	conn, err := sqlite.Open(path, pragmas...)
	return statements{conn: conn, byText: map[string]*sqlite.Stmt{}}, err
}

// boundLimit finds limits that are arguments. SQLite plans by their value and so prepares the statement again at every call; an expression
// hides the value from it.
var boundLimit = regexp.MustCompile(`\b(LIMIT|OFFSET) (\$\d+)`)

// of prepares a statement, or finds it.
func (s *statements) of(text string) (*sqlite.Stmt, error) {
	if s.conn == nil {
		return nil, errNoConn
	}
	if st, ok := s.byText[text]; ok {
		return st, nil
	}
	st, err := s.conn.Prepare(boundLimit.ReplaceAllString(text, "$1 ($2 + 0)"))
	if err != nil {
		return nil, err
	}
	if len(s.byText) >= maxStmts {
		s.dropOne()
	}
	s.byText[text] = st
	return st, nil
}

// first scans the first row of a statement without arguments.
func (s *statements) first(text string, dest ...any) error {
	st, err := s.of(text)
	if err != nil {
		return err
	}
	rows, err := st.Query(context.Background())
	if err != nil {
		return err
	}
	return firstRow{liteRows{rows}}.Scan(dest...)
}

func (s *statements) dropOne() {
	for text, st := range s.byText {
		st.Close()
		delete(s.byText, text)
		return
	}
}

// close closes the connection and its statements; there is none afterwards.
func (s *statements) close() error {
	if s.conn == nil {
		return nil
	}
	for _, st := range s.byText {
		st.Close()
	}
	err := s.conn.Close()
	*s = statements{}
	return err
}

// liteRows are SQLite's rows with our errors.
type liteRows struct{ *sqlite.Rows }

func (r liteRows) Err() error { return explainSQLite(r.Rows.Err()) }
