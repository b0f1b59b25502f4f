package webhook

import (
	"maps"
	"slices"
	"time"

	"steward/internal/stamp"
)

const (
	// fillLanes is how many destinations are read for at once.
	fillLanes = 32
	// renewBefore is how much of a turn may be left when it is renewed.
	renewBefore = turnFor / 2
	// lookAgain is how often a lane that has its oldest row in hand is read from the beginning anyway: another replica, or one whose clock
	// was put back, may have added rows behind it.
	lookAgain = time.Second
)

// wish is an ask with what was known of its lane when it was made.
type wish struct {
	ask
	lane     *lane
	arrivals uint64
	round    uint64
}

// turnless gives destinations with ready rows whose turn is not ours.
func (l *Lanes) turnless() (destinationIDs []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := stamp.Of(l.now())
	for _, n := range l.byID {
		if l.open && n.backlog && n.turn <= now && len(destinationIDs) < fillLanes {
			destinationIDs = append(destinationIDs, n.id)
		}
	}
	return destinationIDs
}

// wishes gives asks for lanes that have ready rows, the turn, and room for them.
func (l *Lanes) wishes() (all []*wish) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := stamp.Of(l.now())
	for _, n := range l.byID {
		if want, bytes := n.room(l.bytes); l.open && n.backlog && n.turn > now && want > 0 && len(all) < fillLanes {
			all = append(all, l.wish(n, want, bytes, now))
		}
	}
	return all
}

func (l *Lanes) wish(n *lane, want int, bytes int64, now stamp.Time) *wish {
	if n.again {
		n.from, n.again, n.begun = place{}, false, now
	}
	w := &wish{ask: ask{destinationID: n.id, from: n.from, limit: want, bytes: bytes}, lane: n, arrivals: n.arrivals, round: l.round}
	if n.from.before(n.top) {
		w.held = maps.Clone(n.held)
		w.limit += len(w.held)
	}
	return w
}

// room is how many deliveries a lane may read, and of how many bytes: enough to keep its slots busy until the next reading, once half of
// what it may hold is gone.
func (n *lane) room(all int64) (count int, bytes int64) {
	waiting := len(n.queue)
	if n.bytes > laneBytes/2 || all > allBytes {
		count = max(0, n.slots()-waiting-n.running)
		return count, int64(count) * inlineBody
	}
	if waiting > laneQueue/2 {
		return 0, 0
	}
	bytes = laneBytes - n.bytes
	return min(laneQueue-waiting, max(1, int(bytes/n.typical))), bytes
}

// filled takes over what was read. Nothing reached the lane by another way meanwhile, since it has a backlog until now. A reading that
// came to the end of the ready rows ends that, unless others arrived while it went on, or are about to. It is false when nothing changed.
func (l *Lanes) filled(w *wish, by *Signer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := w.lane
	if !l.open || n.turn == 0 {
		return false
	}
	n.destination, n.signer, n.known = w.destination, by, l.round == w.round
	if early := slices.IndexFunc(w.tasks, func(t *task) bool { return n.coming[t.ID] }); early >= 0 {
		w.tasks, w.more = w.tasks[:early], true
	}
	if n.arrivals == w.arrivals {
		n.backlog = w.more
	}
	for _, t := range w.tasks {
		if n.from = t.place(); w.held[t.ID] == nil {
			l.push(n, t)
			n.typical = max(1, (n.typical*15+t.bytes())/16)
		}
	}
	return len(w.tasks) > 0 || !n.backlog
}

// seen notes the oldest ready rows of the database. One that is in hand tells nothing new, unless it was long ago that the lane was read
// from the beginning.
func (l *Lanes) seen(all []oldest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	recently := stamp.Of(l.now()).Add(-lookAgain)
	for _, o := range all {
		n := l.lane(o.destinationID)
		if n.held[o.deliveryID] == nil || n.begun < recently {
			n.again, n.backlog = true, true
		}
	}
}

// renewable gives the turns that should be renewed now.
func (l *Lanes) renewable() (destinationIDs []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	soon := stamp.Of(l.now()).Add(renewBefore)
	for _, n := range l.byID {
		busy := len(n.held) > 0 || n.used > soon.Add(-turnFor)
		if n.turn != 0 && n.turn < soon && busy {
			destinationIDs = append(destinationIDs, n.id)
		}
	}
	return destinationIDs
}

// turns notes which of the turns that were asked for are ours now. Where another process has it, that one hears of the ready rows.
func (l *Lanes) turns(asked, mine []string, until stamp.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, destinationID := range asked {
		n := l.byID[destinationID]
		if n == nil {
			continue
		}
		if slices.Contains(mine, destinationID) {
			n.turn = until
			continue
		}
		l.drop(n)
		n.backlog = false
	}
}

// tidy forgets lanes that had nothing to do for long.
func (l *Lanes) tidy() {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := stamp.Of(l.now()).Add(-idleLane)
	for destinationID, n := range l.byID {
		if n.used < old && len(n.held)+len(n.coming)+n.running == 0 && !n.backlog {
			delete(l.byID, destinationID)
		}
	}
}

// close takes no more work. Goroutines end after the delivery that they are sending; what is queued stays ready in the database.
func (l *Lanes) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open = false
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
