// Package embedkv owns key-value stores that this process serves itself, over the Redis protocol.
//
// Each store is an internal/redis log in <Dir>/<id>/, and keeps all its keys in memory while it is open.
// Serve accepts connections. A session reads requests, authenticates the client, and hands the other
// requests to the client's store, or forwards the whole connection to the node that has the files
// (forward.go). A pool opens stores on demand and closes unused ones. docs/decisions/0014 says why.
package embedkv

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"steward/internal/account/organization"
	"steward/internal/budget"
	"steward/internal/disk"
	"steward/internal/errs"
	"steward/internal/resource"
)

// Nodes connects to another node, for a client with that address. It is a node.Client.
type Nodes interface {
	Dial(ctx context.Context, node, path, client string) (net.Conn, error)
}

// Engine serves the stores in a data directory. Do not change its exported fields after Open.
type Engine struct {
	// Dir holds the stores.
	Dir string
	// Node is the node that owns Dir.
	Node string
	// Nodes connects to the nodes that have other stores' files. If it is nil, we refuse those stores.
	Nodes Nodes
	// URL is the address for clients, such as redis://host:port.
	URL  string
	Rows resource.Finder
	// Active refuses the stores of deleted organizations.
	Active *organization.Active
	// Connections has a slot for each authenticated client. Unauthenticated has a slot for each other
	// client, charged to its address. Memory holds requests and replies beyond redis.FreeMemory per
	// connection, KeyMemory the keys and values in open stores, and ScriptMemory their scripts. Open
	// replaces nil pools with defaults.
	Connections, Unauthenticated, Memory, KeyMemory, ScriptMemory *budget.Pool

	Limits Limits
	// Disk watches Dir's disk: while it is almost full, stores refuse writes. It may be nil.
	Disk *disk.Space
	Log  *slog.Logger
	Now  func() time.Time

	pool     *pool
	sessions *sessions
	// generation counts changes to stores and passwords. See login.
	generation atomic.Uint64
	verify     chan struct{}
	ids        atomic.Int64
	logins     *budget.Queue
	running    *budget.Queue
	usage      resource.Used[use]
	closed     chan struct{}
	closeOnce  sync.Once
}

// Limits cap what clients may use. Zero values mean the defaults.
type Limits struct {
	// Stores caps the stores that are open at once.
	Stores int
	// Memory caps a store's keys and values, in bytes. Open lowers it to a store's share in KeyMemory.
	Memory int64
	// Request caps a command, or all commands in a transaction, in bytes. Reply caps its reply.
	Request, Reply int
	// Queue caps the commands between MULTI and EXEC.
	Queue int
	// Login is how long a client may take to authenticate, Stall how long to receive a reply, and Idle
	// how long a connection may be unused.
	Login, Stall, Idle time.Duration
	// Pace is the minimum speed at which the rest of a command must arrive after its first line.
	Pace budget.Pace
	// Unused is how long an idle store stays open, and Reclaim the shorter time after which it closes if
	// others need its memory. Wait is how long a client waits for a store to open while too many are open
	// or memory is short. Loading is how long it waits while the store is opening.
	Unused, Wait, Reclaim, Loading time.Duration
	// Running caps the stores that run long operations at once. Others wait for their turn.
	Running int
}

func (l Limits) withDefaults() Limits {
	l.Stores = cmp.Or(l.Stores, 200)
	l.Memory = cmp.Or(l.Memory, 256<<20)
	l.Request = cmp.Or(l.Request, MaxRequest)
	l.Reply = cmp.Or(l.Reply, MaxRequest*3/2) // one store's share in a pool with eight grants
	l.Queue = cmp.Or(l.Queue, 10_000)
	l.Login = cmp.Or(l.Login, 5*time.Second)
	l.Stall = cmp.Or(l.Stall, 30*time.Second)
	l.Idle = cmp.Or(l.Idle, time.Hour)
	l.Unused = cmp.Or(l.Unused, 5*time.Minute)
	l.Wait = cmp.Or(l.Wait, 30*time.Second)
	l.Reclaim = cmp.Or(l.Reclaim, 5*time.Second)
	l.Loading = cmp.Or(l.Loading, 5*time.Second)
	l.Running = cmp.Or(l.Running, max(2, runtime.GOMAXPROCS(0)))
	l.Pace = cmp.Or(l.Pace, budget.Body)
	return l
}

// MaxRequest is the largest request in bytes, and so the largest value.
const MaxRequest = 16 << 20

// KeyGrant is the key memory that an organization's stores always get, in bytes.
const KeyGrant = 4 << 20

// ScriptMemory is the memory for all scripts, and ScriptGrant the part that each organization's scripts
// always get, in bytes.
const (
	ScriptMemory = 384 << 20
	ScriptGrant  = 4 << 20
)

// setPools creates the pools that are nil.
func (e *Engine) setPools() {
	if e.Connections == nil {
		e.Connections = budget.NewPool(10_000, 16)
	}
	if e.Unauthenticated == nil {
		e.Unauthenticated = budget.NewPool(1_000, 16)
	}
	if e.Memory == nil {
		e.Memory = budget.NewPool(0, MaxRequest)
	}
	if e.KeyMemory == nil {
		e.KeyMemory = budget.NewPool(2<<30, KeyGrant)
	}
	if e.ScriptMemory == nil {
		e.ScriptMemory = budget.NewPool(ScriptMemory, ScriptGrant)
	}
	e.Limits.Memory = min(e.Limits.Memory, e.KeyMemory.Share())
}

