package libsql

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"

	"steward/internal/budget"
	"steward/internal/errs"
	"steward/internal/resource"
	"steward/internal/web"
)

// ServeHTTP serves /db/{id}/….
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	databaseID, endpoint, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/db/"), "/")
	var serve func(context.Context, *call) error
	switch endpoint {
	case "v2", "v3": // clients ask without credentials
		serveVersion(w, r)
		return
	case "v2/pipeline", "v3/pipeline":
		serve = e.servePipeline
	case "v3/cursor":
		serve = e.serveCursor
	default:
		message := "no such endpoint"
		if databaseID == "v2" || databaseID == "v3" { // the URL has no final slash, so the endpoint has replaced the id
			message = "no such endpoint: the URL of a database ends with a slash, as in /db/{id}/"
		}
		writeFailure(w, failf("NOT_FOUND", "%s", message).withStatus(http.StatusNotFound))
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		writeFailure(w, failf("METHOD_NOT_ALLOWED", "expected POST").withStatus(http.StatusMethodNotAllowed))
		return
	}
	if err := e.serveStream(w, r, databaseID, serve); err != nil {
		f, known := requestFailure(err)
		if !known {
			e.Log.Error("a database request failed", "database", databaseID, "error", err)
		}
		writeFailure(w, f)
	}
}

// serveVersion tells a client that we support a protocol version.
func serveVersion(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		writeFailure(w, failf("METHOD_NOT_ALLOWED", "expected GET").withStatus(http.StatusMethodNotAllowed))
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "Hrana over HTTP\n")
}

// call is a client's request while we serve it.
type call struct {
	w    http.ResponseWriter
	body []byte
	// memory is charged for the body and the statements decoded from it.
	memory *budget.Charge
	of     *session
}

// serveStream authenticates a request, then serves or forwards it.
func (e *Engine) serveStream(w http.ResponseWriter, r *http.Request, databaseID string, serve func(context.Context, *call) error) error {
	p, err := e.authenticate(r, databaseID)
	if err != nil {
		return err
	}
	web.Request(r.Context()).OrgID = p.OrgID
	if p.Node != e.Node {
		err = e.forward(w, r, p)
	} else {
		err = e.serveRequest(w, r, p, serve)
	}
	if err != nil {
		return e.failed(p, err)
	}
	return nil
}

// failed counts a refusal, logs an unexpected error, and returns the failure for the client.
func (e *Engine) failed(p *resource.Provisioned, err error) error {
	f, known := requestFailure(err)
	switch {
	case !known:
		e.Log.Error("a database request failed", "organization", p.OrgID, "database", p.ID, "error", err)
	case f.status == http.StatusServiceUnavailable:
		e.usage.Of(p.OrgID, p.ID).refused.Add(1)
	}
	return f
}

// serveRequest reads a request and serves it in a session.
func (e *Engine) serveRequest(w http.ResponseWriter, r *http.Request, p *resource.Provisioned, serve func(context.Context, *call) error) (err error) {
	c := &call{w: w, memory: e.memory.Charge(p.OrgID, p.ID)}
	defer c.memory.Release()
	if c.body, err = e.read(w, r, c.memory); err != nil {
		return err
	}
	if p, err = e.authenticate(r, p.ID); err != nil { // the password may have changed meanwhile
		return err
	}
	ctx, s, err := e.begin(r.Context(), p)
	if err != nil {
		return err
	}
	defer s.end()
	s.db.use.in.Add(int64(len(c.body)))
	c.of = s
	return serve(ctx, c)
}

