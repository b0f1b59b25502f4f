package redis

import (
	"errors"
	"runtime/debug"
	"strings"
	"time"
)

// runClient runs a client's requests, up to a limit.
func (s *Store) runClient(c *Client) {
	s.turn = append(s.turn, c)
	if c.paused { // by a store that was closed since
		c.paused = false
		c.pin()
	}
	for range turnCommands {
		if c.blocked != nil || c.quitting {
			return // it is enqueued again if it goes on
		}
		if s.log.full() {
			break
		}
		args, ok := c.nextToRun()
		if !ok {
			return
		}
		if s.awaitPause(c, args) {
			return
		}
		if s.scripts.running != nil {
			s.run(c, args) // not execute: the script's frame must stay open, and this request changes nothing
		} else {
			s.execute(c, args)
		}
	}
	s.mu.Lock()
	s.runnable = append(s.runnable, c)
	s.wakeUp()
	s.mu.Unlock()
}

// execute runs a client's request, and then the blocked requests that can go on after it.
func (s *Store) execute(c *Client, args []string) {
	s.run(c, args)
	s.log.endFrame()
	s.serveBlocked()
	s.broadcast()
}

// run runs a request, or adds it to its client's transaction.
func (s *Store) run(c *Client, args []string) {
	s.stats.commands++
	s.running = c
	now := s.options.Now()
	start := len(c.out.b)
	if s.options.Reply > 0 {
		c.out.limit = start + s.options.Reply
	}
	skip := c.muted == replySkip
	if skip {
		c.muted = replyAll
	}
	cmd, err := s.table.find(args)
	if err == nil {
		c.last = cmd
		c.lastAt = now
		err = s.admit(c, cmd)
	}
	switch {
	case err != nil:
		if cmd != nil {
			s.commandStats(cmd).rejected++
		}
		s.refuse(c, args, err)
	case c.queue != nil && !cmd.immediate():
		c.enqueue(cmd, args)
	default:
		s.current = call{Store: s, client: c, cmd: cmd, args: args, out: &c.out.reply, now: now.UnixMilli()}
		s.call(&s.current)
		s.current = call{}
	}
	if c.queue == nil && (cmd == nil || !strings.HasPrefix(cmd.name, "client|")) {
		c.tracking.caching = false
	}
	s.running = nil
	if c.blocked == nil {
		c.out.requests++
	}
	s.limitReply(c, start)
	c.out.limit = 0
	c.out.full = false
	c.mute(skip, start)
	c.appendLater()
}

// admit returns an error if a client must not run a command now.
func (s *Store) admit(c *Client, cmd *command) error {
	if r := s.scripts.running; r != nil && !cmd.flags.has(flagAllowBusy) {
		return r.busyError()
	}
	if c.subscriptions() > 0 && !c.out.resp3 && !cmd.flags.has(flagSubscribed) {
		return errorf("ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context", cmd.name)
	}
	return s.countRefused(s.admitWrite(cmd.flags))
}

// countRefused counts a command that is refused for lack of room.
func (s *Store) countRefused(err error) error {
	if err != nil {
		s.options.Counters.Refused.Add(1)
	}
	return err
}

// admitWrite returns an error if there is no room for the writes of commands with these flags.
func (s *Store) admitWrite(f flags) error {
	if !f.has(flagDenyOOM) {
		return nil
	}
	if s.options.Writable != nil {
		if err := s.options.Writable(); err != nil {
			return err
		}
	}
	return s.admitMemory()
}

// call runs a command. An error replaces anything that it has appended to its reply.
func (s *Store) call(x *call) {
	start := len(x.out.b)
	x.noteMissing()
	began := time.Now()
	err := s.runRecovered(x)
	if errors.Is(err, errBlocked) {
		x.out.b = x.out.b[:start]
		return
	}
	if err != nil {
		x.out.b = x.out.b[:start]
		x.out.error(err.Error())
	}
	n := s.commandStats(x.cmd)
	n.calls++
	n.took += time.Since(began)
	n.failed += int64(flagNumber(len(x.out.b) > start && x.out.b[start] == '-'))
	if len(x.out.b) > start && x.out.b[start] == '-' && !x.counted {
		s.countError(string(x.out.b[start+1:]))
	}
	if x.cmd.flags.has(flagReadonly) && x.client.tracking.on {
		x.remember()
	}
	if len(x.noted) > 0 {
		x.publishEvents()
	}
	s.stats.changes += int64(x.changes)
	if x.changes > 0 && !x.effects {
		s.log.effect(x.args...)
	}
}

// runRecovered runs a command. One that panics may leave the keyspace in any state, so the store then
// reads its log again.
func (s *Store) runRecovered(x *call) (err error) {
	defer func() {
		if v := recover(); v != nil {
			s.options.Log.Error("a command panicked", "command", x.cmd.name, "panic", v, "stack", string(debug.Stack()))
			err = errors.New("ERR internal error")
			s.panicked = true
		}
	}()
	return x.cmd.run(x)
}
