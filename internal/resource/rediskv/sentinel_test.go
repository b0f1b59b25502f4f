package rediskv_test

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/resource/enginetest"
	"steward/internal/resource/rediskv"
	"steward/internal/resource/rediskv/redistest"
	"steward/internal/waittest"
)

// connectToMaster connects to the master that the sentinels name.
func connectToMaster(ctx context.Context, c resource.Connection) (enginetest.Client, error) {
	first, _, _ := strings.Cut(c.Env["REDIS_SENTINELS"], ",")
	s := redis.NewSentinelClient(&redis.Options{Addr: first})
	defer func() { _ = s.Close() }()
	master, err := s.GetMasterAddrByName(ctx, c.Env["REDIS_SENTINEL_MASTER"]).Result()
	if err != nil {
		return nil, err
	}
	return connectTo(ctx, c, strings.Join(master, ":"))
}

// startSentinels starts servers with sentinels that have found the replica, and an engine for them.
func startSentinels(t *testing.T, args ...string) (*redistest.Sentinels, *rediskv.Engine) {
	t.Helper()
	servers := redistest.StartSentinels(t, args...)
	e := open(t, servers.URL)
	p := create(t, e)
	waittest.True(t, "the replica to be known", func() bool {
		must(t, e.Create(t.Context(), p))
		return dial(t, servers.Servers[1].URL).Do(t.Context(), "ACL", "GETUSER", p.ID).Err() == nil
	})
	must(t, e.Delete(t.Context(), p))
	return servers, e
}

func TestSentinels(t *testing.T) {
	t.Parallel() // most of it waits for the servers
	servers, e := startSentinels(t)
	fixture := func(*testing.T, *enginetest.Rows) enginetest.Fixture {
		return enginetest.Fixture{Engine: e, Type: resource.KV, Connect: connectToMaster, Redis: fromEnv}
	}
	enginetest.Run(t, fixture)
	enginetest.RunKeys(t, fixture)
	t.Run("failover", func(t *testing.T) { testFailover(t, servers, e) })
}

// testFailover stops the master. The users are on the replica already. Then the old master returns
// without users.
func testFailover(t *testing.T, servers *redistest.Sentinels, e *rediskv.Engine) {
	ctx := t.Context()
	servers.Sentinels[0].Stop()
	p := create(t, e)
	all := []*resource.Provisioned{p}
	must(t, e.Ensure(ctx, all))
	key := e.Connection(p).Env["REDIS_KEY_PREFIX"] + "a"
	client := use(t, e, p)
	must(t, client.Set(ctx, key, "1", 0).Err())
	servers.Sentinels[0].Restart()
	old := servers.Servers[0]
	old.Stop()
	waittest.True(t, "the replica to become the master", func() bool { return client.Set(ctx, key, "2", 0).Err() == nil })
	changed := *p
	changed.Password = id.Secret(43)
	waittest.True(t, "a rotation on the new master", func() bool { return e.Rotate(ctx, &changed) == nil })
	if !enters(t, e, &changed, servers.Servers[1]) || enters(t, e, p, servers.Servers[1]) {
		t.Error("the new master has not the new password")
	}
	must(t, use(t, e, &changed).Set(ctx, key, "3", 0).Err())

	old.Restart()
	waittest.True(t, "the user on the old master", func() bool {
		_ = e.Ensure(ctx, []*resource.Provisioned{&changed})
		return enters(t, e, &changed, old)
	})
	waittest.True(t, "all servers to be used", func() bool { return e.Check(ctx) == nil })
	must(t, e.Delete(ctx, &changed))
	if enters(t, e, &changed, old) || enters(t, e, &changed, servers.Servers[1]) {
		t.Error("a deleted user is let in")
	}
	if left, err := dial(t, servers.Servers[1].URL).Exists(ctx, key).Result(); err != nil || left != 0 {
		t.Errorf("%d keys are left, %v", left, err)
	}
}

func TestSentinelsWithTLS(t *testing.T) {
	t.Parallel() // most of it waits for the servers
	_, e := startSentinels(t, redistest.Certificate(t)...)
	must(t, e.Check(t.Context()))
	p := create(t, e)
	if url := e.Connection(p).URL; !strings.HasPrefix(url, "rediss-sentinel://") {
		t.Errorf("URL %s", url)
	}
	if _, err := e.Keys(t.Context(), p, resource.KeyQuery{Limit: 10}); err != nil {
		t.Error(err)
	}
}

func TestUnknownMasterIsAFault(t *testing.T) {
	servers, _ := startSentinels(t)
	err := open(t, strings.Replace(servers.URL, "/"+redistest.Master, "/another", 1)).Check(t.Context())
	if errs.KindOf(err) != errs.Internal || !strings.Contains(err.Error(), "no master named another") {
		t.Errorf("another name: %v", err)
	}
	for _, s := range servers.Sentinels {
		s.Stop()
	}
	if err := open(t, servers.URL).Check(t.Context()); errs.KindOf(err) != errs.Unavailable {
		t.Errorf("no sentinel: %v", err)
	}
}
