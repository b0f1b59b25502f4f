package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A batch ends after this many writes, or about this many bytes, so that its first write does not
// wait for long.
const (
	maxBatch      = 512
	maxBatchBytes = 8 << 20
)

// Batch.Write returns these errors in addition to the write's own.
var (
	// ErrQueueFull is returned if too many writes wait.
	ErrQueueFull = errors.New("sqlite: too many writes are waiting")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("sqlite: the batch is closed")
	// ErrNotBegun wraps the reason why we could not begin a transaction.
	ErrNotBegun = errors.New("sqlite: no transaction could be begun")
	// ErrRolledBack wraps the reason why the whole transaction was rolled back.
	ErrRolledBack = errors.New("sqlite: the transaction was rolled back")

	errNotReturned = errors.New("sqlite: the function of a write did not return")
	errBySQLite    = errors.New("a statement ended the transaction")
)

// connection is the part of a Conn that a Batch needs. A struct that embeds one has it too.
type connection interface {
	Exec(text string, args ...any) error
	AutocommitEnabled() bool
}

// Batch is a group commit. Its goroutine takes writes from a queue and lets each caller run its own
// function, one after the other in one transaction, each in a savepoint. When no more writes wait,
// or the batch is full, it commits and replies to all, so that callers share the fsync.
type Batch[C connection] struct {
	// Acquire returns the connection for a transaction, and Release takes it back at the end. If
	// broken is true, its state is unknown and nobody may use it again.
	Acquire func() (C, error)
	Release func(conn C, broken bool)
	// Queue caps the waiting writes; more are refused.
	Queue int
	// MaxTime limits how long a batch takes more writes; 0 means until it is full.
	MaxTime time.Duration
	// Committed is called after a commit with its number of writes, and the time since the oldest of
	// them was queued.
	Committed func(writes int, wait time.Duration)

	queue   chan *write[C]
	waiting atomic.Int64
	done    chan struct{}

	mu     sync.RWMutex // held for reading while sending to queue, so that Close can close it
	closed bool

	// The fields below belong to the goroutine, and to the caller that it lets run.

	conn  C
	inTx  bool
	began time.Time
	// batch has the writes that ran and wait for the commit.
	batch []*write[C]
	ran   int
	bytes int
}

// write is one call to Write.
type write[C connection] struct {
	ctx    context.Context
	again  func(error) bool
	queued time.Time
	// start tells the caller to run its function. It is unbuffered: either both sides take part, or
	// the caller has given up waiting.
	start chan C
	ran   chan error
	done  chan error
	// err is the last run's result.
	err error
	// alone is true if the write is repeated in its own transaction.
	alone bool
}

// Start starts the goroutine, which Close ends.
func (b *Batch[C]) Start() {
	b.queue = make(chan *write[C], b.Queue)
	b.done = make(chan struct{})
	go b.serve()
}

// Close refuses new writes and waits until the queued ones are done. You may call it more than once.
func (b *Batch[C]) Close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.queue)
	}
	b.mu.Unlock()
	<-b.done
}

// Waiting returns the number of writes that have not begun to run.
func (b *Batch[C]) Waiting() int { return int(b.waiting.Load()) }

// Grow counts bytes that the running function writes.
func (b *Batch[C]) Grow(bytes int) { b.bytes += bytes }

// Write queues a write, runs fn when its turn comes, and waits for the commit: nil means that
// everything fn did is durable. If ctx ends before fn's turn, Write returns its error and fn never
// runs; from then on ctx makes no difference. If fn returns an error, its writes are rolled back and
// Write returns that error unchanged.
//
// SQLite rolls back the whole transaction after some errors, and COMMIT itself can fail. If again is
// nil, Write then returns ErrRolledBack to all writes in the batch. Otherwise again gets fn's result
// and reports whether to run fn again, in its own transaction; if not, Write returns the result. A
// result for which again is true also waits for the commit, since it may depend on other writes in
// the batch.
func (b *Batch[C]) Write(ctx context.Context, fn func(C) error, again func(error) bool) error {
	w := &write[C]{
		ctx:    ctx,
		again:  again,
		queued: time.Now(),
		start:  make(chan C),
		ran:    make(chan error),
		done:   make(chan error, 1),
	}
	if err := b.enqueue(w); err != nil {
		return err
	}
	conn, err := w.await(&b.waiting)
	if err != nil {
		return err
	}
	for {
		w.run(conn, fn)
		select {
		case conn = <-w.start:
		case err := <-w.done:
			return err
		}
	}
}

// await waits for the write's turn, and returns the connection for it.
func (w *write[C]) await(waiting *atomic.Int64) (conn C, err error) {
	waiting.Add(1)
	defer waiting.Add(-1)
	select {
	case conn = <-w.start:
	case err = <-w.done:
	case <-w.ctx.Done():
		err = w.ctx.Err()
	}
	return conn, err
}

// run runs fn and reports its result, even if fn panics.
func (w *write[C]) run(conn C, fn func(C) error) {
	err := errNotReturned
	defer func() { w.ran <- err }()
	err = fn(conn)
}

