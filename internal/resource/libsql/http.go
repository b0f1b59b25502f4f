package libsql

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"zombiezen.com/go/sqlite"

	"steward/internal/encode"
	"steward/internal/errs"
	"steward/internal/resource"
)

// ServeHTTP serves /db/{id}/….
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	databaseID, endpoint, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/db/"), "/")
	var serve func(http.ResponseWriter, *http.Request, *session) error
	switch endpoint {
	case "v2", "v3": // asked without credentials
		serveVersion(w, r)
		return
	case "v2/pipeline", "v3/pipeline":
		serve = e.servePipeline
	case "v3/cursor":
		serve = e.serveCursor
	default:
		writeFailure(w, failf("NOT_FOUND", "no such endpoint").withStatus(http.StatusNotFound))
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		writeFailure(w, failf("METHOD_NOT_ALLOWED", "expected POST").withStatus(http.StatusMethodNotAllowed))
		return
	}
	if err := e.serveStream(w, r, databaseID, serve); err != nil {
		e.writeError(w, err)
	}
}

// serveVersion tells that a version of the protocol is supported.
func serveVersion(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		writeFailure(w, failf("METHOD_NOT_ALLOWED", "expected GET").withStatus(http.StatusMethodNotAllowed))
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "Hrana over HTTP\n")
}

// serveStream authenticates a request and serves it in a session.
func (e *Engine) serveStream(w http.ResponseWriter, r *http.Request, databaseID string,
	serve func(http.ResponseWriter, *http.Request, *session) error,
) error {
	p, err := e.authenticate(r, databaseID)
	if err != nil {
		return err
	}
	if err := e.onThisNode(p); err != nil {
		return err
	}
	ctx, s, err := e.begin(r.Context(), p)
	if err != nil {
		return err
	}
	defer s.end()
	return serve(w, r.WithContext(ctx), s)
}

// authenticate returns the database whose password the request has. Its error does not tell whether
// there is such a database.
func (e *Engine) authenticate(r *http.Request, databaseID string) (*resource.Provisioned, error) {
	refused := failf("UNAUTHORIZED", "expected the password of the database as bearer token").withStatus(http.StatusUnauthorized)
	scheme, password, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if _, err := e.path(databaseID); err != nil || !strings.EqualFold(scheme, "Bearer") {
		return nil, refused
	}
	p, err := e.lookup(r.Context(), databaseID)
	if errs.KindOf(err) == errs.NotFound {
		return nil, refused
	}
	if err != nil {
		return nil, err
	}
	if !tokenOf(p.Password).equal(tokenOf(strings.TrimSpace(password))) {
		return nil, refused
	}
	return p, nil
}

func (e *Engine) lookup(ctx context.Context, databaseID string) (*resource.Provisioned, error) {
	return e.lookups.Get(databaseID, func() (*resource.Provisioned, error) { return e.Lookup(ctx, databaseID) })
}

// decodeCost is how many times its size a body can take while it is decoded.
const decodeCost = 8

// decode reads the body of a request into a value. release must be called when it is not used any more.
func (e *Engine) decode(w http.ResponseWriter, r *http.Request, to any) (release func(), err error) {
	size := r.ContentLength
	if size < 0 || size > e.limits.Body {
		size = e.limits.Body
	}
	if !e.memory.take(size * decodeCost) {
		return nil, errOutOfMemory.withStatus(http.StatusServiceUnavailable)
	}
	release = func() { e.memory.release(size * decodeCost) }
	// A client that sends slowly must not keep the memory. Without the deadline the server notices later
	// that the client has gone; after an error it stays, so that the rest is not waited for.
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(e.limits.Wait)) // httptest's recorder has no deadlines
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, e.limits.Body))
	if err == nil {
		_ = control.SetReadDeadline(time.Time{})
		err = json.Unmarshal(body, to)
	}
	if err == nil {
		return release, nil
	}
	release()
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, failf("REQUEST_TOO_LARGE", "the request is larger than %d bytes", e.limits.Body).withStatus(http.StatusRequestEntityTooLarge)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, failf("REQUEST_TIMEOUT", "the request was not sent in time").withStatus(http.StatusRequestTimeout)
	}
	return nil, failf("HRANA_PROTO_ERROR", "expected a body as Hrana specifies it").withStatus(http.StatusBadRequest)
}

// servePipeline serves v2/pipeline and v3/pipeline.
func (e *Engine) servePipeline(w http.ResponseWriter, r *http.Request, of *session) error {
	var p pipeline
	release, err := e.decode(w, r, &p)
	if err != nil {
		return err
	}
	defer release()
	s, done, err := of.stream(r.Context(), p.Baton, p.closes())
	if err != nil {
		return err
	}
	out := &response{limit: e.limits.Response, memory: &e.memory}
	defer out.release()
	out.raw(`{"results":[`)
	for i, text := range p.Requests {
		if i > 0 {
			out.raw(",")
		}
		s.execute(r.Context(), text, out)
	}
	s.closed = s.closed || r.Context().Err() != nil
	baton := of.db.announce(s)
	done(baton)
	out.raw(`],"baton":`)
	out.text(optional(baton))
	out.raw(`,"base_url":null}`)
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(out.body) // fails if the client has gone
	return nil
}

