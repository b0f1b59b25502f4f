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

// Engine creates stores on one server, on a Redis Cluster, or on the servers that sentinels watch. It
// implements resource.Stores.
type Engine struct {
	address *address
	admin   redis.UniversalClient
	log     *slog.Logger

	ensuring sync.Mutex // held during Ensure
	mu       sync.Mutex
	clients  map[string]*redis.Client // if there are several servers, by address
	ensured  map[string]string        // run ids after the last successful Ensure, by address
}

// timeout bounds an operation, so that a server that does not answer counts as unreachable.
const timeout = time.Minute

// New returns an engine, given the URL for a user who may change users and read and delete all keys.
// docs/engines.md describes the URL's forms. New does not connect.
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

// Name returns redis, even for Valkey.
func (e *Engine) Name() string { return "redis" }

// Local returns false.
func (e *Engine) Local() bool { return false }

// Connection returns a store's URL, and the prefix that its keys must have.
func (e *Engine) Connection(p *resource.Provisioned) resource.Connection {
	return e.address.connection(p, e.prefix(p.ID))
}

// copyTimeout bounds a command that copies keys.
const copyTimeout = time.Minute

// Client returns a store's client, which the caller must close, and the prefix that its keys must have.
// The client is for copying keys: it does not retry commands, since some would take effect twice.
func (e *Engine) Client(p *resource.Provisioned) (client redis.UniversalClient, prefix string) {
	return e.address.as(p).client(), e.prefix(p.ID)
}

// Create creates a store's user, or resets it.
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

// Rotate replaces the user's password and closes the user's connections.
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

// Delete deletes a store's user, which closes the user's connections, and then the keys.
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

// unlinkCount is how many keys one SCAN examines in a deletion: many, since we scan all stores' keys, but
// few enough to let the server serve others in between.
const unlinkCount = 5000

// unlink deletes a store's keys on one server. It deletes each key with its own command, since a
// command's keys must all be in one cluster slot.
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
