package rediskv

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"steward/internal/resource"
)

// The forms of an admin URL, which follow its scheme: redis://, redis+cluster://, redis+sentinel://.
const (
	single   = ""
	cluster  = "cluster"
	sentinel = "sentinel"
)

// address is a parsed admin URL.
type address struct {
	form    string
	scheme  string         // redis or rediss
	hosts   []string       // with ports: the server, some cluster nodes, or the sentinels
	master  string         // the servers' name in the sentinels' configuration
	clients string         // host and port for clients, or "" to use the admin URL's
	info    bool           // clients may call INFO
	options *redis.Options // for admin clients; Addr is the first host

	sentinelUser *url.Userinfo
	answered     atomic.Int64 // index of the sentinel that last answered
}

// errAddress does not repeat the URL, because it contains a password.
var errAddress = errors.New("expected redis://user:password@host:port, redis+cluster://user:password@host:port,host:port " +
	"or redis+sentinel://user:password@host:port,host:port/master, or the same with rediss")

// parseAddress parses an admin URL.
func parseAddress(adminURL string) (*address, error) {
	u, err := url.Parse(adminURL)
	if err != nil {
		return nil, errAddress
	}
	a := &address{}
	a.scheme, a.form, _ = strings.Cut(u.Scheme, "+")
	if a.form != single && a.form != cluster && a.form != sentinel || a.scheme != "redis" && a.scheme != "rediss" {
		return nil, errAddress
	}
	if err := a.takeHosts(u); err != nil {
		return nil, err
	}
	if err := a.takeQuery(u); err != nil {
		return nil, err
	}
	u.Scheme = a.scheme
	o, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, errAddress
	}
	if o.DB != 0 {
		return nil, errors.New("expected database 0: the stores are separated by key prefixes in it")
	}
	o.Protocol = 2
	o.ContextTimeoutEnabled = true
	o.DisableIdentity = true
	o.PoolSize = 8
	o.PipelinePoolSize = -1 // pipelines use connections from PoolSize
	o.MaxRetries = 1        // report an unresponsive server soon
	a.options = o
	return a, nil
}

// takeHosts reads the hosts and the master's name, and leaves the first host in the URL.
func (a *address) takeHosts(u *url.URL) error {
	port := "6379"
	if a.form == sentinel {
		port = "26379"
		a.master = strings.TrimPrefix(u.Path, "/")
		if a.master == "" || strings.Contains(a.master, "/") {
			return errors.New("expected redis+sentinel://user:password@host:port,host:port/master with the name of the master")
		}
		u.Path = ""
	}
	hosts := strings.Split(u.Host, ",")
	if a.form == single && len(hosts) > 1 {
		return errAddress
	}
	for _, host := range hosts {
		one, err := url.Parse("//" + host)
		if err != nil || one.Hostname() == "" && len(hosts) > 1 {
			return errAddress
		}
		a.hosts = append(a.hosts, net.JoinHostPort(cmp.Or(one.Hostname(), "localhost"), cmp.Or(one.Port(), port)))
	}
	u.Host = a.hosts[0]
	return nil
}

// takeQuery reads Steward's own parameters, and leaves go-redis's.
func (a *address) takeQuery(u *url.URL) error {
	q := u.Query()
	a.clients = q.Get("client_addr")
	if _, _, err := net.SplitHostPort(a.clients); a.clients != "" && err != nil {
		return errors.New("expected client_addr=host:port")
	}
	var err error
	if a.info, err = strconv.ParseBool(cmp.Or(q.Get("info"), "true")); err != nil {
		return errors.New("expected info=true or info=false")
	}
	a.sentinelUser = url.UserPassword(q.Get("sentinel_username"), q.Get("sentinel_password"))
	for _, name := range []string{"client_addr", "info", "sentinel_username", "sentinel_password"} {
		q.Del(name)
	}
	u.RawQuery = q.Encode()
	return nil
}

// client returns the admin client: a redis.ClusterClient if there are several servers.
func (a *address) client() redis.UniversalClient {
	if a.form == single {
		return redis.NewClient(a.options)
	}
	o := &redis.ClusterOptions{
		Addrs: a.hosts, ContextTimeoutEnabled: true,
		ClusterStateReloadInterval: 10 * time.Second, // the default of a minute is too long after a failover
		NewClient:                  func(node *redis.Options) *redis.Client { return a.clientOf(node.Addr) },
	}
	if a.form == sentinel {
		o.ClusterSlots = a.slotsOfSentinels
	}
	return redis.NewClusterClient(o)
}

// as returns the address for a store's client, which does not retry commands.
func (a *address) as(p *resource.Provisioned) *address {
	o := *a.options
	o.Username = p.ID
	o.Password = p.Password
	o.MaxRetries = -1
	o.ReadTimeout = copyTimeout
	o.WriteTimeout = copyTimeout
	return &address{form: a.form, scheme: a.scheme, hosts: a.hosts, master: a.master, options: &o, sentinelUser: a.sentinelUser}
}

// clientOf returns the admin client for one server among several.
func (a *address) clientOf(addr string) *redis.Client {
	o := *a.options
	o.Addr = addr
	return redis.NewClient(&o)
}

// String names the hosts in messages.
func (a *address) String() string { return "Redis at " + strings.Join(a.hosts, ", ") }

// connection returns a store's URL and environment.
func (a *address) connection(p *resource.Provisioned, prefix string) resource.Connection {
	u := url.URL{Scheme: a.scheme, User: url.UserPassword(p.ID, p.Password), Host: a.hosts[0], Path: "/0"}
	env := map[string]string{"REDIS_KEY_PREFIX": prefix}
	switch a.form {
	case cluster:
		env["REDIS_CLUSTER_NODES"] = strings.Join(a.hosts, ",")
	case sentinel:
		env["REDIS_SENTINELS"] = strings.Join(a.hosts, ",")
		env["REDIS_SENTINEL_MASTER"] = a.master
		if a.clients == "" {
			u.Scheme += "-sentinel"
			u.Host = strings.Join(a.hosts, ",")
			u.RawQuery = url.Values{"sentinelMasterId": {a.master}}.Encode()
		}
	}
	if a.form != single {
		env["REDIS_USERNAME"] = p.ID
		env["REDIS_PASSWORD"] = p.Password
	}
	if a.clients != "" {
		u.Host = a.clients
	}
	env["REDIS_URL"] = u.String()
	return resource.Connection{URL: u.String(), Env: env}
}
