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
	// shareQueue caps the statements in a database that wait to share a commit. Others wait for a connection.
	shareQueue = 512
	// shareTime bounds a statement in a shared transaction, and how long such a transaction accepts more
	// statements. We undo a statement that takes longer and run it alone. For aloneTime, its text then
	// always runs alone.
	shareTime = 100 * time.Millisecond
	aloneTime = time.Minute
	// shareSize caps a shared statement with its arguments, in bytes. Larger ones run alone.
	shareSize = 64 << 10
	// maxAlone caps the texts that we remember to run alone.
	maxAlone = 1024
)

// errAlone means that the statement must not share a commit. All its effects were undone.
var errAlone = errors.New("the statement runs alone")

// unshared finds everything that makes a statement depend on others in its transaction, or others on it:
// conflict clauses that roll back the transaction or keep half a statement, keys that are checked at the
// commit, and functions that reveal earlier statements. We apply it to statements and to the schema,
// where constraints and triggers may contain the same.
var unshared = regexp.MustCompile(`(?i)\b(ROLLBACK|FAIL|DEFERRED|last_insert_rowid|total_changes)\b|\bchanges["'\x60\]]?\s*\(\s*\)`)

// sharing knows which statements may share commits. Its knowledge is valid for one generation of the
// database's schema.
type sharing struct {
	mu         sync.Mutex
	generation uint64
	// schema says whether the schema allows it.
	schema shareable
	// alone holds the hashes of texts that run alone, each with the time when that ends; zero means with
	// the generation.
	alone map[uint64]time.Time
	seed  maphash.Seed
}

// shareable says whether a schema lets statements share commits.
type shareable int

const (
	unknown shareable = iota // not read yet
	allowed
	refused
)

// startGeneration forgets everything about another generation of the schema. The caller holds mu.
func (s *sharing) startGeneration(generation uint64) {
	if s.generation != generation {
		s.generation = generation
		s.schema = unknown
		clear(s.alone)
	}
}

// allows reports whether a text may share a commit, as far as we know.
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

// refuse makes a text run alone until a time. If that is zero, it runs alone until the schema changes.
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

// acquire takes the write lock and a connection for a batch. It can wait without a limit: statements that
// wait for it have limits, and whoever holds the lock ends within a transaction's time.
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
	// ended reports whether its time was over or its client gone, so that we do not repeat it.
	ended bool
}

// share runs a statement in a batch and appends its result. It returns errAlone if the statement must run
// alone, and otherwise the statement's error.
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
		return explain(ctx, driver.ResultInterrupt.ToError()) // waited too long
	}
	return err
}

// again reports whether to repeat the statement if its transaction was rolled back.
func (s *shared) again(err error) bool { return !s.ended && !errors.Is(err, errAlone) }

// run runs the statement on the batch's connection.
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
		return errAlone // run explains the error
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

// step steps through the statement as conn.run does, but without its own transaction.
func (s *shared) step(c *conn, st *statement, text string) error {
	if c.db.engine.disk.Low(c.db.engine.now()) {
		c.done(st)
		return c.db.use.refuse(errDiskFull)
	}
	ctx, cancel := c.deadline(s.ctx)
	defer cancel()
	c.turn.limit = shareTime
	defer func() { c.turn.limit = 0 }()
	did := st.access // st may be finalized later
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

// mayShare reports whether a statement writes rows, but neither changes nor depends on anything else in
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

// checkSchema reads the schema and decides. It refuses a schema that takes long to read.
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

// share executes a pipeline with a single statement that can share its commit. For any other pipeline it
// returns errAlone.
func (c *call) share(ctx context.Context, p *pipeline, out *response) error {
	text := p.single()
	if text == nil || len(text) > shareSize {
		return errAlone
	}
	in, free, err := decode(text, c.memory)
	if err != nil {
		return errAlone // run explains the error
	}
	d := c.of.db
	if in.SQL == nil || in.SQLID != nil || !d.sharing.allows(d.schema.Load(), *in.SQL, d.engine.now()) {
		p.few[0].stmt = in // charged until the call ends
		return errAlone
	}
	defer free()
	start := out.mark()
	out.raw(`{"results":[{"type":`)
	mark := out.mark()
	end := d.engine.beginStatement(ctx)
	err = d.share(&shared{ctx: ctx, in: in, out: out, mark: mark})
	if !errors.Is(err, errAlone) { // otherwise run calls end
		end(err)
	}
	var f *failure
	switch {
	case errors.Is(err, errAlone), errors.As(err, &f) && f.status != 0: // no connection is available
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
