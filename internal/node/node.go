// Package node owns an installation's data directories when it has several replicas, and the requests
// between replicas.
//
// A node is a data directory. Every few seconds, the process that serves it writes its address to the table
// nodes and reads where the others are (Directory). If a replica gets a request for a resource whose files
// are on another node, its Client passes the request on and that node's Server takes it. Both share the
// master key. Each request carries a token (token.go) for one node, process, method, path, query, client
// and body, which the Server accepts once, and only for a few seconds. A Server never passes a request on
// again.
package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"steward/internal/db"
	"steward/internal/errs"
	"steward/internal/stamp"
)

const (
	// Each process writes every beatEvery that it is alive. Others believe it for aliveFor.
	beatEvery = 2 * time.Second
	aliveFor  = 15 * time.Second
	// We forget a node that nobody has served for forgetAfter.
	forgetAfter = 7 * 24 * time.Hour
	// endTimeout bounds the last write when a process stops.
	endTimeout = 5 * time.Second
	// changed is the channel on which processes announce that they have started or stopped.
	changed = "nodes"
	// schemaOfBodies is the first version whose tokens cover the body. Earlier ones do not write their
	// schema.
	schemaOfBodies = 43
)

// Node is a data directory, with the process that serves it.
type Node struct {
	ID string
	// Process is the process's id, and Address where it takes requests from replicas. Both may be empty.
	Process string
	Address string
	SeenAt  stamp.Time
	// Schema is the last migration that the process knows, or 0 for versions before schemaOfBodies.
	Schema int64
}

// Directory knows an installation's nodes. Do not change its exported fields after Run.
type Directory struct {
	DB  *db.DB
	Now func() time.Time
	Log *slog.Logger
	// Self is this process's node. Its Address is empty if it takes no requests from replicas.
	Self Node

	// Only Run uses these. written reports whether we have written that this process is alive, and copied
	// whether we found another process that serves the same node.
	written, copied bool

	mu    sync.Mutex
	read  bool
	nodes map[string]*entry
}

// entry is a node as we last read it.
type entry struct {
	Node
	// life ends when the process dies.
	life context.Context
	end  context.CancelFunc
	// skewed reports whether the process's clock differs from ours.
	skewed bool
}

// Run writes that this process is alive, and reads which others are, until ctx ends. On SQLite there are no
// others.
func (d *Directory) Run(ctx context.Context) {
	if d.DB.Dialect() == db.SQLite {
		return
	}
	wake := make(chan struct{}, 1)
	d.DB.Watch(changed, func() {
		select {
		case wake <- struct{}{}:
		default: // a refresh is already due
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

// beat reads the nodes and writes that this process is alive.
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

// checkSelf logs once if another process serves this node, too. Each of them would create and change files
// that the other one does not have.
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

// refresh reads the nodes. If it cannot, it keeps those that we read before.
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

// set replaces the nodes. It ends the life of each process that has died.
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

// skewed reports whether a process's clock differs from ours so much that we do not pass requests to each
// other, and logs it once. We can tell only when the process has written a time since we last read it.
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

// alive reports whether we believe that a node's process is alive.
func (d *Directory) alive(n Node) bool {
	return n.Process != "" && stamp.Of(d.Now()).Sub(n.SeenAt) < aliveFor
}

// find returns a node that takes requests, and a context that ends when its process dies. It returns
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

// narrow reports whether a process may be alive whose version makes tokens that do not cover the body.
func (d *Directory) narrow(ctx context.Context) bool {
	d.refresh(ctx) // finds a process that has just started
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

// State is a node with whether it is alive.
type State struct {
	Node
	Alive bool
}

// States returns all nodes, ordered by id. On SQLite there are none.
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

// Others returns the ids of all other known nodes, dead or alive.
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

// write writes that this process serves its node, and forgets nodes that nobody has served for long.
func (d *Directory) write(ctx context.Context) error {
	now := stamp.Of(d.Now())
	return d.DB.Write(ctx, func(tx *db.Tx) error {
		if err := tx.Send(`INSERT INTO nodes (id, process, address, seen_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (id) DO UPDATE SET process = excluded.process, address = excluded.address, seen_at = excluded.seen_at`,
			d.Self.ID, d.Self.Process, d.Self.Address, now); err != nil {
			return fmt.Errorf("note node: %w", err)
		}
		if err := tx.Send(`DELETE FROM nodes WHERE id IN (SELECT id FROM nodes WHERE seen_at < $1`+
			db.SkipLocked(tx.Dialect())+`)`, now.Add(-forgetAfter)); err != nil {
			return fmt.Errorf("forget nodes: %w", err)
		}
		return nil
	})
}

// clear writes that this process no longer serves its node.
func (d *Directory) clear(ctx context.Context) error {
	if _, err := d.DB.Exec(ctx, `UPDATE nodes SET process = '', address = '' WHERE id = $1 AND process = $2`,
		d.Self.ID, d.Self.Process); err != nil {
		return fmt.Errorf("clear node: %w", err)
	}
	return nil
}

// list returns all nodes, ordered by id.
func (d *Directory) list(ctx context.Context) ([]Node, error) {
	all, err := db.Collect(d.DB.Read(ctx), scan, `SELECT n.id, n.process, n.address, n.seen_at, coalesce(p.schema, 0)
		FROM nodes n LEFT JOIN processes p ON p.id = n.process ORDER BY n.id`)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return all, nil
}

func scan(r db.Row) (n Node, err error) {
	err = r.Scan(&n.ID, &n.Process, &n.Address, &n.SeenAt, &n.Schema)
	return n, err
}
