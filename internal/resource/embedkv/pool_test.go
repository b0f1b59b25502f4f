package embedkv

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"steward/internal/redis"
	"steward/internal/resource"
)

// TestOneOrganizationCannotKeepAllStoresOpen has clients of one organization subscribe in as many stores as may be
// open, and another organization open one.
func TestOneOrganizationCannotKeepAllStoresOpen(t *testing.T) {
	p := newPool(Limits{Stores: 8, Wait: time.Millisecond, Loading: time.Minute})
	p.open = func(ctx context.Context, _ *resource.Provisioned) (*redis.Store, error) {
		return redis.Open(ctx, redis.Dir(t.TempDir()), redis.Options{})
	}
	t.Cleanup(func() { must(t, p.close(context.WithoutCancel(t.Context()))) })
	var refused int
	for i := range 8 {
		of := &resource.Provisioned{ID: fmt.Sprint("greedy", i), OrgID: "greedy"}
		if _, err := p.get(of); errors.Is(err, errTooManyStores) {
			refused++
			continue
		}
		c := redis.NewClient(int64(i), "")
		t.Cleanup(c.Close)
		c.Attach(redis.Access{Open: func() (*redis.Store, error) { return p.get(of) }})
		must(t, c.Do([]string{"SUBSCRIBE", "c"}))
		c.Drain()
	}
	if refused != 5 {
		t.Errorf("%d stores were refused, want 5 of 8", refused)
	}
	if _, err := p.get(&resource.Provisioned{ID: "other", OrgID: "other"}); err != nil {
		t.Errorf("another organization: %v", err)
	}
}
