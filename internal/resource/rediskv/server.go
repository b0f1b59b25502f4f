package rediskv

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// each calls do for every server at the same time, masters and replicas, since each has its own users. It
// returns one error. It leaves out servers that the cluster or the sentinels consider failed; Ensure sets
// their users when they are back.
func (e *Engine) each(ctx context.Context, do func(context.Context, *redis.Client) error) error {
	if only, ok := e.admin.(*redis.Client); ok {
		return do(ctx, only)
	}
	addrs, err := e.servers(ctx)
	if err != nil {
		return err
	}
	var group errgroup.Group
	for _, server := range e.clientsOf(addrs) {
		group.Go(func() error { return do(ctx, server) })
	}
	return group.Wait()
}

// servers returns the addresses of all servers in the cluster, or of those that sentinels watch.
func (e *Engine) servers(ctx context.Context) ([]string, error) {
	if e.address.form == sentinel {
		return e.address.watched(ctx)
	}
	text, err := e.admin.ClusterNodes(ctx).Result()
	if err != nil {
		return nil, err
	}
	host, _, _ := net.SplitHostPort(e.address.hosts[0])
	return nodeAddresses(text, host)
}

// nodeAddresses returns the addresses in a reply to CLUSTER NODES. A line begins with "id
// ip:port@bus[,hostname] flag,flag". The result includes nodes without slots, and replicas that have not
// copied all keys yet. If a cluster has only one node, that node does not know its ip, and we use the
// host in only.
func nodeAddresses(text, only string) ([]string, error) {
	var addrs []string
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return nil, fault("unexpected reply to CLUSTER NODES")
		}
		flags := strings.Split(fields[2], ",")
		gone := func(flag string) bool { return flag == "fail" || flag == "handshake" || flag == "noaddr" }
		if !slices.ContainsFunc(flags, gone) {
			addr, _, _ := strings.Cut(fields[1], "@")
			colon := strings.LastIndex(addr, ":") // IPv6 addresses have no brackets here
			addrs = append(addrs, net.JoinHostPort(cmp.Or(addr[:max(colon, 0)], only), addr[colon+1:]))
		}
	}
	return addrs, nil
}

// clientsOf returns a client for each address. It closes all other clients, and forgets that Ensure has
// succeeded on their servers.
func (e *Engine) clientsOf(addrs []string) []*redis.Client {
	e.mu.Lock()
	defer e.mu.Unlock()
	clients := map[string]*redis.Client{}
	for _, addr := range addrs {
		clients[addr] = e.clients[addr]
		if clients[addr] == nil {
			clients[addr] = e.address.clientOf(addr)
		}
	}
	for addr, client := range e.clients {
		if clients[addr] == nil {
			_ = client.Close()
			delete(e.ensured, addr)
		}
	}
	e.clients = clients
	return slices.Collect(maps.Values(clients))
}

// eachMaster calls do for every master at the same time.
func (e *Engine) eachMaster(ctx context.Context, do func(context.Context, *redis.Client) error) error {
	if only, ok := e.admin.(*redis.Client); ok {
		return do(ctx, only)
	}
	return e.admin.(*redis.ClusterClient).ForEachMaster(ctx, do)
}

// masters returns the masters, sorted by address.
func (e *Engine) masters(ctx context.Context) ([]*redis.Client, error) {
	var mu sync.Mutex
	var all []*redis.Client
	err := e.eachMaster(ctx, func(_ context.Context, server *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, server)
		return nil
	})
	slices.SortFunc(all, func(a, b *redis.Client) int { return cmp.Compare(a.Options().Addr, b.Options().Addr) })
	return all, err
}

// serverInfo returns a server's INFO as a map.
func serverInfo(ctx context.Context, server *redis.Client) (map[string]string, error) {
	text, err := server.Info(ctx).Result()
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

// getUser returns a user's fields on a server.
func getUser(ctx context.Context, server *redis.Client, name string) (map[string]any, error) {
	fields, err := server.Do(ctx, "ACL", "GETUSER", name).Slice()
	if err != nil {
		return nil, err
	}
	user := map[string]any{}
	for i := 0; i+1 < len(fields); i += 2 {
		user[fmt.Sprint(fields[i])] = fields[i+1]
	}
	return user, nil
}
