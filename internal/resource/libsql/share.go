package libsql

import (
	"context"
	"errors"
	"hash/maphash"
	"net/http"
	"regexp"
	"sync"
	"time"

	driver "zombiezen.com/go/sqlite"

	"steward/internal/sqlite"
)

const (
	// shareQueue is how many statements of a database wait to share a commit. More wait for a connection.
	shareQueue = 512
	// shareTime is how long a statement may run in a shared transaction, and how long such a transaction
	// takes more statements. One that takes longer is undone and runs alone, and so does its text for
	// aloneTime.
	shareTime = 100 * time.Millisecond
	aloneTime = time.Minute
	// shareSize is the size of a statement with its arguments. Larger ones run alone.
	shareSize = 64 << 10
	// maxAlone is the number of texts that are known to run alone.
	maxAlone = 1024
)

// errAlone is the result of a statement that must not share a commit. Nothing of it was kept.
var errAlone = errors.New("the statement runs alone")

// unshared finds what makes a statement depend on others of its transaction, or others on it: conflicts
// that roll back the transaction or keep half of a statement, keys that are checked at the commit, and
// functions that tell what ran before. It is applied to statements and to the schema, which has them in
// constraints and triggers.
var unshared = regexp.MustCompile(`(?i)\b(ROLLBACK|FAIL|DEFERRED|last_insert_rowid|total_changes)\b|\bchanges["'\x60\]]?\s*\(\s*\)`)

// sharing knows which statements of a database share commits, for one generation of its schema.
type sharing struct {
	mu         sync.Mutex
	generation uint64
	// schema is whether the schema allows it.
	schema shareable
	// alone has the hashes of texts that run alone, with the end of that; zero means the generation's.
	alone map[uint64]time.Time
	seed  maphash.Seed
}

// shareable is whether the schema of a database lets statements share commits.
type shareable int

const (
	unknown shareable = iota // it was not read yet
	allowed
	refused
)

func newSharing() *sharing {
	return &sharing{alone: map[uint64]time.Time{}, seed: maphash.MakeSeed()}
}

// startGeneration drops what is known of another generation of the schema. mu is held.
func (s *sharing) startGeneration(generation uint64) {
	if s.generation != generation {
		s.generation = generation
		s.schema = unknown
		clear(s.alone)
	}
}

// allows reports whether a text may share a commit, as far as is known.
func (s *sharing) allows(generation uint64, text string, now time.Time) bool {
	if word, _ := keyword(text); word != "INSERT" && word != "REPLACE" && word != "UPDATE" && word != "DELETE" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startGeneration(generation)
	until, known := s.alone[maphash.String(s.seed, text)]
	return s.schema != refused && (!known || !until.IsZero() && now.After(until))
}

// refuse has a text run alone until a time, or until the schema changes if that is zero.
func (s *sharing) refuse(generation uint64, text string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startGeneration(generation)
	if len(s.alone) >= maxAlone {
		clear(s.alone)
	}
	s.alone[maphash.String(s.seed, text)] = until
}

func (s *sharing) schemaOf(generation uint64) shareable {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startGeneration(generation)
	return s.schema
}

func (s *sharing) setSchema(generation uint64, v shareable) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.startGeneration(generation)
	s.schema = v
}

// startSharing starts the batch of a database.
func (d *database) startSharing() {
	d.sharing = newSharing()
	d.batch = sqlite.Batch[*conn]{Acquire: d.acquire, Release: d.releaseShared, Queue: shareQueue, MaxTime: shareTime}
	d.batch.Start()
}

// acquire takes the write lock and a connection for a batch. Statements that wait for it have limits of
// their own, and whoever has the lock ends within a transaction's time.
func (d *database) acquire() (*conn, error) {
	d.writer <- struct{}{}
	c, err := d.connection()
	if err != nil {
		<-d.writer
		return nil, err
	}
	c.locked = true
	return c, nil
}

func (d *database) releaseShared(c *conn, broken bool) {
	if !broken {
		d.release(c)
		return
	}
	c.locked = false
	d.discard(c)
	<-d.writer
}

// shared is a statement that shares its commit with others.
type shared struct {
	ctx  context.Context
	in   *stmt
	out  *response
	mark int
	// ended is whether its own time was over, or its client gone, so that it is not repeated.
	ended bool
}

// share runs a statement in a batch and appends its result. The error is errAlone if it has to run
// alone, and otherwise that of the statement.
func (d *database) share(s *shared) error {
	ctx, cancel := context.WithTimeoutCause(s.ctx, d.engine.limits.Wait, errLocked)
	defer cancel()
	err := d.batch.Write(ctx, s.run, s.again)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sqlite.ErrQueueFull), errors.Is(err, sqlite.ErrClosed):
		return errAlone
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return explain(ctx, driver.ResultInterrupt.ToError()) // it waited for too long
	}
	return err
}

