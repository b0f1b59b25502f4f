package redistest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"steward/internal/porttest"
	"steward/internal/waittest"
)

// Master is the sentinels' name for the servers that they watch.
const Master = "mymaster"

// certificateFlag is one of Certificate's arguments.
const certificateFlag = "--tls-cert-file"

// Certificate returns the arguments for servers that speak TLS, with a new certificate.
func Certificate(t testing.TB) []string {
	t.Helper()
	dir := t.TempDir()
	key := filepath.Join(dir, "key.pem")
	certificate := filepath.Join(dir, "certificate.pem")
	run(t, "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
		"-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate)
	return []string{
		certificateFlag, certificate, "--tls-key-file", key, "--tls-ca-cert-file", certificate,
		"--tls-auth-clients", "no", "--tls-replication", "yes", "--tls-cluster", "yes",
	}
}

// Cluster is a Redis Cluster.
type Cluster struct {
	// URL has the default user's credentials and the first two nodes.
	URL string
	// Nodes lists the masters, then the replicas.
	Nodes []*Server

	t    testing.TB
	args []string
}

// StartCluster starts a cluster with three masters, each with the given number of replicas. The arguments
// are for Start. It does the same as redis-cli --cluster create, but without the pauses.
func StartCluster(t testing.TB, replicas int, args ...string) *Cluster {
	t.Helper()
	const masters, slots = 3, 16384
	c := &Cluster{t: t, args: args}
	for i := range masters * (1 + replicas) {
		node := c.StartNode()
		c.Nodes = append(c.Nodes, node)
		c.ok(node, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		if i < masters {
			c.ok(node, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/masters), strconv.Itoa((i+1)*slots/masters-1))
		}
		if i > 0 {
			c.meet(node)
		}
	}
	for i, node := range c.Nodes[masters:] {
		c.follow(node, c.Nodes[i%masters])
	}
	for _, node := range c.Nodes {
		waittest.True(t, "the nodes to know each other", func() bool { return c.complete(node, masters*replicas) })
	}
	scheme, rest, _ := strings.Cut(c.Nodes[0].URL, "://")
	c.URL = scheme + "+cluster://" + strings.Replace(rest, c.Nodes[0].Addr, c.Nodes[0].Addr+","+c.Nodes[1].Addr, 1)
	return c
}

// meet introduces a node to the first node, which tells the others.
func (c *Cluster) meet(node *Server) {
	c.t.Helper()
	host, port, _ := net.SplitHostPort(node.Addr)
	_, bus, _ := strings.Cut(c.on(node, "CONFIG", "GET", "cluster-port"), "\n")
	c.ok(c.Nodes[0], "CLUSTER", "MEET", host, port, strings.TrimSpace(bus))
}

// follow makes a node a master's replica, as soon as it knows the master.
func (c *Cluster) follow(node, master *Server) {
	c.t.Helper()
	id := strings.TrimSpace(c.on(master, "CLUSTER", "MYID"))
	waittest.Until(c.t, "a replica to know its master", func() (string, bool) {
		reply := c.on(node, "CLUSTER", "REPLICATE", id)
		return reply, reply == "OK\n"
	})
}

// ok runs a command on a node and expects OK.
func (c *Cluster) ok(node *Server, args ...string) {
	c.t.Helper()
	if reply := c.on(node, args...); reply != "OK\n" {
		c.t.Fatalf("%v: %s", args, reply)
	}
}

// complete reports whether a node knows all slots and replicas and, if it is a replica, follows its
// master. A replica that never has followed its master does not replace it.
func (c *Cluster) complete(node *Server, replicas int) bool {
	c.t.Helper()
	info := c.on(node, "CLUSTER", "INFO")
	nodes := c.on(node, "CLUSTER", "NODES")
	follows := !strings.Contains(c.on(node, "INFO", "replication"), "master_link_status:down")
	return strings.Contains(info, "cluster_state:ok") && strings.Count(nodes, "slave") == replicas && follows
}

// StartNode starts a server that can join the cluster.
func (c *Cluster) StartNode() *Server {
	c.t.Helper()
	return Start(c.t, append([]string{
		"--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(porttest.Free(c.t)), "--cluster-node-timeout", "2000",
		"--masterauth", Password, "--repl-diskless-sync-delay", "0",
		"--cluster-replica-validity-factor", "0", // a replica may replace its master however long ago it heard from it
	}, c.args...)...)
}

// Join makes a server join the cluster, as a replica or as a master without slots.
func (c *Cluster) Join(node *Server, replica bool) {
	c.t.Helper()
	c.Nodes = append(c.Nodes, node)
	c.meet(node)
	if replica {
		c.follow(node, c.Nodes[0])
	}
}

// on runs a command on a node with redis-cli, and returns the reply.
func (c *Cluster) on(node *Server, args ...string) string {
	c.t.Helper()
	_, port, _ := net.SplitHostPort(node.Addr)
	common := []string{"--no-auth-warning", "-a", Password, "-p", port}
	if strings.HasPrefix(node.URL, "rediss") {
		common = append(common, "--tls", "--insecure")
	}
	return run(c.t, "redis-cli", append(common, args...)...)
}

// run runs a command that must succeed, and returns its output.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
	return string(out)
}

