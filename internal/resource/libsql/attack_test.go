package libsql_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"steward/internal/db/dbtest"
	"steward/internal/resource/libsql"
	"steward/internal/waittest"
)

// dial sends bytes to the server on a new connection.
func (d *database) dial(endpoint string, length int, body string) net.Conn {
	d.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	d.must(err)
	d.t.Cleanup(func() { _ = conn.Close() })
	d.must(conn.(*net.TCPConn).SetReadBuffer(4 << 10))
	_, err = fmt.Fprintf(conn, "POST /db/%s/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s",
		d.p.ID, endpoint, d.token, length, body)
	d.must(err)
	return conn
}

// works fails the test unless a client can read and write, with large requests and responses.
func (d *database) works() {
	d.t.Helper()
	d.exec("CREATE TABLE IF NOT EXISTS works (a)")
	large := strings.Repeat("x", 1<<20)
	for range 5 {
		d.exec("INSERT INTO works VALUES (?)", text(large))
		if got := d.exec("DELETE FROM works RETURNING a").only(d.t); got != large {
			d.t.Error("the value has changed")
		}
	}
	got := d.pipeline(nil, execute("BEGIN"), execute("SELECT 1"))
	if got.status != http.StatusOK || got.Baton == nil {
		d.t.Fatalf("a transaction: %d %s", got.status, got.raw)
	}
	d.pipeline(got.Baton, object{"type": "close"})
}

// TestRequestsThatAreNotSentTakeNothing: clients that announce much and send one byte do not keep
// others from being served.
func TestRequestsThatAreNotSentTakeNothing(t *testing.T) {
	s := start(t, libsql.Limits{})
	attacker, victim := s.createOf("attacker"), s.createOf("victim")
	for range 200 {
		attacker.dial("v2/pipeline", 16<<20, "{")
	}
	waittest.True(t, "the bytes to arrive", func() bool { return s.MemoryUsed() >= 200 })
	victim.works()
	attacker.works()
	if used := s.MemoryUsed(); used > 200*4<<10 {
		t.Errorf("%d bytes are charged", used)
	}
}

// TestMemoryOfOneOrganizationIsBounded: clients that send most of large requests and then wait take a
// share, and others are served.
func TestMemoryOfOneOrganizationIsBounded(t *testing.T) {
	s := start(t, libsql.Limits{})
	victim := s.createOf("victim")
	most := strings.Repeat(" ", 7_900_000)
	var all sync.WaitGroup
	for range 5 {
		attacker := s.createOf("attacker")
		for range 4 {
			conn := attacker.dial("v2/pipeline", len(most)+1, "")
			all.Go(func() { _, _ = io.WriteString(conn, most) }) // fails when the server refuses it
		}
	}
	all.Wait()
	victim.works()
	if used := s.MemoryUsed(); used > 80<<20 {
		t.Errorf("%d bytes of one organization are charged", used)
	}
}

// TestIdleTransactionsTakeAShare: an organization opens as many transactions as it can, with 8
// databases. Others can open transactions, and so can another database of the organization.
func TestIdleTransactionsTakeAShare(t *testing.T) {
	s := start(t, libsql.Limits{StreamIdle: time.Hour, Transaction: time.Hour})
	opened := 0
	for range 8 {
		d := s.createOf("attacker")
		for range 32 {
			if got := d.pipeline(nil, execute("BEGIN")); got.status == http.StatusOK {
				opened++
			}
		}
	}
	if opened > 128 {
		t.Errorf("%d transactions of one organization", opened)
	}
	s.createOf("victim").works()
	s.createOf("attacker").works()
}

// run sends a statement that the test ends.
func (d *database) run(ctx context.Context, all *sync.WaitGroup, sql string) {
	all.Go(func() {
		_, _ = d.send(ctx, "v3/pipeline", object{"requests": []object{execute(sql), {"type": "close"}}})
	})
}

