package redis

import "strings"

// queue holds the commands between MULTI and EXEC.
type queue struct {
	commands []queued
	// size estimates their bytes, charged is the amount charged for them, and flags combines all their
	// flags.
	size, charged int
	flags         flags
	// failed reports whether one of them was refused.
	failed bool
}

type queued struct {
	cmd  *command
	args []string
}

// transactionCommands has the transaction commands.
var transactionCommands = []*command{
	{name: "multi", arity: 1, flags: flagAllowBusy | flagNoScript | flagFast | flagNoMulti, run: multi, categories: "transaction"},
	{name: "exec", arity: 1, flags: flagNoScript, run: execQueue, categories: "transaction"},
	{name: "discard", arity: 1, flags: flagAllowBusy | flagNoScript | flagFast, run: discard, categories: "transaction"},
	{name: "watch", arity: -2, flags: flagAllowBusy | flagNoScript | flagFast | flagNoMulti, first: 1, last: -1, run: watch, categories: "transaction"},
	{name: "unwatch", arity: 1, flags: flagAllowBusy | flagNoScript | flagFast, run: unwatch, categories: "transaction"},
}

// immediate reports whether a command runs inside a transaction at once instead of being queued.
func (c *command) immediate() bool {
	switch c.name {
	case "multi", "exec", "discard", "watch", "quit", "reset":
		return true
	}
	return false
}

// refuse answers a request that will not run. If that is EXEC, it discards the transaction.
func (s *Store) refuse(c *Client, args []string, err error) {
	if strings.EqualFold(args[0], "exec") {
		err = s.abort(c, err)
	}
	c.fail(err)
}

// abort discards a client's transaction, and returns an error with the reason.
func (s *Store) abort(c *Client, reason error) error {
	c.dropQueue()
	s.unwatchAll(c)
	return errorf("EXECABORT Transaction discarded because of: %s", strings.TrimPrefix(reason.Error(), "ERR "))
}

// enqueue adds a command to its client's transaction.
func (c *Client) enqueue(cmd *command, args []string) {
	if cmd.flags.has(flagNoMulti) {
		c.fail(errorf("ERR Command not allowed inside a transaction"))
		return
	}
	if err := c.store.admitQueued(c, args); err != nil {
		c.fail(err)
		return
	}
	c.queue.flags |= cmd.flags
	c.queue.commands = append(c.queue.commands, queued{cmd, args})
	c.out.simple("QUEUED")
}

const (
	errTransaction replyError = "ERR the transaction is too large"
	errTooMuch     replyError = "ERR a script or transaction changes too much at once"
)

// admitQueued charges a command in a transaction, and returns an error if there are too many or no
// memory is left. The charge for the current request moves to the transaction.
func (s *Store) admitQueued(c *Client, args []string) error {
	q := c.queue
	size := sizeOf(args)
	if limit := s.options.Queue; limit > 0 && len(q.commands) >= limit {
		return errTransaction
	}
	if limit := s.options.QueueBytes; limit > 0 && q.size+size > limit {
		return errTransaction
	}
	if int64(q.size+size) > s.options.Memory {
		return errOOM
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if more := size - c.running; q.size+size > FreeMemory && more > 0 {
		if !c.take(more) {
			return errMemory
		}
		c.running += more
	}
	q.size += size
	q.charged += c.running
	c.running = 0
	return nil
}

// dropQueue ends a client's transaction.
func (c *Client) dropQueue() {
	if c.queue == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveBack(&c.queue.charged)
	c.queue = nil
}

// takeQueue ends a client's transaction and returns it. Its charge moves to the current request, and is
// returned with that.
func (c *Client) takeQueue() *queue {
	q := c.queue
	c.queue = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running += q.charged
	q.charged = 0
	return q
}

func multi(x *call) error {
	if x.client.queue != nil {
		return errorf("ERR MULTI calls can not be nested")
	}
	x.client.queue = &queue{}
	x.client.pin()
	return x.replyOK()
}

func discard(x *call) error {
	if x.client.queue == nil {
		return errorf("ERR DISCARD without MULTI")
	}
	x.client.dropQueue()
	x.unwatchAll(x.client)
	return x.replyOK()
}

// execQueue runs a transaction's commands. Their changes share one frame in the log.
func execQueue(x *call) error {
	if x.client.queue == nil {
		return errorf("ERR EXEC without MULTI")
	}
	broken := x.client.broken || x.watchesExpired(x.client)
	q := x.client.takeQueue()
	x.unwatchAll(x.client)
	if q.failed {
		return errorf("EXECABORT Transaction discarded because of previous errors.")
	}
	if broken {
		return x.replyNullArray()
	}
	if err := x.countRefused(x.admitWrite(q.flags)); err != nil {
		return x.abort(x.client, err)
	}
	x.out.array(len(q.commands))
	for _, c := range q.commands {
		if err := x.countRefused(x.admitMore(c.cmd.flags)); err != nil {
			x.out.error(err.Error())
			continue
		}
		x.Store.call(&call{Store: x.Store, client: x.client, cmd: c.cmd, args: c.args, out: x.out, now: x.now, nested: true})
	}
	x.effects = true // the commands have written theirs
	return nil
}

func watch(x *call) error {
	if x.client.queue != nil {
		return errorf("ERR WATCH inside MULTI is not allowed")
	}
	if !x.reserve(x.args[1:]...) {
		return errNames
	}
	for _, key := range x.args[1:] {
		if e := x.keys.find(key); e != nil && e.expired(x.now) {
			x.expireNow(e)
		}
		if x.client.watching[key] {
			x.release(key)
			continue
		}
		if x.client.watching == nil {
			x.client.watching = map[string]bool{}
		}
		key = strings.Clone(key)
		x.watched.add(key, x.client)
		x.client.watching[key] = true
	}
	x.client.pin()
	return x.replyOK()
}

func unwatch(x *call) error {
	x.unwatchAll(x.client)
	return x.replyOK()
}

// unwatchAll forgets the keys that a client watches.
func (s *Store) unwatchAll(c *Client) {
	for key := range c.watching {
		s.watched.remove(key, c)
		s.release(key)
	}
	c.watching = nil
	c.broken = false
	c.pin()
}

// watchesExpired reports whether a key that a client watches has expired since.
func (s *Store) watchesExpired(c *Client) bool {
	for key := range c.watching {
		if e := s.keys.find(key); e != nil && e.expired(s.now()) {
			return true
		}
	}
	return false
}
