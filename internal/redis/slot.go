package redis

import "time"

// A store whose turn took longer than slowTurn needs a slot for those that follow, for slowFactor times as long.
const (
	slowTurn   = 10 * time.Millisecond
	slowFactor = 10
)

// turnSlot is the slot of a processor that a store may have in a turn. Stores with short turns need none, and those with
// long ones cannot take all processors from them.
type turnSlot struct {
	began time.Time
	leave func()
	// slow is until when the store needs a slot in each turn.
	slow time.Time
}

// begin begins a turn.
func (t *turnSlot) begin(enter func() func()) {
	t.began = time.Now()
	if t.began.Before(t.slow) {
		t.enter(enter)
	}
}

// enter takes a slot if the turn has none. Waiting for it is no part of the turn.
func (t *turnSlot) enter(enter func() func()) {
	if t.leave != nil || enter == nil {
		return
	}
	waiting := time.Now()
	t.leave = enter()
	t.began = t.began.Add(time.Since(waiting))
}

// took returns how long the turn has taken.
func (t *turnSlot) took() time.Duration { return time.Since(t.began) }

// end ends what a turn does with a processor, and gives the slot back.
func (t *turnSlot) end() {
	if took := t.took(); took > slowTurn {
		t.slow = time.Now().Add(slowFactor * took)
	}
	if t.leave != nil {
		t.leave()
		t.leave = nil
	}
}
