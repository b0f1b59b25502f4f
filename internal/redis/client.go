package redis

import (
	"sync"
	"time"
)

// Client is a client of a store: a connection, or what runs commands without one.
type Client struct {
	// ID is the number of the client, and Address where it is connected from.
	ID      int64
	Address string
	Began   time.Time

	// What follows belongs to the goroutine of the store.

	store *Store
	out   output
	// queue are the commands since MULTI; nil if there was none.
	queue *queue
	// watching are the keys of WATCH; broken is whether one of them has been changed.
	watching map[string]bool
	broken   bool
	blocked  *blocked
	// channels, patterns and shards are the subscriptions.
	channels, patterns, shards map[string]bool
	pinned                     bool

	// mu guards what follows.
	mu sync.Mutex
	// inbox are requests that have been read and not run; size is about their bytes.
	inbox [][]string
	size  int
	// queued is whether the store has been told of the requests.
	queued bool
	closed bool
	// stalled is whether replies must be sent before more requests are run.
	stalled bool
	// open returns the store of the client.
	open func() (*Store, error)
	// room is signalled when requests have been taken from the inbox, or the client is closed.
	room sync.Cond
	// outbox has replies that are to be sent; sent is signalled when there are some.
	outbox []byte
	sent   sync.Cond
}

// output is what a client has been answered in the current turn.
type output struct {
	reply
	// requests is the number of requests that have been answered.
	requests int
}

// largeOutput is the number of bytes of replies at which other requests of a client wait.
const largeOutput = 1 << 20

// stall reports whether replies must be sent before more requests of the client are run. Send enqueues it
// again then.
func (c *Client) stall() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalled = len(c.out.b)+len(c.outbox) >= largeOutput
	return c.stalled
}

// newClient returns a client without a store.
func newClient() *Client {
	c := &Client{channels: map[string]bool{}, patterns: map[string]bool{}, shards: map[string]bool{}}
	c.room.L = &c.mu
	c.sent.L = &c.mu
	return c
}

// next takes a request from the inbox. If there is none, the client has to be enqueued when there is.
func (c *Client) next() ([]string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.room.Broadcast()
	if len(c.inbox) == 0 || c.closed {
		c.queued = false
		c.inbox = c.inbox[:0]
		c.size = 0
		return nil, false
	}
	args := c.inbox[0]
	c.inbox[0] = nil
	c.inbox = c.inbox[1:]
	c.size -= sizeOf(args)
	return args, true
}

// sizeOf returns about the number of bytes that a request takes in memory.
func sizeOf(args []string) int {
	n := 0
	for _, arg := range args {
		n += len(arg) + argOverhead
	}
	return n
}

// fail answers a request with an error. A transaction is not run after that.
func (c *Client) fail(err error) {
	if c.queue != nil {
		c.queue.failed = true
	}
	c.out.error(err.Error())
}

// failReplies replaces the replies of the turn by errors.
func (c *Client) failReplies(text string) {
	c.out.b = c.out.b[:0]
	for range c.out.requests {
		c.out.error(text)
	}
}

// flush hands the replies of a turn over to what sends them.
func (c *Client) flush() {
	c.out.requests = 0
	if len(c.out.b) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.outbox) == 0 {
		c.outbox, c.out.b = c.out.b, c.outbox
	} else {
		c.outbox = append(c.outbox, c.out.b...)
		c.out.b = emptied(c.out.b)
	}
	if len(c.outbox) > maxOutbox {
		c.closed = true
		c.outbox = nil
	}
	c.sent.Signal()
}

// subscriptions returns the number of channels and patterns of the client.
func (c *Client) subscriptions() int { return len(c.channels) + len(c.patterns) + len(c.shards) }

// pin keeps the store open while the client has state in it: subscriptions, watched keys, a transaction,
// or a command that blocks. It must be called when one of them begins or ends.
func (c *Client) pin() {
	pinned := c.subscriptions() > 0 || len(c.watching) > 0 || c.queue != nil || c.blocked != nil
	if pinned == c.pinned || c.store == nil {
		return
	}
	c.pinned = pinned
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	if pinned {
		c.store.pinned++
	} else {
		c.store.pinned--
	}
}
