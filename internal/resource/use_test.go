package resource_test

import (
	"fmt"
	"testing"

	"steward/internal/resource"
)

// TestUseOfManyResourcesIsCountedTogether bounds the number of series in the metrics.
func TestUseOfManyResourcesIsCountedTogether(t *testing.T) {
	type counters struct {
		org, id string
		n       int
	}
	used := resource.Used[counters]{New: func(org, id string) *counters { return &counters{org: org, id: id} }}
	for i := range resource.MaxUsed + 500 {
		used.Of("org", fmt.Sprint(i)).n++
		used.Of("org", fmt.Sprint(i)).n++
	}
	total := 0
	for _, c := range used.All() {
		total += c.n
		if c.id == resource.Other && (c.org != resource.Other || c.n != 1000) {
			t.Errorf("%+v", *c)
		}
	}
	if n := len(used.All()); n != resource.MaxUsed+1 || total != 2*(resource.MaxUsed+500) {
		t.Errorf("%d counters of %d uses", n, total)
	}
	used.Forget("1")
	used.Forget("2")
	if c := used.Of("org", "new"); c.id != "new" {
		t.Errorf("there is room for %+v", *c)
	}
}
