package budget_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"steward/internal/budget"
)

// TestPoolKeepsShares has three organizations take and return at random, and verifies after each step
// that nobody has more than a share, that the books are exact, and that a fourth organization gets its
// grant.
func TestPoolKeepsShares(t *testing.T) {
	const grant, total = 100, 3200
	rapid.Check(t, func(t *rapid.T) {
		pool := budget.NewPool(total, grant)
		charges := map[string]*budget.Charge{}
		org := map[string]int64{}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			o := fmt.Sprint("org", rapid.IntRange(1, 3).Draw(t, "org"))
			key := o + fmt.Sprint("/", rapid.IntRange(1, 4).Draw(t, "part"))
			c := charges[key]
			if c == nil {
				c = pool.Charge(o, key)
				charges[key] = c
			}
			before := c.Used()
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				c.Release()
			case 1:
				c.Return(rapid.Int64Range(0, c.Used()).Draw(t, "returned"))
			default:
				n := rapid.Int64Range(1, 400).Draw(t, "n")
				if took := c.Take(n); took != (c.Used() == before+n) {
					t.Fatalf("Take(%d) is %v, and %d became %d", n, took, before, c.Used())
				}
			}
			org[o] += c.Used() - before
			checkUsage(t, pool, charges)
			for name, used := range org {
				// Half of what is not reserved, and what its four parts get from the reserve.
				if used > total*3/4/2+4*grant {
					t.Fatalf("%s has %d of %d", name, used, total)
				}
			}
			victim := pool.Charge("victim", "")
			if !victim.Take(grant) {
				t.Fatalf("an organization with nothing in use was refused: %+v", pool.Usage())
			}
			victim.Release()
		}
		for _, c := range charges {
			c.Release()
		}
		if u := pool.Usage(); u.Common != 0 || u.Reserve != 0 || u.Owners != 0 {
			t.Fatalf("after all was released: %+v", u)
		}
	})
}

func checkUsage(t *rapid.T, pool *budget.Pool, charges map[string]*budget.Charge) {
	var sum int64
	for _, c := range charges {
		sum += c.Used()
	}
	u := pool.Usage()
	if u.Common+u.Reserve != sum || sum > u.Total || u.Common < 0 || u.Reserve < 0 {
		t.Fatalf("%d are charged, the pool says %+v", sum, u)
	}
}

// TestPartsOfABusyOrganization: a part with nothing in use is served although another part has used
// up the share of their organization.
func TestPartsOfABusyOrganization(t *testing.T) {
	pool := budget.NewPool(3200, 100)
	for part := range 4 {
		c := pool.Charge("org", fmt.Sprint(part))
		for c.Take(100) {
		}
	}
	if !pool.Charge("org", "other").Take(100) {
		t.Error("a part with nothing in use was refused")
	}
}

func TestReleaseTwice(t *testing.T) {
	pool := budget.NewPool(800, 100)
	c := pool.Charge("org", "")
	c.Take(10)
	c.Release()
	c.Release()
	if u := pool.Usage(); u.Common+u.Reserve != 0 {
		t.Errorf("%+v", u)
	}
}
