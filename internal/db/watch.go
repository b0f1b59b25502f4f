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
	// defaultPoll is how often RunWatch reads the epochs. After failing for twice as long, it treats
	// all caches as stale: so within 500 ms we either apply a change or stop using anything cached.
	defaultPoll = 250 * time.Millisecond

	// postgresNow is the time in microseconds. Unlike now(), it advances within a transaction.
	postgresNow = `CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)`
	sqliteNow   = `CAST(unixepoch('subsec') * 1000000 AS INTEGER)`

	readEpochs = `SELECT name, n, raised_by, ` + postgresNow + ` - raised_at FROM epochs`
)

// raiseEpoch increments an epoch. Its arguments are the name and the instance.
var raiseEpoch = map[Dialect]string{SQLite: raiseEpochAt(sqliteNow), Postgres: raiseEpochAt(postgresNow)}

func raiseEpochAt(now string) string {
	return `INSERT INTO epochs (name, n, raised_at, raised_by) VALUES ($1, 1, ` + now + `, $2)
		ON CONFLICT (name) DO UPDATE SET n = epochs.n + 1, raised_at = excluded.raised_at, raised_by = excluded.raised_by`
}

// watchers holds the functions that Watch registered.
type watchers struct {
	mu     sync.Mutex
	byName map[string][]func()
}

// Watch registers fn for a name, usually to empty a cache. We call it
//   - after each committed transaction that called Invalidate(name): in this process before its
//     Write returns, on other replicas within 500 ms, and usually within milliseconds;
//   - after each Notify(name): in this process before Notify returns, on other replicas soon, or
//     never if the notification is lost.
//
// Other replicas call it only while RunWatch runs there. fn must not block, and may be called more
// often than needed and by several goroutines. A value that was being loaded when fn was called must
// not enter the cache afterwards: it may predate the change.
func (d *DB) Watch(name string, fn func()) {
	d.watchers.mu.Lock()
	defer d.watchers.mu.Unlock()
	if d.watchers.byName == nil {
		d.watchers.byName = map[string][]func(){}
	}
	d.watchers.byName[name] = append(d.watchers.byName[name], fn)
}

// call calls the watchers for some names.
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

// Invalidate invalidates a name's caches, here and on every other replica, when the transaction
// commits: it calls the functions that Watch registered.
func (t *Tx) Invalidate(name string) error {
	if err := t.ready(); err != nil {
		return err
	}
	if err := checkText([]any{name}); err != nil {
		return err
	}
	t.invalidated = append(t.invalidated, name)
	t.OnCommit(func() { t.db.notifyWatchers(name) })
	return nil
}

// notifyWatchers calls the watchers for names whose epochs this process raised, and makes other
// replicas read the epochs.
func (d *DB) notifyWatchers(names ...string) {
	d.watchers.call(names...)
	d.outbox.add(epochsChanged)
}

// RunWatch calls the watchers when other replicas change something, and sends our notifications,
// until ctx ends. SQLite has no other replicas, so there it only waits. If it cannot read the epochs
// for longer than 500 ms, it calls all watchers at every attempt.
func (d *DB) RunWatch(ctx context.Context) {
	e, ok := d.engine.(*postgresEngine)
	if !ok {
		<-ctx.Done()
		return
	}
	d.NoteOthers() // they have to hear from us
	var sender sync.WaitGroup
	defer sender.Wait()
	sender.Go(func() { e.sendNotifications(ctx) })
	l := listener{db: d, config: e.connConfig(listenLimits), confirmed: time.Now()}
	l.pollOnly = e.pooler == TransactionPooler
	defer l.close()
	for ctx.Err() == nil {
		next := time.Now().Add(d.poll)
		l.poll(ctx)
		l.listen(ctx, next)
	}
}

// listener is a running RunWatch. Its connection is outside the pool: a full pool must not look like
// a lost database.
type listener struct {
	db     *DB
	config *pgx.ConnConfig
	// pollOnly is true if notifications cannot reach us, because the server's connection changes.
	pollOnly bool
	conn     *pgx.Conn // nil before the first connection
	epochs   map[string]epoch
	// confirmed is when the last successful reading of the epochs began.
	confirmed time.Time
}

// epoch is a row of epochs as we read it.
type epoch struct {
	n        int64
	raisedBy string
	age      time.Duration // since it was raised
}

// poll reads the epochs once and calls the watchers for those that changed.
func (l *listener) poll(ctx context.Context) {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, l.db.poll)
	defer cancel()
	epochs, err := l.read(limited)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		l.apply(epochs)
		l.confirmed = began
	case time.Since(l.confirmed) > 2*l.db.poll:
		l.db.log.Warn("cannot read the epochs: all caches are treated as stale", "error", err)
		l.db.watchers.call(l.db.watchers.names()...)
	}
}

// apply calls the watchers for the epochs that changed since the last reading. The first time it
// calls them all: anything cached earlier may be stale.
func (l *listener) apply(epochs map[string]epoch) {
	before := l.epochs
	l.epochs = epochs
	if before == nil {
		l.db.watchers.call(l.db.watchers.names()...)
		return
	}
	var lag time.Duration // the longest for another replica's change
	for name, e := range epochs {
		if before[name].n == e.n {
			continue
		}
		l.db.watchers.call(name)
		if e.raisedBy != l.db.instance {
			lag = max(lag, e.age)
		}
	}
	if lag > 0 {
		l.db.observer.invalidated(lag)
	}
}

func (l *listener) read(ctx context.Context) (map[string]epoch, error) {
	if err := l.connect(ctx); err != nil {
		return nil, err
	}
	rows, err := l.conn.Query(ctx, readEpochs)
	if err != nil {
		return nil, err
	}
	epochs := map[string]epoch{}
	var name string
	var e epoch
	var micros int64
	_, err = pgx.ForEachRow(rows, []any{&name, &e.n, &e.raisedBy, &micros}, func() error {
		e.age = time.Duration(micros) * time.Microsecond
		epochs[name] = e
		return nil
	})
	return epochs, err
}

// connect opens the connection if there is none, and listens on it. A server or proxy that does not
// know LISTEN is only polled.
func (l *listener) connect(ctx context.Context) error {
	if l.conn != nil && !l.conn.IsClosed() {
		return nil
	}
	conn, err := pgx.ConnectConfig(ctx, l.config)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	l.conn = conn
	if l.pollOnly {
		return nil
	}
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
