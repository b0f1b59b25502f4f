package redis

import (
	"math"
	"slices"
	"time"

	"github.com/tidwall/btree"
)

// blocked is a request that waits for keys.
type blocked struct {
	cmd  *command
	args []string
	keys []string
	// woken is the key because of which it is run again.
	woken string
	// deadline is when it ends without a result; zero if never.
	deadline time.Time
	// expire appends the reply that it has then.
	expire func(*reply)
}

// timers has the blocked clients that have a deadline.
type timers struct{ tree *btree.BTreeG[*Client] }

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

// block has a client wait until one of some keys has changed, and returns errBlocked. The command is then
// run again, with the same arguments but for those that were replaced in args. In a transaction or a script
// nothing blocks, and expire is what it replies at once. A timeout of zero means forever.
func (x *call) block(args, keys []string, timeout time.Duration, expire func(*reply)) error {
	if x.nested {
		expire(x.out)
		return nil
	}
	if x.client.blocked != nil {
		return errBlocked // it was run again in vain
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
			x.timers.tree = btree.NewBTreeGOptions(deadlineLess, btree.Options{NoLocks: true})
		}
		x.timers.tree.Set(x.client)
	}
	x.client.pin()
	return errBlocked
}

// candidates returns the keys at which a command that blocks looks: when it is run again, the one that has
// changed.
func (x *call) candidates(keys []string) []string {
	if b := x.client.blocked; b != nil {
		return []string{b.woken}
	}
	return keys
}

// maxTimeout is the longest timeout; longer ones are as good as none.
const maxTimeout = 100 * 365 * 24 * time.Hour

// timeoutArg returns the timeout of a blocking command, in seconds. Those that do not fit into 64 bits as
// milliseconds are negative in Redis.
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

// unblock has a client go on with its next requests.
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

// signal remembers that clients which wait for a key may go on.
func (s *Store) signal(key string) {
	if !slices.Contains(s.ready, key) {
		s.ready = append(s.ready, key)
	}
}

// serveBlocked runs the requests of blocked clients whose keys have changed again, those that wait longest
// first, until none of them goes on.
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

// retry runs the request of a blocked client again after a key has changed. It stays blocked if there is
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

// answered has a blocked client go on that has been answered.
func (s *Store) answered(c *Client) {
	c.out.requests++
	s.turn = append(s.turn, c)
	s.unblock(c)
}

// runTimers answers blocked clients whose time is over.
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