// authenticate returns the database if the request has its password. The error does not reveal whether
// the database exists.
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
	err = e.Active.Check(r.Context(), p.OrgID)
	if errs.KindOf(err) == errs.Forbidden {
		return nil, failf("FORBIDDEN", "%s", err).withStatus(http.StatusForbidden)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (e *Engine) lookup(ctx context.Context, databaseID string) (*resource.Provisioned, error) {
	return e.lookups.Get(databaseID, func() (*resource.Provisioned, error) { return e.Rows.ByID(ctx, databaseID) })
}

// read reads a request's body. It cuts off clients that send too slowly.
func (e *Engine) read(w http.ResponseWriter, r *http.Request, memory *budget.Charge) ([]byte, error) {
	// After an error the deadline stays, so that nobody waits for the rest of the body.
	paced := e.limits.Pace.Reader(http.MaxBytesReader(w, r.Body, e.limits.Body), http.NewResponseController(w).SetReadDeadline)
	body, err := budget.ReadAll(memory, paced, r.ContentLength)
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		return body, nil
	case errors.Is(err, budget.ErrFull):
		return nil, errOutOfMemory.withStatus(http.StatusServiceUnavailable)
	case errors.As(err, &tooLarge):
		return nil, failf("REQUEST_TOO_LARGE", "the request is larger than %d bytes", e.limits.Body).withStatus(http.StatusRequestEntityTooLarge)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, failf("REQUEST_TIMEOUT", "the request was not sent in time").withStatus(http.StatusRequestTimeout)
	}
	return nil, errProtocol
}

// errProtocol reports a body that is malformed or incomplete.
var errProtocol = failf("HRANA_PROTO_ERROR", "expected a body as Hrana specifies it").withStatus(http.StatusBadRequest)

// servePipeline serves v2/pipeline and v3/pipeline. It ends the session before it writes the response, so
// that nobody waits for a slow reader.
func (e *Engine) servePipeline(ctx context.Context, c *call) error {
	var p pipeline
	if err := json.Unmarshal(c.body, &p); err != nil {
		return errProtocol
	}
	p.decodeFew()
	out := &response{limit: e.limits.Response, memory: e.memory.Charge(c.of.db.org, c.of.db.id)}
	defer out.memory.Release()
	if err := c.execute(ctx, &p, out); err != nil {
		return err
	}
	c.body = nil
	c.memory.Release()
	c.of.end()
	c.of.db.use.out.Add(int64(len(out.body)))
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write(out.body) // fails if the client has gone
	return nil
}

// execute executes the pipeline's requests.
func (c *call) execute(ctx context.Context, p *pipeline, out *response) (err error) {
	if err := c.share(ctx, p, out); !errors.Is(err, errAlone) {
		return err
	}
	s, done, err := c.stream(ctx, p.Baton, p.closes())
	if err != nil {
		return err
	}
	first := true
	out.raw(`{"results":[`)
	for r := range p.all {
		if !first {
			out.raw(",")
		}
		first = false
		s.execute(ctx, r, out)
		if err = out.settle(); err != nil {
			err = errOutOfMemory.withStatus(http.StatusServiceUnavailable)
			break
		}
	}
	s.closed = s.closed || ctx.Err() != nil || err != nil
	baton := s.db.announce(s)
	done(baton)
	out.raw(`],"baton":`)
	out.text(optional(baton))
	out.raw(`,"base_url":null}`)
	return err
}

// stream returns the call's stream. Call the returned function afterwards, with the stream's next baton
// or "".
func (c *call) stream(ctx context.Context, baton *word, closes bool) (*stream, func(baton string), error) {
	s, done, err := c.of.stream(ctx, baton, closes)
	if err == nil {
		s.memory = c.memory
	}
	return s, done, err
}

// stream returns a stream and the function that gives it back.
func (s *session) stream(ctx context.Context, baton *word, closes bool) (*stream, func(baton string), error) {
	d := s.db
	switch {
	case baton != nil:
		st, err := d.take(ctx, string(*baton), s.token)
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
	return st, func(string) {
		st.texts.Release()
		d.release(c)
		<-d.slots
	}, nil
}

// requestFailure converts an error to a failure for the whole request. It reports whether the failure
// says everything about the error.
func requestFailure(err error) (*failure, bool) {
	if f, ok := errors.AsType[*failure](err); ok && f.status != 0 {
		return f, true
	}
	if e := errs.Of(err); e.Kind == errs.Unavailable {
		return failf("UNAVAILABLE", "%s", e.Message).withStatus(http.StatusServiceUnavailable), e.Cause == nil
	}
	return failf("INTERNAL_ERROR", "internal error").withStatus(http.StatusInternalServerError), false
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
