package clients

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"steward/e2e/installation"
)

// kvClientTimeout bounds a client. It is long, so that only one that hangs reaches it.
const kvClientTimeout = 5 * time.Minute

// kvClient uses a key-value store with a client, and fails the test if a reply is wrong.
type kvClient struct {
	name string
	use  func(t *testing.T, kv installation.CreatedResource)
}

// kvClients returns the clients, those first that take longest. docs/key-value.md lists them, too.
// Python, Ruby and PHP are Debian's, which have the packages that tools/deps installs.
func kvClients() []kvClient {
	return []kvClient{
		{"celery", kvProgram("/usr/bin/python3", "celery_tasks.py")},
		{"sidekiq", kvProgram("/usr/bin/ruby", "sidekiq.rb")},
		{"bullmq", kvProgram("node", "bullmq.mjs")},
		{"rate-limiter-flexible", kvProgram("node", "ratelimit.mjs")},
		{"connect-redis", kvProgram("node", "session.mjs")},
		{"redis", kvProgram("node", "redis.mjs")},
		{"redis4", kvProgram("node", "redis4.mjs")},
		{"phpredis", kvProgram("php", "phpredis.php")},
		{"rueidis", useRueidis},
		{"ioredis", kvProgram("node", "ioredis.mjs")},
		{"redis-py", kvProgram("/usr/bin/python3", "redis_py.py")},
		{"go-redis", installation.UseGoRedis},
		{"bun", kvProgram("../sdk/node_modules/.bin/bun", "bun.mjs")},
		{"redis-benchmark", useRedisBenchmark},
		{"redis-cli", useRedisCLI},
	}
}

// TestKVClients uses the stores of both engines as applications do, with the clients, queues and
// frameworks of others.
func TestKVClients(t *testing.T) {
	t.Parallel()
	s := installation.StartExternal(t, "sqlite")
	for region, engine := range map[string]string{"local": "embedded", "far": "redis"} {
		stores := createStores(s, region, kvClients())
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			for _, client := range kvClients() {
				t.Run(client.name, func(t *testing.T) {
					t.Parallel()
					client.use(t, stores[client.name])
				})
			}
		})
	}
}

// createStores creates a store for each client, named after it.
func createStores(s *installation.External, region string, clients []kvClient) map[string]installation.CreatedResource {
	s.T.Helper()
	var wanted []object
	for _, client := range clients {
		wanted = append(wanted, object{"type": "kv", "name": client.name})
	}
	var response struct {
		Created []installation.CreatedResource
	}
	s.Call("POST", s.Path(region), object{"resources": wanted}).Want(201).Decode(&response)
	created := map[string]installation.CreatedResource{}
	for _, r := range response.Created {
		created[r.Name] = r
	}
	return created
}

// kvProgram returns a function that runs a program of e2e/clients. It ends the processes that
// the program has started, too.
func kvProgram(command string, args ...string) func(t *testing.T, kv installation.CreatedResource) {
	return func(t *testing.T, kv installation.CreatedResource) {
		ctx, cancel := context.WithTimeout(t.Context(), kvClientTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, command, args...)
		cmd.Dir = "../../clients"
		cmd.Env = append(os.Environ(), "REDIS_URL="+kv.Env["REDIS_URL"], "REDIS_KEY_PREFIX="+kv.Env["REDIS_KEY_PREFIX"])
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s %v: %v (`make deps` installs the clients)\n%s", command, args, err, out)
		}
	}
}

// useRedisCLI sets a value with redis-cli, and reads it with its protocol RESP3.
func useRedisCLI(t *testing.T, kv installation.CreatedResource) {
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

func useRedisBenchmark(t *testing.T, kv installation.CreatedResource) {
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
