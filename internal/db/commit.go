package db

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"steward/internal/db/sqlite"
	"steward/internal/errs"
)

// A batch ends after this many requests or about this many bytes of arguments, so that the first of it need not wait for ever.
const (
	maxBatch      = 512
	maxBatchBytes = 8 << 20
)

// writer is the group commit: one goroutine, one connection. Everything below the line belongs to that goroutine.
type writer struct {
	db    *DB
	path  string
	queue chan *request
	done  chan struct{}

	gate   sync.RWMutex // held for reading while sending into queue, so that close never closes under a sender
	closed bool

	// ---
	statements
	open    bool       // a transaction has begun
	kept    []*request // ran well in it, and wait for the commit
	ran     int
	bytes   int
	running *request
	broken  error // SQLite has undone the whole transaction by itself
}

// request is one Write on its way through the queue.
type request struct {
	ctx   context.Context
	fn    func(*Tx) error
	state atomic.Int32 // of the three below
	// The answer, written before done is told.
	done     chan struct{}
	tx       *Tx
	err      error
	panicked any
	exited   bool
}

const (
	queued int32 = iota
	taken
	cancelled
)

var errPanicked = errors.New("db: panic in a transaction")

func newWriter(d *DB, path string, conn statements, queue int) *writer {
	w := &writer{
		db: d, path: path, statements: conn, queue: make(chan *request, cmp.Or(max(queue, 0), defaultQueue)), done: make(chan struct{}),
	}
	go w.serve()
	return w
}

// write puts fn into the queue and waits. Who gives up before fn was taken gets the error of ctx, and fn never runs; once it is taken
// the true result is worth the wait.
func (w *writer) write(ctx context.Context, fn func(*Tx) error) (*Tx, error) {
	r := &request{ctx: ctx, fn: fn, done: make(chan struct{}, 1)}
	if err := w.enqueue(r); err != nil {
		return nil, err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
		if r.state.CompareAndSwap(queued, cancelled) {
			return nil, ctx.Err()
		}
		<-r.done
	}
	switch {
	case r.exited:
		runtime.Goexit()
	case r.panicked != nil:
		panic(r.panicked)
	}
	return r.tx, r.err
}

func (w *writer) enqueue(r *request) error {
	w.gate.RLock()
	defer w.gate.RUnlock()
	if w.closed {
		return errClosed
	}
	select {
	case w.queue <- r:
		return nil
	default:
		return errs.Busy(nil, "too many writes are waiting")
	}
}

// drain refuses new requests and waits until the queued ones are answered.
func (w *writer) drain() {
	w.gate.Lock()
	w.closed = true
	close(w.queue)
	w.gate.Unlock()
	<-w.done
}

// serve is the goroutine. A function that ends its goroutine (t.Fatal in a test does) ends this one; another takes its place in the
// middle of the batch, and the caller's goroutine ends as it should.
func (w *writer) serve() {
	ended := false
	defer func() {
		if !ended {
			w.exited()
			go w.serve()
		}
	}()
	w.fill()
	w.commit()
	for r := range w.queue {
		w.take(r)
		w.fill()
		w.commit()
	}
	ended = true
	close(w.done)
}

// fill takes what waits into the transaction that is open.
func (w *writer) fill() {
	for w.open && w.ran < maxBatch && w.bytes < maxBatchBytes {
		select {
		case r, ok := <-w.queue:
			if !ok {
				return
			}
			w.take(r)
		default:
			return
		}
	}
}

// take runs one request inside the transaction. The first needs no savepoint: if it fails there is nothing else to keep.
func (w *writer) take(r *request) {
	if !r.state.CompareAndSwap(queued, taken) {
		return
	}
	if err := w.begin(); err != nil {
		r.answer(nil, errs.Busy(err, "the database cannot be written at the moment"))
		return
	}
	if len(w.kept) > 0 {
		if err := w.control("SAVEPOINT batch"); err != nil {
			w.running = r
			w.abandon(err)
			return
		}
	}
	w.running = r
	w.settle(w.call(r))
}

// begin opens the transaction of a batch. A connection that will not begin one is in a state we do not know, so it is replaced.
func (w *writer) begin() error {
	if w.open {
		return nil
	}
	w.ran, w.bytes, w.broken = 0, 0, nil
	err := w.control("BEGIN IMMEDIATE")
	if err != nil {
		_ = w.close()
		if w.statements, err = connect(w.path, writerPragmas); err != nil {
			return err
		}
		err = w.control("BEGIN IMMEDIATE")
	}
	w.open = err == nil
	return err
}

