package libsql

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"zombiezen.com/go/sqlite"

	"steward/internal/budget"
)

// stream executes Hrana requests on a connection.
//
// A stream that clients continue is idle (it has a baton and a timer), busy or closed. database.take
// makes an idle stream busy, and database.put makes it idle again. It is closed when it expires, when the
// database is deleted, and when the credentials change.
type stream struct {
	*conn
	token token
	// place counts a stream that clients continue.
	place *budget.Charge
	// texts holds the texts from store_sql.
	texts texts
	// memory is charged for statements decoded from the current request.
	memory *budget.Charge
	closed bool
	// pooled reports whether the connection is from the pool, so that the stream ends with its request.
	pooled bool
	// busy has an element while a request uses the stream.
	busy chan struct{}
	// idle closes an idle stream.
	idle *time.Timer
}

func newStream(c *conn, t token) *stream {
	return &stream{
		conn: c, token: t, busy: make(chan struct{}, 1),
		texts: texts{limit: c.db.engine.limits.SQL, Charge: c.db.engine.memory.Charge(c.db.org, c.db.id)},
	}
}

// execute executes a pipeline's request and appends the result to out.
func (s *stream) execute(ctx context.Context, r request, out *response) {
	mark := out.mark()
	out.raw(`{"type":"ok","response":`)
	if err := s.respond(ctx, r, out); err != nil {
		out.reset(mark)
		out.raw(`{"type":"error","error":`)
		out.fail(explain(ctx, err))
	}
	out.raw(`}`)
}

func (s *stream) respond(ctx context.Context, r request, out *response) error {
	if r.err != nil {
		return invalidJSON(r.err)
	}
	if s.closed {
		return failf("STREAM_CLOSED", "the stream is closed")
	}
	text := r.text
	switch r.Type {
	case "batch":
		return out.object(r.Type, "result", func() error { return s.batch(ctx, r.Batch, out) })
	case "get_autocommit":
		return out.object(r.Type, "is_autocommit", func() error {
			out.raw(strconv.FormatBool(s.AutocommitEnabled()))
			return nil
		})
	case "close":
		s.closed = true
		s.rollback()
		return out.object(r.Type, "", nil)
	case "execute":
		text = r.Stmt
	}
	in := r.stmt
	if in == nil {
		decoded, free, err := decode(text, s.memory)
		if err != nil {
			return err
		}
		defer free()
		in = decoded
	}
	var err error
	switch r.Type {
	case "execute":
		return out.object(r.Type, "result", func() error { return s.result(ctx, in, out) })
	case "describe":
		return out.object(r.Type, "result", func() error { return s.describe(ctx, in, out) })
	case "sequence":
		err = s.sequence(ctx, in)
	case "store_sql":
		err = s.texts.store(in)
	case "close_sql":
		err = s.texts.remove(in)
	default:
		err = failf("HRANA_PROTO_ERROR", "unknown type of request")
	}
	if err != nil {
		return err
	}
	return out.object(r.Type, "", nil)
}

// decodeCost is the memory for a statement, in multiples of its size: the decoded text or arguments, and
// SQLite's copy.
const decodeCost = 2

// decode decodes a statement and charges for it. Call free when it has run.
func decode(text []byte, memory *budget.Charge) (in *stmt, free func(), err error) {
	cost := decodeCost * int64(len(text))
	if !memory.Take(cost) {
		return nil, nil, errOutOfMemory
	}
	in = &stmt{}
	if err := json.Unmarshal(text, in); err != nil {
		memory.Return(cost)
		return nil, nil, invalidJSON(err)
	}
	return in, func() { memory.Return(cost) }, nil
}

// prepareOne prepares a text that must have exactly one statement.
func (s *stream) prepareOne(ctx context.Context, in *stmt) (*statement, error) {
	text, err := s.texts.of(in)
	if err != nil {
		return nil, err
	}
	st, rest, err := s.prepare(ctx, text)
	if err != nil {
		return nil, err
	}
	if st == nil {
		return nil, failf("SQL_NO_STATEMENT", "SQL string does not contain any statement")
	}
	if rest != "" {
		s.done(st)
		return nil, failf("SQL_MANY_STATEMENTS", "SQL string contains more than one statement")
	}
	return st, nil
}

