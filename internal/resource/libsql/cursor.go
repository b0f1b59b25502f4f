package libsql

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"zombiezen.com/go/sqlite"

	"steward/internal/encode"
)

// flushSize is how many bytes a cursor collects before it sends them.
const flushSize = 64 << 10

// serveCursor serves v3/cursor: it runs a batch and sends rows while it reads them.
func (e *Engine) serveCursor(ctx context.Context, c *call) error {
	var body struct {
		Baton *word `json:"baton"`
		Batch batch `json:"batch"`
	}
	if err := json.Unmarshal(c.body, &body); err != nil {
		return errProtocol
	}
	s, done, err := c.stream(ctx, body.Baton, false)
	if err != nil {
		return err
	}
	baton := s.db.announce(s)
	defer func() { done(baton) }()
	c.w.Header().Set("Content-Type", "application/x-ndjson")
	out := &response{limit: flushSize + e.limits.Response, memory: e.memory.Charge(s.db.org, s.db.id)}
	defer out.memory.Release()
	lines := &cursor{stream: s, out: out, client: &client{ResponseWriter: c.w, ctx: ctx}}
	out.body = append(encode.Optional([]byte(`{"baton":`), optional(baton)), `,"base_url":null}`...)
	err = lines.end()
	if err == nil {
		err = lines.run(ctx, body.Batch)
	}
	if err == nil {
		err = lines.flush()
	}
	s.closed = s.closed || err != nil || ctx.Err() != nil
	return nil // the client has seen the error, or has gone
}

// client is the writer to a cursor's client.
type client struct {
	http.ResponseWriter
	ctx context.Context
}

// cutAfter is how long a client may still read after its session has ended.
const cutAfter = time.Second

// Write writes to the client. Soon after the context ends it returns, even if the client does not read.
func (c *client) Write(b []byte) (int, error) {
	written := make(chan struct{})
	defer close(written)
	defer context.AfterFunc(c.ctx, func() {
		select {
		case <-written:
		case <-time.After(cutAfter):
			_ = http.NewResponseController(c.ResponseWriter).SetWriteDeadline(time.Now()) // fails for httptest's recorder, which has no deadlines
		}
	})()
	return c.ResponseWriter.Write(b)
}

// cursor writes a batch's entries as lines.
type cursor struct {
	*stream
	out    *response
	client *client
}

// end ends a line, and flushes if there is enough to send.
func (c *cursor) end() error {
	c.out.raw("\n")
	if err := c.out.settle(); err != nil {
		return err
	}
	if len(c.out.body) < flushSize {
		return nil
	}
	return c.flush()
}

// flush sends the lines. The statement gives up its slot meanwhile.
func (c *cursor) flush() error {
	var sent error
	err := c.turn.without(func() { _, sent = c.client.Write(c.out.body) })
	c.db.use.out.Add(int64(len(c.out.body)))
	c.out.reset(0)
	if sent != nil {
		return sent
	}
	return err
}

// run runs the batch's steps.
func (c *cursor) run(ctx context.Context, b batch) error {
	var outcomes []outcome
	for text := range b.Steps.all {
		i := len(outcomes)
		became, err := c.step(text, outcomes, func(in *stmt) error { return c.runStep(ctx, i, in) })
		if err != nil && became == skipped {
			c.out.raw(`{"type":"error","error":`)
			return c.failed(explain(ctx, err))
		}
		if err != nil {
			c.out.body = strconv.AppendInt(append(c.out.body, `{"type":"step_error","step":`...), int64(i), 10)
			c.out.raw(`,"error":`)
			if err := c.failed(explain(ctx, err)); err != nil {
				return err
			}
		}
		outcomes = append(outcomes, became)
	}
	return nil
}

// failed writes a failure and ends its line.
func (c *cursor) failed(f *failure) error {
	c.out.fail(f)
	c.out.raw("}")
	return c.end()
}

// runStep writes a step's entries.
func (c *cursor) runStep(ctx context.Context, i int, in *stmt) error {
	did, err := c.query(ctx, in, in.bind, in.wanted(sink{
		columns: func(columns []column) error {
			c.out.body = fmt.Appendf(c.out.body, `{"type":"step_begin","step":%d,"cols":`, i)
			c.out.columns(columns)
			c.out.raw("}")
			return c.end()
		},
		row: c.row,
	}))
	if err != nil {
		return err
	}
	c.out.raw(`{"type":"step_end",`)
	c.out.counts(c.conn, did)
	c.out.raw("}")
	return c.end()
}

func (c *cursor) row(stmt *sqlite.Stmt, columns int) error {
	mark := c.out.mark()
	c.out.raw(`{"type":"row","row":`)
	if err := c.out.row(stmt, columns); err != nil {
		c.out.reset(mark)
		return err
	}
	c.out.raw("}")
	return c.end()
}