// call runs the function of a request and catches its panic.
func (w *writer) call(r *request) (err error) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if r.panicked = recover(); r.panicked != nil {
			// The stack would be lost: the caller panics with its own.
			w.db.log.Error("panic in a transaction", "panic", r.panicked, "stack", string(debug.Stack()))
			err = errPanicked
		}
	}()
	r.tx = newTx(w.db, w, r.ctx, nil)
	err = r.tx.run(r.fn)
	returned = true
	return err
}

// exited cleans up after a function that ended the goroutine.
func (w *writer) exited() {
	w.running.exited = true
	w.settle(errPanicked)
}

// settle keeps or undoes what the running request did.
func (w *writer) settle(err error) {
	r := w.running
	w.ran++
	solo := len(w.kept) == 0
	switch {
	case w.broken != nil:
		w.abandon(w.broken)
		return
	case err == nil && !solo:
		if e := w.control("RELEASE SAVEPOINT batch"); e != nil {
			w.abandon(e)
			return
		}
	case err != nil && solo:
		w.rollback()
	case err != nil:
		if e := w.undo(); e != nil {
			w.abandon(e)
			return
		}
	}
	w.running = nil
	if err != nil {
		r.answer(nil, err)
		return
	}
	w.kept = append(w.kept, r)
}

func (w *writer) undo() error {
	if err := w.control("ROLLBACK TO SAVEPOINT batch"); err != nil {
		return err
	}
	return w.control("RELEASE SAVEPOINT batch")
}

// commit makes the batch durable and answers it.
func (w *writer) commit() {
	if !w.open {
		return
	}
	if err := w.control("COMMIT"); err != nil {
		w.abandon(err)
		return
	}
	w.open = false
	w.reply(nil)
}

// abandon gives up the whole batch: nothing of it is there, and all are told so.
func (w *writer) abandon(cause error) {
	w.rollback()
	if w.running != nil {
		w.kept = append(w.kept, w.running)
		w.running = nil
	}
	w.reply(errs.Busy(cause, "the database could not write"))
}

func (w *writer) reply(err error) {
	for i, r := range w.kept {
		r.answer(r.tx, err)
		w.kept[i] = nil
	}
	w.kept = w.kept[:0]
}

func (w *writer) rollback() {
	// The error is of no use: SQLite may have rolled back already, and what is worse shows at the next BEGIN.
	_ = w.control("ROLLBACK")
	w.open = false
}

func (w *writer) control(text string) error {
	st, err := w.of(text)
	if err != nil {
		return err
	}
	_, err = st.Exec()
	return err
}

func (r *request) answer(tx *Tx, err error) {
	r.tx, r.err = tx, err
	r.done <- struct{}{}
}

// exec, send and query make the writer the session of its transactions.

func (w *writer) exec(_ context.Context, text string, args []any) (int64, error) {
	st, err := w.prepared(text, args)
	if err != nil {
		return 0, err
	}
	n, err := st.Exec(args...)
	return n, w.failed(err)
}

func (w *writer) send(ctx context.Context, text string, args []any) error {
	_, err := w.exec(ctx, text, args)
	return err
}

func (w *writer) query(_ context.Context, text string, args []any) (Rows, error) {
	st, err := w.prepared(text, args)
	if err != nil {
		return nil, err
	}
	rows, err := st.Query(context.Background(), args...)
	if err != nil {
		return nil, w.failed(err)
	}
	return writerRows{liteRows{rows}, w}, nil
}

// prepared refuses to go on in a transaction that SQLite has undone: the statement would commit by itself.
func (w *writer) prepared(text string, args []any) (*sqlite.Stmt, error) {
	if w.broken != nil {
		return nil, explainSQLite(w.broken)
	}
	w.bytes += sqlite.Size(args)
	st, err := w.of(text)
	return st, w.failed(err)
}

func (w *writer) failed(err error) error {
	if undoesAll(err) && w.broken == nil {
		w.broken = err
	}
	return explainSQLite(err)
}

// writerRows notices an error that undid the transaction in the middle of an answer.
type writerRows struct {
	liteRows
	w *writer
}

func (r writerRows) Err() error { return r.w.failed(r.Rows.Err()) }