// Open prepares the engine. Call it before all other methods.
func (e *Engine) Open() error {
	e.Limits = e.Limits.withDefaults()
	if err := os.MkdirAll(e.Dir, 0o700); err != nil {
		return fmt.Errorf("create directory of stores: %w", err)
	}
	e.setPools()
	e.pool = newPool(e.Limits)
	e.pool.open = e.openStore
	e.pool.unused = e.markUnused
	e.sessions = &sessions{byStore: map[string]*members{}, all: map[*session]bool{}}
	e.verify = make(chan struct{}, 1)
	e.logins = budget.NewQueue(maxLogins)
	e.running = budget.NewQueue(e.Limits.Running)
	e.usage.New = newUse
	e.closed = make(chan struct{})
	return nil
}

// Name returns embedded.
func (e *Engine) Name() string { return resource.Embedded }

// Local returns true.
func (e *Engine) Local() bool { return true }

// Check returns Unavailable if Dir is gone.
func (e *Engine) Check(context.Context) error {
	if _, err := os.Stat(e.Dir); err != nil {
		return errs.Unavailablef(err, "key-value stores cannot be reached")
	}
	return nil
}

// Create creates a store. It does nothing if the store exists.
func (e *Engine) Create(_ context.Context, p *resource.Provisioned) error {
	if err := e.mine(p); err != nil {
		return err
	}
	if err := e.createStore(p.ID); err != nil {
		return fmt.Errorf("create key-value store: %w", err)
	}
	return nil
}

// mine returns Unavailable if a store is on another node.
func (e *Engine) mine(p *resource.Provisioned) error {
	if p.Node != e.Node {
		return errs.Unavailablef(nil, "key-value store %s is on another node (%s)", p.ID, p.Node)
	}
	return nil
}

// Rotate closes connections that used another password than p's. If another node has the store, it closes
// the connections that we forward.
func (e *Engine) Rotate(_ context.Context, p *resource.Provisioned) error {
	e.generation.Add(1)
	e.sessions.cut(p.ID, passwordHash(p.Password))
	return nil
}

// Delete closes a store's connections and removes its files. If another node has the store, Delete only
// closes connections, and resource.Manager asks that node to remove the files.
func (e *Engine) Delete(ctx context.Context, p *resource.Provisioned) error {
	e.generation.Add(1)
	e.sessions.cut(p.ID, [sha256.Size]byte{})
	if p.Node != e.Node {
		return nil
	}
	if err := e.remove(ctx, p.ID); err != nil {
		return fmt.Errorf("delete key-value store: %w", err)
	}
	e.usage.Forget(p.ID)
	return nil
}

// Connection returns a store's URL with user and password.
func (e *Engine) Connection(p *resource.Provisioned) resource.Connection {
	u, err := url.Parse(e.URL)
	if err != nil {
		u = &url.URL{Scheme: "redis"}
	}
	u.User = url.UserPassword(p.ID, p.Password)
	u.Path = "/0"
	return resource.Connection{URL: u.String(), Env: map[string]string{"REDIS_URL": u.String()}}
}

// Forget makes Run verify open connections. Call it when another replica may have changed a store.
func (e *Engine) Forget() {
	e.generation.Add(1)
	select {
	case e.verify <- struct{}{}:
	default: // Run has yet to verify, and will see this change too
	}
}

// Run works until ctx ends. It opens the stores that were in use when the last process ended, verifies
// connections after Forget, and closes unused stores.
func (e *Engine) Run(ctx context.Context) {
	var warming sync.WaitGroup
	warming.Go(func() { e.openUsed(ctx) })
	defer warming.Wait()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.verify:
			e.verifySessions(ctx)
		case <-second.C:
			e.pool.closeUnused(e.Now().Add(-e.Limits.Unused))
		}
	}
}

// verifyAgain is the pause before Run verifies again after a failed lookup.
const verifyAgain = time.Second

// verifySessions closes connections to deleted stores, and those that used an old password. If it cannot
// look up a store, Run verifies again.
func (e *Engine) verifySessions(ctx context.Context) {
	for _, id := range e.sessions.stores() {
		p, err := e.Rows.ByID(ctx, id)
		if err == nil {
			err = e.Active.Check(ctx, p.OrgID)
		}
		switch {
		case errs.KindOf(err) == errs.NotFound || errs.KindOf(err) == errs.Forbidden:
			e.sessions.cut(id, [sha256.Size]byte{})
			e.usage.Forget(id)
		case err != nil:
			e.Log.Warn("verify connections to a key-value store", "store", id, "error", err)
			time.AfterFunc(verifyAgain, e.Forget)
		default:
			e.sessions.cut(id, passwordHash(p.Password))
		}
	}
}

// Close stops serving, and closes all connections and stores. It waits for commands in flight, at most
// until ctx ends.
func (e *Engine) Close(ctx context.Context) error {
	if e.pool == nil {
		return nil // Open failed or was never called
	}
	e.closeOnce.Do(func() { close(e.closed) })
	e.sessions.close()
	return e.pool.close(ctx)
}
