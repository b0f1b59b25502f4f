package webhook

import (
	"maps"
	"slices"
	"time"

	"steward/internal/stamp"
)

const (
	// claimLanes is how many destinations one transaction claims for.
	claimLanes = 32
	// renewBefore is how much of a lease or turn may be left when it is renewed.
	renewBefore = leaseFor / 2
)

// wish is a claim with what was known of its lane when it was made.
type wish struct {
	claim
	lane     *lane
	arrivals uint64
	round    uint64
}

// wishes gives claims for lanes that have ready rows and room for them.
func (l *Lanes) wishes() (all []*wish) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.byID {
		if len(all) == claimLanes || !l.open {
			break
		}
		if want := n.room(l.bytes); n.backlog && want > 0 {
			all = append(all, &wish{claim: claim{destinationID: n.id, want: want}, lane: n, arrivals: n.arrivals, round: l.round})
		}
	}
	return all
}

// room is how many deliveries a lane may claim: enough to keep its slots busy until the next claim, once half of the last ones are gone.
func (n *lane) room(all int64) int {
	waiting := len(n.queue) + n.reserved
	if n.bytes > laneBytes || all > allBytes {
		return max(0, n.slots()-waiting-n.running)
	}
	if waiting > laneQueue/2 {
		return 0
	}
	return laneQueue - waiting
}

// claimed takes over what was claimed. A claim that got less than it wanted has emptied the queue, unless more came meanwhile.
func (l *Lanes) claimed(w *wish, key []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := w.lane
	if len(w.tasks) < w.want && n.open == 0 && n.arrivals == w.arrivals {
		n.backlog = false
	}
	n.turn = 0
	if w.mine {
		n.turn = w.until
		n.destination, n.key, n.known = w.destination, key, l.round == w.round
	}
	for _, t := range w.tasks {
		l.push(n, t)
	}
}

// waiting notes destinations that have ready rows, as seen in the database.
func (l *Lanes) waiting(destinationIDs []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, destinationID := range destinationIDs {
		l.lane(destinationID).backlog = true
	}
}

// renewable gives the leases and turns that should be renewed now.
func (l *Lanes) renewable() (tasks []*task, turns []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	soon := stamp.Of(l.now()).Add(renewBefore)
	for t := range l.held {
		if t.until < soon {
			tasks = append(tasks, t)
		}
	}
	for _, n := range l.byID {
		busy := n.running+len(n.queue) > 0 || n.used > soon.Add(-leaseFor)
		if n.turn != 0 && n.turn < soon && busy {
			turns = append(turns, n.id)
		}
	}
	return tasks, turns
}

// renewed notes what was renewed: all leases, and of the turns those that no other process had taken meanwhile.
func (l *Lanes) renewed(tasks []*task, turns, kept []string, until stamp.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range tasks {
		t.until = until
	}
	for _, destinationID := range turns {
		n := l.byID[destinationID]
		if n == nil {
			continue
		}
		if n.turn = 0; slices.Contains(kept, destinationID) {
			n.turn = until
		}
	}
}

// tidy forgets lanes that had nothing to do for long.
func (l *Lanes) tidy() {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := stamp.Of(l.now()).Add(-idleLane)
	for destinationID, n := range l.byID {
		if n.used < old && len(n.queue)+n.reserved+n.running+n.open == 0 && !n.backlog {
			delete(l.byID, destinationID)
		}
	}
}

// close takes no more work. Goroutines end after the delivery that they are sending.
func (l *Lanes) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = false
}

// left gives what is in hand still, after close and wait: what was queued, and what was cut off while it was being sent.
func (l *Lanes) left() []*task {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.held))
}

// wait waits for the goroutines of the lanes, and tells whether they ended in time.
func (l *Lanes) wait(limit time.Duration) bool {
	done := make(chan struct{})
	go func() {
		l.served.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}
