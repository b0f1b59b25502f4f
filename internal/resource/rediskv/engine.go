package rediskv

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"steward/internal/resource"
)

// Engine creates stores on one server, on a Redis Cluster, or on the servers of sentinels. It is a
// resource.Stores.
type Engine struct {
	address *address
	admin   redis.UniversalClient
	log     *slog.Logger

	ensuring sync.Mutex // held by Ensure
	mu       sync.Mutex
	clients  map[string]*redis.Client // of several servers, by address
	ensured  map[string]string        // run ids, by address, when Ensure last succeeded
}

// timeout bounds an operation, so that a server that does not answer counts as unreachable.
const timeout = time.Minute

// New returns the engine for a server, given the URL of a user who may change users and read and
// delete all keys. docs/engines.md has the forms of the URL. It does not connect.
func New(adminURL string, log *slog.Logger) (*Engine, error) {
	a, err := parseAddress(adminURL)
	if err != nil {
		return nil, err
	}
	return &Engine{address: a, admin: a.client(), log: log, ensured: map[string]string{}}, nil
}

// Close closes the connections to the servers.
func (e *Engine) Close() error {
	e.clientsOf(nil)
	return e.admin.Close()
}

// Name returns redis, for Valkey as well.
func (e *Engine) Name() string { return "redis" }

// Local returns false.
func (e *Engine) Local() bool { return false }

// Connection returns the URL of a store, and the prefix that its keys must have.
func (e *Engine) Connection(p *resource.Provisioned) resource.Connection {
	return e.address.connection(p, e.prefix(p.ID))
}

// copyTimeout is how long commands that copy keys may take.
const copyTimeout = time.Minute

// Client returns a client of a store, which has to be closed, and the prefix that its keys must have. It is for
// copying keys: it does not repeat commands, since some would have an effect twice.
func (e *Engine) Client(p *resource.Provisioned) (client redis.UniversalClient, prefix string) {
	return e.address.as(p).client(), e.prefix(p.ID)
}

// Create creates the user of a store, or resets it to what it should be.
func (e *Engine) Create(ctx context.Context, p *resource.Provisioned) error {
	return e.do(ctx, "create user", func(ctx context.Context) error {
		return e.each(ctx, func(ctx context.Context, server *redis.Client) error {
			if err := e.setUser(ctx, server, p); err != nil {
				return err
			}
			return save(ctx, server)
		})
	})
}

// Rotate replaces the password of a store's user and closes the user's connections.
func (e *Engine) Rotate(ctx context.Context, p *resource.Provisioned) error {
	return e.do(ctx, "change the password of a user", func(ctx context.Context) error {
		return e.each(ctx, func(ctx context.Context, server *redis.Client) error {
			if err := e.setUser(ctx, server, p); err != nil {
				return err
			}
			if err := server.ClientKillByFilter(ctx, "USER", p.ID).Err(); err != nil {
				return err
			}
			return save(ctx, server)
		})
	})
}

// Delete deletes the user of a store, which closes the user's connections, and then the keys.
func (e *Engine) Delete(ctx context.Context, p *resource.Provisioned) error {
	return e.do(ctx, "delete user", func(ctx context.Context) error {
		err := e.each(ctx, func(ctx context.Context, server *redis.Client) error {
			if err := server.ACLDelUser(ctx, p.ID).Err(); err != nil {
				return err
			}
			return save(ctx, server)
		})
		if err != nil {
			return err
		}
		return e.eachMaster(ctx, func(ctx context.Context, server *redis.Client) error { return e.unlink(ctx, server, p.ID) })
	})
}

// do runs an operation within the timeout.
func (e *Engine) do(ctx context.Context, what string, run func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return e.explain(what, run(ctx))
}

func (e *Engine) setUser(ctx context.Context, server *redis.Client, p *resource.Provisioned) error {
	commands, err := e.commands(ctx, server)
	if err != nil {
		return err
	}
	return server.ACLSetUser(ctx, p.ID, rules(p, commands)...).Err()
}

// save writes the users to the server's ACL file, if it has one.
func save(ctx context.Context, server *redis.Client) error {
	err := server.Do(ctx, "ACL", "SAVE").Err()
	if err != nil && strings.Contains(err.Error(), "not configured to use an ACL file") {
		return nil
	}
	return err
}

// unlinkCount is how many keys of the server one SCAN of a deletion looks at: many, since the keys of
// all stores are scanned, but few enough for the server to serve others meanwhile.
const unlinkCount = 5000

// unlink deletes the keys of a store that a server has. Each is deleted by a command of its own, since
// those of one command must be in one slot of a cluster.
func (e *Engine) unlink(ctx context.Context, server *redis.Client, id string) error {
	own := ownKeys(id, "")
	var cursor uint64
	for {
		found, next, err := server.Scan(ctx, cursor, own.match, unlinkCount).Result()
		if err != nil {
			return err
		}
		pipe := e.admin.Pipeline()
		for _, key := range own.filter(found) {
			pipe.Unlink(ctx, key)
		}
		if pipe.Len() > 0 {
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
		}
		if next == 0 {
			return nil
		}
		cursor = next
	}
}
