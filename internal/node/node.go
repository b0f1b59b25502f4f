// Package node owns the data directories of an installation with several replicas, and the requests between
// replicas.
//
// A node is a data directory. The process that serves it writes its address to the table nodes every
// few seconds, and reads where the others are (Directory). A replica that gets a request for a resource
// whose files another node has passes it on with a Client, and that node's Server takes it. Both share
// the master key: a request carries a token (token.go) for one node, process, method, path, query, client and
// body, which is accepted once and for a few seconds only. What a Server takes is never passed on again.
package node

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/stamp"
)

const (
	// beatEvery is how often a process writes that it lives, and aliveFor how long others believe it.
	beatEvery = 2 * time.Second
	aliveFor  = 15 * time.Second
	// forgetAfter is when a node that nobody serves is not known any more.
	forgetAfter = 7 * 24 * time.Hour
	// endTimeout bounds the last write of a process that stops.
	endTimeout = 5 * time.Second
	// changed is the name under which processes tell each other that one has started or stopped.
	changed = "nodes"
	// schemaOfBodies is the first version whose tokens cover the body: earlier ones do not write their schema.
	schemaOfBodies = 43
)

// Node is a data directory, and the process that serves it.
type Node struct {
	ID string
	// Process is the id of the process, and Address where it takes requests of replicas. Both may be empty.
	Process string
	Address string
	SeenAt  stamp.Time
	// Schema is the last migration that the process knows, or 0 for versions before schemaOfBodies.
	Schema int64
}

// Directory knows the nodes of an installation. Its exported fields must not be changed after Run.
type Directory struct {
	DB  *db.DB
	Now func() time.Time
	Log *slog.Logger
	// Self is the node of this process. Its Address is empty if it takes no requests of replicas.
	Self Node

	// written and copied belong to Run: whether this process has written that it lives, and whether another one
	// was found that serves the same node.
	written, copied bool

	mu    sync.Mutex
	read  bool
	nodes map[string]*entry
}

// entry is a node as it was read last.
type entry struct {
	Node
	// life ends when the process is not alive any more.
	life context.Context
	end  context.CancelFunc
	// skewed is set if the clock of the process differs from that of this one.
	skewed bool
}

// Run writes that this process lives, and reads which others do, until ctx ends. On SQLite there are no
// others.
func (d *Directory) Run(ctx context.Context) {
	if d.DB.Dialect() == db.SQLite {
		return
	}
	wake := make(chan struct{}, 1)
	d.DB.Watch(changed, func() {
		select {
		case wake <- struct{}{}:
		default: // told already
		}
	})
	d.beat(ctx)
	d.DB.Notify(changed)
	ticker := time.NewTicker(beatEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			d.stop(ctx)
			return
		case <-wake:
			d.refresh(ctx)
		case <-ticker.C:
			d.beat(ctx)
		}
	}
}

// beat reads the nodes, and writes that this process lives.
func (d *Directory) beat(ctx context.Context) {
	d.refresh(ctx)
	d.checkSelf()
	err := d.write(ctx)
	switch {
	case err == nil:
		d.written = true
	case ctx.Err() == nil:
		d.Log.Warn("other replicas may not reach this one", "error", err)
	}
}

// checkSelf logs once if another process serves this node too. Each of them creates and changes files that
// the other one does not have.
func (d *Directory) checkSelf() {
	d.mu.Lock()
	defer d.mu.Unlock()
	self := d.nodes[d.Self.ID]
	if !d.written || d.copied || self == nil || self.Process == d.Self.Process || self.Process == "" {
		return
	}
	d.copied = true
	d.Log.Error("another process serves the same node, from a copy of the data directory; stop one of them", "node", d.Self.ID, "process", self.Process, "address", self.Address)
}

// stop tells the other replicas that this process ends.
func (d *Directory) stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if err := d.clear(ctx); err != nil {
		d.Log.Warn("other replicas try to reach this one for a moment longer", "error", err)
	}
	d.DB.Notify(changed)
}

