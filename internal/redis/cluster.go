package redis

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
)

// clusterCommands has the commands that cluster clients need. A store with the setting cluster-enabled
// is a cluster with a single node, which has all slots. Keys in different slots may be in one command.
//
// The setting is off by default because rueidis asks for CLUSTER SLOTS by default, and panics in a
// cluster when a command has keys in different slots.
var clusterCommands = []*command{
	{name: "cluster", arity: -2, sub: []*command{
		ofCluster("cluster|count-failure-reports", 3, clusterFailures),
		ofCluster("cluster|countkeysinslot", 3, clusterCountKeys),
		ofCluster("cluster|getkeysinslot", 4, clusterGetKeys),
		ofCluster("cluster|help", 2, help),
		ofCluster("cluster|info", 2, clusterInfo),
		ofCluster("cluster|keyslot", 3, func(x *call) error { return x.replyLen(slotOf(x.args[2])) }),
		ofCluster("cluster|links", 2, func(x *call) error { return x.replyBulks(nil) }),
		ofCluster("cluster|myid", 2, func(x *call) error { return x.replyBulk(x.node().id) }),
		ofCluster("cluster|nodes", 2, clusterNodes),
		ofCluster("cluster|replicas", 3, clusterReplicas),
		ofCluster("cluster|shards", 2, clusterShards),
		ofCluster("cluster|slaves", 3, clusterReplicas),
		ofCluster("cluster|slots", 2, clusterSlots),
	}},
	ofClient("asking"), ofClient("readonly"), ofClient("readwrite"),
}

// ofCluster returns a command that is refused unless the store is a cluster.
func ofCluster(name string, arity int, run func(x *call) error) *command {
	return &command{name: name, arity: arity, run: func(x *call) error {
		if !x.limits.cluster {
			return errorf("ERR This instance has cluster support disabled")
		}
		return run(x)
	}}
}

// ofClient returns a command that says which node may answer a client. Here it is always the same.
func ofClient(name string) *command {
	cmd := ofCluster(name, 1, func(x *call) error { return x.replyOK() })
	cmd.flags = flagFast
	cmd.categories = "connection"
	return cmd
}

// mode returns the mode that we show to clients.
func (s *Store) mode() string {
	if s.limits.cluster {
		return "cluster"
	}
	return "standalone"
}

// slots is the number of slots in a cluster.
const slots = 16384

// slotOf returns a key's slot. Keys with the same text in braces have the same one.
func slotOf(key string) int {
	if _, after, found := strings.Cut(key, "{"); found {
		if tag, _, found := strings.Cut(after, "}"); found && tag != "" {
			key = tag
		}
	}
	var sum uint16
	for i := range len(key) {
		sum = sum<<8 ^ crc16[byte(sum>>8)^key[i]]
	}
	return int(sum % slots)
}

// crc16 is the table for CRC-16/XMODEM.
var crc16 = func() (table [256]uint16) {
	for i := range table {
		sum := uint16(i) << 8
		for range 8 {
			carry := sum >> 15
			sum = sum<<1 ^ carry*0x1021
		}
		table[i] = sum
	}
	return table
}()

// node describes the store as a node.
type node struct {
	id, host, port string
	tls            bool
}

// node returns the node with the address that clients use.
func (x *call) node() node {
	x.client.mu.Lock()
	access := x.client.access
	x.client.mu.Unlock()
	n := node{id: sha1Hex(access.User), port: "6379"}
	if u, err := url.Parse(access.URL); err == nil {
		n.host = u.Hostname()
		n.port = cmp.Or(u.Port(), n.port)
		n.tls = u.Scheme == "rediss"
	}
	return n
}

// appendPort appends the port, which is a number in the reply.
func (x *call) appendPort(n node) {
	port, _ := parseInt(n.port) // url.Parse has checked it
	x.out.int(port)
}

func clusterInfo(x *call) error {
	x.out.verbatim(strings.Join([]string{
		"cluster_state:ok", fmt.Sprintf("cluster_slots_assigned:%d", slots), fmt.Sprintf("cluster_slots_ok:%d", slots),
		"cluster_slots_pfail:0", "cluster_slots_fail:0", "cluster_known_nodes:1", "cluster_size:1", "cluster_current_epoch:1",
		"cluster_my_epoch:1", "cluster_stats_messages_sent:0", "cluster_stats_messages_received:0",
		"total_cluster_links_buffer_limit_exceeded:0", "",
	}, "\r\n"))
	return nil
}

func clusterNodes(x *call) error {
	n := x.node()
	x.out.verbatim(fmt.Sprintf("%s %s:%s@0 myself,master - 0 0 1 connected 0-%d\n", n.id, n.host, n.port, slots-1))
	return nil
}

func clusterSlots(x *call) error {
	n := x.node()
	x.out.array(1)
	x.out.array(3)
	x.out.int(0)
	x.out.int(slots - 1)
	x.out.array(4)
	x.out.bulk(n.host)
	x.appendPort(n)
	x.out.bulk(n.id)
	x.out.mapOf(0)
	return nil
}

func clusterShards(x *call) error {
	n := x.node()
	x.out.array(1)
	x.out.mapOf(2)
	x.out.bulk("slots")
	x.out.array(2)
	x.out.values(0, slots-1, "nodes")
	x.out.array(1)
	x.out.mapOf(7)
	x.out.bulk("id")
	x.out.bulk(n.id)
	if n.tls {
		x.out.bulk("tls-port")
	} else {
		x.out.bulk("port")
	}
	x.appendPort(n)
	x.out.values(
		"ip", n.host, "endpoint", n.host, "role", "master", "replication-offset", 0, "health", "online",
	)
	return nil
}

// checkNode returns an error unless the request names the only node.
func (x *call) checkNode() error {
	if x.args[2] != x.node().id {
		return errorf("ERR Unknown node %s", x.args[2])
	}
	return nil
}

func clusterReplicas(x *call) error {
	if err := x.checkNode(); err != nil {
		return err
	}
	return x.replyBulks(nil)
}

func clusterFailures(x *call) error {
	if err := x.checkNode(); err != nil {
		return err
	}
	return x.replyInt(0)
}

func clusterCountKeys(x *call) error {
	slot, err := x.int(2)
	if err != nil {
		return err
	}
	if slot < 0 || slot >= slots {
		return errorf("ERR Invalid slot")
	}
	n := 0
	x.keysInSlot(slot, func(string) bool { n++; return true })
	return x.replyLen(n)
}

func clusterGetKeys(x *call) error {
	slot, err := x.int(2)
	if err != nil {
		return err
	}
	most, err := x.int(3)
	if err != nil {
		return err
	}
	if slot < 0 || slot >= slots || most < 0 {
		return errorf("ERR Invalid slot or number of keys")
	}
	var keys []string
	if most > 0 {
		x.keysInSlot(slot, func(key string) bool {
			keys = append(keys, key)
			return int64(len(keys)) < most
		})
	}
	return x.replyBulks(keys)
}

// keysInSlot calls a function for each key in a slot until it returns false.
func (x *call) keysInSlot(slot int64, f func(key string) bool) {
	x.keys.entries.All(func(e *entry) bool {
		return e.expired(x.now) || int64(slotOf(e.key)) != slot || f(e.key)
	})
}
