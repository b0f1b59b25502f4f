package embedkv

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"steward/internal/resource"
	"steward/internal/resource/enginetest"
)

func TestEngine(t *testing.T) {
	enginetest.Run(t, suiteFixture)
	enginetest.RunKeys(t, suiteFixture)
}

func suiteFixture(t *testing.T, rows *enginetest.Rows) enginetest.Fixture {
	f := start(t, func(e *Engine) { e.Rows = rows })
	rows.Changed = f.Forget
	return enginetest.Fixture{Engine: f.Engine, Type: resource.KV, Node: f.Node, Connect: connectOnce}
}

// onceClient is a client with one connection, which is not opened again when it was cut.
type onceClient struct{ redis *redis.Client } // embedding would compile a thousand methods

func connectOnce(ctx context.Context, c resource.Connection) (enginetest.Client, error) {
	o, err := redis.ParseURL(c.Env["REDIS_URL"])
	if err != nil {
		return nil, err
	}
	o.MaxRetries = -1
	o.PoolSize = 1
	connected := false
	o.OnConnect = func(context.Context, *redis.Conn) error {
		if connected {
			return errors.New("the connection was cut")
		}
		connected = true
		return nil
	}
	opened := onceClient{redis.NewClient(o)}
	if err := opened.redis.Ping(ctx).Err(); err != nil {
		opened.Close()
		return nil, err
	}
	return opened, nil
}

func (c onceClient) Set(ctx context.Context, key, value string) error {
	return c.redis.Set(ctx, key, value, 0).Err()
}

func (c onceClient) Get(ctx context.Context, key string) (string, error) {
	value, err := c.redis.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return value, err
}

func (c onceClient) Close() { _ = c.redis.Close() }
