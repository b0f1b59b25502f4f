package redis

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"steward/internal/porttest"
	"steward/internal/resource/rediskv/redistest"
	"steward/internal/waittest"
)

// startClusterNode starts a redis-server that is a cluster of its own. It returns the path of its socket,
// and its address.
func startClusterNode(t *testing.T) (socket, addr string) {
	socket = t.TempDir() + "/redis.sock"
	s := redistest.Start(t, "--requirepass", "", "--unixsocket", socket, "--cluster-enabled", "yes",
		"--cluster-port", strconv.Itoa(porttest.Free(t)), "--cluster-announce-ip", "127.0.0.1")
	w := dial(t, socket)
	wantReply(t, "CLUSTER ADDSLOTSRANGE", w.ask(t, "CLUSTER ADDSLOTSRANGE 0 16383"), simple("OK"))
	waittest.True(t, "the cluster to have its slots", func() bool {
		return strings.Contains(fmt.Sprint(w.ask(t, "CLUSTER INFO")), "cluster_state:ok")
	})
	return socket, s.Addr
}

// TestClusterOfOneNode compares a store with the setting cluster-enabled with a redis-server that has all slots.
func TestClusterOfOneNode(t *testing.T) {
	socket, addr := startClusterNode(t)
	j := newLocal(t)
	j.theirs = dial(t, socket)
	id := j.theirs.ask(t, "CLUSTER MYID").(string)
	for _, protocol := range []int{2, 3} {
		j.begin(t, protocol)
		j.client.access = Access{User: "store", URL: "redis://" + addr}
		wantReply(t, "CONFIG SET", j.run([][]string{{"CONFIG", "SET", "cluster-enabled", "yes"}})[0], simple("OK"))
		own := j.run([][]string{{"CLUSTER", "MYID"}})[0].(string)
		requests := []string{
			"CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES", "CLUSTER INFO", "CLUSTER LINKS", "CLUSTER REPLICAS " + id,
			"CLUSTER SLAVES " + id, "CLUSTER REPLICAS x", "CLUSTER COUNT-FAILURE-REPORTS " + id, "CLUSTER COUNT-FAILURE-REPORTS x",
			"CLUSTER", "CLUSTER nosuch", "CLUSTER SLOTS x", "ASKING", "READONLY", "READWRITE", "READONLY x", "INFO cluster",
			"SET {tag}a 1", "SET b{tag} 2", "SET other 3", "SET {tag}gone 4", "PEXPIRE {tag}gone -1",
			"CLUSTER COUNTKEYSINSLOT 8338", "CLUSTER GETKEYSINSLOT 8338 10", "CLUSTER GETKEYSINSLOT 8338 0",
			"CLUSTER COUNTKEYSINSLOT 16384", "CLUSTER COUNTKEYSINSLOT -1", "CLUSTER COUNTKEYSINSLOT x",
			"CLUSTER GETKEYSINSLOT 1 -1", "CLUSTER GETKEYSINSLOT 1 x", "CLUSTER GETKEYSINSLOT 16384 1",
		}
		for _, key := range []string{"", "a", "123456789", "grüße", "{a}b", "x{a}b", "{}a", "a{}{b}", "{{a}}b", "{a", "a}b{", "{a}{b}"} {
			requests = append(requests, "CLUSTER KEYSLOT "+key)
		}
		for _, request := range requests {
			args := strings.Split(request, " ")
			theirs := withoutChanges(j.theirs.pipeline(t, [][]string{args})[0], id)
			for i, arg := range args {
				args[i] = strings.ReplaceAll(arg, id, own)
			}
			ours := withoutChanges(j.run([][]string{args})[0], own)
			if theirs != ours {
				t.Errorf("%s, protocol %d:\nredis-server %s\nhere         %s", request, protocol, theirs, ours)
			}
		}
	}
}

// changing matches what differs between two nodes: the port of the cluster bus, epochs and counts of messages.
var changing = regexp.MustCompile(`@\d+|epoch:\d+|_(sent|received):\d+| \d+ \d+ \d+ connected|"replication-offset", \d+`)

// withoutChanges returns a reply as text without what differs between two nodes. The order of keys in a slot does not count.
func withoutChanges(reply any, id string) string {
	if keys, ok := reply.([]any); ok && len(keys) > 1 {
		if _, ok := keys[0].(string); ok {
			slices.SortFunc(keys, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	}
	return changing.ReplaceAllString(strings.ReplaceAll(fmt.Sprintf("%#v", reply), id, "ID"), "*")
}

func TestClusterSettingIsKept(t *testing.T) {
	r := newRunner(t)
	c := r.client(1)
	r.expect(c, "CLUSTER KEYSLOT a", failure("ERR This instance has cluster support disabled"))
	r.expect(c, "CONFIG SET cluster-enabled YES", simple("OK"))
	if err := r.reopen(); err != nil {
		t.Fatal(err)
	}
	c = r.client(2)
	r.expect(c, "CLUSTER KEYSLOT a", int64(15495))
	r.expect(c, "MSET a 1 b 2", simple("OK")) // in different slots
	hello := fmt.Sprint(r.run(c, "HELLO 2"))
	if !strings.Contains(hello, "mode cluster") {
		t.Error(hello)
	}
	r.expect(c, "CONFIG SET cluster-enabled maybe",
		failure("ERR CONFIG SET failed (possibly related to argument 'cluster-enabled') - argument must be 'yes' or 'no'"))
	if effects := fmt.Sprint(r.store.preamble()); effects != "[[config set cluster-enabled yes]]" {
		t.Error(effects)
	}
	r.expect(c, "CONFIG SET cluster-enabled no", simple("OK"))
	r.expect(c, "READONLY", failure("ERR This instance has cluster support disabled"))
}

// TestClusterAddress shows the address where clients reach the store, which may be that of a proxy.
func TestClusterAddress(t *testing.T) {
	for url, want := range map[string]string{
		"redis://kv.example.com":      "kv.example.com:6379",
		"redis://127.0.0.1:7000":      "127.0.0.1:7000",
		"rediss://kv.example.com:443": "kv.example.com:443",
		"redis://[::1]:7000":          "::1:7000",
	} {
		r := newRunner(t)
		c := r.client(1)
		c.access.URL = url
		r.expect(c, "CONFIG SET cluster-enabled yes", simple("OK"))
		if nodes := fmt.Sprint(r.run(c, "CLUSTER NODES")); !strings.Contains(nodes, " "+want+"@0 myself,master ") {
			t.Errorf("%s: %s", url, nodes)
		}
		if shards := fmt.Sprint(r.run(c, "CLUSTER SHARDS")); strings.Contains(shards, "tls-port") != strings.HasPrefix(url, "rediss") {
			t.Errorf("%s: %s", url, shards)
		}
	}
}