// refresh reads the nodes. Until it can, what was read before counts.
func (d *Directory) refresh(ctx context.Context) {
	all, err := d.list(ctx)
	if err != nil {
		if ctx.Err() == nil {
			d.Log.Warn("the other replicas are not known", "error", err)
		}
		return
	}
	d.set(all)
}

// set replaces the nodes. The lives of processes that are not alive any more end.
func (d *Directory) set(all []Node) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.nodes
	d.read = true
	d.nodes = make(map[string]*entry, len(all))
	for _, n := range all {
		old := before[n.ID]
		skewed := d.skewed(old, n)
		if old != nil && old.Process == n.Process && d.alive(n) {
			old.Node = n
			old.skewed = skewed
			d.nodes[n.ID] = old
			delete(before, n.ID)
			continue
		}
		e := &entry{Node: n, skewed: skewed}
		e.life, e.end = context.WithCancel(context.Background())
		if !d.alive(n) {
			e.end()
		}
		d.nodes[n.ID] = e
	}
	for _, gone := range before {
		gone.end()
	}
}

// skewed reports whether the clock of a process differs from that of this one by so much that they do not
// pass requests on to each other, and logs it once. That is known if the process has written a time since it
// was read before.
func (d *Directory) skewed(before *entry, n Node) bool {
	if before == nil || before.Process != n.Process {
		return false
	}
	if before.SeenAt == n.SeenAt {
		return before.skewed
	}
	ahead := n.SeenAt.Sub(stamp.Of(d.Now()))
	skewed := ahead > maxSkew || ahead < -aliveFor
	if skewed && !before.skewed {
		d.Log.Warn("the clock of another replica differs from that of this one, and requests are not passed on; set both with NTP",
			"node", n.ID, "ahead", ahead)
	}
	return skewed
}

// alive reports whether the process of a node is believed to live.
func (d *Directory) alive(n Node) bool {
	return n.Process != "" && stamp.Of(d.Now()).Sub(n.SeenAt) < aliveFor
}

// find returns a node that takes requests, and a context that ends when its process does. It returns
// NotFound if nobody has served the node for a long time, or Unavailable.
func (d *Directory) find(ctx context.Context, id string) (Node, context.Context, error) {
	d.mu.Lock()
	read := d.read
	d.mu.Unlock()
	if !read {
		d.refresh(ctx)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.nodes[id]
	switch {
	case e == nil && d.read:
		return Node{}, nil, errs.New(errs.NotFound, "node %s, which has the files, is not known", id)
	case e == nil || !d.alive(e.Node):
		return Node{}, nil, unreachable(nil, id)
	case e.Address == "":
		return Node{}, nil, errs.Unavailablef(nil, "node %s has the files, and takes no requests of other replicas: "+
			"it was started without --internal-listen", id)
	}
	return e.Node, e.life, nil
}

// narrow reports whether a process of a version whose tokens do not cover the body may live.
func (d *Directory) narrow(ctx context.Context) bool {
	d.refresh(ctx) // one that has just started
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.nodes {
		if d.alive(e.Node) && e.Schema < schemaOfBodies {
			return true
		}
	}
	return false
}

// unreachable returns the error for a node that does not answer.
func unreachable(cause error, id string) error {
	return errs.Unavailablef(cause, "node %s, which has the files, does not answer now", id)
}

// State is what is known of a node.
type State struct {
	Node
	Alive bool
}

// States returns all nodes, by id. On SQLite there is none.
func (d *Directory) States(ctx context.Context) ([]State, error) {
	if d.DB.Dialect() == db.SQLite {
		return nil, nil
	}
	all, err := d.list(ctx)
	if err != nil {
		return nil, err
	}
	states := make([]State, len(all))
	for i, n := range all {
		states[i] = State{Node: n, Alive: d.alive(n)}
	}
	return states, nil
}

// Others returns the ids of the known nodes, dead or alive, without that of this process.
func (d *Directory) Others(ctx context.Context) ([]string, error) {
	states, err := d.States(ctx)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, s := range states {
		if s.ID != d.Self.ID {
			ids = append(ids, s.ID)
		}
	}
	return ids, nil
}
