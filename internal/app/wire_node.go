package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"

	"steward/internal/errs"
	"steward/internal/node"
	"steward/internal/resource"
)

// nodes passes requests on to the replicas that have the files of embedded resources, and takes
// theirs.
type nodes struct {
	directory *node.Directory
	client    *node.Client
	server    *node.Server
	engines   *engines
	resources *resource.Manager
}

// wireNodes lets embedded engines reach other replicas.
func (b base) wireNodes(e *engines, resources *resource.Manager) *nodes {
	self := node.Node{ID: b.node, Process: b.processID, Address: b.addresses.Listen["internal"]}
	if self.Address != "" {
		self.Address = cmp.Or(b.cfg.InternalAdvertise, self.Address)
	}
	n := &nodes{directory: &node.Directory{DB: b.db, Now: b.now, Log: b.log, Self: self}, engines: e, resources: resources}
	n.client = node.NewClient(n.directory, b.ring)
	n.server = &node.Server{Directory: n.directory, Ring: b.ring, Handler: n.handler()}
	n.server.Open()
	e.embeddedDB.Nodes = n.client
	e.embeddedKV.Nodes = n.client
	resources.Nodes = n.client
	return n
}

// handler serves other replicas: databases, stores, and the API's operations on them.
func (n *nodes) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/db/{id}/", n.engines.embeddedDB.ServeForwarded)
	mux.HandleFunc("GET /kv/{id}", func(w http.ResponseWriter, r *http.Request) {
		if c, err := node.Upgrade(w, r); err == nil {
			n.engines.embeddedKV.ServeForwarded(c, r.PathValue("id"))
		}
	})
	mux.HandleFunc("POST "+resource.RemotePath, func(w http.ResponseWriter, r *http.Request) {
		value, err := n.answer(r)
		n.server.Answer(w, r, value, err)
	})
	return mux
}

// maxRemoteRequest is the largest request from another replica, which was an API request there.
const maxRemoteRequest = 32 << 20

// answer executes another replica's request.
func (n *nodes) answer(r *http.Request) (any, error) {
	var in resource.RemoteRequest
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxRemoteRequest))
	if err == nil {
		err = json.Unmarshal(body, &in)
	}
	if err != nil {
		return nil, errs.New(errs.Malformed, "expected a request of another replica")
	}
	return n.resources.Remote(r.Context(), r.PathValue("id"), r.PathValue("verb"), in)
}

// serve serves other replicas in the background, if there is a listener. When it ends, the channel
// receives the error.
func (n *nodes) serve(listener net.Listener) <-chan error {
	if listener == nil {
		return nil
	}
	ended := make(chan error, 1)
	go func() {
		if err := n.server.Serve(listener); err != nil {
			ended <- err
		}
	}()
	return ended
}

// close waits for other replicas' requests, and closes our connections to them.
func (n *nodes) close(ctx context.Context) {
	if err := n.server.Close(ctx); err != nil && !errors.Is(err, net.ErrClosed) {
		n.directory.Log.Warn("requests of other replicas were closed before they finished", "error", err)
	}
	n.client.Close()
}
