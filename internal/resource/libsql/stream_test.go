package libsql_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"steward/internal/id"
	"steward/internal/resource/libsql"
	"steward/internal/waittest"
)

func TestInteractiveTransaction(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (a)")
	for _, c := range []struct{ end, rows string }{{"ROLLBACK", "0"}, {"COMMIT", "1"}} {
		r := d.pipeline(nil, execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)"))
		if n := d.count("t"); n != "0" {
			t.Errorf("%v rows are visible before %s", n, c.end)
		}
		r = d.pipeline(r.Baton, object{"type": "get_autocommit"})
		if *r.Results[0].Response.IsAutocommit {
			t.Error("the stream is not in a transaction")
		}
		r = d.pipeline(r.Baton, execute(c.end), object{"type": "close"}, execute("SELECT 1"))
		r.Results[2].fails(t, "after close", "STREAM_CLOSED", "")
		if r.Baton != nil {
			t.Error("a closed stream has a baton")
		}
		if n := d.count("t"); n != c.rows {
			t.Errorf("%v rows after %s", n, c.end)
		}
	}
}

func TestBatonsAreSingleUseAndBoundToTheDatabase(t *testing.T) {
	s := newDatabase(t)
	other := s.create()
	first := s.pipeline(nil, execute("SELECT 1"))
	if got := other.pipeline(first.Baton, execute("SELECT 1")); got.status != http.StatusBadRequest || got.Code != "STREAM_EXPIRED" {
		t.Errorf("with another database: %d %s", got.status, got.raw)
	}
	second := s.pipeline(first.Baton, execute("SELECT 1"))
	if second.status != http.StatusOK || *second.Baton == *first.Baton {
		t.Fatalf("status %d, baton %v", second.status, second.Baton)
	}
	for _, baton := range []string{*first.Baton, "", "guess"} {
		if got := s.pipeline(&baton, execute("SELECT 1")); got.status != http.StatusBadRequest || got.Code != "STREAM_EXPIRED" {
			t.Errorf("baton %q: %d %s", baton, got.status, got.raw)
		}
	}
	if got := s.pipeline(second.Baton, object{"type": "close"}); got.Baton != nil {
		t.Error("close leaves a baton")
	}
	if got := s.pipeline(second.Baton); got.Code != "STREAM_EXPIRED" {
		t.Errorf("after close: %s", got.raw)
	}
}

func TestIdleStreamsExpireAndRollBack(t *testing.T) {
	d := start(t, libsql.Limits{StreamIdle: 100 * time.Millisecond}).create()
	d.exec("CREATE TABLE t (a)")
	r := d.pipeline(nil, execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)"))
	d.exec("INSERT INTO t VALUES (2)") // waits for the first one
	if n := d.count("t"); n != "1" {
		t.Errorf("%v rows", n)
	}
	if got := d.pipeline(r.Baton, execute("COMMIT")); got.Code != "STREAM_EXPIRED" {
		t.Errorf("the expired stream: %s", got.raw)
	}
}

func TestTransactionsEndAfterTheirTime(t *testing.T) {
	d := start(t, libsql.Limits{Transaction: time.Second}).create()
	d.exec("CREATE TABLE t (a)")
	r := d.pipeline(nil, execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)"))
	waittest.True(t, "the end of the transaction", func() bool { // continuing it does not prolong it
		r = d.pipeline(r.Baton, execute("SELECT 1"))
		return r.status != http.StatusOK || r.Baton == nil || r.Results[0].Type == "error"
	})
	if n := d.count("t"); n != "0" {
		t.Errorf("%v rows", n)
	}
	r = d.pipeline(nil, execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)"), execute(endless))
	r.Results[2].fails(t, "a statement of the transaction", "TRANSACTION_TIMEOUT", "rolled back")
	d.exec("INSERT INTO t VALUES (3)")
	if n := d.count("t"); n != "1" {
		t.Errorf("%v rows", n)
	}
}

func TestStreamsAreLimited(t *testing.T) {
	s := start(t, libsql.Limits{Streams: 3})
	d := s.create()
	var batons []*string
	for range 3 {
		batons = append(batons, d.pipeline(nil, execute("SELECT 1")).Baton)
	}
	if got := d.pipeline(nil, execute("SELECT 1")); got.status != http.StatusServiceUnavailable || got.Code != "STREAM_LIMIT" {
		t.Errorf("a fourth stream: %d %s", got.status, got.raw)
	}
	d.exec("SELECT 1") // needs no stream
	d.pipeline(batons[0], object{"type": "close"})
	if got := d.pipeline(nil, execute("SELECT 1")); got.Baton == nil {
		t.Errorf("after a stream was closed: %s", got.raw)
	}
}

