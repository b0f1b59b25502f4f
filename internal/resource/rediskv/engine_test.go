package rediskv_test

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"steward/internal/errs"
	"steward/internal/id"
	"steward/internal/resource"
	"steward/internal/resource/enginetest"
	"steward/internal/resource/rediskv"
	"steward/internal/resource/rediskv/redistest"
	"steward/internal/waittest"
)

func TestEngine(t *testing.T) {
	server := redistest.Start(t)
	fixture := func(t *testing.T, _ *enginetest.Rows) enginetest.Fixture {
		return enginetest.Fixture{Engine: open(t, server.URL), Type: resource.KV, Connect: connect}
	}
	enginetest.Run(t, fixture)
	enginetest.RunKeys(t, fixture)
}

// client is a connection that sets the store's own prefix, as clients must.
type client struct {
	redis  *redis.Client // embedding would compile a thousand methods
	prefix string
}

func connect(ctx context.Context, c resource.Connection) (enginetest.Client, error) {
	o, err := redis.ParseURL(c.Env["REDIS_URL"])
	if err != nil {
		return nil, err
	}
	o.MaxRetries = -1
	o.PoolSize = 1
	o.OnConnect = onlyOnce()
	opened := &client{redis.NewClient(o), c.Env["REDIS_KEY_PREFIX"]}
	if err := opened.redis.Ping(ctx).Err(); err != nil {
		opened.Close()
		return nil, err
	}
	return opened, nil
}

// onlyOnce returns a hook that refuses a second connection, so that a client whose connection was cut
// notices it.
func onlyOnce() func(context.Context, *redis.Conn) error {
	connected := false
	return func(context.Context, *redis.Conn) error {
		if connected {
			return errors.New("the connection was cut")
		}
		connected = true
		return nil
	}
}

func (c *client) Set(ctx context.Context, key, value string) error {
	return c.redis.Set(ctx, c.prefix+key, value, 0).Err()
}

func (c *client) Get(ctx context.Context, key string) (string, error) {
	value, err := c.redis.Get(ctx, c.prefix+key).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return value, err
}

func (c *client) Close() { _ = c.redis.Close() }

