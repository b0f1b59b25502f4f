package libsql

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"steward/internal/resource"
)

// forwardedKey marks the context of a request that another node has forwarded.
type forwardedKey struct{}

// ServeForwarded serves /db/{id}/… for another node's client. It never forwards a request again.
func (e *Engine) ServeForwarded(w http.ResponseWriter, r *http.Request) {
	e.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), forwardedKey{}, true)))
}

// forward forwards a request to the node that has the database.
func (e *Engine) forward(w http.ResponseWriter, r *http.Request, p *resource.Provisioned) error {
	if e.Nodes == nil || r.Context().Value(forwardedKey{}) != nil {
		return e.onThisNode(p)
	}
	slot := e.forwards.Charge(p.OrgID, p.ID)
	if !slot.Take(1) {
		return failf("SERVER_BUSY", "the server passes on too many requests").withStatus(http.StatusServiceUnavailable)
	}
	defer slot.Release()
	memory := e.memory.Charge(p.OrgID, p.ID)
	defer memory.Release()
	body, err := e.read(w, r, memory)
	if err != nil {
		return err
	}
	ctx, done := e.passed.begin(r.Context(), p)
	defer done()
	if _, err := e.authenticate(r, p.ID); err != nil { // the password may have changed meanwhile
		return err
	}
	use := e.usage.Of(p.OrgID, p.ID)
	use.in.Add(int64(len(body)))
	err = e.Nodes.Forward(&countingWriter{w, &use.out}, r.WithContext(ctx), body, p.Node)
	if err != nil && ctx.Err() != nil {
		return errClosed.withStatus(http.StatusServiceUnavailable) // cut by us, or the client has gone
	}
	return err
}

// countingWriter counts a response's bytes.
type countingWriter struct {
	http.ResponseWriter
	count *atomic.Int64
}

func (w *countingWriter) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	w.count.Add(int64(n))
	return n, err
}

// Unwrap lets http.ResponseController find the underlying writer's methods.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// passedRequests holds the forwarded requests in flight, by database. Its zero value is ready to use.
type passedRequests struct {
	mu  sync.Mutex
	all map[string]map[*passedRequest]bool
}

// passedRequest is a forwarded request and the password that it used.
type passedRequest struct {
	token  token
	cancel context.CancelFunc
}

// begin adds a request. The returned context ends when the password is no longer valid.
func (p *passedRequests) begin(ctx context.Context, of *resource.Provisioned) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	request := &passedRequest{token: tokenOf(of.Password), cancel: cancel}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil {
		p.all = map[string]map[*passedRequest]bool{}
	}
	if p.all[of.ID] == nil {
		p.all[of.ID] = map[*passedRequest]bool{}
	}
	p.all[of.ID][request] = true
	return ctx, func() { p.end(of.ID, request) }
}

func (p *passedRequests) end(id string, request *passedRequest) {
	request.cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all[id], request)
	if len(p.all[id]) == 0 {
		delete(p.all, id)
	}
}

// cut ends the database's requests that used another password.
func (p *passedRequests) cut(id string, t token) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for request := range p.all[id] {
		if !request.token.equal(t) {
			request.cancel()
		}
	}
}

// ids returns the databases that have requests in flight.
func (p *passedRequests) ids() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	ids := make([]string, 0, len(p.all))
	for id := range p.all {
		ids = append(ids, id)
	}
	return ids
}
