package rediskv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// slotsOfSentinels presents the servers that sentinels watch as a cluster where the master has all slots.
func (a *address) slotsOfSentinels(ctx context.Context) ([]redis.ClusterSlot, error) {
	addrs, err := a.watched(ctx)
	if err != nil {
		return nil, err
	}
	return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: addrs[0]}}}}, nil
}

// watched returns the addresses that sentinels watch: the master, then the replicas. It asks one sentinel
// after another, starting with the one that last answered.
func (a *address) watched(ctx context.Context) ([]string, error) {
	var failed error
	first := a.answered.Load()
	for i := range a.hosts {
		at := (int(first) + i) % len(a.hosts)
		addrs, err := a.askSentinel(ctx, a.hosts[at])
		if err == nil {
			a.answered.Store(int64(at))
			return addrs, nil
		}
		failed = errors.Join(failed, fmt.Errorf("sentinel %s: %w", a.hosts[at], err))
	}
	return nil, failed
}

// askSentinel returns the master, then the replicas that are not down.
func (a *address) askSentinel(ctx context.Context, host string) ([]string, error) {
	o := *a.options
	o.Addr = host
	o.Username = a.sentinelUser.Username()
	o.Password, _ = a.sentinelUser.Password()
	o.MaxRetries = -1 // we ask another sentinel instead
	c := redis.NewSentinelClient(&o)
	defer func() { _ = c.Close() }()
	master, err := c.GetMasterAddrByName(ctx, a.master).Result()
	if errors.Is(err, redis.Nil) {
		return nil, fault("it knows no master named " + a.master)
	}
	if err != nil {
		return nil, err
	}
	addrs := []string{net.JoinHostPort(master[0], master[1])}
	replicas, err := c.Replicas(ctx, a.master).Result()
	for _, r := range replicas {
		if !isDown(r["flags"]) {
			addrs = append(addrs, net.JoinHostPort(r["ip"], r["port"]))
		}
	}
	return addrs, err
}

// isDown reports whether a replica's flags say that it cannot be reached. One that is only disconnected may
// serve clients: sentinels cut their own connections to it when they make it a replica. If we skipped it,
// it would keep deleted users and old passwords.
func isDown(flags string) bool {
	return slices.ContainsFunc(strings.Split(flags, ","), func(flag string) bool { return flag == "s_down" || flag == "o_down" })
}
