package budget_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/budget"
)

// TestRateIsSharedByOrganizations has one organization with 170 connections, whose turns cost ten times
// as much, and another with one. Each gets half.
func TestRateIsSharedByOrganizations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perSecond = 1000
		rate := budget.NewRate(perSecond, 0)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
		defer cancel()
		used := map[string]float64{}
		var all sync.WaitGroup
		use := func(org string, cost float64) {
			for rate.Enter(ctx, org) == nil {
				used[org] += cost
				rate.Leave(cost)
				time.Sleep(time.Millisecond) // it sends what it has got
			}
		}
		for range 170 {
			all.Go(func() { use("many", 100) })
		}
		all.Go(func() { use("one", 10) })
		all.Wait()
		total := used["many"] + used["one"]
		if total < 99*perSecond || total > 101*perSecond {
			t.Errorf("%v in 100 s", total)
		}
		if used["one"] < 0.45*total {
			t.Errorf("one connection got %v, those of another organization %v", used["one"], used["many"])
		}
	})
}

// TestRateServesNewcomersFirst: an organization that comes while another one uses all can use a burst
// before it has to share.
func TestRateServesNewcomersFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := budget.NewRate(1000, 500)
		ctx, cancel := context.WithCancel(t.Context())
		var others atomic.Int64
		for range 10 {
			go func() {
				for rate.Enter(ctx, "many") == nil {
					others.Add(10)
					rate.Leave(10)
				}
			}()
		}
		time.Sleep(10 * time.Second)
		before := others.Load()
		use := func(n int) int64 {
			for range n {
				if err := rate.Enter(ctx, "new"); err != nil {
					t.Fatal(err)
				}
				rate.Leave(10)
			}
			return others.Load() - before
		}
		if n := use(50); n > 20 {
			t.Errorf("others used %v while the new one used its burst", n)
		}
		if n := use(100); n < 900 || n > 1100 {
			t.Errorf("others used %v while the new one used 1000 more", n)
		}
		cancel()
		synctest.Wait()
	})
}

// TestRateSavesABurst: what was not used can be used later, up to the burst.
func TestRateSavesABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := budget.NewRate(10, 50)
		turn := func(org string) {
			if err := rate.Enter(t.Context(), org); err != nil {
				t.Fatal(err)
			}
			rate.Leave(10)
		}
		time.Sleep(time.Hour)
		start := time.Now()
		for i := range 6 { // the level may become negative
			turn(fmt.Sprint(i))
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("the burst took %v", took)
		}
		turn("late")
		if took := time.Since(start).Round(time.Millisecond); took != time.Second {
			t.Errorf("after the burst: %v", took)
		}
	})
}

func TestRateCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rate := budget.NewRate(1, 0)
		if err := rate.Enter(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, org := range []string{"a", "b"} {
			if err := rate.Enter(ctx, org); err == nil {
				t.Errorf("%s got a turn while another had one", org)
			}
		}
		rate.Leave(1)
		if err := rate.Enter(t.Context(), "b"); err != nil {
			t.Error(err)
		}
	})
}
