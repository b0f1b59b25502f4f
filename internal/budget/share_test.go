package budget

import "testing"

// TestFitsTellsWhoseShareIsUsedUp has a pool whose common part and reserve are in use: one organization has its
// share, another could have more if that returned something.
func TestFitsTellsWhoseShareIsUsedUp(t *testing.T) {
	p := NewPool(1600, 1)
	a, b := p.Charge("a", "1"), p.Charge("b", "1")
	for _, c := range []*Charge{a, p.Charge("a", "2"), b, p.Charge("c", "1")} {
		if !c.Take(p.Share()) {
			t.Fatal("no room within the shares")
		}
	}
	if other := p.Charge("b", "2"); other.Take(100) || !other.Fits(100) {
		t.Error("an organization within its share")
	}
	if other := p.Charge("a", "3"); other.Take(100) || other.Fits(100) {
		t.Error("an organization that has used up its share")
	}
	if b.Fits(1) {
		t.Error("a part that has used up its share")
	}
}
