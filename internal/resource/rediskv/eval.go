package rediskv

import (
	"context"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"steward/internal/resource"
)

// ownKey returns a store's key, given with or without the store's prefix.
func (e *Engine) ownKey(id, key string) string {
	if strings.HasPrefix(key, prefix(id)) || strings.HasPrefix(key, taggedPrefix(id)) {
		return key
	}
	return e.prefix(id) + key
}

// Eval runs a script on a key, given with or without the store's prefix.
func (e *Engine) Eval(ctx context.Context, p *resource.Provisioned, script resource.Script) (any, error) {
	args := []any{"EVAL", script.Text, 1, e.ownKey(p.ID, script.Key)}
	for _, arg := range script.Args {
		args = append(args, arg)
	}
	var reply any
	err := e.do(ctx, "run a script", func(ctx context.Context) (err error) {
		reply, err = e.admin.Do(ctx, args...).Result()
		return err
	})
	var refused redis.Error
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case errors.As(err, &refused) && !unavailable(refused):
		return nil, resource.ReplyError(refused.Error())
	}
	return reply, err
}
