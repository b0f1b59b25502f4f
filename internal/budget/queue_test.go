package budget_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/budget"
)

// TestQueueServesInTurn: an organization that waits with one request comes before one that has had a slot
// and waits with many.
func TestQueueServesInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := budget.NewQueue(1)
		if err := q.Enter(t.Context(), "a", "first"); err != nil {
			t.Fatal(err)
		}
		var order []string
		enter := func(org, part string) {
			go func() {
				if err := q.Enter(t.Context(), org, part); err != nil {
					t.Error(err)
				}
				order = append(order, org+"/"+part)
				q.Leave(org)
			}()
			synctest.Wait()
		}
		for range 2 {
			enter("a", "x")
		}
		enter("a", "y")
		enter("b", "z")
		q.Leave("a")
		synctest.Wait()
		if want := []string{"b/z", "a/x", "a/y", "a/x"}; !slices.Equal(order, want) {
			t.Errorf("%v, want %v", order, want)
		}
		if q.Waiting() != 0 {
			t.Errorf("%d wait", q.Waiting())
		}
	})
}

func TestQueueKeepsASlotForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := budget.NewQueue(3)
		var running atomic.Int64
		for i := range 10 {
			go func() {
				if q.Enter(t.Context(), "greedy", fmt.Sprint(i)) == nil {
					running.Add(1)
				}
			}()
		}
		synctest.Wait()
		if running.Load() != 2 {
			t.Errorf("%d of 3 slots", running.Load())
		}
		if q.Running() != 2 {
			t.Errorf("%d have slots", q.Running())
		}
		if q.Contended("greedy") != true {
			t.Error("nobody seems to wait")
		}
		if err := q.Enter(t.Context(), "other", ""); err != nil {
			t.Error(err)
		}
		q.Leave("other")
		for range 10 { // each one that leaves lets another one in
			q.Leave("greedy")
			synctest.Wait()
		}
		if running.Load() != 10 {
			t.Errorf("%d ran, want 10", running.Load())
		}
	})
}

// TestQueueEntersAndCancels has many enter with contexts that end at random, and verifies that slots
// are neither lost nor made.
func TestQueueEntersAndCancels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := budget.NewQueue(2)
		var running atomic.Int64
		var all sync.WaitGroup
		for i := range 300 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%7)*time.Millisecond)
				defer cancel()
				org := fmt.Sprint(i % 3)
				err := q.Enter(ctx, org, fmt.Sprint(i%5))
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Error(err)
					}
					return
				}
				if n := running.Add(1); n > 2 {
					t.Errorf("%d have slots", n)
				}
				time.Sleep(time.Millisecond)
				running.Add(-1)
				q.Leave(org)
			})
		}
		all.Wait()
		if q.Waiting() != 0 || q.Contended("0") {
			t.Error("somebody still waits")
		}
		for _, org := range []string{"0", "1"} { // both slots are free
			if err := q.Enter(t.Context(), org, ""); err != nil {
				t.Fatal(err)
			}
		}
	})
}