func open(t testing.TB, adminURL string) *rediskv.Engine {
	t.Helper()
	e, err := rediskv.New(adminURL, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func plan() *resource.Provisioned {
	return &resource.Provisioned{
		ID: id.New(id.KVStore), Type: resource.KV, Engine: "redis", State: resource.Active, Password: id.Secret(43),
	}
}

func create(t testing.TB, e *rediskv.Engine) *resource.Provisioned {
	t.Helper()
	p := plan()
	must(t, e.Create(t.Context(), p))
	return p
}

// dial returns a client of go-redis.
func dial(t testing.TB, address string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(address)
	must(t, err)
	c := redis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRedisCLIUsesTheEnvironment(t *testing.T) {
	e := open(t, redistest.Start(t).URL)
	p := create(t, e)
	env := e.Connection(p).Env
	run := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("redis-cli", append([]string{"--no-auth-warning", "-u", env["REDIS_URL"]}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("redis-cli: %v: %s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	key := env["REDIS_KEY_PREFIX"] + "a"
	if got := run("SET", key, "1"); got != "OK" {
		t.Errorf("SET: %s", got)
	}
	if got := run("GET", key); got != "1" {
		t.Errorf("GET: %s", got)
	}
	if got := run("GET", "a"); !strings.HasPrefix(got, "NOPERM") {
		t.Errorf("GET without the prefix: %s", got)
	}
}

func TestPasswordIsNeverSentInClear(t *testing.T) {
	server := redistest.Start(t)
	e := open(t, server.URL)
	monitor := exec.Command("redis-cli", "--no-auth-warning", "-u", server.URL, "MONITOR")
	out, err := monitor.StdoutPipe()
	must(t, err)
	must(t, monitor.Start())
	buf := make([]byte, 3)
	_, err = out.Read(buf) // OK: from now on every command is written
	must(t, err)
	p := create(t, e)
	must(t, e.Rotate(t.Context(), p))
	must(t, e.Delete(t.Context(), p))
	admin := dial(t, server.URL)
	must(t, admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
	var log strings.Builder
	chunk := make([]byte, 4096)
	for n, err := out.Read(chunk); err == nil; n, err = out.Read(chunk) {
		log.Write(chunk[:n])
	}
	_ = monitor.Wait() // its connection was cut
	if strings.Contains(log.String(), p.Password) {
		t.Error("the password was sent in clear")
	}
}

func TestConnectionFollowsTheAdminURL(t *testing.T) {
	p := plan()
	for admin, want := range map[string]string{
		"redis://default:x@redis.example:7000": "redis://" + p.ID + ":" + p.Password + "@redis.example:7000/0",
		"rediss://redis.example":               "rediss://" + p.ID + ":" + p.Password + "@redis.example:6379/0",
		"redis://default:x@[::1]:7000/0":       "redis://" + p.ID + ":" + p.Password + "@[::1]:7000/0",
	} {
		c := open(t, admin).Connection(p)
		if c.URL != want || c.Env["REDIS_URL"] != want || c.Env["REDIS_KEY_PREFIX"] != p.ID+":" {
			t.Errorf("%s: %s %v, want %s", admin, c.URL, c.Env, want)
		}
	}
}

func TestConnectionToSeveralServers(t *testing.T) {
	p := plan()
	user := p.ID + ":" + p.Password + "@"
	for admin, want := range map[string]map[string]string{
		"redis+cluster://u:x@a,b:7000": {
			"REDIS_URL": "redis://" + user + "a:6379/0", "REDIS_CLUSTER_NODES": "a:6379,b:7000", "REDIS_KEY_PREFIX": "{" + p.ID + "}:",
		},
		"rediss+cluster://u:x@[::1]:7000/0?client_addr=public:1": {
			"REDIS_URL": "rediss://" + user + "public:1/0", "REDIS_CLUSTER_NODES": "[::1]:7000", "REDIS_KEY_PREFIX": "{" + p.ID + "}:",
		},
		"redis+sentinel://u:x@a,b:1/m?sentinel_password=y": {
			"REDIS_URL":       "redis-sentinel://" + user + "a:26379,b:1/0?sentinelMasterId=m",
			"REDIS_SENTINELS": "a:26379,b:1", "REDIS_SENTINEL_MASTER": "m", "REDIS_KEY_PREFIX": p.ID + ":",
		},
		"rediss+sentinel://u:x@a/m?client_addr=public:1": {
			"REDIS_URL":       "rediss://" + user + "public:1/0",
			"REDIS_SENTINELS": "a:26379", "REDIS_SENTINEL_MASTER": "m", "REDIS_KEY_PREFIX": p.ID + ":",
		},
	} {
		want["REDIS_USERNAME"] = p.ID
		want["REDIS_PASSWORD"] = p.Password
		c := open(t, admin).Connection(p)
		if diff := cmp.Diff(want, c.Env); diff != "" || c.URL != want["REDIS_URL"] {
			t.Errorf("%s: %s %s", admin, c.URL, diff)
		}
	}
}

func TestNewRefusesOtherURLs(t *testing.T) {
	for _, address := range []string{
		"", "redis", "postgres://u:secret@h/d", "unix:///tmp/redis.sock", "redis://u:secret@h:6379/3",
		"redis://u:secret@h:port", "redis://u:secret@h?nonsense=1", "redis://u:se cret%@h", "redis://u:secret@h:1,h:2",
		"redis://u:secret@h?info=maybe", "redis://u:secret@h?client_addr=x", "redis+other://u:secret@h", "redis+cluster://u:secret@h:1,",
		"redis+cluster://u:secret@h:1,h:x,h:2", "redis+cluster://u:secret@h/1", "redis+sentinel://u:secret@h", "redis+sentinel://u:secret@h/a/b",
		"unix+cluster://u:secret@h",
	} {
		_, err := rediskv.New(address, slog.New(slog.DiscardHandler))
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestCheckNamesWhatIsMissing(t *testing.T) {
	server := redistest.Start(t)
	admin := dial(t, server.URL)
	ctx := t.Context()
	must(t, admin.ACLSetUser(ctx, "weak", "on", ">secret1", "~*", "&*", "+@all", "-acl|deluser").Err())
	must(t, admin.ACLSetUser(ctx, "narrow", "on", ">secret1", "~a*", "&*", "+@all").Err())
	for user, want := range map[string]string{"weak": "ACL DELUSER", "narrow": "UNLINK", "unknown": "WRONGPASS"} {
		u := as(t, server.URL, user, "secret1")
		err := open(t, u).Check(ctx)
		if errs.KindOf(err) != errs.Internal || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret1") {
			t.Errorf("%s: %v", user, err)
		}
	}
	must(t, admin.ConfigSet(ctx, "requirepass", "").Err())
	must(t, admin.ACLSetUser(ctx, "admin", "on", ">secret1", "~*", "&*", "+@all").Err())
	err := open(t, as(t, server.URL, "admin", "secret1")).Check(ctx)
	if errs.KindOf(err) != errs.Internal || !strings.Contains(err.Error(), "default has no password") {
		t.Errorf("open to everyone: %v", err)
	}
	must(t, admin.ACLSetUser(ctx, "default", "off").Err())
	must(t, open(t, as(t, server.URL, "admin", "secret1")).Check(ctx))
}

func TestCheckRefusesAClusterNode(t *testing.T) {
	err := open(t, redistest.Start(t, "--cluster-enabled", "yes").URL).Check(t.Context())
	if errs.KindOf(err) != errs.Internal || !strings.Contains(err.Error(), "Cluster") {
		t.Errorf("a node of a cluster: %v", err)
	}
}

func TestCheckRefusesAServerThatIsNoNode(t *testing.T) {
	url := strings.Replace(redistest.Start(t).URL, "redis://", "redis+cluster://", 1)
	err := open(t, url).Check(t.Context())
	if errs.KindOf(err) != errs.Internal || !strings.Contains(err.Error(), "cluster support disabled") {
		t.Errorf("a server that is not in a cluster: %v", err)
	}
}

// as returns the URL of another user.
func as(t testing.TB, address, user, password string) string {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	u.User = url.UserPassword(user, password)
	return u.String()
}

func TestServerThatIsDownIsUnavailable(t *testing.T) {
	server := redistest.Start(t)
	e := open(t, server.URL)
	p := create(t, e)
	server.Stop()
	for what, do := range map[string]func() error{
		"check":  func() error { return e.Check(t.Context()) },
		"create": func() error { return e.Create(t.Context(), plan()) },
		"rotate": func() error { return e.Rotate(t.Context(), p) },
		"delete": func() error { return e.Delete(t.Context(), p) },
		"ensure": func() error { return e.Ensure(t.Context(), nil) },
		"keys":   func() error { _, err := e.Keys(t.Context(), p, resource.KeyQuery{Limit: 10}); return err },
	} {
		if err := do(); errs.KindOf(err) != errs.Unavailable {
			t.Errorf("%s: %v", what, err)
		}
	}
	server.Restart()
	waittest.True(t, "the server to be used again", func() bool { return e.Check(t.Context()) == nil })
	must(t, e.Delete(t.Context(), p))
	create(t, e)
}

func TestEnsureCreatesWhatARestartForgot(t *testing.T) {
	server := redistest.Start(t)
	e := open(t, server.URL)
	p := create(t, e)
	deleting := plan()
	deleting.State = resource.Deleting
	all := []*resource.Provisioned{p, deleting}
	must(t, e.Ensure(t.Context(), all))
	server.Restart()
	if err := dial(t, e.Connection(p).URL).Ping(t.Context()).Err(); err == nil {
		t.Fatal("Redis has not forgotten the user")
	}
	must(t, e.Ensure(t.Context(), all))
	must(t, dial(t, e.Connection(p).URL).Ping(t.Context()).Err())
	if err := dial(t, e.Connection(deleting).URL).Ping(t.Context()).Err(); err == nil {
		t.Error("a store that is being deleted was created")
	}

	// Without another restart, nothing is created, so that a deletion is not undone by an old list.
	must(t, e.Delete(t.Context(), p))
	must(t, e.Ensure(t.Context(), all))
	if err := dial(t, e.Connection(p).URL).Ping(t.Context()).Err(); err == nil {
		t.Error("a deleted store was created again")
	}
}

func TestUsersSurviveARestartWithAnACLFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "users.acl")
	must(t, os.WriteFile(file, []byte("user default on >"+redistest.Password+" ~* &* +@all\n"), 0o600))
	server := redistest.Start(t, "--aclfile", file)
	e := open(t, as(t, server.URL, "default", redistest.Password))
	kept := create(t, e)
	deleted := create(t, e)
	old := *kept
	kept.Password = id.Secret(43)
	must(t, e.Rotate(t.Context(), kept))
	must(t, e.Delete(t.Context(), deleted))
	server.Restart()
	must(t, dial(t, e.Connection(kept).URL).Ping(t.Context()).Err())
	for _, p := range []*resource.Provisioned{deleted, &old} {
		if err := dial(t, e.Connection(p).URL).Ping(t.Context()).Err(); err == nil {
			t.Error("old credentials are valid again after a restart")
		}
	}
}

// TestEnsureCorrectsPasswords restores the users from before a rotation, as a server has them that was
// down during it.
func TestEnsureCorrectsPasswords(t *testing.T) {
	server := redistest.Start(t)
	e := open(t, server.URL)
	p := create(t, e)
	changed := *p
	changed.Password = id.Secret(43)
	stale := dial(t, e.Connection(p).URL).Conn()
	must(t, stale.Ping(t.Context()).Err())
	current := create(t, e)
	kept := dial(t, e.Connection(current).URL).Conn()
	must(t, kept.Ping(t.Context()).Err())
	must(t, e.Ensure(t.Context(), []*resource.Provisioned{&changed, current}))
	must(t, dial(t, e.Connection(&changed).URL).Ping(t.Context()).Err())
	if err := dial(t, e.Connection(p).URL).Ping(t.Context()).Err(); err == nil {
		t.Error("the old password is valid")
	}
	if err := stale.Ping(t.Context()).Err(); err == nil {
		t.Error("a connection with the old password is open")
	}
	must(t, kept.Ping(t.Context()).Err())
}

func TestTLS(t *testing.T) {
	server := redistest.Start(t, redistest.Certificate(t)...)
	e := open(t, server.URL)
	must(t, e.Check(t.Context()))
	p := create(t, e)
	must(t, dial(t, e.Connection(p).URL+"?skip_verify=true").Ping(t.Context()).Err())
	if err := open(t, strings.TrimSuffix(server.URL, "?skip_verify=true")).Check(t.Context()); errs.KindOf(err) != errs.Unavailable {
		t.Errorf("with an unknown certificate: %v", err)
	}
}

func TestDeleteFlushesOnlyItsOwnKeys(t *testing.T) {
	server := redistest.Start(t)
	e := open(t, server.URL)
	p := create(t, e)
	ctx := t.Context()
	admin := dial(t, server.URL)
	pipe := admin.Pipeline()
	for range 5000 {
		pipe.Set(ctx, p.ID+":"+id.Secret(8), "1", 0)
		pipe.Set(ctx, "other:"+id.Secret(8), "1", 0)
	}
	pipe.Set(ctx, p.ID, "not below the prefix", 0)
	_, err := pipe.Exec(ctx)
	must(t, err)
	must(t, e.Delete(ctx, p))
	left, err := admin.DBSize(ctx).Result()
	must(t, err)
	if left != 5001 {
		t.Errorf("%d keys are left, want 5001", left)
	}
}

var _ resource.Stores = (*rediskv.Engine)(nil)

// TestWaitingConnectionsAreCut holds connections that send nothing more: a subscriber and one that
// waits for a list.
func TestWaitingConnectionsAreCut(t *testing.T) {
	e := open(t, redistest.Start(t).URL)
	for what, end := range map[string]func(context.Context, *resource.Provisioned) error{"rotate": e.Rotate, "delete": e.Delete} {
		t.Run(what, func(t *testing.T) {
			p := create(t, e)
			c := dial(t, e.Connection(p).URL)
			sub := c.Conn()
			must(t, sub.Do(t.Context(), "SUBSCRIBE", p.ID+":c").Err())
			waiting := make(chan error, 1)
			blocked := dial(t, e.Connection(p).URL)
			must(t, blocked.Ping(t.Context()).Err())
			go func() { waiting <- blocked.Conn().BLPop(context.Background(), 0, p.ID+":l").Err() }()
			changed := *p
			changed.Password = id.Secret(43)
			must(t, end(t.Context(), &changed))
			if err := sub.Ping(t.Context()).Err(); err == nil {
				t.Error("the subscriber is still connected")
			}
			if err := waittest.Receive(t, "the blocked connection to end", waiting); err == nil {
				t.Error("the blocked connection has got a value")
			}
		})
	}
}
