package libsql

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"steward/internal/account/organization"
	"steward/internal/budget"
	"steward/internal/db"
	"steward/internal/disk"
	"steward/internal/durable"
	"steward/internal/errs"
	"steward/internal/resource"
	"steward/internal/sqlite"
)

// Nodes forwards a request to another node. It is a node.Client.
type Nodes interface {
	// Forward returns an error if it has not written a response.
	Forward(w http.ResponseWriter, r *http.Request, body []byte, node string) error
}

// Engine serves the databases in a directory. It implements resource.Databases.
type Engine struct {
	// Dir holds a directory for each database.
	Dir string
	// Node is this process's node. If a database has another one, its files are elsewhere.
	Node string
	// BaseURL is the API's public URL.
	BaseURL string
	Rows    resource.Finder
	// Active refuses the databases of deleted organizations.
	Active *organization.Active
	// Nodes reaches the nodes that have other databases' files. If it is nil, we refuse such requests.
	Nodes  Nodes
	Limits Limits
	// Begin, if not nil, is called when a statement begins, with "statement". It may return a function to
	// call when the statement has ended, after the commit if it shares one.
	Begin func(ctx context.Context, operation string) (end func(error))
	// Memory is charged for request bodies and responses; nil means a pool of 128 MiB.
	Memory *budget.Pool
	Log    *slog.Logger
	// Now tells the time; nil means time.Now.
	Now func() time.Time

	shared      sync.Once // guards share
	limits      Limits
	lookups     db.Cache[string, *resource.Provisioned]
	memory      *budget.Pool
	streams     *budget.Pool
	connections *budget.Pool // in use
	kept        *budget.Pool // idle connections
	forwards    *budget.Pool // requests forwarded to other nodes
	passed      passedRequests
	queue       *budget.Queue
	disk        *disk.Space
	stale       chan struct{} // tells Run to verify open databases
	busy        chan struct{} // tells Run that a database was opened
	usage       usage

	mu       sync.Mutex
	closed   bool
	open     map[string]*database
	deleting map[string]int
}

var _ resource.Databases = (*Engine)(nil)

// temporary is SQLite's directory for temporary files, below Dir. SQLite unlinks them while it uses them,
// so a crash leaves nothing behind.
const temporary = "tmp"

// Open creates the directory and prepares the engine.
func (e *Engine) Open() error {
	e.shared.Do(e.share)
	e.disk = &disk.Space{Dir: e.Dir, Reserve: e.limits.Reserve}
	e.stale = make(chan struct{}, 1)
	e.busy = make(chan struct{}, 1)
	e.open = map[string]*database{}
	e.deleting = map[string]int{}
	tmp := filepath.Join(e.Dir, temporary)
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return fmt.Errorf("create directory of databases: %w", err)
	}
	for _, dir := range []string{e.Dir, filepath.Dir(e.Dir)} {
		if err := durable.SyncDir(dir); err != nil {
			return fmt.Errorf("sync directory of databases: %w", err)
		}
	}
	return useTemporary(tmp)
}

// The default memory pool's size in bytes, and the fraction of a pool, 1/largest, that one request can have.
const (
	defaultMemory = 128 << 20
	largest       = 16
)

// share creates the pools that databases share.
func (e *Engine) share() {
	e.limits = e.Limits.withDefaults()
	e.usage.New = newUse
	e.memory = e.Memory
	if e.memory == nil {
		e.memory = budget.NewPool(defaultMemory, defaultMemory/8)
	}
	most := e.memory.Usage().Total / largest
	e.limits.Body = min(e.limits.Body, most)
	e.limits.Response = min(e.limits.Response, most)
	e.streams = budget.NewPool(int64(e.limits.TotalStreams), 1)
	e.connections = budget.NewPool(int64(e.limits.TotalConnections), int64(e.limits.Connections))
	e.kept = budget.NewPool(int64(e.limits.IdleConnections), 1)
	e.forwards = budget.NewPool(int64(e.limits.Forwards), int64(e.limits.Connections))
	e.queue = budget.NewQueue(e.limits.Running)
}

// Pools returns the shared pools by name, for metrics. You may call it before Open.
func (e *Engine) Pools() map[string]*budget.Pool {
	e.shared.Do(e.share)
	return map[string]*budget.Pool{
		"database_memory": e.memory, "database_streams": e.streams, "database_connections": e.connections,
		"database_forwards": e.forwards,
	}
}

// useTemporary sets the directory for SQLite's temporary files. The setting is global to the process, and
// only this pragma changes it.
func useTemporary(dir string) error {
	c, err := sqlite.Open(":memory:", []string{"temp_store_directory = '" + strings.ReplaceAll(dir, "'", "''") + "'"})
	if err != nil {
		return fmt.Errorf("set directory of temporary files: %w", err)
	}
	return c.Close()
}