// again reports whether the statement is repeated if its transaction was rolled back.
func (s *shared) again(err error) bool { return !s.ended && !errors.Is(err, errAlone) }

// run runs the statement on the connection of a batch.
func (s *shared) run(c *conn) error {
	c.ClearRowID()
	s.out.reset(s.mark)
	s.out.raw(`"ok","response":{"type":"execute","result":`)
	text := *s.in.SQL
	st, rest, err := c.prepare(s.ctx, text)
	if err != nil {
		return err
	}
	if st == nil {
		return errAlone // which says what is wrong
	}
	if rest != "" {
		c.done(st)
		return errAlone
	}
	if !c.mayShare(s.ctx, st, text) {
		c.done(st)
		c.db.sharing.refuse(c.generation, text, time.Time{})
		return errAlone
	}
	if err := s.in.bind(st.Stmt); err != nil {
		c.done(st)
		return err
	}
	return s.step(c, st, text)
}

// step steps through the statement as conn.run does, without its transaction.
func (s *shared) step(c *conn, st *statement, text string) error {
	if c.db.engine.disk.Low(c.db.engine.now()) {
		c.done(st)
		return c.db.use.refuse(errDiskFull)
	}
	ctx, cancel := c.deadline(s.ctx)
	defer cancel()
	c.turn.limit = shareTime
	defer func() { c.turn.limit = 0 }()
	did := st.access // st may be finalized afterwards
	err := c.stepThrough(ctx, st, s.in.sink(s.out))
	switch {
	case err == nil:
		s.out.endResult(c, did)
		s.out.raw(`}`)
		return nil
	case c.turn.over:
		c.db.sharing.refuse(c.generation, text, c.db.engine.now().Add(aloneTime))
		return errAlone
	}
	s.ended = ctx.Err() != nil
	return explain(ctx, err)
}

// mayShare reports whether a statement writes rows, and neither changes nor depends on anything else of
// its connection and transaction.
func (c *conn) mayShare(ctx context.Context, st *statement, text string) bool {
	a := st.access
	if !a.writes || !a.changes || a.schema || a.private || st.verb != otherVerb || unshared.MatchString(text) {
		return false
	}
	v := c.db.sharing.schemaOf(c.generation)
	if v == unknown {
		v = c.checkSchema(ctx)
		c.db.sharing.setSchema(c.generation, v)
	}
	return v == allowed
}

// checkSchema reads the schema. One that takes long to read is refused.
func (c *conn) checkSchema(ctx context.Context) shareable {
	ctx, cancel := c.deadline(ctx)
	defer cancel()
	st, _, err := c.prepare(ctx, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")
	if err != nil {
		return refused
	}
	found := allowed
	c.turn.limit = shareTime
	defer func() { c.turn.limit = 0 }()
	err = c.stepThrough(ctx, st, sink{
		columns: func([]column) error { return nil },
		row: func(stmt *driver.Stmt, _ int) error {
			if unshared.MatchString(stmt.ColumnText(0)) {
				found = refused
			}
			return nil
		},
	})
	if err != nil {
		return refused
	}
	return found
}

// share executes a pipeline of a single statement that can share its commit. It returns errAlone for any
// other one.
func (c *call) share(ctx context.Context, p *pipeline, out *response) error {
	text := p.single()
	if text == nil || len(text) > shareSize {
		return errAlone
	}
	in, free, err := decode(text, c.memory)
	if err != nil {
		return errAlone // which says what is wrong
	}
	d := c.of.db
	if in.SQL == nil || in.SQLID != nil || !d.sharing.allows(d.schema.Load(), *in.SQL, d.engine.now()) {
		p.few[0].stmt = in // charged until the end of the call
		return errAlone
	}
	defer free()
	start := out.mark()
	out.raw(`{"results":[{"type":`)
	mark := out.mark()
	end := d.engine.beginStatement(ctx)
	err = d.share(&shared{ctx: ctx, in: in, out: out, mark: mark})
	if !errors.Is(err, errAlone) { // run will tell of it
		end(err)
	}
	var f *failure
	switch {
	case errors.Is(err, errAlone), errors.As(err, &f) && f.status != 0: // no connection is left
		out.reset(start)
		return err
	case err != nil:
		out.reset(mark)
		out.raw(`"error","error":`)
		out.fail(explain(ctx, err))
	}
	out.raw(`},{"type":"ok","response":{"type":"close"}}],"baton":null,"base_url":null}`)
	if out.settle() != nil {
		return errOutOfMemory.withStatus(http.StatusServiceUnavailable)
	}
	return nil
}