// TestEndlessStatementsGiveWay: short statements are served while two organizations run ones without end
// in more than all slots. Without time slices they would wait for ever.
func TestEndlessStatementsGiveWay(t *testing.T) {
	dbtest.Long(t)
	s := start(t, libsql.Limits{Running: 2, Statement: time.Hour})
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	busy := []*database{s.createOf("attacker"), s.createOf("accomplice")}
	for _, d := range busy {
		for range 4 {
			d.run(ctx, &all, endless)
		}
		for range 4 { // they hold the lock of a writer, in turn
			d.run(ctx, &all, "CREATE TABLE x AS "+endless)
		}
	}
	waittest.True(t, "the statements to wait for each other", func() bool { return s.Waiting() >= 6 })
	for _, d := range []*database{s.createOf("victim"), s.createOf("attacker")} {
		d.exec("CREATE TABLE t (a INTEGER PRIMARY KEY)")
		for i := range 100 {
			d.exec("INSERT INTO t VALUES (?)", number(fmt.Sprint(i)))
			d.exec("SELECT a FROM t WHERE a = ?", number(fmt.Sprint(i)))
		}
	}
	if s.Waiting() < 6 {
		t.Error("the statements do not run any more")
	}
}

// TestWhoWaitsHasNoSlot: statements that wait for a lock of another program, and cursors whose client
// does not read, leave their slots to others of their organization, which has one.
func TestWhoWaitsHasNoSlot(t *testing.T) {
	s := start(t, libsql.Limits{Running: 2, Statement: time.Hour})
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	locked, stalled, other := s.create(), s.create(), s.create()
	locked.exec("CREATE TABLE t (a)")
	outside, err := sqlite.OpenConn(filepath.Join(s.Dir, locked.p.ID, "data.db"), sqlite.OpenReadWrite)
	s.must(err)
	defer func() { s.must(outside.Close()) }()
	s.must(sqlitex.ExecuteTransient(outside, "BEGIN IMMEDIATE", nil))
	locked.run(ctx, &all, "INSERT INTO t VALUES (1)")
	stalled.stall()
	waittest.True(t, "the statements to run", func() bool { return s.Sessions(locked.p.ID) == 1 && s.Sessions(stalled.p.ID) == 1 })
	for range 100 {
		other.exec("SELECT 1")
	}
	s.must(sqlitex.ExecuteTransient(outside, "ROLLBACK", nil))
	waittest.True(t, "the insert", func() bool { return locked.count("t") == "1" })
}

// stall opens a cursor without end and does not read it.
func (d *database) stall() {
	d.t.Helper()
	const body = `{"batch":{"steps":[{"stmt":{"sql":"WITH RECURSIVE c(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c) SELECT hex(randomblob(500)) FROM c"}}]}}`
	d.dial("v3/cursor", len(body), body)
}

// TestStalledReadersDoNotDelayDeletion: rotation and deletion do not wait for clients that do not read,
// nor for those that do not send.
func TestStalledReadersDoNotDelayDeletion(t *testing.T) {
	s := start(t, libsql.Limits{Statement: time.Hour})
	rotated, deleted := s.create(), s.create()
	for _, d := range []*database{rotated, deleted} {
		d.stall()
		d.dial("v2/pipeline", 1000, "{")
		sent := int64(-1)
		waittest.True(t, "the client to stall", func() bool {
			before := sent
			sent = d.sent()
			return sent > 0 && sent == before
		})
	}
	p := *rotated.p
	p.Password = "new"
	s.set(&p)
	for name, act := range map[string]func() error{
		"rotation": func() error { return s.Rotate(t.Context(), &p) },
		"deletion": func() error { return s.Delete(t.Context(), deleted.p) },
	} {
		ended := make(chan error, 1)
		go func() { ended <- act() }()
		s.must(waittest.Receive(t, "the "+name, ended))
	}
	waittest.True(t, "the session to end", func() bool { return s.Sessions(rotated.p.ID) == 0 })
	deleted.wantNoFiles()
}

// sent returns the number of bytes that the clients of a database were sent.
func (d *database) sent() int64 {
	for _, u := range d.Usage() {
		if u.ID == d.p.ID {
			return u.Out
		}
	}
	return 0
}
