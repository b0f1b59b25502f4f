package operations

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"steward/e2e/installation"
	"steward/e2e/process"
	"steward/internal/resource/rediskv/redistest"
	"steward/internal/waittest"
)

// eachSeveral runs a test on an installation with the region far, whose stores are on several Redis
// servers, on each database.
func eachSeveral(t *testing.T, stores string, test func(t *testing.T, s *installation.External)) {
	for _, database := range process.Databases {
		t.Run(database, func(t *testing.T) {
			config := filepath.Join(t.TempDir(), "steward.yaml")
			text := fmt.Sprintf("regions:\n- {region: local}\n- {region: far, description: Several servers, kv: %q}\n", stores)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			s := &installation.External{Steward: installation.Prepare(t, database, "--config", config)}
			s.Start()
			test(t, s)
		})
	}
}

// TestStoresOnACluster uses a store with redis-cli, which follows the slots of a cluster.
func TestStoresOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 0)
	eachSeveral(t, cluster.URL, func(t *testing.T, s *installation.External) {
		kv := s.Create("far", "kv")["kv"]
		other := redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: strings.Split(kv.Env["REDIS_CLUSTER_NODES"], ","), Username: kv.Env["REDIS_USERNAME"], Password: kv.Env["REDIS_PASSWORD"],
		})
		t.Cleanup(func() { _ = other.Close() })
		own := kv.Env["REDIS_KEY_PREFIX"]
		cli := func(url string, args ...string) string {
			return s.Run("redis-cli", append([]string{"-c", "--no-auth-warning", "-u", url}, args...)...)
		}
		if out := cli(kv.URL, "MSET", own+"a", "1", own+"b", "2"); !strings.HasSuffix(out, "OK") {
			t.Errorf("MSET: %s", out)
		}
		if got, err := other.MGet(t.Context(), own+"b", own+"a").Result(); err != nil || fmt.Sprint(got) != "[2 1]" {
			t.Errorf("MGET: %v, %v", got, err)
		}
		if got := string(s.Call("GET", s.Path("far")+"/the-kv/keys", nil).Want(200).Body); !strings.Contains(got, own+"b") {
			t.Errorf("keys: %s", got)
		}
		rotated := s.Call("POST", s.Path("far")+"/the-kv/rotate", nil).Want(200).Text("url")
		if out := cli(rotated, "GET", own+"a"); !strings.HasSuffix(out, "1") {
			t.Errorf("after the rotation: %s", out)
		}
		s.Remove("far", "kv").Want(204)
		for _, node := range cluster.Nodes {
			if n, err := s.DialRedis(node.URL).DBSize(t.Context()).Result(); err != nil || n != 0 {
				t.Errorf("%d keys are left: %v", n, err)
			}
		}
	})
}

// TestStoresSurviveAFailover stops the master that a store is on.
func TestStoresSurviveAFailover(t *testing.T) {
	t.Parallel()
	servers := redistest.StartSentinels(t)
	eachSeveral(t, servers.URL, func(t *testing.T, s *installation.External) {
		kv := s.Create("far", "kv")["kv"]
		client := redis.NewFailoverClient(&redis.FailoverOptions{
			SentinelAddrs: strings.Split(kv.Env["REDIS_SENTINELS"], ","), MasterName: kv.Env["REDIS_SENTINEL_MASTER"],
			Username: kv.Env["REDIS_USERNAME"], Password: kv.Env["REDIS_PASSWORD"],
		})
		t.Cleanup(func() { _ = client.Close() })
		key := kv.Env["REDIS_KEY_PREFIX"] + "a"
		s.Must(client.Set(t.Context(), key, "1", 0).Err())
		master := servers.Servers[0]
		if role, err := s.DialRedis(master.URL).Do(t.Context(), "ROLE").Slice(); err != nil || role[0] != "master" {
			master = servers.Servers[1]
		}
		master.Stop()
		waittest.True(t, "the replica to become the master", func() bool { return client.Set(t.Context(), key, "2", 0).Err() == nil })
		master.Restart()
		waittest.True(t, "a rotation", func() bool { return s.Call("POST", s.Path("far")+"/the-kv/rotate", nil).Status == 200 })
		waittest.True(t, "the deletion", func() bool { return s.Remove("far", "kv").Status == 204 })
	})
}
