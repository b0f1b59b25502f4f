package node

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/seal"
	"steward/internal/waittest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// clock is a clock that tests move.
type clock struct{ micros atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.micros.Store(time.Date(2026, 11, 15, 8, 30, 0, 0, time.UTC).UnixMicro())
	return c
}

func (c *clock) now() time.Time { return time.UnixMicro(c.micros.Load()) }

func (c *clock) move(by time.Duration) { c.micros.Add(by.Microseconds()) }

// newRing returns a ring whose keys repeat a byte.
func newRing(t testing.TB, keys ...byte) *seal.Ring {
	t.Helper()
	var all [][]byte
	for _, key := range keys {
		all = append(all, bytes.Repeat([]byte{key}, seal.KeySize))
	}
	ring, err := seal.NewRing(all...)
	must(t, err)
	return ring
}

func newDirectory(d *db.DB, c *clock, id, process string) *Directory {
	return &Directory{
		DB: d, Now: c.now, Log: slog.New(slog.DiscardHandler), Self: Node{ID: id, Process: process, Address: id + ":1"},
	}
}

// announce writes the heartbeat of the process of a node, as one of this version.
func announce(t testing.TB, d *Directory) {
	t.Helper()
	_, err := d.DB.Exec(t.Context(), `INSERT INTO processes (id, seen_at, schema) VALUES ($1, 0, $2)`, d.Self.Process, schemaOfBodies)
	must(t, err)
}

func wantKind(t *testing.T, err error, want errs.Kind) {
	t.Helper()
	if errs.KindOf(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestNodesAreFoundWhileTheyLive(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		c, ctx := newClock(), t.Context()
		a, b := newDirectory(d, c, "node_a", "rep_a"), newDirectory(d, c, "node_b", "rep_b")
		_, _, err := a.find(ctx, "node_b")
		wantKind(t, err, errs.NotFound)
		must(t, b.write(ctx))
		a.refresh(ctx)
		found, life, err := a.find(ctx, "node_b")
		if err != nil || found.Address != "node_b:1" || found.Process != "rep_b" || life.Err() != nil {
			t.Errorf("%+v, %v, %v", found, life, err)
		}

		c.move(aliveFor) // it is frozen, or was killed
		_, _, err = a.find(ctx, "node_b")
		wantKind(t, err, errs.Unavailable)
		if !strings.Contains(err.Error(), "node_b") {
			t.Errorf("the error does not name the node: %v", err)
		}
		a.refresh(ctx)
		<-life.Done()

		again := newDirectory(d, c, "node_b", "rep_c")
		must(t, again.write(ctx))
		a.refresh(ctx)
		found, life, err = a.find(ctx, "node_b")
		if err != nil || found.Process != "rep_c" || life.Err() != nil {
			t.Errorf("after a restart: %+v, %v", found, err)
		}
		must(t, b.clear(ctx)) // the process before, which ends late
		a.refresh(ctx)
		if life.Err() != nil {
			t.Error("a process that ends has ended the life of the next one")
		}
		must(t, again.clear(ctx))
		a.refresh(ctx)
		<-life.Done()
		_, _, err = a.find(ctx, "node_b")
		wantKind(t, err, errs.Unavailable)

		c.move(forgetAfter + time.Second)
		must(t, a.write(ctx))
		a.refresh(ctx)
		_, _, err = a.find(ctx, "node_b")
		wantKind(t, err, errs.NotFound)
	})
}

// TestDifferentClocksAreLogged has replicas whose clocks are a minute behind and ahead of that of node_a.
func TestDifferentClocksAreLogged(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var logged bytes.Buffer
		c, behind, ahead := newClock(), newClock(), newClock()
		behind.move(-time.Minute)
		ahead.move(time.Minute)
		a := newDirectory(d, c, "node_a", "rep_a")
		a.Log = slog.New(slog.NewTextHandler(&logged, nil))
		others := []*Directory{newDirectory(d, behind, "node_b", "rep_b"), newDirectory(d, ahead, "node_c", "rep_c")}
		dead := newDirectory(d, behind, "node_d", "rep_d")
		must(t, dead.write(t.Context()))
		for range 3 {
			for _, other := range append(others, a) {
				must(t, other.write(t.Context()))
			}
			a.refresh(t.Context())
			for _, clock := range []*clock{c, behind, ahead} {
				clock.move(beatEvery)
			}
		}
		for node, want := range map[string]int{"node_a": 0, "node_b": 1, "node_c": 1, "node_d": 0} {
			if n := strings.Count(logged.String(), node); n != want {
				t.Errorf("%d lines about %s, want %d:\n%s", n, node, want, logged.String())
			}
		}
	})
}

// TestCopiedDataDirectoryIsLogged has two processes serve one node. A process that follows another one is none of
// them.
func TestCopiedDataDirectoryIsLogged(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		var logged bytes.Buffer
		c := newClock()
		before, first, second := newDirectory(d, c, "node_a", "rep_0"), newDirectory(d, c, "node_a", "rep_1"), newDirectory(d, c, "node_a", "rep_2")
		for _, directory := range []*Directory{before, first, second} {
			directory.Log = slog.New(slog.NewTextHandler(&logged, nil))
		}
		before.beat(t.Context())
		first.beat(t.Context())
		first.beat(t.Context())
		if logged.Len() > 0 {
			t.Errorf("after a restart: %s", logged.String())
		}
		for range 3 {
			second.beat(t.Context())
			first.beat(t.Context())
		}
		if n := strings.Count(logged.String(), "serves the same node"); n != 2 {
			t.Errorf("%d lines, want one of each process:\n%s", n, logged.String())
		}
	})
}

func TestNodeWithoutListenerIsNamed(t *testing.T) {
	d, c := dbtest.Open(t, db.SQLite), newClock()
	a, b := newDirectory(d, c, "node_a", "rep_a"), newDirectory(d, c, "node_b", "rep_b")
	b.Self.Address = ""
	must(t, b.write(t.Context()))
	_, _, err := a.find(t.Context(), "node_b")
	wantKind(t, err, errs.Unavailable)
	if !strings.Contains(err.Error(), "--internal-listen") {
		t.Error(err)
	}
}

func TestReplicasLearnOfEachOther(t *testing.T) {
	d := dbtest.Open(t, db.Postgres)
	watch, stopWatch := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() { d.RunWatch(watch); close(watched) }()
	defer func() { stopWatch(); <-watched }()
	ctx, stop := context.WithCancel(t.Context())
	a := &Directory{DB: d, Now: time.Now, Log: slog.New(slog.DiscardHandler), Self: Node{ID: "node_a", Process: "rep_a"}}
	b := &Directory{DB: d, Now: time.Now, Log: a.Log, Self: Node{ID: "node_b", Process: "rep_b", Address: "b:1"}}
	ended := make(chan struct{}, 2)
	for _, directory := range []*Directory{a, b} {
		go func() { directory.Run(ctx); ended <- struct{}{} }()
	}
	waittest.True(t, "a to find b", func() bool {
		_, _, err := a.find(t.Context(), "node_b")
		return err == nil
	})
	others, err := a.Others(t.Context())
	if err != nil || len(others) != 1 || others[0] != "node_b" {
		t.Errorf("the others are %v (%v)", others, err)
	}
	stop()
	<-ended
	<-ended
	states, err := a.States(t.Context())
	if err != nil || len(states) != 2 || states[0].Alive || states[1].Alive {
		t.Errorf("after the stop: %+v (%v)", states, err)
	}
}

// body is the body of a request for /x.
const body = "{}"
