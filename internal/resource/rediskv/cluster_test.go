package rediskv_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/resource/enginetest"
	"steward/internal/resource/rediskv"
	"steward/internal/resource/rediskv/redistest"
	"steward/internal/waittest"
)

// fromEnv returns a client with what the environment of a store says, for a server, a cluster or
// sentinels.
func fromEnv(c resource.Connection) redis.UniversalClient {
	o := &redis.UniversalOptions{
		Username: c.Env["REDIS_USERNAME"], Password: c.Env["REDIS_PASSWORD"], MasterName: c.Env["REDIS_SENTINEL_MASTER"],
	}
	for _, hosts := range []string{c.Env["REDIS_CLUSTER_NODES"], c.Env["REDIS_SENTINELS"]} {
		if hosts != "" {
			o.Addrs = strings.Split(hosts, ",")
		}
	}
	if c.Env["REDIS_CLUSTER_NODES"] != "" {
		return redis.NewClusterClient(o.Cluster())
	}
	return redis.NewFailoverClient(o.Failover())
}

// use returns fromEnv's client, which is closed when the test ends.
func use(t testing.TB, e *rediskv.Engine, p *resource.Provisioned) redis.UniversalClient {
	t.Helper()
	c := fromEnv(e.Connection(p))
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// connectToNode connects to the node of a cluster that has the keys of a store.
func connectToNode(ctx context.Context, c resource.Connection) (enginetest.Client, error) {
	several := fromEnv(c).(*redis.ClusterClient)
	defer func() { _ = several.Close() }()
	node, err := several.MasterForKey(ctx, c.Env["REDIS_KEY_PREFIX"])
	if err != nil {
		return nil, err
	}
	return connectTo(ctx, c, node.Options().Addr)
}

// connectTo connects to a server with the credentials of a store.
func connectTo(ctx context.Context, c resource.Connection, addr string) (enginetest.Client, error) {
	env := maps.Clone(c.Env)
	env["REDIS_URL"] = "redis://" + env["REDIS_USERNAME"] + ":" + env["REDIS_PASSWORD"] + "@" + addr
	return connect(ctx, resource.Connection{Env: env})
}

// enters reports whether a store's user can log in on a server.
func enters(t testing.TB, e *rediskv.Engine, p *resource.Provisioned, server *redistest.Server) bool {
	t.Helper()
	c, err := connectTo(t.Context(), e.Connection(p), server.Addr)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// TestCluster uses one cluster for all, since that takes long to start. The tests at the end change it.
func TestCluster(t *testing.T) {
	t.Parallel() // most of it waits for the servers
	servers := redistest.StartCluster(t, 1)
	c := &clusterTest{Cluster: servers, engine: open(t, servers.URL)}
	fixture := func(*testing.T, *enginetest.Rows) enginetest.Fixture {
		return enginetest.Fixture{Engine: c.engine, Type: resource.KV, Connect: connectToNode, Redis: fromEnv}
	}
	enginetest.Run(t, fixture)
	enginetest.RunKeys(t, fixture)
	t.Run("commands", c.commands)
	t.Run("subscriptions", c.subscriptions)
	t.Run("other stores", c.otherStores)
	t.Run("users are on every node", c.everyNode)
	t.Run("keys with the prefix of a single server", c.plainPrefix)
	t.Run("nodes join", c.nodesJoin)
	t.Run("a master fails", c.masterFails)
}

type clusterTest struct {
	*redistest.Cluster
	engine *rediskv.Engine
}

func (c *clusterTest) commands(t *testing.T) {
	p := create(t, c.engine)
	client := use(t, c.engine, p)
	own := c.engine.Connection(p).Env["REDIS_KEY_PREFIX"]
	ctx := t.Context()
	must(t, client.MSet(ctx, own+"a", "1", own+"b", "2", own+"c", "3").Err())
	if got, err := client.MGet(ctx, own+"a", own+"b", own+"c").Result(); err != nil || fmt.Sprint(got) != "[1 2 3]" {
		t.Errorf("MGET: %v, %v", got, err)
	}
	must(t, client.Rename(ctx, own+"a", own+"d").Err())
	must(t, client.SAdd(ctx, own+"s", "x").Err())
	must(t, client.SUnionStore(ctx, own+"s2", own+"s").Err())
	_, err := client.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.Incr(ctx, own+"d")
		tx.Incr(ctx, own+"b")
		return nil
	})
	must(t, err)
	const sum = `return redis.call('GET', KEYS[1]) + redis.call('GET', KEYS[2])`
	if got, err := redis.NewScript(sum).Run(ctx, client, []string{own + "d", own + "b"}).Int(); err != nil || got != 5 {
		t.Errorf("script: %v, %v", got, err)
	}
	for _, line := range []string{"CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES", "CLUSTER INFO", "CLUSTER MYID", "CLUSTER KEYSLOT x", "INFO"} {
		if err := c.onFirstNode(t, p, line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, line := range []string{
		"CLUSTER GETKEYSINSLOT 0 10", "CLUSTER COUNTKEYSINSLOT 0", "CLUSTER RESET", "CLUSTER FORGET x", "CLUSTER FAILOVER",
		"CLUSTER SETSLOT 0 STABLE", "CLUSTER MEET 127.0.0.1 1", "CLUSTER FLUSHSLOTS", "CLUSTER LINKS", "CLUSTER REPLICATE x",
		"CLUSTER SAVECONFIG", "CLUSTER BUMPEPOCH", "CLUSTER ADDSLOTS 0", "CLUSTER DELSLOTS 0", "SCAN 0", "FLUSHALL", "CLIENT LIST",
	} {
		if err := c.onFirstNode(t, p, line); !redis.HasErrorPrefix(err, "NOPERM") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// onFirstNode runs a command line as a store's user.
func (c *clusterTest) onFirstNode(t *testing.T, p *resource.Provisioned, line string) error {
	t.Helper()
	var args []any
	for _, word := range strings.Fields(line) {
		args = append(args, word)
	}
	return dial(t, as(t, c.Nodes[0].URL, p.ID, p.Password)).Do(t.Context(), args...).Err()
}

// subscriptions publishes on one node what clients of others hear.
func (c *clusterTest) subscriptions(t *testing.T) {
	p := create(t, c.engine)
	client := use(t, c.engine, p)
	channel := c.engine.Connection(p).Env["REDIS_KEY_PREFIX"] + "c"
	for name, sub := range map[string]*redis.PubSub{
		"SUBSCRIBE": client.Subscribe(t.Context(), channel), "SSUBSCRIBE": client.SSubscribe(t.Context(), channel),
	} {
		_, err := sub.Receive(t.Context())
		must(t, err)
		if name == "SSUBSCRIBE" {
			must(t, client.SPublish(t.Context(), channel, name).Err())
		} else {
			must(t, client.Publish(t.Context(), channel, name).Err())
		}
		if message := waittest.Receive(t, "a message", sub.Channel()); message.Payload != name {
			t.Errorf("received %q, want %q", message.Payload, name)
		}
		must(t, sub.Close())
	}
}

func (c *clusterTest) otherStores(t *testing.T) {
	victim := create(t, c.engine)
	secret := c.engine.Connection(victim).Env["REDIS_KEY_PREFIX"] + "secret"
	must(t, use(t, c.engine, victim).Set(t.Context(), secret, "1", 0).Err())
	other := create(t, c.engine)
	for _, node := range c.Nodes {
		client := dial(t, as(t, node.URL, other.ID, other.Password))
		must(t, client.ReadOnly(t.Context()).Err())
		for _, err := range []error{client.Get(t.Context(), secret).Err(), client.Set(t.Context(), secret, "2", 0).Err()} {
			if !redis.HasErrorPrefix(err, "NOPERM") {
				t.Errorf("%s: %v", node.Addr, err)
			}
		}
	}
}

func (c *clusterTest) everyNode(t *testing.T) {
	p := create(t, c.engine)
	changed := *p
	changed.Password = id.Secret(43)
	expect := func(when string, p *resource.Provisioned, want bool) {
		t.Helper()
		for _, node := range c.Nodes {
			if got := enters(t, c.engine, p, node); got != want {
				t.Errorf("%s, the user of %s is let in: %v, want %v", when, node.Addr, got, want)
			}
		}
	}
	expect("after the creation", p, true)
	must(t, c.engine.Rotate(t.Context(), &changed))
	expect("after the rotation, with the old password", p, false)
	expect("after the rotation", &changed, true)
	must(t, c.engine.Delete(t.Context(), &changed))
	expect("after the deletion", &changed, false)
}

// plainPrefix lists and deletes keys that were moved from a single server, which are on all masters.
func (c *clusterTest) plainPrefix(t *testing.T) {
	p := create(t, c.engine)
	kept := create(t, c.engine)
	admin := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.Nodes[0].Addr}, Password: redistest.Password})
	t.Cleanup(func() { _ = admin.Close() })
	ctx := t.Context()
	pipe := admin.Pipeline()
	var want []string
	for i := range 500 {
		for _, prefix := range []string{p.ID + ":", "{" + p.ID + "}:"} {
			key := fmt.Sprintf("%sk%03d", prefix, i)
			want = append(want, key)
			pipe.Set(ctx, key, "1", 0)
		}
		pipe.Set(ctx, fmt.Sprintf("%s:k%03d", kept.ID, i), "1", 0)
		pipe.Set(ctx, fmt.Sprintf("%s:%s:%03d", kept.ID, p.ID, i), "1", 0)
	}
	_, err := pipe.Exec(ctx)
	must(t, err)
	slices.Sort(want)
	for _, limit := range []int{7, 100, 5000} {
		got, _ := list(t, c.engine, p, "", limit)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
	if got, _ := list(t, c.engine, p, p.ID+":k00", 100); len(got) != 10 {
		t.Errorf("by one prefix: %v", got)
	}
	must(t, use(t, c.engine, p).Incr(ctx, p.ID+":k001").Err())
	must(t, c.engine.Delete(ctx, p))
	if got, _ := list(t, c.engine, p, "", 100); len(got) != 0 {
		t.Errorf("after the deletion: %v", got)
	}
	if got, _ := list(t, c.engine, kept, "", 5000); len(got) != 1000 {
		t.Errorf("another store has %d keys, want 1000", len(got))
	}
	must(t, c.engine.Delete(ctx, kept))
}

// nodesJoin has a replica join, and a master that has no slots yet.
func (c *clusterTest) nodesJoin(t *testing.T) {
	p := create(t, c.engine)
	all := []*resource.Provisioned{p}
	must(t, c.engine.Ensure(t.Context(), all))
	for _, replica := range []bool{true, false} {
		node := c.StartNode()
		c.Join(node, replica)
		waittest.True(t, "the user on the new node", func() bool {
			must(t, c.engine.Ensure(t.Context(), all))
			return enters(t, c.engine, p, node)
		})
	}
}

func (c *clusterTest) masterFails(t *testing.T) {
	p := create(t, c.engine)
	key := c.engine.Connection(p).Env["REDIS_KEY_PREFIX"] + "a"
	client := use(t, c.engine, p).(*redis.ClusterClient)
	must(t, client.Set(t.Context(), key, "1", 0).Err())
	master, err := client.MasterForKey(t.Context(), key)
	must(t, err)
	failed := slices.IndexFunc(c.Nodes, func(s *redistest.Server) bool { return s.Addr == master.Options().Addr })
	c.Nodes[failed].Stop()
	waittest.True(t, "the replica to become the master", func() bool {
		// The node that was asked when the user was made may not have known the replica that joined last.
		_ = c.engine.Ensure(t.Context(), []*resource.Provisioned{p}) // fails while the nodes disagree
		client.ReloadState(t.Context())                              // else once a minute
		return client.Set(t.Context(), key, "2", 0).Err() == nil
	})
	waittest.True(t, "a rotation without the failed node", func() bool { return c.engine.Rotate(t.Context(), p) == nil })
	changed := *p
	changed.Password = id.Secret(43)
	must(t, c.engine.Rotate(t.Context(), &changed))
	c.Nodes[failed].Restart()
	waittest.True(t, "the user on the node that is back", func() bool {
		_ = c.engine.Ensure(t.Context(), []*resource.Provisioned{&changed}) // fails while the node loads
		return enters(t, c.engine, &changed, c.Nodes[failed])
	})
	must(t, use(t, c.engine, &changed).Incr(t.Context(), key).Err())
	must(t, c.engine.Delete(t.Context(), &changed))
}

func TestClusterWithTLS(t *testing.T) {
	t.Parallel() // most of it waits for the servers
	servers := redistest.StartCluster(t, 0, redistest.Certificate(t)...)
	e := open(t, servers.URL)
	must(t, e.Check(t.Context()))
	p := create(t, e)
	connection := e.Connection(p)
	if !strings.HasPrefix(connection.URL, "rediss://") {
		t.Errorf("URL %s", connection.URL)
	}
	o, err := redis.ParseURL(connection.URL + "?skip_verify=true")
	must(t, err)
	c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{o.Addr}, Username: o.Username, Password: o.Password, TLSConfig: o.TLSConfig})
	t.Cleanup(func() { _ = c.Close() })
	must(t, c.Set(t.Context(), connection.Env["REDIS_KEY_PREFIX"]+"a", "1", 0).Err())
	must(t, e.Delete(t.Context(), p))
}