// Sentinels is a master, its replica, and the sentinels that watch them.
type Sentinels struct {
	// URL has the default user's credentials and all sentinels.
	URL string
	// Servers holds the master and its replica.
	Servers []*Server
	// Sentinels holds the sentinels, which have no password.
	Sentinels []*Server
}

// StartSentinels starts a master, a replica and three sentinels. It waits until the sentinels know each other
// and the replica: if the master ended earlier, nothing would replace it. The arguments are for Start.
func StartSentinels(t testing.TB, args ...string) *Sentinels {
	t.Helper()
	args = append([]string{"--masterauth", Password, "--repl-diskless-sync-delay", "0"}, args...)
	master := Start(t, args...)
	host, port, _ := net.SplitHostPort(master.Addr)
	replica := Start(t, append([]string{"--replicaof", host + " " + port}, args...)...)
	s := &Sentinels{Servers: []*Server{master, replica}}
	var hosts []string
	for range 3 {
		sentinel := startSentinel(t, master, args)
		s.Sentinels = append(s.Sentinels, sentinel)
		hosts = append(hosts, sentinel.Addr)
	}
	scheme, rest, _ := strings.Cut(master.URL, "://")
	s.URL = scheme + "+sentinel://" + strings.Replace(rest, master.Addr+"/0", strings.Join(hosts, ",")+"/"+Master, 1)
	for _, sentinel := range s.Sentinels {
		waittest.True(t, "a sentinel to know the others", func() bool { return s.complete(sentinel) })
	}
	return s
}

// complete reports whether a sentinel knows the replica and the other sentinels.
func (s *Sentinels) complete(sentinel *Server) bool {
	sentinel.t.Helper()
	_, port, _ := net.SplitHostPort(sentinel.Addr)
	args := []string{"-p", port, "SENTINEL", "MASTER", Master}
	if strings.HasPrefix(s.URL, "rediss") {
		args = append([]string{"--tls", "--insecure"}, args...)
	}
	master := run(sentinel.t, "redis-cli", args...)
	return strings.Contains(master, "\nnum-slaves\n1\n") && strings.Contains(master, "\nnum-other-sentinels\n2\n")
}

func startSentinel(t testing.TB, master *Server, args []string) *Server {
	t.Helper()
	port := porttest.Free(t)
	s := newServer(t, port)
	host, masterPort, _ := net.SplitHostPort(master.Addr)
	config := fmt.Sprintf("port %d\nbind 127.0.0.1\ndir %s\n", port, s.Dir)
	if strings.HasPrefix(master.URL, "rediss") {
		config = fmt.Sprintf("port 0\ntls-port %d\nbind 127.0.0.1\ndir %s\n", port, s.Dir)
		for i, arg := range args {
			if strings.HasPrefix(arg, "--tls-") {
				config += strings.TrimPrefix(arg, "--") + " " + args[i+1] + "\n"
			}
		}
	}
	config += fmt.Sprintf("sentinel monitor %[1]s %[2]s %[3]s 2\nsentinel auth-pass %[1]s %[4]s\n"+
		"sentinel down-after-milliseconds %[1]s 1000\nsentinel failover-timeout %[1]s 5000\n", Master, host, masterPort, Password)
	file := filepath.Join(s.Dir, "sentinel.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.args = []string{program(t), file, "--sentinel"}
	s.Restart()
	t.Cleanup(s.Stop)
	return s
}