// repeats reports whether the write runs again if its transaction is rolled back.
func (w *write[C]) repeats() bool {
	return w.again != nil && !errors.Is(w.err, errNotReturned) && w.again(w.err)
}

func (b *Batch[C]) enqueue(w *write[C]) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.closed {
		return ErrClosed
	}
	select {
	case b.queue <- w:
		return nil
	default:
		return ErrQueueFull
	}
}

// serve is the goroutine.
func (b *Batch[C]) serve() {
	defer close(b.done)
	for w := range b.queue {
		b.add(w)
		b.fill()
		b.commit()
	}
}

// fill adds waiting writes to the transaction until the batch is full.
func (b *Batch[C]) fill() {
	for b.inTx && !b.full() {
		select {
		case w, ok := <-b.queue:
			if !ok {
				return
			}
			b.add(w)
		default:
			return
		}
	}
}

func (b *Batch[C]) full() bool {
	return b.ran >= maxBatch || b.bytes >= maxBatchBytes || b.MaxTime > 0 && time.Since(b.began) >= b.MaxTime
}

// add lets one caller run its write in the transaction, and keeps or undoes it.
func (b *Batch[C]) add(w *write[C]) {
	if err := w.ctx.Err(); err != nil {
		w.done <- err // the caller may have given up
		return
	}
	if err := b.begin(); err != nil {
		w.done <- fmt.Errorf("%w: %w", ErrNotBegun, err)
		return
	}
	if err := b.conn.Exec("SAVEPOINT request"); err != nil {
		b.abort(err, w)
		return
	}
	w.err = b.runCaller(w)
	b.ran++
	switch {
	case b.conn.AutocommitEnabled():
		b.abort(cmp.Or(w.err, errBySQLite), w)
	case w.err != nil:
		b.undo(w)
	default:
		b.keep(w)
	}
}

// runCaller lets the caller run its function, and returns the result.
func (b *Batch[C]) runCaller(w *write[C]) error {
	select {
	case w.start <- b.conn:
		return <-w.ran
	case <-w.ctx.Done():
		return w.ctx.Err()
	}
}

func (b *Batch[C]) keep(w *write[C]) {
	if err := b.conn.Exec("RELEASE SAVEPOINT request"); err != nil {
		b.abort(err, w)
		return
	}
	b.batch = append(b.batch, w)
}

// undo rolls back a write.
func (b *Batch[C]) undo(w *write[C]) {
	for _, text := range []string{"ROLLBACK TO SAVEPOINT request", "RELEASE SAVEPOINT request"} {
		if err := b.conn.Exec(text); err != nil {
			b.abort(err, w)
			return
		}
	}
	if w.repeats() && !w.alone {
		b.batch = append(b.batch, w)
		return
	}
	w.done <- w.err
}

// begin begins a transaction, if there is none. If BEGIN fails, the connection's state is unknown,
// so begin replaces it.
func (b *Batch[C]) begin() error {
	if b.inTx {
		return nil
	}
	var failed error
	for range 2 {
		conn, err := b.Acquire()
		if err != nil {
			return err
		}
		b.conn = conn
		if failed = conn.Exec("BEGIN IMMEDIATE"); failed == nil {
			b.inTx = true
			b.ran = 0
			b.bytes = 0
			b.began = time.Now()
			return nil
		}
		b.end(true)
	}
	return failed
}

// end ends the transaction and returns the connection.
func (b *Batch[C]) end(broken bool) {
	var none C
	b.inTx = false
	b.Release(b.conn, broken)
	b.conn = none
}

// commit commits the batch and replies to its callers.
func (b *Batch[C]) commit() {
	if !b.inTx {
		return
	}
	if err := b.conn.Exec("COMMIT"); err != nil {
		b.abort(err)
		return
	}
	b.end(false)
	written := 0
	var oldest time.Time
	for _, w := range b.take() {
		if w.err == nil && written == 0 {
			oldest = w.queued
		}
		if w.err == nil {
			written++
		}
		w.done <- w.err
	}
	if written > 0 && b.Committed != nil {
		b.Committed(written, time.Since(oldest))
	}
}

// take empties the batch.
func (b *Batch[C]) take() []*write[C] {
	all := b.batch
	b.batch = nil
	return all
}

// abort rolls back the transaction. It repeats the writes that ask for it, from the batch and from
// more, each in its own transaction, and replies to the others.
func (b *Batch[C]) abort(cause error, more ...*write[C]) {
	// SQLite may have rolled back already; a worse error shows at the next BEGIN.
	_ = b.conn.Exec("ROLLBACK")
	b.end(!b.conn.AutocommitEnabled())
	var repeated []*write[C]
	for _, w := range append(b.take(), more...) {
		if w.repeats() && !w.alone {
			repeated = append(repeated, w)
			continue
		}
		w.done <- w.failure(cause)
	}
	for _, w := range repeated {
		w.alone = true
		b.add(w)
		b.commit()
	}
}

// failure returns a write's result after its transaction was rolled back.
func (w *write[C]) failure(cause error) error {
	if w.again != nil && w.err != nil {
		return w.err
	}
	return fmt.Errorf("%w: %w", ErrRolledBack, cause)
}
