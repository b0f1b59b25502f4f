package embedkv

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"steward/internal/errs"
	"steward/internal/resource"
)

// Eval runs a script on a key. It connects as a client, so it works on any node and stays within the
// limits that the store's clients share.
func (e *Engine) Eval(ctx context.Context, p *resource.Provisioned, script resource.Script) (any, error) {
	if err := e.reachable(p); err != nil {
		return nil, err
	}
	client := redis.NewClient(e.clientOptions(p))
	defer func() { _ = client.Close() }()
	args := []any{"EVAL", script.Text, 1, script.Key}
	for _, arg := range script.Args {
		args = append(args, arg)
	}
	reply, err := client.Do(ctx, args...).Result()
	var refused redis.Error
	switch {
	case err == nil:
		return reply, nil
	case errors.Is(err, redis.Nil):
		return nil, nil
	case errors.As(err, &refused) && !busy(refused.Error()):
		return nil, resource.ReplyError(refused.Error())
	}
	return nil, errs.Unavailablef(err, "the key-value store cannot be used now")
}

// clientOptions returns options for a client inside this process.
func (e *Engine) clientOptions(p *resource.Provisioned) *redis.Options {
	return &redis.Options{
		Dialer: e.dialPipe, Username: p.ID, Password: p.Password, Protocol: 2, PoolSize: 1, PipelinePoolSize: -1, MaxRetries: -1,
		ContextTimeoutEnabled: true, DisableIdentity: true,
	}
}

// Client returns a client for a local store, to copy all its keys. The caller must close it.
// Limits.Loading must be long enough to open the largest store.
func (e *Engine) Client(p *resource.Provisioned) (*redis.Client, error) {
	if err := e.mine(p); err != nil {
		return nil, err
	}
	options := e.clientOptions(p)
	options.ReadTimeout = e.Limits.Loading + time.Minute
	return redis.NewClient(options), nil
}

// dialPipe connects a client inside this process.
func (e *Engine) dialPipe(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	go e.accept(server) // it may write before the client reads
	return client, nil
}

// busy reports whether an error means that there is no slot, memory or open store for a client now.
func busy(text string) bool {
	return strings.HasSuffix(text, "try again") || text == errTooManyClients.Error() || text == errClosed.Error() ||
		strings.HasPrefix(text, "LOADING ")
}
