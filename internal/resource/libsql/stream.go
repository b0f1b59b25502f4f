package libsql

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"zombiezen.com/go/sqlite"
)

// stream executes Hrana requests on a connection.
//
// One that clients continue is idle (it has a baton and a timer), busy or closed. database.take makes an
// idle one busy, database.put makes it idle again. Expiry, deletion of the database and new credentials
// close it.
type stream struct {
	*conn
	token token
	// texts are those of store_sql, stored their length.
	texts  map[int32]string
	stored int
	closed bool
	// pooled is whether its connection is of the pool, so that it ends with its request.
	pooled bool
	// busy has an element while a request uses the stream.
	busy chan struct{}
	// stop stops the timer that closes the idle stream.
	stop func() bool
}

// textOverhead is what a stored text counts beside its length, so that empty ones are limited too.
const textOverhead = 100

func newStream(c *conn, t token) *stream {
	return &stream{conn: c, token: t, busy: make(chan struct{}, 1)}
}

// execute executes a request of a pipeline and appends its result to out.
func (s *stream) execute(ctx context.Context, text json.RawMessage, out *response) {
	mark := out.mark()
	out.raw(`{"type":"ok","response":`)
	if err := s.respond(ctx, text, out); err != nil {
		out.reset(mark)
		out.raw(`{"type":"error","error":`)
		out.fail(explain(ctx, err))
	}
	out.raw(`}`)
}

func (s *stream) respond(ctx context.Context, text json.RawMessage, out *response) error {
	var r request
	if err := json.Unmarshal(text, &r); err != nil {
		return invalidJSON(err)
	}
	if s.closed {
		return failf("STREAM_CLOSED", "the stream is closed")
	}
	switch r.Type {
	case "execute":
		return out.object(r.Type, "result", func() error { return s.result(ctx, &r.Stmt, out) })
	case "batch":
		return out.object(r.Type, "result", func() error { return s.batch(ctx, r.Batch, out) })
	case "describe":
		return out.object(r.Type, "result", func() error { return s.describe(r, out) })
	case "get_autocommit":
		return out.object(r.Type, "is_autocommit", func() error {
			out.raw(strconv.FormatBool(s.AutocommitEnabled()))
			return nil
		})
	}
	if err := s.act(ctx, r); err != nil {
		return err
	}
	return out.object(r.Type, "", nil)
}

// act executes a request whose response has no fields.
func (s *stream) act(ctx context.Context, r request) error {
	switch r.Type {
	case "sequence":
		return s.sequence(ctx, r)
	case "store_sql":
		return s.storeSQL(r)
	case "close_sql":
		return s.closeSQL(r)
	case "close":
		s.closed = true
		s.rollback()
		return nil
	}
	return failf("HRANA_PROTO_ERROR", "unknown type of request")
}

// text returns the SQL text of a request: its own, or one that is stored.
func (s *stream) text(sql *string, id *int32) (string, error) {
	switch {
	case (sql == nil) == (id == nil):
		return "", failf("HRANA_PROTO_ERROR", "expected either sql or sql_id")
	case sql != nil:
		return *sql, nil
	}
	text, ok := s.texts[*id]
	if !ok {
		return "", failf("SQL_NOT_FOUND", "no SQL text is stored with id %d", *id)
	}
	return text, nil
}

func (s *stream) storeSQL(r request) error {
	if r.SQL == nil || r.SQLID == nil {
		return failf("HRANA_PROTO_ERROR", "expected sql and sql_id")
	}
	if _, taken := s.texts[*r.SQLID]; taken {
		return failf("SQL_ID_IN_USE", "an SQL text is stored with id %d already", *r.SQLID)
	}
	if s.stored+len(*r.SQL)+textOverhead > s.db.engine.limits.SQL {
		return failf("SQL_STORE_FULL", "the stored SQL texts are longer than %d bytes", s.db.engine.limits.SQL)
	}
	if s.texts == nil {
		s.texts = map[int32]string{}
	}
	s.texts[*r.SQLID] = *r.SQL
	s.stored += len(*r.SQL) + textOverhead
	return nil
}

