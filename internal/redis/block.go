package redis

import (
	"math"
	"slices"
	"time"
)

// blocked is a request that waits for keys.
type blocked struct {
	cmd  *command
	args []string
	keys []string
	// woken is the key that made it run again.
	woken string
	// deadline is the time it ends without a result; zero if never.
	deadline time.Time
	// expire appends the reply for that case.
	expire func(*reply)
}

// timers holds the blocked clients with a deadline.
type timers struct{ tree tree[*Client] }

func deadlineLess(a, b *Client) bool {
	if !a.blocked.deadline.Equal(b.blocked.deadline) {
		return a.blocked.deadline.Before(b.blocked.deadline)
	}
	return a.ID < b.ID
}

// next returns the first deadline.
func (t *timers) next() (time.Time, bool) {
	if t.tree == nil || t.tree.Len() == 0 {
		return time.Time{}, false
	}
	c, _ := t.tree.Min()
	return c.blocked.deadline, true
}

// block makes a client wait until one of its keys changes, and returns errBlocked. The command then
// runs again with args, in which the caller may have replaced some. Transactions and scripts never
// block; there, expire replies at once. A zero timeout means forever.
func (x *call) block(args, keys []string, timeout time.Duration, expire func(*reply)) error {
	if x.nested {
		expire(x.out)
		return nil
	}
	if x.client.blocked != nil {
		return errBlocked // it ran again in vain
	}
	b := &blocked{cmd: x.cmd, args: args, keys: slices.Compact(slices.Sorted(slices.Values(keys))), expire: expire}
	if timeout > 0 {
		b.deadline = x.options.Now().Add(timeout)
	}
	x.client.blocked = b
	for _, key := range b.keys {
		x.waiting[key] = append(x.waiting[key], x.client)
	}
	if timeout > 0 {
		if x.timers.tree == nil {
			x.timers.tree = newTree(0, deadlineLess)
		}
		x.timers.tree.Set(x.client)
	}
	x.client.pin()
	return errBlocked
}

// candidates returns the keys that a blocking command should look at. When it runs again, that is the
// changed key.
func (x *call) candidates(keys []string) []string {
	if b := x.client.blocked; b != nil {
		return []string{b.woken}
	}
	return keys
}

// maxTimeout is the longest timeout; longer ones make no difference.
const maxTimeout = 100 * 365 * 24 * time.Hour

// timeoutArg reads a blocking command's timeout in seconds. As in Redis, one whose milliseconds do not
// fit into 64 bits counts as negative.
func (x *call) timeoutArg(i int) (time.Duration, error) {
	seconds, ok := parseFloat(x.args[i])
	if !ok {
		return 0, errorf("ERR timeout is not a float or out of range")
	}
	ms := math.Ceil(seconds * 1000)
	if ms < 0 || ms >= math.MaxInt64 {
		return 0, errorf("ERR timeout is negative")
	}
	return time.Duration(min(ms, float64(maxTimeout.Milliseconds()))) * time.Millisecond, nil
}

// unblock lets a client go on with its next requests.
func (s *Store) unblock(c *Client) {
	b := c.blocked
	if !b.deadline.IsZero() {
		s.timers.tree.Delete(c)
	}
	for _, key := range b.keys {
		s.waiting[key] = slices.DeleteFunc(s.waiting[key], func(other *Client) bool { return other == c })
		if len(s.waiting[key]) == 0 {
			delete(s.waiting, key)
		}
	}
	c.blocked = nil
	c.pin()
	s.enqueue(c)
}

// signal remembers that clients waiting for a key may go on.
func (s *Store) signal(key string) {
	if !slices.Contains(s.ready, key) {
		s.ready = append(s.ready, key)
	}
}

// serveBlocked reruns the requests of blocked clients whose keys have changed, longest wait first,
// until none makes progress.
func (s *Store) serveBlocked() {
	for len(s.ready) > 0 {
		key := s.ready[0]
		s.ready = s.ready[1:]
		for _, c := range slices.Clone(s.waiting[key]) {
			if c.blocked != nil {
				c.blocked.woken = key
				s.retry(c)
			}
		}
	}
}

// retry reruns a blocked client's request after a key has changed. The client stays blocked if there is
// still nothing for it.
func (s *Store) retry(c *Client) {
	b := c.blocked
	start := len(c.out.b)
	x := &call{Store: s, client: c, cmd: b.cmd, args: b.args, out: &c.out.reply, now: s.now()}
	s.running = c
	s.call(x)
	s.running = nil
	s.log.endFrame()
	if len(c.out.b) == start {
		return
	}
	if !c.chargeReplies() {
		c.drop()
	}
	c.appendLater()
	s.answered(c)
}

// answered lets a blocked client go on after its answer.
func (s *Store) answered(c *Client) {
	c.out.requests++
	s.turn = append(s.turn, c)
	s.unblock(c)
}

// runTimers answers the blocked clients whose time is up.
func (s *Store) runTimers() {
	for {
		at, ok := s.timers.next()
		if !ok || at.After(s.options.Now()) {
			return
		}
		c, _ := s.timers.tree.Min()
		s.commandStats(c.blocked.cmd).calls++
		c.blocked.expire(&c.out.reply)
		s.answered(c)
	}
}
