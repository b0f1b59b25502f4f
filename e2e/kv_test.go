package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"steward/e2e/installation"
)

// redisCLI runs redis-cli and returns what it prints.
func redisCLI(k installation.KVStore, args ...string) string {
	k.T.Helper()
	out, err := exec.Command("redis-cli", append([]string{"--no-auth-warning", "-u", k.Address}, args...)...).CombinedOutput()
	if err != nil {
		k.T.Fatalf("redis-cli %v (Debian package redis-tools): %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestKVRefusedAtOnce(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	ctx := t.Context()
	path := "/resource/" + s.OrgID + "/local"
	k, other := s.NewKVStore("cache"), s.NewKVStore("other")
	open, old := k.Client(), k
	s.Must(open.Set(ctx, "k", "v", 0).Err())
	s.Must(other.Client().Set(ctx, "k", "other", 0).Err())

	s.Call("POST", path+"/cache/rotate", nil).Want(200)
	wantRefused(t, "open connection after rotation", open, false)
	wantRefused(t, "old password", old.Client(), true)
	k = k.Again()
	k.WantValue("k", "v")

	open = k.Client()
	s.Must(open.Ping(ctx).Err())
	s.Call("DELETE", path, object{"resources": []object{{"type": "kv", "name": "cache"}}}).Want(204)
	wantRefused(t, "open connection after deletion", open, false)
	wantRefused(t, "deleted store", k.Client(), true)
	other.WantValue("k", "other")
	if got := redisCLI(s.NewKVStore("cache"), "get", "k"); got != "" {
		t.Errorf("a new store of that name has %q", got)
	}
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
	s := installation.Start(t, "sqlite")
	ctx := t.Context()
	mine, theirs := s.NewKVStore("mine"), s.NewKVStore("theirs")
	s.Must(theirs.Client().Set(ctx, "secret", "x", 0).Err())
	c := mine.Client()
	if keys := c.Keys(ctx, "*").Val(); len(keys) != 0 {
		t.Errorf("KEYS: %v", keys)
	}
	s.Must(c.FlushAll(ctx).Err())
	theirs.WantValue("secret", "x")
	if err := c.Do(ctx, "SELECT", 1).Err(); err == nil {
		t.Error("SELECT 1 succeeded")
	}
	options, err := redis.ParseURL(mine.Address)
	s.Must(err)
	their, err := redis.ParseURL(theirs.Address)
	s.Must(err)
	options.Username = their.Username
	crossed := redis.NewClient(options)
	defer func() { _ = crossed.Close() }()
	if err := crossed.Ping(ctx).Err(); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("user of one store, password of another: %v", err)
	}
}

func TestKVKeys(t *testing.T) {
	t.Parallel()
	s := installation.Start(t, "sqlite")
	k := s.NewKVStore("cache")
	c := k.Client()
	for i := range 12 {
		s.Must(c.Set(t.Context(), fmt.Sprintf("a:%02d", i), "v", time.Hour).Err())
	}
	s.Must(c.HSet(t.Context(), "b", "f", "v").Err())
	var page struct {
		Keys []struct{ Key, Type string }
		Next string
	}
	path := "/resource/" + s.OrgID + "/local/cache/keys?prefix=a:&limit=10"
	s.Call("GET", path, nil).Want(200).Decode(&page)
	if len(page.Keys) != 10 || page.Keys[0].Key != "a:00" || page.Next == "" {
		t.Errorf("first page: %+v", page)
	}
	next := page.Next
	page.Next = ""
	s.Call("GET", path+"&cursor="+next, nil).Want(200).Decode(&page)
	if len(page.Keys) != 2 || page.Keys[1].Key != "a:11" || page.Next != "" {
		t.Errorf("second page: %+v", page)
	}
}