// stream returns the stream for a request, and what to do with it afterwards, when it has its next
// baton or "".
func (s *session) stream(ctx context.Context, baton *string, closes bool) (*stream, func(baton string), error) {
	d := s.db
	switch {
	case baton != nil:
		st, err := d.take(ctx, *baton, s.token)
		return st, func(next string) { d.put(st, next) }, err
	case !closes:
		st, err := d.openStream(s.token)
		return st, func(next string) { d.put(st, next) }, err
	}
	c, err := d.borrow(ctx)
	if err != nil {
		return nil, nil, err
	}
	st := newStream(c, s.token)
	st.pooled = true
	return st, func(string) { d.giveBack(c) }, nil
}

// serveCursor serves v3/cursor: a batch whose rows are sent while they are read.
func (e *Engine) serveCursor(w http.ResponseWriter, r *http.Request, of *session) error {
	var body struct {
		Baton *string `json:"baton"`
		Batch batch   `json:"batch"`
	}
	release, err := e.decode(w, r, &body)
	if err != nil {
		return err
	}
	defer release()
	s, done, err := of.stream(r.Context(), body.Baton, false)
	if err != nil {
		return err
	}
	baton := of.db.announce(s)
	defer func() { done(baton) }()
	w.Header().Set("Content-Type", "application/x-ndjson")
	c := &cursor{stream: s, out: bufio.NewWriterSize(w, charge)}
	line := append(encode.Optional([]byte(`{"baton":`), optional(baton)), `,"base_url":null}`...)
	if err := c.write(line); err != nil {
		return nil // the client has gone
	}
	if err := c.run(r.Context(), body.Batch); err == nil {
		err = c.out.Flush()
		s.closed = s.closed || err != nil
	}
	s.closed = s.closed || r.Context().Err() != nil
	return nil
}

// cursor writes the entries of a batch as lines.
type cursor struct {
	*stream
	out  *bufio.Writer
	line []byte
}

// write writes a line.
func (c *cursor) write(line []byte) error {
	c.line = line[:0]
	_, err := c.out.Write(append(line, '\n'))
	return err
}

// run runs the steps of a batch.
func (c *cursor) run(ctx context.Context, b batch) error {
	var outcomes []outcome
	for i, text := range b.Steps {
		became, err := c.step(text, outcomes, func(in *stmt) error { return c.runStep(ctx, i, in) })
		if err != nil && became == skipped {
			return c.write(append(explain(ctx, err).append([]byte(`{"type":"error","error":`)), '}'))
		}
		if err != nil {
			if err := c.stepError(i, explain(ctx, err)); err != nil {
				return err
			}
		}
		outcomes = append(outcomes, became)
	}
	return nil
}

// runStep writes the entries of a step.
func (c *cursor) runStep(ctx context.Context, i int, in *stmt) error {
	did, err := c.query(ctx, in, sink{
		columns: func(columns []column) error { return c.stepBegin(i, columns) },
		row: func(stmt *sqlite.Stmt, columns int) error {
			line := appendRow(append(c.line, `{"type":"row","row":`...), stmt, columns)
			return c.write(append(line, '}'))
		},
	})
	if err != nil {
		return err
	}
	line := appendCounts(append(c.line, `{"type":"step_end",`...), c.conn, did)
	return c.write(append(line, '}'))
}

func (c *cursor) stepBegin(i int, columns []column) error {
	line := strconv.AppendInt(append(c.line, `{"type":"step_begin","step":`...), int64(i), 10)
	line = appendColumns(append(line, `,"cols":`...), columns)
	return c.write(append(line, '}'))
}

func (c *cursor) stepError(i int, f *failure) error {
	line := strconv.AppendInt(append(c.line, `{"type":"step_error","step":`...), int64(i), 10)
	line = f.append(append(line, `,"error":`...))
	return c.write(append(line, '}'))
}

// writeError writes the response of a request that failed as a whole.
func (e *Engine) writeError(w http.ResponseWriter, err error) {
	var f *failure
	var known *errs.Error
	switch {
	case errors.As(err, &f) && f.status != 0:
	case errors.As(err, &known) && known.Kind == errs.Unavailable:
		f = failf("UNAVAILABLE", "%s", known.Message).withStatus(http.StatusServiceUnavailable)
	default:
		e.Log.Error("a database request failed", "error", err)
		f = failf("INTERNAL_ERROR", "internal error").withStatus(http.StatusInternalServerError)
	}
	writeFailure(w, f)
}

func writeFailure(w http.ResponseWriter, f *failure) {
	header := w.Header()
	switch f.status {
	case http.StatusUnauthorized:
		header.Set("WWW-Authenticate", "Bearer")
	case http.StatusServiceUnavailable:
		header.Set("Retry-After", "1")
	}
	header.Set("Content-Type", "application/json")
	w.WriteHeader(f.status)
	_, _ = w.Write(f.append(nil))
}
