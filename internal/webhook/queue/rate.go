package queue

import (
	"time"

	"steward/internal/stamp"
)

// maxRateWait is how long a lane waits for its rate before it reads the destination's limits again.
const maxRateWait = 5 * time.Second

// Limits are how a destination's deliveries are sent.
type Limits struct {
	Concurrency int
	Rate        Rate
	// OthersUntil is the time until which another process may have sent to a destination with a rate.
	OthersUntil stamp.Time
}

// Rate limits how many attempts begin in any period. The zero value is no limit.
type Rate struct {
	Limit int
	Per   time.Duration
}

// lateness is how much later than it could an attempt may begin without slowing down those after it.
const lateness = 20 * time.Millisecond

// interval is the time from one attempt to the next. The lateness is part of it: attempts that catch up
// must not be too many in a period either. With k attempts in less than Per, (k-1) intervals are less than
// Per + lateness, so k is at most Limit.
func (r Rate) interval() time.Duration {
	return (r.Per + lateness + time.Duration(r.Limit) - 1) / time.Duration(r.Limit)
}

// ahead is how many attempts may begin in a second, at least 1.
func (r Rate) ahead() int { return max(1, int(time.Duration(r.Limit)*time.Second/r.Per)) }

// limit notes a destination's limits. We plan the next attempt as if others had sent until they could not
// any more.
func (l *lanes) limit(n *lane, limits Limits) {
	n.slots = limits.Concurrency
	changed := n.rate != limits.Rate
	n.rate = limits.Rate
	if n.rate.Limit == 0 {
		return
	}
	if changed {
		n.next = min(n.next, stamp.Of(l.now()).Add(n.rate.interval()+lateness))
	}
	if limits.OthersUntil != 0 {
		n.next = max(n.next, limits.OthersUntil.Add(n.rate.interval()+lateness))
	}
}

// wait returns how long a lane has to wait for its rate.
func (n *lane) wait(now stamp.Time) time.Duration {
	if n.rate.Limit == 0 {
		return 0
	}
	return max(0, n.next.Sub(now)-lateness)
}

// ahead returns how many deliveries of a lane may wait in memory. With a rate, most would only take up
// memory there.
func (l *lanes) ahead(n *lane) int {
	if n.rate.Limit > 0 {
		return min(l.readAhead, n.rate.ahead())
	}
	return l.readAhead
}

// resumeAfter has a lane resumed, unless it will be before.
func (l *lanes) resumeAfter(n *lane, wait time.Duration) {
	wait = min(wait, maxRateWait)
	if at := stamp.Of(l.now()).Add(wait); n.timer == 0 || at < n.timer {
		n.timer = at
		l.later(n, wait)
	}
}

// resume returns the tasks to send now of a lane that waited for its rate. If it has to wait for much
// longer, its tasks go back to the queue: the next read gets the limits that are in effect by then.
func (l *lanes) resume(n *lane) (start []*Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n.timer = 0
	if n.wait(stamp.Of(l.now())) > time.Second {
		waiting := n.pending
		n.pending = nil
		for _, t := range waiting {
			l.abandon(t)
		}
	}
	start = l.dispatch(n)
	l.offerRoom(n)
	return start
}
