// Package embedkv owns key-value stores that this process serves itself, over the Redis protocol.
// Besides base packages it imports resource.
//
// Each store is a log of internal/redis in <Dir>/<id>/, which has all keys in memory while it is open. Serve
// accepts connections; a session reads requests, authenticates the client, and hands its other requests over
// to the store that it belongs to, or passes all that follows on to the node that has the files (forward.go). A pool opens stores when they are needed, and closes those that nobody
// uses. docs/decisions/0014 says why.
package embedkv

import (
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

	"steward/internal/budget"
	"steward/internal/disk"
	"steward/internal/errs"
	"steward/internal/resource"
)

// Engine serves the stores of a data directory. Its exported fields must not be changed after Open.
type Engine struct {
	// Dir is the directory of the stores.
	Dir string
	// Node is the node of Dir.
	Node string
	// Dial connects to the node that has the files of a store, on behalf of a client with an address. It
	// may be nil: then the stores of other nodes are refused.
	Dial func(ctx context.Context, p *resource.Provisioned, client string) (net.Conn, error)
	// URL is the address that clients connect to, such as redis://host:port.
	URL string
	// ByID returns a store, or NotFound.
	ByID func(ctx context.Context, id string) (*resource.Provisioned, error)
	// ByPassword returns the store whose password has a SHA-256, or NotFound.
	ByPassword func(ctx context.Context, hash []byte) (*resource.Provisioned, error)
	// Active returns Forbidden if an organization was deleted. It may be nil.
	Active func(ctx context.Context, orgID string) error
	// Connections has a slot for each client that has authenticated, and Unauthenticated one for each
	// other, whose owner is the address. Memory is that of requests and replies beyond redis.FreeMemory for
	// each connection, KeyMemory that of the keys and values of open stores, and ScriptMemory that of their scripts. Open
	// makes those that are nil.
	Connections, Unauthenticated, Memory, KeyMemory, ScriptMemory *budget.Pool

	Limits Limits
	// Disk is that of Dir: while it is almost full, stores take nothing more. It may be nil.
	Disk *disk.Space
	Log  *slog.Logger
	Now  func() time.Time

	pool     *pool
	sessions *sessions
	// generation counts changes of stores and passwords. See login.
	generation atomic.Uint64
	verify     chan struct{}
	ids        atomic.Int64
	logins     *budget.Queue
	running    *budget.Queue
	usage      resource.Used[use]
	closed     chan struct{}
	closeOnce  sync.Once
}

// Limits bound what clients may use. Zero values mean the defaults.
type Limits struct {
	// Stores is the maximum number of stores that are open at once.
	Stores int
	// Memory is the maximum size of the keys and values of a store in bytes. It is no more than the share of a store
	// in KeyMemory.
	Memory int64
	// Request and Reply are the maximum sizes of a command, or all commands of a transaction, and of
	// its reply, in bytes.
	Request, Reply int
	// Queue is the maximum number of commands between MULTI and EXEC.
	Queue int
	// Login is how long a client may take to authenticate, Stall how long to receive a reply, and Idle
	// how long a connection may be unused.
	Login, Stall, Idle time.Duration
	// Pace is that of a command after its first line.
	Pace budget.Pace
	// Unused is how long a store stays open without a command, and Wait how long a client waits for a store to
	// be opened while too many are, or there is no memory for it. Reclaim is how long a store is unused that is
	// closed because others need its memory. Loading is how long a client waits for a store that is being opened.
	Unused, Wait, Reclaim, Loading time.Duration
	// Running is the number of stores that run what takes long at a time. Others wait for their turn.
	Running int
}

func (l Limits) withDefaults() Limits {
	setDefault(&l.Stores, 200)
	setDefault(&l.Memory, 256<<20)
	setDefault(&l.Request, MaxRequest)
	setDefault(&l.Reply, MaxRequest*3/2) // the share of a store in a pool of eight grants
	setDefault(&l.Queue, 10_000)
	setDefault(&l.Login, 5*time.Second)
	setDefault(&l.Stall, 30*time.Second)
	setDefault(&l.Idle, time.Hour)
	setDefault(&l.Unused, 5*time.Minute)
	setDefault(&l.Wait, 30*time.Second)
	setDefault(&l.Reclaim, 5*time.Second)
	setDefault(&l.Loading, 5*time.Second)
	setDefault(&l.Running, max(2, runtime.GOMAXPROCS(0)))
	if l.Pace == (budget.Pace{}) {
		l.Pace = budget.Body
	}
	return l
}

func setDefault[T int | int64 | time.Duration](value *T, to T) {
	if *value == 0 {
		*value = to
	}
}

// MaxRequest is the largest request, and so the largest value of a store.
const MaxRequest = 16 << 20

// KeyGrant is the memory that the stores of an organization always get for keys and values.
const KeyGrant = 4 << 20

// The memory of scripts: of all, and what those of an organization always get.
const (
	ScriptMemory = 384 << 20
	ScriptGrant  = 4 << 20
)

// setPools makes the pools that are nil.
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

// Open prepares the engine. It must be called before all other methods.
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

// Check returns Unavailable if the directory of stores is gone.
func (e *Engine) Check(context.Context) error {
	if _, err := os.Stat(e.Dir); err != nil {
		return errs.Unavailablef(err, "key-value stores cannot be reached")
	}
	return nil
}

// Create creates a store. It does nothing if there is one.
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

// Rotate closes the connections that were made with another password than p's. Another node than the store's
// closes those that it passes on.
func (e *Engine) Rotate(_ context.Context, p *resource.Provisioned) error {
	e.generation.Add(1)
	e.sessions.cut(p.ID, passwordHash(p.Password))
	return nil
}

// Delete closes the connections to a store and removes its files. On another node than the store's it
// closes connections only, and resource.Manager has that one remove the files.
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

// Connection returns the URL of a store with its user and password.
func (e *Engine) Connection(p *resource.Provisioned) resource.Connection {
	u, err := url.Parse(e.URL)
	if err != nil {
		u = &url.URL{Scheme: "redis"}
	}
	u.User = url.UserPassword(p.ID, p.Password)
	u.Path = "/0"
	return resource.Connection{URL: u.String(), Env: map[string]string{"REDIS_URL": u.String()}}
}

// Forget has Run verify open connections. It is called when a store may have been changed by another
// replica.
func (e *Engine) Forget() {
	e.generation.Add(1)
	select {
	case e.verify <- struct{}{}:
	default: // Run will see this change too
	}
}

// Run opens the stores that were in use when the process ended, verifies connections after Forget, and closes stores
// that are not used, until ctx ends.
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

// verifyAgain is when connections to stores that could not be looked up are verified again.
const verifyAgain = time.Second

// verifySessions closes connections to stores that were deleted, and those made with an old
// password. If a store cannot be looked up, Run verifies again.
func (e *Engine) verifySessions(ctx context.Context) {
	for _, id := range e.sessions.stores() {
		p, err := e.ByID(ctx, id)
		if err == nil {
			err = e.active(ctx, p)
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

// active returns Forbidden if the organization of a store was deleted.
func (e *Engine) active(ctx context.Context, p *resource.Provisioned) error {
	if e.Active == nil {
		return nil
	}
	return e.Active(ctx, p.OrgID)
}

// Close stops serving, closes all connections and stores, and waits for commands in flight, at most
// until ctx ends.
func (e *Engine) Close(ctx context.Context) error {
	if e.pool == nil {
		return nil // Open was not called, or failed
	}
	e.closeOnce.Do(func() { close(e.closed) })
	e.sessions.close()
	return e.pool.close(ctx)
}
