package rediskv

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"steward/internal/resource"
)

// Engine creates stores on one server. It is a resource.Stores.
type Engine struct {
	admin  *redis.Client
	scheme string // redis or rediss
	log    *slog.Logger

	mu    sync.Mutex
	runID string // the server's, when Ensure last succeeded
}

// timeout bounds an operation, so that a server that does not answer counts as unreachable.
const timeout = time.Minute

// New returns the engine for a server, given the URL of a user who may change users and read and
// delete all keys. It does not connect.
func New(adminURL string, log *slog.Logger) (*Engine, error) {
	o, err := redis.ParseURL(adminURL)
	if err != nil { // it may contain the password
		return nil, errors.New("expected redis://user:password@host:port or rediss://user:password@host:port")
	}
	if o.Network != "tcp" {
		return nil, errors.New("expected a redis:// or rediss:// URL, so that clients can reach the server as well")
	}
	if o.DB != 0 {
		return nil, errors.New("expected database 0: the stores are separated by key prefixes in it")
	}
	o.Protocol = 2
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.PoolSize = 8
	o.MaxRetries = 1 // so that a server that does not answer is reported soon
	scheme := "redis"
	if o.TLSConfig != nil {
		scheme = "rediss"
	}
	return &Engine{admin: redis.NewClient(o), scheme: scheme, log: log}, nil
}

// Close closes the connections to the server.
func (e *Engine) Close() error { return e.admin.Close() }

// Name returns redis, for Valkey as well.
func (e *Engine) Name() string { return "redis" }

// Local returns false.
func (e *Engine) Local() bool { return false }

// Connection returns the URL of a store, and the prefix that its keys must have.
func (e *Engine) Connection(p *resource.Provisioned) resource.Connection {
	u := url.URL{Scheme: e.scheme, User: url.UserPassword(p.ID, p.Password), Host: e.admin.Options().Addr, Path: "/0"}
	return resource.Connection{
		URL: u.String(),
		Env: map[string]string{"REDIS_URL": u.String(), "REDIS_KEY_PREFIX": prefix(p.ID)},
	}
}

// Create creates the user of a store, or resets it to what it should be.
func (e *Engine) Create(ctx context.Context, p *resource.Provisioned) error {
	return e.do(ctx, "create user", func(ctx context.Context) error {
		if err := e.setUser(ctx, p); err != nil {
			return err
		}
		return e.save(ctx)
	})
}

// Rotate replaces the password of a store's user and closes the user's connections.
func (e *Engine) Rotate(ctx context.Context, p *resource.Provisioned) error {
	return e.do(ctx, "change the password of a user", func(ctx context.Context) error {
		if err := e.setUser(ctx, p); err != nil {
			return err
		}
		if err := e.admin.ClientKillByFilter(ctx, "USER", p.ID).Err(); err != nil {
			return err
		}
		return e.save(ctx)
	})
}

// Delete deletes the user of a store, which closes the user's connections, and then the keys.
func (e *Engine) Delete(ctx context.Context, p *resource.Provisioned) error {
	return e.do(ctx, "delete user", func(ctx context.Context) error {
		if err := e.admin.ACLDelUser(ctx, p.ID).Err(); err != nil {
			return err
		}
		if err := e.save(ctx); err != nil {
			return err
		}
		return e.unlink(ctx, p.ID)
	})
}

// do runs an operation within the timeout.
func (e *Engine) do(ctx context.Context, what string, run func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return e.explain(what, run(ctx))
}

func (e *Engine) setUser(ctx context.Context, p *resource.Provisioned) error {
	commands, err := e.commands(ctx)
	if err != nil {
		return err
	}
	return e.admin.ACLSetUser(ctx, p.ID, rules(p, commands)...).Err()
}

// save writes the users to the server's ACL file, if it has one.
func (e *Engine) save(ctx context.Context) error {
	err := e.admin.Do(ctx, "ACL", "SAVE").Err()
	if err != nil && strings.Contains(err.Error(), "not configured to use an ACL file") {
		return nil
	}
	return err
}

// unlinkCount is how many keys of the server one SCAN of a deletion looks at: many, since the keys of
// all stores are scanned, but few enough for the server to serve others meanwhile.
const unlinkCount = 5000

// unlink deletes the keys of a store.
func (e *Engine) unlink(ctx context.Context, id string) error {
	var cursor uint64
	for {
		keys, next, err := e.admin.Scan(ctx, cursor, literal(prefix(id))+"*", unlinkCount).Result()
		if err != nil {
			return err
		}
		if len(keys) > 0 {
			if err := e.admin.Unlink(ctx, keys...).Err(); err != nil {
				return err
			}
		}
		if next == 0 {
			return nil
		}
		cursor = next
	}
}

// Ensure creates the users that are missing, if the server was started since the last call: without
// an ACL file it has forgotten them.
func (e *Engine) Ensure(ctx context.Context, stores []*resource.Provisioned) error {
	return e.do(ctx, "create missing users", func(ctx context.Context) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		info, err := e.info(ctx)
		if err != nil || info["run_id"] == e.runID {
			return err
		}
		if err := e.createMissing(ctx, stores); err != nil {
			return err
		}
		e.runID = info["run_id"]
		return nil
	})
}

func (e *Engine) createMissing(ctx context.Context, stores []*resource.Provisioned) error {
	users, err := e.admin.Do(ctx, "ACL", "USERS").StringSlice()
	if err != nil {
		return err
	}
	slices.Sort(users)
	created := 0
	for _, p := range stores {
		_, found := slices.BinarySearch(users, p.ID)
		if found || p.State != resource.Active && p.State != resource.Rotating {
			continue
		}
		if err := e.setUser(ctx, p); err != nil {
			return err
		}
		created++
	}
	if created == 0 {
		return nil
	}
	e.log.Info("created users that Redis had forgotten", "address", e.admin.Options().Addr, "users", created)
	return e.save(ctx)
}

// info returns what the server says about itself.
func (e *Engine) info(ctx context.Context) (map[string]string, error) {
	text, err := e.admin.Info(ctx).Result()
	if err != nil {
		return nil, err
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		info[name] = value
	}
	return info, nil
}

// describe returns the address of the server for messages.
func (e *Engine) describe() string { return fmt.Sprintf("Redis at %s", e.admin.Options().Addr) }