// query runs a statement and returns its effects. bind binds its arguments.
func (s *stream) query(ctx context.Context, in *stmt, bind func(*sqlite.Stmt) error, to sink) (access, error) {
	st, err := s.prepareOne(ctx, in)
	if err != nil {
		return access{}, err
	}
	if err := bind(st.Stmt); err != nil {
		s.done(st)
		return access{}, err
	}
	return st.access, s.run(ctx, st, to)
}

// result runs a statement and appends its StmtResult.
func (s *stream) result(ctx context.Context, in *stmt, out *response) error {
	did, err := s.query(ctx, in, in.bind, in.sink(out))
	if err != nil {
		return err
	}
	out.endResult(s.conn, did)
	return nil
}

// batch runs the batch's steps and appends its BatchResult.
func (s *stream) batch(ctx context.Context, text []byte, out *response) error {
	var b batch
	if err := json.Unmarshal(text, &b); err != nil {
		return invalidJSON(err)
	}
	var outcomes []outcome
	failures := &response{memory: s.db.engine.memory.Charge(s.db.org, s.db.id)}
	defer failures.memory.Release()
	out.raw(`{"step_results":[`)
	for text := range b.Steps.all {
		if len(outcomes) > 0 {
			out.raw(",")
			failures.raw(",")
		}
		mark := out.mark()
		became, err := s.step(text, outcomes, func(in *stmt) error { return s.result(ctx, in, out) })
		if became != succeeded {
			out.reset(mark)
			out.raw("null")
		}
		if err != nil && became == skipped {
			return err
		}
		if err != nil {
			failures.fail(explain(ctx, err))
		} else {
			failures.raw("null")
		}
		outcomes = append(outcomes, became)
		if err := errors.Join(out.settle(), failures.settle()); err != nil {
			return err
		}
	}
	out.raw(`],"step_errors":[`)
	out.body = append(out.body, failures.body...)
	out.raw(`]}`)
	return out.settle()
}

// step runs a step if its condition holds. If it returns skipped and an error, the batch is invalid.
func (s *stream) step(text []byte, before []outcome, run func(*stmt) error) (outcome, error) {
	var next step
	if err := json.Unmarshal(text, &next); err != nil {
		return skipped, invalidJSON(err)
	}
	if runs, err := next.runs(before, s.AutocommitEnabled()); err != nil || !runs {
		return skipped, err
	}
	in, free, err := decode(next.Stmt, s.memory)
	if err != nil {
		return failed, err
	}
	defer free()
	if err := run(in); err != nil {
		return failed, err
	}
	return succeeded, nil
}

// sequence runs all statements in a text up to the first that fails.
func (s *stream) sequence(ctx context.Context, in *stmt) error {
	rest, err := s.texts.of(in)
	if err != nil {
		return err
	}
	ignore := sink{
		columns: func([]column) error { return nil },
		row:     func(*sqlite.Stmt, int) error { return nil },
	}
	for {
		var st *statement
		st, rest, err = s.prepare(ctx, rest)
		if err != nil || st == nil {
			return err
		}
		if err := s.run(ctx, st, ignore); err != nil { // parameters stay NULL
			return err
		}
	}
}

// describe appends a statement's DescribeResult.
func (s *stream) describe(ctx context.Context, in *stmt, out *response) error {
	st, err := s.prepareOne(ctx, in)
	if err != nil {
		return err
	}
	defer s.done(st)
	out.raw(`{"params":[`)
	for i := range st.BindParamCount() {
		if i > 0 {
			out.raw(",")
		}
		out.raw(`{"name":`)
		out.text(optional(st.BindParamName(i + 1)))
		out.raw(`}`)
	}
	out.raw(`],"cols":`)
	out.columns(st.columns)
	out.raw(`,"is_explain":` + strconv.FormatBool(st.verb == explainVerb))
	out.raw(`,"is_readonly":` + strconv.FormatBool(!st.access.writes) + `}`)
	return nil
}

// invalidJSON explains why a request cannot be decoded.
func invalidJSON(err error) error {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	return failf("HRANA_PROTO_ERROR", "expected a request as Hrana specifies it")
}
