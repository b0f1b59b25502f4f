package db

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"steward/internal/errs"
	"steward/internal/sqlite"
)

// A batch ends after this many requests, or about this many bytes of arguments, so that its first
// request does not wait for long.
const (
	maxBatch      = 512
	maxBatchBytes = 8 << 20
)

// writer is the group commit of SQLite. Its goroutine takes requests from a queue and lets each one's
// caller run its function on the only connection that writes, one after the other in one transaction,
// each in a savepoint. When no more requests wait, or the batch is full, it commits and replies to all.
type writer struct {
	db    *DB
	path  string
	queue chan *request
	done  chan struct{}

	mu     sync.RWMutex // held for reading while sending to queue, so that drain can close it
	closed bool

	// The fields below belong to the goroutine, and to the caller that it lets run.

	conn *sqlite.Conn // nil if the file could not be opened again
	inTx bool
	// batch are the requests that ran and wait for the commit.
	batch []*request
	ran   int
	bytes int
	// rolledBack is the error with which SQLite has rolled back the whole transaction by itself.
	rolledBack error
}

// request is a Write in the queue.
type request struct {
	ctx    context.Context
	queued time.Time
	// start has the caller run its function. It is unbuffered: either both sides take part, or the
	// caller has given up waiting.
	start chan struct{}
	ran   chan error
	done  chan error
}

// errNotReturned is the result of a function that panicked or ended its goroutine.
var errNotReturned = errors.New("db: the function of a transaction did not return")

func newWriter(d *DB, path string, conn *sqlite.Conn, queue int) *writer {
	w := &writer{
		db:    d,
		path:  path,
		conn:  conn,
		queue: make(chan *request, cmp.Or(max(queue, 0), defaultQueue)),
		done:  make(chan struct{}),
	}
	go w.serve()
	return w
}

// write queues a request, runs fn when it is due, and waits for the commit. If ctx ends before fn is
// due, it returns the error of ctx and fn never runs; later ctx makes no difference.
func (w *writer) write(ctx context.Context, fn func(*Tx) error) (*Tx, error) {
	r := &request{
		ctx:    ctx,
		queued: time.Now(),
		start:  make(chan struct{}),
		ran:    make(chan error),
		done:   make(chan error, 1),
	}
	if err := w.enqueue(r); err != nil {
		return nil, err
	}
	select {
	case <-r.start:
	case err := <-r.done:
		return nil, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	t := newTx(ctx, w.db, w, nil)
	began := time.Now()
	r.run(t, fn)
	held := time.Since(began)
	err := <-r.done
	w.db.observer.held(ctx, held)
	return t, err
}

// run runs fn and reports its result to the writer, also if fn panics.
func (r *request) run(t *Tx, fn func(*Tx) error) {
	err := errNotReturned
	defer func() { r.ran <- err }()
	err = t.run(fn)
}

func (w *writer) enqueue(r *request) error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	if w.closed {
		return errClosed
	}
	select {
	case w.queue <- r:
		return nil
	default:
		return errs.Unavailablef(nil, "too many writes are waiting")
	}
}

// drain refuses new requests and waits until the queued ones are done.
func (w *writer) drain() {
	w.mu.Lock()
	w.closed = true
	close(w.queue)
	w.mu.Unlock()
	<-w.done
}

// serve is the goroutine.
func (w *writer) serve() {
	defer close(w.done)
	for r := range w.queue {
		w.add(r)
		w.fill()
		w.commit()
	}
}

// fill adds waiting requests to the transaction until the batch is full.
func (w *writer) fill() {
	for w.inTx && w.ran < maxBatch && w.bytes < maxBatchBytes {
		select {
		case r, ok := <-w.queue:
			if !ok {
				return
			}
			w.add(r)
		default:
			return
		}
	}
}

// add has one request run in the transaction, and keeps or undoes what it did.
func (w *writer) add(r *request) {
	if r.ctx.Err() != nil {
		return // the caller has given up
	}
	if err := w.begin(); err != nil {
		r.done <- errs.Unavailablef(err, "the database cannot be written at the moment")
		return
	}
	if err := w.control("SAVEPOINT request"); err != nil {
		w.abort(err, r)
		return
	}
	err := w.runCaller(r)
	w.ran++
	if w.rolledBack != nil {
		w.abort(w.rolledBack, r)
		return
	}
	if err == nil {
		w.keep(r)
		return
	}
	w.undo(r, err)
}

