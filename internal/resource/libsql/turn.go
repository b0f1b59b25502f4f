package libsql

import (
	"context"
	"runtime"
	"time"

	"zombiezen.com/go/sqlite"

	"steward/internal/budget"
)

const (
	// slice is how long a statement runs before it gives way to others.
	slice = time.Millisecond
	// rest is how long a statement leaves a processor to the rest of the process after a slice, if
	// statements keep all processors busy. Otherwise Go would look for network requests only every 10 ms.
	rest = 50 * time.Microsecond
	// busyLimit caps how often one of the engine's own statements waits for a lock.
	busyLimit = 600
)

// turn is a connection's place in the queue of statements. A statement holds a slot while it runs, but
// not while it waits for another writer, the disk or the client. Only the connection's goroutine uses it.
type turn struct {
	queue     *budget.Queue
	org, part string

	ctx     context.Context // the statement's; nil unless a client's statement runs
	running bool            // has a slot
	since   time.Time       // when it got the slot
	used    time.Duration   // time with a slot since begin
	limit   time.Duration   // for used, if others wait for the statement; 0 means none
	over    bool            // interrupted at limit
}

// begin waits for a slot. Call end afterwards, even after an error.
func (t *turn) begin(ctx context.Context) error {
	t.ctx = ctx
	t.used = 0
	t.over = false
	return t.resume()
}

// end gives up the slot. It returns how long the statement has held one.
func (t *turn) end() time.Duration {
	t.pause()
	t.ctx = nil
	return t.used
}

// resume waits for a slot. If the context ends, it returns SQLite's error for an interruption.
func (t *turn) resume() error {
	if err := t.queue.Enter(t.ctx, t.org, t.part); err != nil {
		return sqlite.ResultInterrupt.ToError()
	}
	t.running = true
	t.since = time.Now()
	return nil
}

// pause gives up the slot, if there is one.
func (t *turn) pause() {
	if !t.running {
		return
	}
	t.running = false
	t.used += time.Since(t.since)
	t.queue.Leave(t.org)
}

// without gives up the slot while it calls wait, and then waits for the next one.
func (t *turn) without(wait func()) error {
	if !t.running {
		wait()
		return nil
	}
	t.pause()
	wait()
	return t.resume()
}

// progress gives way to others after a slice. It reports whether the statement may continue.
func (t *turn) progress() bool {
	if t.ctx == nil {
		return true
	}
	if t.ctx.Err() != nil {
		return false
	}
	if !t.running || time.Since(t.since) < slice {
		return true
	}
	t.used += time.Since(t.since)
	if t.limit > 0 && t.used > t.limit {
		t.over = true
		return false
	}
	if t.queue.Running() >= runtime.GOMAXPROCS(0) {
		time.Sleep(rest)
	}
	t.since = time.Now()
	return !t.queue.Contended(t.org) || t.without(func() {}) == nil
}

// busy waits while someone else holds a lock. It reports whether to try again.
func (t *turn) busy(count int) bool {
	ctx := t.ctx
	if ctx == nil {
		if count >= busyLimit {
			return false
		}
		ctx = context.Background()
	}
	err := t.without(func() {
		select {
		case <-time.After(time.Duration(min(count+1, 50)) * time.Millisecond):
		case <-ctx.Done():
		}
	})
	return err == nil && ctx.Err() == nil
}
