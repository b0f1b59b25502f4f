package clients

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"steward/e2e/installation"
)

// TestKVClusterClients uses a store with cluster clients. It is a cluster of a single node for them once it has the
// setting cluster-enabled.
func TestKVClusterClients(t *testing.T) {
	t.Parallel()
	s := installation.StartExternal(t, "sqlite")
	kv := createStores(s, "local", []kvClient{{name: "cluster"}})["cluster"]
	out, err := exec.Command("redis-cli", "--no-auth-warning", "-u", kv.URL, "CONFIG", "SET", "cluster-enabled", "yes").CombinedOutput()
	if err != nil || string(out) != "OK\n" {
		t.Fatalf("CONFIG SET: %s (%v)", out, err)
	}
	for _, client := range []kvClient{
		{"go-redis", useGoRedisCluster},
		{"rueidis", useRueidisCluster},
		{"npm", kvProgram("node", "cluster.mjs")},
		{"redis-py", kvProgram("/usr/bin/python3", "redis_py_cluster.py")},
		{"clients for single servers", useRedisCLI},
	} {
		t.Run(client.name, func(t *testing.T) { client.use(t, kv) })
	}
}

// clusterKeys returns keys in as many slots.
func clusterKeys(prefix string) []string {
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprint(prefix, i)
	}
	return keys
}

func useGoRedisCluster(t *testing.T, kv installation.CreatedResource) {
	options, err := redis.ParseClusterURL(strings.TrimSuffix(kv.URL, "/0"))
	if err != nil {
		t.Fatal(err)
	}
	options.ReadTimeout = installation.RequestTimeout // for a busy machine
	options.ReadOnly = true                           // sends READONLY on each connection
	c := redis.NewClusterClient(options)
	defer func() { _ = c.Close() }()
	ctx := t.Context()
	keys := clusterKeys("go")
	_, err = c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			p.Set(ctx, key, key, 0)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if got, err := c.Get(ctx, key).Result(); err != nil || got != key {
			t.Errorf("%s: got %q (%v)", key, got, err)
		}
	}
	replies, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Incr(ctx, "{go}n")
		return p.IncrBy(ctx, "{go}n", 2).Err()
	})
	if err != nil || replies[1].(*redis.IntCmd).Val() != 3 {
		t.Errorf("transaction: %v (%v)", replies, err)
	}
	shards, err := c.ClusterShards(ctx).Result()
	if err != nil || len(shards) != 1 || !slices.Equal(shards[0].Slots, []redis.SlotRange{{Start: 0, End: 16383}}) {
		t.Errorf("CLUSTER SHARDS: %+v (%v)", shards, err)
	}
	masters := 0
	if err := c.ForEachMaster(ctx, func(_ context.Context, _ *redis.Client) error { masters++; return nil }); err != nil || masters != 1 {
		t.Errorf("%d masters (%v)", masters, err)
	}
}

// useRueidisCluster uses rueidis with its default settings, which finds the cluster.
func useRueidisCluster(t *testing.T, kv installation.CreatedResource) {
	u := &rueidisUser{t: t, ctx: t.Context()}
	u.c = u.connect(kv.URL, false)
	keys := clusterKeys("rueidis")
	for _, key := range keys {
		if err := u.c.Do(u.ctx, u.c.B().Set().Key(key).Value(key).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	values, err := rueidis.MGetCache(u.c, u.ctx, time.Hour, keys)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		value := values[key]
		if got, err := value.ToString(); err != nil || got != key {
			t.Errorf("%s: got %q (%v)", key, got, err)
		}
	}
	if len(u.c.Nodes()) != 1 {
		t.Errorf("nodes: %v", u.c.Nodes())
	}
}
