package redis

import (
	"slices"
	"time"
)

// pause is the state of CLIENT PAUSE, which stops commands that write, or all. Their clients wait for
// the pause to end. Meanwhile no key expires or is evicted.
type pause struct {
	until   time.Time // zero if nothing is stopped
	all     bool
	waiting []*Client
}

// maxPause is the longest pause. Longer ones are cut to it.
const maxPause = time.Hour

func clientPause(x *call) error {
	all := len(x.args) == 3 || x.is(3, "ALL")
	if len(x.args) > 4 || !all && !x.is(3, "WRITE") {
		return errorf("ERR CLIENT PAUSE mode must be WRITE or ALL")
	}
	ms, ok := parseInt(x.args[2])
	switch {
	case !ok:
		return errorf("ERR timeout is not an integer or out of range")
	case ms < 0:
		return errorf("ERR timeout is negative")
	}
	if x.pause.until.IsZero() {
		x.pin(1)
	}
	until := x.options.Now().Add(time.Duration(min(ms, maxPause.Milliseconds())) * time.Millisecond)
	if until.After(x.pause.until) {
		x.pause.until = until
	}
	x.pause.all = x.pause.all || all
	return x.replyOK()
}

func clientUnpause(x *call) error {
	x.unpause()
	return x.replyOK()
}

// paused reports whether there is a pause. It ends one whose time is up.
func (s *Store) paused() bool {
	if s.pause.until.IsZero() {
		return false
	}
	if s.options.Now().Before(s.pause.until) {
		return true
	}
	s.unpause()
	return false
}

// unpause lets the waiting clients go on.
func (s *Store) unpause() {
	if s.pause.until.IsZero() {
		return
	}
	waiting := s.pause.waiting
	s.pause = pause{}
	s.pin(-1)
	for _, c := range waiting {
		c.paused = false
		c.pin()
		s.enqueue(c)
	}
}

// awaitPause makes a client's request wait for the end of a pause. It reports whether it has to.
func (s *Store) awaitPause(c *Client, args []string) bool {
	if !s.paused() {
		return false
	}
	cmd, err := s.table.find(args)
	if err != nil || c.queue != nil && !cmd.immediate() || cmd.name == "client|unpause" {
		return false
	}
	if !s.pause.all && !s.mayWrite(c, cmd, args) {
		return false
	}
	c.putBack(args)
	s.pause.waiting = append(s.pause.waiting, c)
	c.paused = true
	c.pin()
	return true
}

// mayWrite reports whether a request may write or send messages.
func (s *Store) mayWrite(c *Client, cmd *command, args []string) bool {
	switch cmd.name {
	case "exec":
		return c.queue != nil && slices.ContainsFunc(c.queue.commands, func(q queued) bool { return s.mayWrite(nil, q.cmd, q.args) })
	case "eval", "evalsha", "fcall":
		return !s.scriptFlags(cmd.name, args[1]).has(scriptNoWrites)
	}
	return cmd.flags.has(flagWrite) || cmd.mayReplicate()
}

// scriptFlags returns the flags for a request's script or function; none if there is no such script.
func (s *Store) scriptFlags(command, name string) scriptFlags {
	switch command {
	case "eval":
		flags, _, _ := cutShebang(name)
		return flags
	case "evalsha":
		if script := s.scripts.cache.find(name); script != nil {
			return script.flags
		}
	default:
		for _, b := range s.scripts.libraries {
			if f := b.findFold(name); f != nil {
				return f.flags
			}
		}
	}
	return 0
}

// putBack returns a request to the front of the inbox.
func (c *Client) putBack(args []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inbox.PushFront(request{args: args, charged: c.running})
	c.size += sizeOf(args)
	c.running = 0
}
