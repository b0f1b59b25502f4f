package rediskv

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"

	"steward/internal/resource"
)

// Ensure sets the stores' users on servers that have started or joined since the last call. Without an
// ACL file a server has forgotten its users. With one it may have missed changes, or have rules from an
// earlier version of Steward.
func (e *Engine) Ensure(ctx context.Context, stores []*resource.Provisioned) error {
	return e.do(ctx, "set users", func(ctx context.Context) error {
		e.ensuring.Lock()
		defer e.ensuring.Unlock()
		return e.each(ctx, func(ctx context.Context, server *redis.Client) error {
			return e.ensureServer(ctx, server, stores)
		})
	})
}

func (e *Engine) ensureServer(ctx context.Context, server *redis.Client, stores []*resource.Provisioned) error {
	info, err := serverInfo(ctx, server)
	if err != nil || e.isEnsured(server, info["run_id"]) {
		return err
	}
	if err := e.setUsers(ctx, server, stores); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ensured[server.Options().Addr] = info["run_id"]
	return nil
}

func (e *Engine) isEnsured(server *redis.Client, runID string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ensured[server.Options().Addr] == runID
}

// setUsers sets all users on one server.
func (e *Engine) setUsers(ctx context.Context, server *redis.Client, stores []*resource.Provisioned) error {
	users, err := server.Do(ctx, "ACL", "USERS").StringSlice()
	if err != nil {
		return err
	}
	slices.Sort(users)
	commands, err := e.commands(ctx, server)
	if err != nil {
		return err
	}
	created := 0
	for _, p := range stores {
		if p.State != resource.Active && p.State != resource.Rotating {
			continue
		}
		_, found := slices.BinarySearch(users, p.ID)
		if found {
			err = resetUser(ctx, server, p, commands)
		} else {
			err = server.ACLSetUser(ctx, p.ID, rules(p, commands)...).Err()
			created++
		}
		if err != nil {
			return err
		}
	}
	if created > 0 {
		e.log.Info("created users that a Redis server did not have", "address", server.Options().Addr, "users", created)
	}
	return save(ctx, server)
}

// resetUser sets an existing user's rules. If the password has changed, it closes the user's connections.
func resetUser(ctx context.Context, server *redis.Client, p *resource.Provisioned, commands []string) error {
	user, err := getUser(ctx, server, p.ID)
	if err != nil {
		return err
	}
	if err := server.ACLSetUser(ctx, p.ID, rules(p, commands)...).Err(); err != nil {
		return err
	}
	if passwords, _ := user["passwords"].([]any); slices.Contains(passwords, any(passwordHash(p))) {
		return nil
	}
	return server.ClientKillByFilter(ctx, "USER", p.ID).Err()
}