// TestConnectionsAreLimited: a database has a quarter of the connections, and one that has none gets one.
func TestConnectionsAreLimited(t *testing.T) {
	s := start(t, libsql.Limits{Connections: 1, TotalConnections: 32})
	a, b := s.create(), s.create()
	var got *response
	for range 7 {
		got = a.pipeline(nil, execute("SELECT 1"))
	}
	if got.status != http.StatusServiceUnavailable || got.Code != "SERVER_BUSY" {
		t.Errorf("a seventh connection: %d %s", got.status, got.raw)
	}
	b.exec("SELECT 1")
}

// TestManyStatementsAtOnceSucceed sends 1,000 statements at the same time to 8 connections.
func TestManyStatementsAtOnceSucceed(t *testing.T) {
	d := start(t, libsql.Limits{Wait: time.Hour}).create()
	d.exec("CREATE TABLE t (a INTEGER PRIMARY KEY)")
	var group sync.WaitGroup
	for range 1000 {
		group.Go(func() {
			out, err := d.send(t.Context(), "v2/pipeline", object{"requests": []object{execute("INSERT INTO t DEFAULT VALUES"), {"type": "close"}}})
			if err != nil || out.status != http.StatusOK || out.Results[0].Type != "ok" {
				t.Errorf("%v %+v", err, out)
			}
		})
	}
	group.Wait()
	if n := d.count("t"); n != "1000" {
		t.Errorf("%v rows", n)
	}
}

// TestWritersTakeTurns has interactive transactions write to one database at the same time: none fails,
// and none is lost.
func TestWritersTakeTurns(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE counter (n)")
	d.exec("INSERT INTO counter VALUES (0)")
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for range 5 {
				r := d.pipeline(nil, execute("BEGIN IMMEDIATE"), execute("SELECT n FROM counter"))
				n := r.Results[1].result(t).only(t).(string)
				r = d.pipeline(r.Baton, execute("UPDATE counter SET n = ? + 1", number(n)), execute("COMMIT"), object{"type": "close"})
				if r.Results[1].Type != "ok" {
					t.Errorf("%s", r.raw)
				}
			}
		})
	}
	group.Wait()
	if n := d.exec("SELECT n FROM counter").only(t); n != "80" {
		t.Errorf("the counter is %v", n)
	}
}

func TestWaitingForAWriterEndsWithBusy(t *testing.T) {
	d := start(t, libsql.Limits{Wait: 50 * time.Millisecond}).create()
	d.exec("CREATE TABLE t (a)")
	holder := d.pipeline(nil, execute("BEGIN IMMEDIATE"))
	d.fails("INSERT INTO t VALUES (1)", "SQLITE_BUSY", "database is locked")
	d.exec("SELECT * FROM t")
	d.pipeline(holder.Baton, object{"type": "close"})
	waittest.True(t, "the lock", func() bool { return d.one(execute("INSERT INTO t VALUES (1)")).Type == "ok" })
}

