package db

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// pollEvery and trustFor together keep the promise of Watch: a change is heard of within 500 ms, or nothing is trusted.
	pollEvery = 250 * time.Millisecond
	trustFor  = 500 * time.Millisecond

	raiseEpoch = `INSERT INTO epochs (name, n) VALUES ($1, 1) ON CONFLICT (name) DO UPDATE SET n = epochs.n + 1`
)

// watchers are the caches of this process, by name.
type watchers struct {
	sync.Mutex
	flushes map[string][]func()
}

// Watch registers a cache: flush is called after each committed transaction that called Bump(name), in this process before its Write
// returns, and on other replicas within 500 ms, as long as RunWatch runs there. flush may be called more often, by several
// goroutines. A value that was being loaded when flush was called must not enter the cache afterwards: it may be from before the change.
func (d *DB) Watch(name string, flush func()) {
	d.watch.Lock()
	defer d.watch.Unlock()
	if d.watch.flushes == nil {
		d.watch.flushes = map[string][]func(){}
	}
	d.watch.flushes[name] = append(d.watch.flushes[name], flush)
}

// Bump tells all caches of that name, on every replica, that what they hold may have changed, when the transaction commits.
func (t *Tx) Bump(name string) error {
	if err := t.ready([]any{name}); err != nil {
		return err
	}
	t.bumps = append(t.bumps, name)
	t.OnCommit(func() { t.db.flush([]string{name}) })
	return nil
}

func (d *DB) flush(names []string) {
	for _, name := range names {
		for _, flush := range d.watch.of(name) {
			flush()
		}
	}
}

func (w *watchers) of(name string) []func() {
	w.Lock()
	defer w.Unlock()
	return w.flushes[name][:len(w.flushes[name]):len(w.flushes[name])]
}

func (w *watchers) names() []string {
	w.Lock()
	defer w.Unlock()
	var all []string
	for name := range w.flushes {
		all = append(all, name)
	}
	return all
}

// RunWatch tells the caches what other replicas changed, until ctx ends. On SQLite there are none, so it only waits. A cache that
// cannot be confirmed is not trusted: when the epochs cannot be read for longer than 500 ms, all are flushed in each round.
func (d *DB) RunWatch(ctx context.Context) {
	if d.server == nil {
		<-ctx.Done()
		return
	}
	w := watch{db: d, began: time.Now()}
	defer w.close()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		w.poll(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// watch is a running RunWatch, with a connection of its own.
type watch struct {
	db   *DB
	conn *pgx.Conn
	seen map[string]int64
	// began is when the last good look at the epochs began.
	began time.Time
}

// poll reads the epochs once and flushes what they call for.
func (w *watch) poll(ctx context.Context) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, pollEvery)
	defer cancel()
	now, err := w.read(limited)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		w.db.flush(w.changed(now))
		w.seen, w.began = now, began
	case time.Since(w.began) > trustFor:
		w.db.log.Warn("epochs cannot be read: caches are not trusted", "error", err)
		w.db.flush(w.db.watch.names())
	}
}

// changed names the epochs that differ. At first that is all of them: what was cached before the first look is not confirmed.
func (w *watch) changed(now map[string]int64) []string {
	if w.seen == nil {
		return w.db.watch.names()
	}
	var names []string
	for name, n := range now {
		if w.seen[name] != n {
			names = append(names, name)
		}
	}
	return names
}

func (w *watch) read(ctx context.Context) (map[string]int64, error) {
	if w.conn == nil || w.conn.IsClosed() {
		conn, err := pgx.ConnectConfig(ctx, w.db.server.Copy())
		if err != nil {
			return nil, err
		}
		w.conn = conn
	}
	rows, err := w.conn.Query(ctx, "SELECT name, n FROM epochs")
	if err != nil {
		return nil, err
	}
	found := map[string]int64{}
	var name string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error { found[name] = n; return nil })
	return found, err
}

func (w *watch) close() {
	if w.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	w.conn.Close(ctx)
}
