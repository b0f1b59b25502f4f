package redis

import "time"

// After a turn longer than slowTurn, a store needs a slot for its turns during slowFactor times that
// long.
const (
	slowTurn   = 10 * time.Millisecond
	slowFactor = 10
)

// turnSlot is the processor slot that a store may hold during a turn. Stores with short turns need
// none, and those with long turns cannot take all processors from them.
type turnSlot struct {
	began time.Time
	leave func()
	// limit is the length from which a turn counts as long.
	limit time.Duration
	// slow is the time until which the store needs a slot for each turn.
	slow time.Time
}

func (t *turnSlot) begin(enter func() func()) {
	t.began = time.Now()
	if t.began.Before(t.slow) {
		t.enter(enter)
	}
}

// enter takes a slot if the turn has none. The wait does not count as part of the turn.
func (t *turnSlot) enter(enter func() func()) {
	if t.leave != nil || enter == nil {
		return
	}
	waiting := time.Now()
	t.leave = enter()
	t.began = t.began.Add(time.Since(waiting))
}

// took returns how long the turn has taken so far.
func (t *turnSlot) took() time.Duration { return time.Since(t.began) }

// end ends the turn's use of a processor, and gives the slot back.
func (t *turnSlot) end() {
	if took := t.took(); took > t.limit {
		t.slow = time.Now().Add(slowFactor * took)
	}
	if t.leave != nil {
		t.leave()
		t.leave = nil
	}
}
