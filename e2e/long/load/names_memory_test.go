package load

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"steward/e2e/installation"
)

// TestNamesTakeBoundedMemory has 25 connections of an organization watch keys and subscribe to channels with names of a
// megabyte, and have as many prefixes for broadcasts as they may. Another organization's clients do so with a few.
func TestNamesTakeBoundedMemory(t *testing.T) {
	const connections, each = 25, 20
	s := installation.Start(t, "sqlite")
	other := s.SecondOrganization()
	long := strings.Repeat("x", 1<<20)
	prefixes := []any{"CLIENT", "TRACKING", "ON", "BCAST"}
	for i := range 64 {
		prefixes = append(prefixes, "PREFIX", fmt.Sprintf("%02d%s", i, long[:4000]))
	}
	attacks := []func(n int) []any{
		func(n int) []any { return []any{"WATCH", fmt.Sprint(n, long)} },
		func(n int) []any { return []any{"SSUBSCRIBE", fmt.Sprint(n, long)} },
		func(int) []any { return prefixes },
	}
	options, err := redis.ParseURL(s.NewKVStore("greedy").Address)
	s.Must(err)
	options.Protocol = 2 // so that each request has one reply
	options.PoolSize = connections * len(attacks)
	greedy := redis.NewClient(options)
	t.Cleanup(func() { _ = greedy.Close() })
	refused := 0
	for i := range connections {
		for _, attack := range attacks {
			conn := greedy.Conn()
			t.Cleanup(func() { _ = conn.Close() })
			for n := range each {
				err := conn.Do(t.Context(), attack(i*each+n)...).Err()
				switch {
				case err == nil:
				case strings.Contains(err.Error(), "than there is memory for"):
					refused++
				case !strings.Contains(err.Error(), "overlaps with an existing prefix"):
					t.Fatal(err)
				}
			}
		}
	}
	if refused < connections*each {
		t.Errorf("%d requests were refused", refused)
	}
	store := other.NewKVStore("victim")
	c := store.Client()
	s.Must(c.Watch(t.Context(), func(tx *redis.Tx) error {
		_, err := tx.TxPipelined(t.Context(), func(p redis.Pipeliner) error { return p.Set(t.Context(), "k", "v", 0).Err() })
		return err
	}, "k"))
	news := c.Subscribe(t.Context(), "news")
	t.Cleanup(func() { _ = news.Close() })
	_, err = news.Receive(t.Context())
	s.Must(err)
	t.Logf("%d MiB, %d refused", s.PeakRSS()>>20, refused)
	if peak := s.PeakRSS(); peak > memoryLimit {
		t.Errorf("the process has taken %d MiB", peak>>20)
	}
}