func TestAClientThatLeavesEndsItsStatementAndTransaction(t *testing.T) {
	d := newDatabase(t)
	d.exec("CREATE TABLE t (a)")
	ctx, leave := context.WithCancel(t.Context())
	answered := make(chan error, 1)
	go func() {
		_, err := d.send(ctx, "v3/pipeline", object{"requests": []object{execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)"), execute(endless)}})
		answered <- err
	}()
	waittest.True(t, "the statement to run", func() bool { return d.Running() == 1 })
	leave()
	if err := waittest.Receive(t, "the end of the request", answered); err == nil {
		t.Fatal("the request has ended")
	}
	d.exec("INSERT INTO t VALUES (2)") // waits for the lock
	if n := d.count("t"); n != "1" {
		t.Errorf("%v rows", n)
	}
}

// TestStreamsFollowTheirStates compares streams with a model: a stream is continued by its last baton
// only, until it is closed, and commits what it has written or nothing.
func TestStreamsFollowTheirStates(t *testing.T) {
	d := start(t, libsql.Limits{StreamIdle: time.Hour, Transaction: time.Hour}).create()
	d.exec("CREATE TABLE t (a)")
	rapid.Check(t, func(r *rapid.T) {
		d.exec("DELETE FROM t")
		var used []string
		var baton *string
		inTransaction := false
		pending, committed := 0, 0
		for range rapid.IntRange(1, 20).Draw(r, "steps") {
			op := rapid.SampledFrom([]string{"begin", "insert", "commit", "rollback", "close", "reuse"}).Draw(r, "op")
			if op == "reuse" {
				if len(used) > 0 {
					old := rapid.SampledFrom(used).Draw(r, "baton")
					if got := d.pipeline(&old, execute("SELECT 1")); got.Code != "STREAM_EXPIRED" {
						r.Fatalf("an old baton: %s", got.raw)
					}
				}
				continue
			}
			requests := []object{execute(map[string]string{
				"begin": "BEGIN IMMEDIATE", "insert": "INSERT INTO t VALUES (1)", "commit": "COMMIT", "rollback": "ROLLBACK", "close": "SELECT 1",
			}[op])}
			if op == "close" {
				requests = append(requests, object{"type": "close"})
			}
			got := d.pipeline(baton, requests...)
			if baton != nil {
				used = append(used, *baton)
			}
			baton = got.Baton
			valid := op == "insert" || op == "close" || (op == "begin") != inTransaction
			if got.status != http.StatusOK || (got.Results[0].Type == "ok") != valid || (baton == nil) != (op == "close") {
				r.Fatalf("%s in transaction %v: %s", op, inTransaction, got.raw)
			}
			switch {
			case op == "insert" && inTransaction:
				pending++
			case op == "insert":
				committed++
			case op == "commit" && inTransaction:
				committed += pending
			}
			if op != "insert" && valid {
				pending = 0
				inTransaction = op == "begin"
			}
		}
		if baton != nil {
			d.pipeline(baton, object{"type": "close"})
		}
		if n := d.exec("SELECT count(*) = ? FROM t", object{"type": "integer", "value": committed}).only(t); n != "1" {
			r.Fatalf("the table has other rows than %d", committed)
		}
	})
}

func TestDeletionEndsStreamsAndStatementsAtOnce(t *testing.T) {
	s := start(t, libsql.Limits{Wait: time.Hour, Statement: time.Hour})
	d := s.create()
	d.exec("CREATE TABLE t (a)")
	stream := d.pipeline(nil, execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)"))
	var group sync.WaitGroup
	for _, sql := range []string{endless, "INSERT INTO t VALUES (2)"} {
		group.Go(func() {
			out, err := d.send(t.Context(), "v3/pipeline", object{"requests": []object{execute(sql), {"type": "close"}}})
			if err != nil {
				t.Error(err)
				return
			}
			if out.status == http.StatusOK && out.Results[0].Type == "ok" {
				t.Errorf("%s has succeeded", sql)
			}
		})
	}
	waittest.True(t, "the statements to run", func() bool { return s.Sessions(d.p.ID) == 2 })
	s.remove(d.p.ID)
	s.must(s.Delete(t.Context(), d.p))
	group.Wait()
	if got := d.pipeline(stream.Baton, execute("COMMIT")); got.status != http.StatusUnauthorized {
		t.Errorf("the stream of a deleted database: %d %s", got.status, got.raw)
	}
	d.wantNoFiles()
	s.must(s.Delete(t.Context(), d.p)) // again
}

func TestRotationRefusesTheOldPasswordAtOnce(t *testing.T) {
	s := start(t, libsql.Limits{Wait: time.Hour})
	d := s.create()
	d.exec("CREATE TABLE t (a)")
	stream := d.pipeline(nil, execute("BEGIN IMMEDIATE"), execute("INSERT INTO t VALUES (1)"))
	rotated := *d.p
	rotated.Password = id.Secret(43)
	s.set(&rotated)
	s.must(s.Rotate(t.Context(), &rotated))
	if got := d.pipeline(stream.Baton, execute("COMMIT")); got.status != http.StatusUnauthorized {
		t.Errorf("the old password: %d %s", got.status, got.raw)
	}
	d.token = rotated.Password
	if got := d.pipeline(stream.Baton, execute("COMMIT")); got.Code != "STREAM_EXPIRED" {
		t.Errorf("the old stream with the new password: %d %s", got.status, got.raw)
	}
	d.exec("INSERT INTO t VALUES (2)") // the lock is free
	if n := d.count("t"); n != "1" {
		t.Errorf("%v rows", n)
	}
}

// TestVerificationClosesWhatAnotherReplicaChanged checks Forget, which is called for changes of other
// replicas, while rows cannot be read at first.
func TestVerificationClosesWhatAnotherReplicaChanged(t *testing.T) {
	s := start(t, libsql.Limits{Statement: time.Hour})
	deleted, rotated := s.create(), s.create()
	var group sync.WaitGroup
	for _, d := range []*database{deleted, rotated} {
		group.Go(func() {
			out, err := d.send(t.Context(), "v3/pipeline", object{"requests": []object{execute(endless), {"type": "close"}}})
			if err != nil || out.Results[0].Type != "error" || out.Results[0].Error.Code != "STREAM_CLOSED" {
				t.Errorf("%v %+v", err, out)
			}
		})
	}
	waittest.True(t, "the statements to run", func() bool { return s.Sessions(deleted.p.ID) == 1 && s.Sessions(rotated.p.ID) == 1 })
	s.remove(deleted.p.ID)
	p := *rotated.p
	p.Password = id.Secret(43)
	s.set(&p)
	s.failLookups(3)
	s.Forget()
	group.Wait()
	for _, d := range []*database{deleted, rotated} {
		if got := d.pipeline(nil, execute("SELECT 1")); got.status != http.StatusUnauthorized {
			t.Errorf("status %d", got.status)
		}
	}
}
