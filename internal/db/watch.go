package db

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// defaultPoll is how often RunWatch reads the epochs. If it cannot read them for twice as long, it
	// treats all caches as stale: so a change is applied within 500 ms, or nothing cached is used.
	defaultPoll = 250 * time.Millisecond

	raiseEpoch = `INSERT INTO epochs (name, n) VALUES ($1, 1) ON CONFLICT (name) DO UPDATE SET n = epochs.n + 1`
)

// watchers are the functions registered by Watch.
type watchers struct {
	mu     sync.Mutex
	byName map[string][]func()
}

// Watch registers fn to be called for a name, most often to empty a cache:
//   - after each committed transaction that called Bump(name): in this process before its Write
//     returns, on other replicas within 500 ms, and within milliseconds as a rule;
//   - after each Notify(name): in this process before Notify returns, on other replicas soon, or never
//     if the notification is lost.
//
// Other replicas call it only while RunWatch runs there. fn must not block, and may be called more
// often than needed and by several goroutines. A value that was being loaded when fn was called must
// not enter the cache afterwards: it may be from before the change.
func (d *DB) Watch(name string, fn func()) {
	d.watchers.mu.Lock()
	defer d.watchers.mu.Unlock()
	if d.watchers.byName == nil {
		d.watchers.byName = map[string][]func(){}
	}
	d.watchers.byName[name] = append(d.watchers.byName[name], fn)
}

// call calls the watchers of some names.
func (w *watchers) call(names ...string) {
	for _, name := range names {
		for _, fn := range w.of(name) {
			fn()
		}
	}
}

func (w *watchers) of(name string) []func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clip(w.byName[name])
}

func (w *watchers) names() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.byName))
}

// Bump invalidates the caches of a name, here and on every other replica, when the transaction
// commits: it has the functions that Watch registered called.
func (t *Tx) Bump(name string) error {
	if err := t.ready([]any{name}); err != nil {
		return err
	}
	t.bumps = append(t.bumps, name)
	t.OnCommit(func() { t.db.bumped(name) })
	return nil
}

// bumped calls the watchers of names whose epochs were raised by this process, and has other
// replicas read the epochs.
func (d *DB) bumped(names ...string) {
	d.watchers.call(names...)
	d.outbox.add(epochsChanged)
}

// RunWatch calls the watchers for what other replicas change, and sends the notifications of this
// one, until ctx ends. On SQLite there are no other replicas, so it only waits. If the epochs cannot
// be read for longer than 500 ms, it calls all watchers at every attempt to read them.
func (d *DB) RunWatch(ctx context.Context) {
	e, ok := d.engine.(*elephant)
	if !ok {
		<-ctx.Done()
		return
	}
	var sender sync.WaitGroup
	defer sender.Wait()
	sender.Go(func() { e.sendNotifications(ctx) })
	l := listener{db: d, config: e.pool.Config().ConnConfig, confirmed: time.Now()}
	defer l.close()
	for ctx.Err() == nil {
		next := time.Now().Add(d.poll)
		l.poll(ctx)
		l.listen(ctx, next)
	}
}

// listener is a running RunWatch. Its connection is outside of the pool: a full pool must not look
// like a lost database.
type listener struct {
	db     *DB
	config *pgx.ConnConfig
	conn   *pgx.Conn // nil before the first and after a lost connection
	epochs map[string]int64
	// confirmed is when the last successful reading of the epochs began.
	confirmed time.Time
}

// poll reads the epochs once and calls the watchers of those that changed.
func (l *listener) poll(ctx context.Context) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, defaultPoll)
	defer cancel()
	epochs, err := l.readEpochs(limited)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		l.db.watchers.call(l.changed(epochs)...)
		l.epochs = epochs
		l.confirmed = began
	case time.Since(l.confirmed) > 2*defaultPoll:
		l.db.log.Warn("cannot read the epochs: all caches are treated as stale", "error", err)
		l.db.watchers.call(l.db.watchers.names()...)
	}
}

// changed returns the names whose epochs differ from the last reading. For the first one it returns
// all names: what was cached before it may be stale.
func (l *listener) changed(epochs map[string]int64) []string {
	if l.epochs == nil {
		return l.db.watchers.names()
	}
	var names []string
	for name, n := range epochs {
		if l.epochs[name] != n {
			names = append(names, name)
		}
	}
	return names
}

func (l *listener) readEpochs(ctx context.Context) (map[string]int64, error) {
	if err := l.connect(ctx); err != nil {
		return nil, err
	}
	rows, err := l.conn.Query(ctx, "SELECT name, n FROM epochs")
	if err != nil {
		return nil, err
	}
	epochs := map[string]int64{}
	var name string
	var n int64
	_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error {
		epochs[name] = n
		return nil
	})
	return epochs, err
}

// connect opens the connection if there is none, and listens on it. A server or proxy that does not
// know LISTEN is polled only.
func (l *listener) connect(ctx context.Context) error {
	if l.conn != nil && !l.conn.IsClosed() {
		return nil
	}
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	l.conn = conn
	if _, err := conn.Exec(ctx, "LISTEN "+notifyChannel); err != nil {
		l.db.log.Warn("cannot listen for notifications: changes of other replicas are polled", "error", err)
	}
	return nil
}

func (l *listener) close() {
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = l.conn.Close(ctx)
}
