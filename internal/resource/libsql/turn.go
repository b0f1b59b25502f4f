package libsql

import (
	"context"
	"runtime"
	"time"

	"zombiezen.com/go/sqlite"

	"steward/internal/budget"
)

const (
	// slice is for how long a statement runs before others that wait have their turn.
	slice = time.Millisecond
	// rest is for how long a processor is left to the rest of the process after a slice, if statements
	// keep all of them busy: Go would look for requests on the network only every 10 ms.
	rest = 50 * time.Microsecond
	// busyLimit is how often a statement of the engine itself waits for a lock.
	busyLimit = 600
)

// turn is the place of a connection in the queue of statements. A statement has a slot while it runs,
// and none while it waits: for another writer, the disk or the client. It is used by the goroutine
// that uses the connection.
type turn struct {
	queue     *budget.Queue
	org, part string

	ctx     context.Context // of the statement; nil if none of a client runs
	running bool            // has a slot
	since   time.Time       // when it got the slot
	used    time.Duration   // time with a slot, since begin
	limit   time.Duration   // of used, for statements that others wait for; 0 means none
	over    bool            // whether the statement was interrupted at limit
}

// begin waits for a slot for a statement. end has to be called afterwards, also after an error.
func (t *turn) begin(ctx context.Context) error {
	t.ctx = ctx
	t.used = 0
	t.over = false
	return t.resume()
}

// end returns the slot, and the time that the statement had one.
func (t *turn) end() time.Duration {
	t.pause()
	t.ctx = nil
	return t.used
}

// resume waits for a slot. It returns the error of an interruption if the context ends.
func (t *turn) resume() error {
	if err := t.queue.Enter(t.ctx, t.org, t.part); err != nil {
		return sqlite.ResultInterrupt.ToError()
	}
	t.running = true
	t.since = time.Now()
	return nil
}

// pause returns the slot, if there is one.
func (t *turn) pause() {
	if !t.running {
		return
	}
	t.running = false
	t.used += time.Since(t.since)
	t.queue.Leave(t.org)
}

// without calls a function without the slot, if there is one, and waits for the next.
func (t *turn) without(wait func()) error {
	if !t.running {
		wait()
		return nil
	}
	t.pause()
	wait()
	return t.resume()
}

// progress gives way to others after a time slice. It reports whether the statement may continue.
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

// busy waits for somebody else's lock. It reports whether to try again.
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