// runCaller has the caller run its function, and returns the result.
func (w *writer) runCaller(r *request) error {
	select {
	case r.start <- struct{}{}:
		return <-r.ran
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

func (w *writer) keep(r *request) {
	if err := w.control("RELEASE SAVEPOINT request"); err != nil {
		w.abort(err, r)
		return
	}
	w.batch = append(w.batch, r)
}

// undo rolls back what a request did and replies with the cause.
func (w *writer) undo(r *request, cause error) {
	for _, text := range []string{"ROLLBACK TO SAVEPOINT request", "RELEASE SAVEPOINT request"} {
		if err := w.control(text); err != nil {
			w.abort(err, r)
			return
		}
	}
	r.done <- cause
}

// begin begins a transaction, if there is none. A connection on which that fails is replaced: it is in
// an unknown state.
func (w *writer) begin() error {
	if w.inTx {
		return nil
	}
	w.ran = 0
	w.bytes = 0
	w.rolledBack = nil
	err := w.control("BEGIN IMMEDIATE")
	if err != nil {
		if err := w.reconnect(); err != nil {
			return err
		}
		err = w.control("BEGIN IMMEDIATE")
	}
	w.inTx = err == nil
	return err
}

func (w *writer) reconnect() error {
	_ = w.close() // the new connection counts
	conn, err := sqlite.Open(w.path, writerPragmas)
	if err != nil {
		return err
	}
	w.conn = conn
	return nil
}

func (w *writer) close() error {
	if w.conn == nil {
		return nil
	}
	err := w.conn.Close()
	w.conn = nil
	return err
}

// commit commits the batch and replies to its callers.
func (w *writer) commit() {
	if !w.inTx {
		return
	}
	if err := w.control("COMMIT"); err != nil {
		w.abort(err)
		return
	}
	w.inTx = false
	if len(w.batch) == 0 {
		return
	}
	writes := len(w.batch)
	oldest := w.batch[0].queued
	w.reply(nil)
	w.db.observer.commit(writes, time.Since(oldest))
}

// abort rolls back the transaction, and replies with an error to the batch and to more requests.
func (w *writer) abort(cause error, more ...*request) {
	// SQLite may have rolled back already; a worse error shows at the next BEGIN.
	_ = w.control("ROLLBACK")
	w.inTx = false
	w.batch = append(w.batch, more...)
	w.reply(errs.Unavailablef(cause, "the database could not write"))
}

func (w *writer) reply(err error) {
	for _, r := range w.batch {
		r.done <- err
	}
	clear(w.batch)
	w.batch = w.batch[:0]
}

var errNoConn = errors.New("the file could not be opened again")

func (w *writer) control(text string) error {
	if w.conn == nil {
		return errNoConn
	}
	return w.conn.Exec(text)
}

// exec, send and query make the writer the session of its transactions.

func (w *writer) exec(_ context.Context, text string, args []any) (int64, error) {
	if err := w.ready(args); err != nil {
		return 0, err
	}
	if err := w.conn.Exec(text, args...); err != nil {
		return 0, w.failed(err)
	}
	return int64(w.conn.Changes()), nil
}

func (w *writer) send(ctx context.Context, r *result, text string, args []any) error {
	if r != nil && r.row != nil {
		return w.collect(ctx, r, text, args)
	}
	n, err := w.exec(ctx, text, args)
	if r != nil {
		*r.count = n
	}
	return err
}

func (w *writer) query(_ context.Context, text string, args []any) (Rows, error) {
	if err := w.ready(args); err != nil {
		return nil, err
	}
	rows, err := w.conn.Query(text, args, w.failed)
	if err != nil {
		return nil, err
	}
	return rows, nil
}

// ready refuses a statement in a transaction that SQLite has rolled back: it would commit by itself.
func (w *writer) ready(args []any) error {
	if w.rolledBack != nil {
		return explainSQLite(w.rolledBack)
	}
	w.bytes += sizeOf(args)
	return nil
}

// failed notes whether SQLite has rolled back the whole transaction because of an error.
func (w *writer) failed(err error) error {
	if err != nil && w.rolledBack == nil && w.conn.AutocommitEnabled() {
		w.rolledBack = err
	}
	return explainSQLite(err)
}

// sizeOf returns about how many bytes the text and bytes of arguments have.
func sizeOf(args []any) int {
	n := 0
	for _, arg := range args {
		switch v := arg.(type) {
		case string:
			n += len(v)
		case *string:
			if v != nil {
				n += len(*v)
			}
		case []byte:
			n += len(v)
		}
	}
	return n
}
