package db_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"steward/internal/db"
	"steward/internal/db/dbtest"
)

func TestSentStatementsHaveResults(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		ctx := t.Context()
		insert := `INSERT INTO meta (key, value) VALUES ($1, 'v') ON CONFLICT (key) DO NOTHING`
		for i, want := range []int64{1, 0} {
			if n, err := d.Exec(ctx, insert, "a"); n != want || err != nil {
				t.Fatalf("insert %d: %d, %v", i, n, err)
			}
		}
		if _, err := d.Exec(ctx, `INSERT INTO meta (key, value) VALUES ('a', 'w')`); !db.IsUnique(err) {
			t.Fatalf("a violated key: %v", err)
		}
		var n int64
		var returned, many []string
		names := db.Bulk[string]{"c", "d", "e"}
		err := d.Write(ctx, func(tx *db.Tx) error {
			if joined, err := d.Exec(tx.Context(), insert, "b"); joined != 1 || err != nil {
				t.Errorf("in a transaction: %d, %v", joined, err)
			}
			if err := tx.SendCount(&n, `UPDATE meta SET value = 'x' WHERE key IN ('a', 'b')`); err != nil {
				return err
			}
			if err := (db.Bulk[string]{"b"}).SendInto(tx, db.Into(&returned, db.Value[string]),
				`UPDATE meta SET value = 'y' {FROM v} WHERE key = v.value RETURNING key`); err != nil {
				return err
			}
			return names.SendInto(tx, db.Into(&many, db.Value[string]),
				`INSERT INTO meta (key, value) SELECT v.value, 'v' FROM {v} RETURNING key`)
		})
		slices.Sort(many)
		if err != nil || n != 2 || !slices.Equal(returned, []string{"b"}) || !slices.Equal(many, []string{"c", "d", "e"}) {
			t.Errorf("%d changed, returned %v and %v, error %v", n, returned, many, err)
		}
	})
}

// TestExecLeavesNothingLocked cuts a process off from the server after its next message, as if it was
// frozen or unplugged. What it had sent is committed.
func TestExecLeavesNothingLocked(t *testing.T) {
	server := dbtest.Postgres(t)
	line := newLine(t, server)
	d, err := db.Open(t.Context(), db.Options{URL: line.url, MaxConns: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		line.cut()
		_ = d.Close()
	}()
	const text = `INSERT INTO meta (key, value) VALUES ('row', $1) ON CONFLICT (key) DO UPDATE SET value = excluded.value`
	if _, err := d.Exec(t.Context(), text, "prepared"); err != nil {
		t.Fatal(err)
	}
	line.left.Store(1)
	if _, err := d.Exec(t.Context(), text, "last"); err != nil {
		t.Fatal(err)
	}
	other, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(context.Background()) }()
	var value string
	if err := other.QueryRow(t.Context(), `SELECT value FROM meta WHERE key = 'row' FOR UPDATE NOWAIT`).Scan(&value); err != nil {
		t.Fatal(err)
	}
	if value != "last" {
		t.Errorf("the row has %q", value)
	}
}

// line is a connection to a PostgreSQL server that can be cut off.
type line struct {
	url  string
	left atomic.Int64 // how many more messages of the client reach the server
	conn atomic.Pointer[net.Conn]
}

// newLine returns a socket whose connections lead to a server.
func newLine(t *testing.T, server string) *line {
	t.Helper()
	config, err := pgx.ParseConfig(server)
	if err != nil {
		t.Fatal(err)
	}
	network, target := pgconn.NetworkAddress(config.Host, config.Port)
	dir := t.TempDir()
	listener, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = ""
	u.RawQuery = url.Values{"host": {dir}, "port": {"5432"}}.Encode()
	l := &line{url: u.String()}
	l.left.Store(1 << 30)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial(network, target)
			if err != nil {
				_ = client.Close()
				return
			}
			l.conn.Store(&server)
			go func() { _, _ = io.Copy(client, server) }()
			go l.forward(server, client)
		}
	}()
	return l
}

// forward passes on what a client sends, message by message, until none is left. The connection stays
// open.
func (l *line) forward(server io.Writer, client io.Reader) {
	buffer := make([]byte, 1<<20)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if l.left.Add(-1) < 0 {
			continue
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// cut closes the connection to the server.
func (l *line) cut() { _ = (*l.conn.Load()).Close() }

// TestCancelledQueryLeavesNoErrorBehind has a process that gets no processor time after a write, until the
// server has responded. pgx then reads on in the background. If the caller gives up before the rows are
// closed, the deadline that this sets ends the background read, and its error is for the next query.
func TestCancelledQueryLeavesNoErrorBehind(t *testing.T) {
	d, err := db.Open(t.Context(), db.Options{URL: dbtest.Postgres(t), MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	conn := &slowConn{read: make(chan error, 100)}
	if err := d.Wrap(t.Context(), func(c net.Conn) net.Conn {
		if conn.Conn == nil {
			conn.Conn = c
			return conn
		}
		return c
	}); err != nil {
		t.Fatal(err)
	}
	query := func(ctx context.Context) db.Rows {
		t.Helper()
		rows, err := d.Read(ctx).Query(`SELECT 1`)
		if err != nil {
			t.Fatal(err)
		}
		if !rows.Next() {
			t.Fatalf("there is no row: %v", rows.Err())
		}
		return rows
	}
	query(t.Context()).Close() // the server now has the statement
	ctx, cancel := context.WithCancel(t.Context())
	conn.slow.Store(true)
	rows := query(ctx)
	cancel()
	if err := <-conn.read; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the background read ended with %v", err)
	}
	conn.slow.Store(false)
	rows.Close()
	query(t.Context()).Close()
}

// slowConn is a connection whose writes, while it is slow, return only when a response has been read.
type slowConn struct {
	net.Conn
	slow atomic.Bool
	read chan error
}

func (c *slowConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.slow.Load() {
		c.read <- err
	}
	return n, err
}

func (c *slowConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if c.slow.Load() {
		<-c.read
	}
	return n, err
}