// beginStatement calls Begin, and returns the function to call at the statement's end.
func (e *Engine) beginStatement(ctx context.Context) (end func(error)) {
	if e.Begin != nil {
		if end := e.Begin(ctx, "statement"); end != nil {
			return end
		}
	}
	return func(error) {}
}

func (e *Engine) now() time.Time {
	if e.Now == nil {
		return time.Now()
	}
	return e.Now()
}

// Name implements resource.Engine.
func (e *Engine) Name() string { return "libsql" }

// Local implements resource.Engine.
func (e *Engine) Local() bool { return true }

// Check implements resource.Engine.
func (e *Engine) Check(context.Context) error {
	if _, err := os.Stat(e.Dir); err != nil {
		return errs.Unavailablef(err, "the directory of databases cannot be used")
	}
	return nil
}

// Connection implements resource.Engine.
func (e *Engine) Connection(p *resource.Provisioned) resource.Connection {
	url := e.BaseURL + "/db/" + p.ID + "/"
	return resource.Connection{URL: url, Env: map[string]string{"DATABASE_URL": url, "DATABASE_AUTH_TOKEN": p.Password}}
}

// Create implements resource.Engine.
func (e *Engine) Create(_ context.Context, p *resource.Provisioned) error {
	if err := e.onThisNode(p); err != nil {
		return err
	}
	if e.disk.Low(e.now()) {
		return errs.Unavailablef(nil, "the server's disk is almost full")
	}
	path, err := e.path(p.ID)
	if err != nil {
		return err
	}
	if err := createFile(path); err != nil {
		return fmt.Errorf("create database: %w", err)
	}
	return nil
}

// Rotate implements resource.Engine.
func (e *Engine) Rotate(_ context.Context, p *resource.Provisioned) error {
	e.lookups.Forget()
	e.passed.cut(p.ID, tokenOf(p.Password))
	if d := e.opened(p.ID); d != nil {
		d.closeOthers(tokenOf(p.Password))
	}
	return nil
}

// Delete implements resource.Engine. If another node has the files, Delete only ends the requests that we
// forward, and resource.Manager asks that node to remove them.
func (e *Engine) Delete(_ context.Context, p *resource.Provisioned) error {
	e.lookups.Forget()
	if p.Node != e.Node {
		e.passed.cut(p.ID, token{})
		return nil
	}
	path, err := e.path(p.ID)
	if err != nil {
		return err
	}
	d := e.beginDeletion(p.ID)
	defer e.endDeletion(p.ID)
	if d != nil {
		d.close()
	}
	if err := removeFiles(path); err != nil {
		return fmt.Errorf("delete database: %w", err)
	}
	e.usage.Forget(p.ID)
	return nil
}

// beginDeletion makes the engine refuse requests for a database, and returns the database if it is open.
func (e *Engine) beginDeletion(id string) *database {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deleting[id]++
	d := e.open[id]
	delete(e.open, id)
	return d
}

func (e *Engine) endDeletion(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deleting[id]--
	if e.deleting[id] == 0 {
		delete(e.deleting, id)
	}
}

// onThisNode returns Unavailable if another data directory has the database's files.
func (e *Engine) onThisNode(p *resource.Provisioned) error {
	if p.Node == e.Node {
		return nil
	}
	return errs.Unavailablef(nil, "the database is on another node (%s), which does not answer here", p.Node)
}

// begin begins a session with a database, and opens it if necessary.
func (e *Engine) begin(ctx context.Context, p *resource.Provisioned) (context.Context, *session, error) {
	path, err := e.path(p.ID)
	if err != nil {
		return ctx, nil, err
	}
	for {
		d := e.database(p, path)
		if d == nil {
			return ctx, nil, errClosed.withStatus(http.StatusServiceUnavailable)
		}
		if ctx, s, ok := d.begin(ctx, tokenOf(p.Password)); ok {
			return ctx, s, nil
		}
		e.forgetClosed(d)
	}
}

// database opens a database if necessary. It returns nil if the database is being deleted.
func (e *Engine) database(p *resource.Provisioned, path string) *database {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || e.deleting[p.ID] > 0 {
		return nil
	}
	d := e.open[p.ID]
	if d == nil {
		d = newDatabase(e, p, path)
		e.open[p.ID] = d
		select {
		case e.busy <- struct{}{}:
		default: // Run already knows
		}
	}
	return d
}

func (e *Engine) forgetClosed(d *database) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.open[d.id] == d {
		delete(e.open, d.id)
	}
}

// opened returns a database if it is open.
func (e *Engine) opened(id string) *database {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.open[id]
}

func (e *Engine) openDatabases() []*database {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Collect(maps.Values(e.open))
}

// Close ends all sessions and closes all files.
func (e *Engine) Close(context.Context) error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	for _, d := range e.openDatabases() {
		d.close()
		e.forgetClosed(d)
	}
	for _, id := range e.passed.ids() {
		e.passed.cut(id, token{})
	}
	return nil
}
