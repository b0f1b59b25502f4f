package budget_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"steward/internal/budget"
)

// TestWaitServesInOrder: what is returned goes to who has waited longest, but to a charge that already
// has something first, and to another organization without waiting.
func TestWaitServesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := budget.NewPool(3200, 100) // an organization has 1200 of 2400
		holder := pool.Charge("a", "")
		begun := pool.Charge("a", "")
		if !holder.Take(1100) || !begun.Take(100) {
			t.Fatal("no room")
		}
		var order []string
		wait := func(name string, c *budget.Charge) {
			go func() {
				if err := c.Wait(t.Context(), 100); err != nil {
					t.Error(err)
				}
				order = append(order, name)
			}()
			synctest.Wait()
		}
		wait("first", pool.Charge("a", ""))
		wait("second", pool.Charge("a", ""))
		wait("begun", begun)
		if err := pool.Charge("b", "").Wait(t.Context(), 100); err != nil || len(order) > 0 {
			t.Fatalf("another organization: %v; %v did not wait", err, order)
		}
		for range 3 {
			holder.Return(100)
			synctest.Wait()
		}
		if want := []string{"begun", "first", "second"}; !slices.Equal(order, want) {
			t.Errorf("%v, want %v", order, want)
		}
		if n := pool.Usage().Refused; n != 0 {
			t.Errorf("%d were refused", n)
		}
	})
}

func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := budget.NewPool(3200, 100)
		pool.Charge("a", "").Take(1150)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		small := make(chan error, 1)
		go func() {
			synctest.Wait() // it stands behind the large one
			small <- pool.Charge("a", "").Wait(t.Context(), 50)
		}()
		if err := pool.Charge("a", "").Wait(ctx, 500); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("500: %v", err)
		}
		if err := <-small; err != nil {
			t.Errorf("50: %v", err)
		}
		if u := pool.Usage(); u.Common != 1200 || u.Refused != 1 {
			t.Errorf("%+v", u)
		}
	})
}

func TestReadWhenRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := budget.NewPool(800<<10, 100<<10) // an organization has 300 KiB
		other := pool.Charge("org", "")
		other.Take(250 << 10)
		time.AfterFunc(5*time.Second, other.Release)
		c := pool.Charge("org", "")
		body, err := budget.ReadWhenRoom(c, strings.NewReader(strings.Repeat("x", 200<<10)), 200<<10, 10*time.Second)
		if err != nil || len(body) != 200<<10 {
			t.Errorf("%d bytes, %v", len(body), err)
		}
		late := pool.Charge("org", "")
		_, err = budget.ReadWhenRoom(late, strings.NewReader(strings.Repeat("x", 200<<10)), 200<<10, 10*time.Second)
		if !errors.Is(err, budget.ErrFull) || late.Used() != 0 {
			t.Errorf("%v, %d stay charged", err, late.Used())
		}
	})
}

func TestAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.7:4000":           "192.0.2.7",
		"[::ffff:192.0.2.7]:4000":  "192.0.2.7",
		"[2001:db8::1:2:3:4]:4000": "2001:db8::/64",
		"[fe80::1%eth0]:4000":      "fe80::/64",
		"2001:db8:0:0:ffff::1":     "2001:db8::/64",
		"pipe":                     "pipe",
	} {
		if got := budget.Address(remote); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}