func (s *stream) closeSQL(r request) error {
	if r.SQLID == nil {
		return failf("HRANA_PROTO_ERROR", "expected sql_id")
	}
	if text, ok := s.texts[*r.SQLID]; ok {
		s.stored -= len(text) + textOverhead
		delete(s.texts, *r.SQLID)
	}
	return nil
}

// prepareOne prepares a text of one statement.
func (s *stream) prepareOne(sql *string, id *int32) (*statement, error) {
	text, err := s.text(sql, id)
	if err != nil {
		return nil, err
	}
	st, rest, err := s.prepare(text)
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

// query runs a statement and returns what it has done.
func (s *stream) query(ctx context.Context, in *stmt, to sink) (access, error) {
	if !in.wantRows() {
		to.row = func(*sqlite.Stmt, int) error { return nil }
	}
	return s.queryWith(ctx, in.SQL, in.SQLID, in.arguments, to)
}

// queryWith is query with a function that returns the arguments of the prepared statement.
func (s *stream) queryWith(ctx context.Context, sql *string, id *int32, arguments func(*sqlite.Stmt) ([]value, error), to sink) (access, error) {
	st, err := s.prepareOne(sql, id)
	if err != nil {
		return access{}, err
	}
	args, err := arguments(st.Stmt)
	if err != nil {
		s.done(st)
		return access{}, err
	}
	return st.access, s.run(ctx, st, args, to)
}

// result runs a statement and appends its StmtResult.
func (s *stream) result(ctx context.Context, in *stmt, out *response) error {
	first := true
	did, err := s.query(ctx, in, sink{
		columns: func(columns []column) error {
			out.raw(`{"cols":`)
			out.columns(columns)
			out.raw(`,"rows":[`)
			return nil
		},
		row: func(stmt *sqlite.Stmt, columns int) error {
			if !first {
				out.raw(",")
			}
			first = false
			return out.row(stmt, columns)
		},
	})
	if err != nil {
		return err
	}
	out.raw(`],`)
	out.counts(s.conn, did)
	out.raw(`}`)
	return nil
}

// batch runs the steps of a batch and appends its BatchResult.
func (s *stream) batch(ctx context.Context, b batch, out *response) error {
	outcomes := make([]outcome, 0, len(b.Steps))
	failures := make([]*failure, len(b.Steps))
	out.raw(`{"step_results":[`)
	for i, text := range b.Steps {
		if i > 0 {
			out.raw(",")
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
			failures[i] = explain(ctx, err)
		}
		outcomes = append(outcomes, became)
	}
	out.raw(`],"step_errors":[`)
	for i, f := range failures {
		if i > 0 {
			out.raw(",")
		}
		out.fail(f)
	}
	out.raw(`]}`)
	return nil
}

// step runs a step of a batch if its condition holds. If it returns skipped and an error, the batch is
// invalid.
func (s *stream) step(text json.RawMessage, before []outcome, run func(*stmt) error) (outcome, error) {
	var next step
	if err := json.Unmarshal(text, &next); err != nil {
		return skipped, invalidJSON(err)
	}
	if next.Condition != nil {
		holds, err := next.Condition.holds(before, s.AutocommitEnabled())
		if err != nil || !holds {
			return skipped, err
		}
	}
	if err := run(&next.Stmt); err != nil {
		return failed, err
	}
	return succeeded, nil
}

// sequence runs all statements of a text up to the first that fails.
func (s *stream) sequence(ctx context.Context, r request) error {
	rest, err := s.text(r.SQL, r.SQLID)
	if err != nil {
		return err
	}
	ignore := sink{
		columns: func([]column) error { return nil },
		row:     func(*sqlite.Stmt, int) error { return nil },
	}
	for {
		var st *statement
		st, rest, err = s.prepare(rest)
		if err != nil || st == nil {
			return err
		}
		args := make([]value, st.BindParamCount())
		if err := s.run(ctx, st, args, ignore); err != nil {
			return err
		}
	}
}

// describe appends the DescribeResult of a statement.
func (s *stream) describe(r request, out *response) error {
	st, err := s.prepareOne(r.SQL, r.SQLID)
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

// invalidJSON explains a request that cannot be decoded.
func invalidJSON(err error) error {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	return failf("HRANA_PROTO_ERROR", "expected a request as Hrana specifies it")
}
