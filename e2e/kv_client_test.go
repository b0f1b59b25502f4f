package e2e

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// kvClientTimeout bounds a client. It is long, so that only one that hangs reaches it.
const kvClientTimeout = 3 * time.Minute

// TestKVClients uses the stores of both engines as applications do, with the clients, queues and
// frameworks of others. docs/key-value.md lists them.
func TestKVClients(t *testing.T) {
	t.Parallel()
	programs := map[string][]string{
		"redis":                 {"node", "redis.mjs"},
		"ioredis":               {"node", "ioredis.mjs"},
		"bun":                   {"../sdk/node_modules/.bin/bun", "bun.mjs"},
		"bullmq":                {"node", "bullmq.mjs"},
		"rate-limiter-flexible": {"node", "ratelimit.mjs"},
		"connect-redis":         {"node", "session.mjs"},
		"redis-py":              {"/usr/bin/python3", "redis_py.py"}, // Debian's, which has its packages
		"celery":                {"/usr/bin/python3", "celery_tasks.py"},
		"sidekiq":               {"/usr/bin/ruby", "sidekiq.rb"},
	}
	clients := map[string]func(t *testing.T, kv createdResource){
		"redis-cli":       useRedisCLI,
		"redis-benchmark": useRedisBenchmark,
		"go-redis":        useGoRedis,
	}
	for name, command := range programs {
		clients[name] = func(t *testing.T, kv createdResource) { runKVClient(t, kv, command...) }
	}
	eachExternal(t, func(t *testing.T, s *external) {
		for region, engine := range map[string]string{"local": "embedded", "far": "redis"} {
			stores := s.createStores(region, clients)
			t.Run(engine, func(t *testing.T) {
				t.Parallel()
				for name, use := range clients {
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						use(t, stores[name])
					})
				}
			})
		}
	})
}

// createStores creates a store for each client, named after it.
func (s *external) createStores(region string, clients map[string]func(*testing.T, createdResource)) map[string]createdResource {
	s.T.Helper()
	var wanted []object
	for name := range clients {
		wanted = append(wanted, object{"type": "kv", "name": name})
	}
	var response struct{ Created []createdResource }
	s.Call("POST", s.path(region), object{"resources": wanted}).Want(201).Decode(&response)
	created := map[string]createdResource{}
	for _, r := range response.Created {
		created[r.Name] = r
	}
	return created
}

// runKVClient runs a program of the directory clients, which fails if a reply is wrong. It ends the
// processes that the program has started, too.
func runKVClient(t *testing.T, kv createdResource, command ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), kvClientTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = "clients"
	cmd.Env = append(os.Environ(), "REDIS_URL="+kv.Env["REDIS_URL"], "REDIS_KEY_PREFIX="+kv.Env["REDIS_KEY_PREFIX"])
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %v (`make deps` installs the clients)\n%s", command, err, out)
	}
}

// useRedisCLI sets a value with redis-cli, and reads it with its protocol RESP3.
func useRedisCLI(t *testing.T, kv createdResource) {
	key := kv.Env["REDIS_KEY_PREFIX"] + "greeting"
	for _, step := range []struct{ command, want string }{
		{"SET " + key + " hello", "OK"}, {"-3 GET " + key, "hello"}, {"GET " + key + "s", ""}, {"-3 HGETALL " + key + "s", ""},
	} {
		args := append([]string{"--no-auth-warning", "-u", kv.URL}, strings.Fields(step.command)...)
		out, err := exec.Command("redis-cli", args...).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != step.want {
			t.Errorf("redis-cli %s (Debian package redis-tools): got %q (%v), want %q", step.command, got, err, step.want)
		}
	}
}

func useRedisBenchmark(t *testing.T, kv createdResource) {
	at, err := url.Parse(kv.URL)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("redis-benchmark", "-h", at.Hostname(), "-p", at.Port(), "--user", kv.Username, "-a", kv.Password,
		"-n", "2000", "-c", "10", "-q", "SET", kv.Env["REDIS_KEY_PREFIX"]+"key:__rand_int__", "value").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "requests per second") {
		t.Errorf("redis-benchmark (Debian package redis-tools): %v: %s", err, out)
	}
}
