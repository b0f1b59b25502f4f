package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// kvStore is a key-value store of an installation.
type kvStore struct {
	*steward
	name, url string
}

// kvStore creates a key-value store.
func (s *steward) kvStore(name string) kvStore {
	s.t.Helper()
	var made struct {
		Created []struct {
			Type, Name, URL string
			Env             map[string]string
		}
	}
	body := object{"resources": []object{{"type": "kv", "name": name}}}
	s.call("POST", "/resource/"+s.orgID+"/local", body).want(201).decode(&made)
	entry := made.Created[0]
	if entry.URL == "" || entry.Env["REDIS_URL"] != entry.URL {
		s.t.Errorf("REDIS_URL is %q, url %q", entry.Env["REDIS_URL"], entry.URL)
	}
	return kvStore{s, name, entry.URL}
}

// again returns the store as the installation lists it now: its port is another one after a start.
func (k kvStore) again() kvStore {
	k.t.Helper()
	var list struct{ KV []struct{ Name, URL string } }
	k.call("GET", "/resource/"+k.orgID+"/local", nil).want(200).decode(&list)
	for _, entry := range list.KV {
		if entry.Name == k.name {
			k.url = entry.URL
			return k
		}
	}
	k.t.Fatalf("%s is not listed", k.name)
	return k
}

// client returns a go-redis client, which does not retry.
func (k kvStore) client() *redis.Client {
	k.t.Helper()
	options, err := redis.ParseURL(k.url)
	k.must(err)
	options.MaxRetries = -1
	options.DialTimeout = requestTimeout
	options.ReadTimeout = requestTimeout
	options.WriteTimeout = requestTimeout
	c := redis.NewClient(options)
	k.t.Cleanup(func() { _ = c.Close() })
	return c
}

// cli runs redis-cli and returns what it prints.
func (k kvStore) cli(args ...string) string {
	k.t.Helper()
	out, err := exec.Command("redis-cli", append([]string{"--no-auth-warning", "-u", k.url}, args...)...).CombinedOutput()
	if err != nil {
		k.t.Fatalf("redis-cli %v (Debian package redis-tools): %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// wantValue fails the test unless a key has a value.
func (k kvStore) wantValue(key, want string) {
	k.t.Helper()
	if got, err := k.client().Get(k.t.Context(), key).Result(); err != nil || got != want {
		k.t.Errorf("%s: got %q (%v), want %q", key, got, err, want)
	}
}

func TestKVClients(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k := s.kvStore("cache")
		if got := k.cli("set", "greeting", "hello"); got != "OK" {
			t.Errorf("redis-cli: %s", got)
		}
		k.wantValue("greeting", "hello")
		run := exec.Command("node", "clients/ioredis.mjs")
		run.Env = append(os.Environ(), "REDIS_URL="+k.url)
		if out, err := run.CombinedOutput(); err != nil {
			t.Errorf("ioredis: %v: %s", err, out)
		}
	})
}

func TestKVSurvives(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k := s.kvStore("cache")
		s.must(k.client().Set(t.Context(), "a", "restart", 0).Err())
		s.stop()
		s.start()
		k = k.again()
		k.wantValue("a", "restart")
		c := k.client()
		for i := range 100 {
			s.must(c.Set(t.Context(), fmt.Sprint("n", i), i, 0).Err())
		}
		s.kill()
		s.start()
		k = k.again()
		for i := range 100 {
			k.wantValue(fmt.Sprint("n", i), fmt.Sprint(i))
		}
	})
}

func TestKVRefusedAtOnce(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		ctx := t.Context()
		path := "/resource/" + s.orgID + "/local"
		k, other := s.kvStore("cache"), s.kvStore("other")
		open, old := k.client(), k
		s.must(open.Set(ctx, "k", "v", 0).Err())
		s.must(other.client().Set(ctx, "k", "other", 0).Err())

		s.call("POST", path+"/cache/rotate", nil).want(200)
		wantRefused(t, "open connection after rotation", open, false)
		wantRefused(t, "old password", old.client(), true)
		k = k.again()
		k.wantValue("k", "v")

		open = k.client()
		s.must(open.Ping(ctx).Err())
		s.call("DELETE", path, object{"resources": []object{{"type": "kv", "name": "cache"}}}).want(204)
		wantRefused(t, "open connection after deletion", open, false)
		wantRefused(t, "deleted store", k.client(), true)
		other.wantValue("k", "other")
		if got := s.kvStore("cache").cli("get", "k"); got != "" {
			t.Errorf("a new store of that name has %q", got)
		}
	})
}

// wantRefused fails the test if a command succeeds, or fails for another reason than the password.
func wantRefused(t *testing.T, what string, c *redis.Client, password bool) {
	t.Helper()
	err := c.Get(t.Context(), "k").Err()
	if err == nil || errors.Is(err, redis.Nil) || password && !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("%s: %v", what, err)
	}
}

func TestKVIsolation(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		ctx := t.Context()
		mine, theirs := s.kvStore("mine"), s.kvStore("theirs")
		s.must(theirs.client().Set(ctx, "secret", "x", 0).Err())
		c := mine.client()
		if keys := c.Keys(ctx, "*").Val(); len(keys) != 0 {
			t.Errorf("KEYS: %v", keys)
		}
		s.must(c.FlushAll(ctx).Err())
		theirs.wantValue("secret", "x")
		if err := c.Do(ctx, "SELECT", 1).Err(); err == nil {
			t.Error("SELECT 1 succeeded")
		}
		options, err := redis.ParseURL(mine.url)
		s.must(err)
		their, err := redis.ParseURL(theirs.url)
		s.must(err)
		options.Username = their.Username
		crossed := redis.NewClient(options)
		defer func() { _ = crossed.Close() }()
		if err := crossed.Ping(ctx).Err(); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
			t.Errorf("user of one store, password of another: %v", err)
		}
	})
}

func TestKVKeys(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s *steward) {
		k := s.kvStore("cache")
		c := k.client()
		for i := range 12 {
			s.must(c.Set(t.Context(), fmt.Sprintf("a:%02d", i), "v", time.Hour).Err())
		}
		s.must(c.HSet(t.Context(), "b", "f", "v").Err())
		var page struct {
			Keys []struct{ Key, Type string }
			Next string
		}
		path := "/resource/" + s.orgID + "/local/cache/keys?prefix=a:&limit=10"
		s.call("GET", path, nil).want(200).decode(&page)
		if len(page.Keys) != 10 || page.Keys[0].Key != "a:00" || page.Next == "" {
			t.Errorf("first page: %+v", page)
		}
		next := page.Next
		page.Next = ""
		s.call("GET", path+"&cursor="+next, nil).want(200).decode(&page)
		if len(page.Keys) != 2 || page.Keys[1].Key != "a:11" || page.Next != "" {
			t.Errorf("second page: %+v", page)
		}
	})
}
