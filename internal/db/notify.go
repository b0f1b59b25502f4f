package db

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	notifyChannel = "steward"
	// notifyInterval is the time between two sends. Each NOTIFY in a database waits for the previous
	// one's commit.
	notifyInterval = 20 * time.Millisecond
	notifyTimeout  = time.Second
	// othersFor limits how long we assume that another process still runs after we noted it.
	othersFor = 30 * time.Second
	// epochsChanged is a name that makes other replicas read the epochs at once.
	epochsChanged = "db.epochs"
)

// Notify soon calls a name's watchers on other replicas, for example because there is work in a
// queue. Call it after the commit: a transaction notifies with OnCommit. It does not block. It is
// best effort: a lost connection loses notifications, so watchers who depend on them must poll as
// well.
func (d *DB) Notify(name string) { d.outbox.add(name) }

// Notifies reports whether Notify reaches other replicas, if there are any: behind a transaction
// pooler it does not.
func (d *DB) Notifies() bool {
	e, ok := d.engine.(*postgresEngine)
	return !ok || e.pooler != TransactionPooler
}

// NoteOthers notes that another process uses the database. A process that has heard of no other for
// a while sends no notifications: at 50 events a second they would cost as much as a tenth of the
// work.
func (d *DB) NoteOthers() { d.othersUntil.Store(time.Now().Add(othersFor).UnixNano()) }

// outbox holds the names that RunWatch has yet to send to other replicas. On SQLite nobody takes
// them out.
type outbox struct {
	mu    sync.Mutex
	names map[string]bool
	ready chan struct{} // has capacity 1
}

func (o *outbox) add(name string) {
	o.mu.Lock()
	o.names[name] = true
	o.mu.Unlock()
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// take empties the outbox and returns its names.
func (o *outbox) take() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	names := slices.Collect(maps.Keys(o.names))
	clear(o.names)
	return names
}

// sendNotifications empties the outbox at most once per notifyInterval, until ctx ends.
func (e *postgresEngine) sendNotifications(ctx context.Context) {
	for {
		select {
		case <-e.db.outbox.ready:
		case <-ctx.Done():
			return
		}
		if names := e.db.outbox.take(); time.Now().UnixNano() < e.db.othersUntil.Load() {
			e.notify(ctx, names)
		}
		if err := sleep(ctx, notifyInterval); err != nil {
			return
		}
	}
}

// notify sends one notification for each name, outside any writing transaction: NOTIFY serializes
// commits. Behind a transaction pooler it sends none: the other replicas poll.
func (e *postgresEngine) notify(ctx context.Context, names []string) {
	if e.pooler == TransactionPooler {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	payloads := make([]string, len(names))
	for i, name := range names {
		payloads[i] = e.db.instance + " " + name
	}
	_, err := e.pool.Exec(ctx, "SELECT pg_notify($1, v) FROM unnest($2::text[]) AS v", notifyChannel, payloads)
	if err != nil && ctx.Err() == nil {
		e.db.log.Warn("cannot notify other replicas: they poll", "error", err)
	}
}

// listen waits for other replicas' notifications and calls their watchers, until the given time, or
// until another replica has changed epochs.
func (l *listener) listen(ctx context.Context, until time.Time) {
	limited, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	for l.conn != nil && !l.conn.IsClosed() && !l.pollOnly {
		n, err := l.conn.WaitForNotification(limited)
		if err != nil {
			break
		}
		instance, name, _ := strings.Cut(n.Payload, " ")
		if instance == l.db.instance {
			continue
		}
		l.db.NoteOthers()
		if name == epochsChanged {
			return
		}
		l.db.watchers.call(name)
	}
	<-limited.Done()
}
