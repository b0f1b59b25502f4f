package redis

import (
	"sync"
	"time"

	"github.com/gammazero/deque"
)

// Client is a client of a store: a connection, or what runs commands without one.
type Client struct {
	// ID is the number of the client, Address where it is connected from, and Local where to.
	ID             int64
	Address, Local string
	Began          time.Time
	// Hangup closes the connection without what has not been sent. It may be nil.
	Hangup func()

	// What follows belongs to the goroutine of the store.

	store    *Store
	out      output
	name     string
	software software
	// last is the command that ran last, at a time.
	last   *command
	lastAt time.Time
	// queue are the commands since MULTI; nil if there was none.
	queue *queue
	// watching are the keys of WATCH; broken is whether one of them has been changed.
	watching map[string]bool
	broken   bool
	blocked  *blocked
	// channels, patterns and shards are the subscriptions.
	channels, patterns, shards map[string]bool
	tracking                   tracking
	// tracked are the keys that the client has read and may have kept.
	tracked map[string]bool
	// later are messages that the command of the client has caused, which it receives behind the reply.
	later reply
	// muted says which replies the client does not want.
	muted muted
	// unsent is the number of bytes of replies of earlier turns that were not sent when the current request was
	// taken from the inbox.
	unsent int
	// noEvict is kept for CLIENT INFO only. noTouch is whether the commands of the client do not count as uses
	// of keys.
	noEvict, noTouch bool
	pinned           bool
	// paused is whether the next request waits for the end of CLIENT PAUSE.
	paused bool
	// quitting is whether the client is closed when its replies have been handed over, and dropped whether
	// it is closed and receives nothing more.
	quitting, dropped bool

	// mu guards what follows.
	mu     sync.Mutex
	access Access
	// inbox are requests that have been read and not run; size is about their bytes.
	inbox deque.Deque[request]
	size  int
	// queued is whether the store has been told of the requests.
	queued bool
	closed bool
	// stalled is the store that runs more requests when replies have been sent; nil if it does not wait.
	stalled *Store
	// waits is whether a command blocks, and subscribed whether there are subscriptions.
	waits, subscribed bool
	// room is signalled when requests have been taken from the inbox, or the client is closed.
	room sync.Cond
	// outbox has replies that are to be sent; sent is signalled when there are some. sending is the number of
	// bytes that are being sent, and pending that of replies of the current turn. cut is whether nothing is
	// sent any more.
	outbox, spare    []byte
	sending, pending int
	sent             sync.Cond
	cut              bool
	// reading, running and replies are charged: the request that is being read, the one that runs, and replies.
	reading, running, replies int
}

// request is a request of an inbox, with the bytes that are charged for it.
type request struct {
	args    []string
	charged int
}

// Access is how a client uses a store.
type Access struct {
	// User is the name under which the client has authenticated.
	User string
	// Open returns the store: again, whenever the client has requests after the store was closed because
	// nobody used it.
	Open func() (*Store, error)
	// Clients are those of the store. It may be nil.
	Clients *Clients
	// Memory is charged for requests and replies beyond FreeMemory. It may be nil.
	Memory Memory
}

// Memory is what requests and replies are charged to.
type Memory interface {
	// Take takes bytes, and reports whether there was room for them.
	Take(n int64) bool
	// Return returns bytes.
	Return(n int64)
}

// output is what a client has been answered in the current turn.
type output struct {
	reply
	// requests is the number of requests that have been answered.
	requests int
}

// The errors of what does not fit into memory.
const (
	errMemory        replyError = "ERR the server is handling too much data at once, try again"
	errReplyTooLarge replyError = "ERR the reply is larger than this server allows"
)

// ErrMemory is returned if there is no memory for a request.
const ErrMemory = errMemory

// largeOutput is the number of bytes of replies at which other requests of a client wait.
const largeOutput = 1 << 20

// stall reports whether replies must be sent before more requests of the client are run. Send enqueues it
// again then. The caller holds mu.
func (c *Client) stall() bool {
	c.stalled = nil
	if len(c.out.b)+len(c.outbox) < largeOutput || c.closed {
		return false
	}
	c.stalled = c.store
	return true
}

// newClient returns a client without a store.
func newClient() *Client {
	c := &Client{channels: map[string]bool{}, patterns: map[string]bool{}, shards: map[string]bool{}}
	c.room.L = &c.mu
	c.sent.L = &c.mu
	return c
}

// nextToRun takes a request from the inbox, unless replies must be sent first. If there is none, the client
// has to be enqueued when there is.
func (c *Client) nextToRun() ([]string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stall() {
		return nil, false
	}
	c.unsent = len(c.outbox) + c.sending
	return c.next()
}

// next takes a request from the inbox. The caller holds mu.
func (c *Client) next() ([]string, bool) {
	c.room.Broadcast()
	c.giveBack(&c.running)
	if c.inbox.Len() == 0 || c.closed {
		c.queued = false
		c.emptyInbox()
		return nil, false
	}
	r := c.inbox.PopFront()
	c.size -= sizeOf(r.args)
	c.running = r.charged
	return r.args, true
}

// emptyInbox drops the requests of the inbox. The caller holds mu.
func (c *Client) emptyInbox() {
	for c.inbox.Len() > 0 {
		r := c.inbox.PopFront()
		c.giveBack(&r.charged)
	}
	c.size = 0
}

// sizeOf returns about the number of bytes that a request takes in memory.
func sizeOf(args []string) int {
	n := 0
	for _, arg := range args {
		n += len(arg) + argOverhead
	}
	return n
}

// take charges bytes, and reports whether there was room for them. The caller holds mu.
func (c *Client) take(n int) bool {
	return n <= 0 || c.access.Memory == nil || c.access.Memory.Take(int64(n))
}

// giveBack returns what was charged. The caller holds mu.
func (c *Client) giveBack(charged *int) {
	if *charged > 0 && c.access.Memory != nil {
		c.access.Memory.Return(int64(*charged))
	}
	*charged = 0
}

// chargeReplies charges the replies that have not been sent, and reports whether there was memory for
// them.
func (c *Client) chargeReplies() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = len(c.out.b) + len(c.later.b)
	return c.adjustReplies()
}

// adjustReplies makes what is charged for replies what they take beyond FreeMemory. The caller holds mu.
func (c *Client) adjustReplies() bool {
	want := max(c.pending+len(c.outbox)+c.sending-FreeMemory, 0)
	if c.cut {
		want = 0
	}
	if want > c.replies && !c.take(want-c.replies) {
		return false
	}
	if surplus := c.replies - want; surplus > 0 {
		c.giveBack(&surplus)
	}
	c.replies = want
	return true
}

// limitReply replaces a reply that is too large, or for which there is no memory, by an error. If the request
// has changed something, an error would say that it has not: the client is closed then.
func (s *Store) limitReply(c *Client, start int) {
	var err error
	switch {
	case c.out.full:
		err = errReplyTooLarge
	case len(c.out.b)+c.unsent <= FreeMemory:
		return // nothing is charged
	case !c.chargeReplies():
		err = errMemory
	default:
		return
	}
	s.options.Counters.Refused.Add(1)
	if len(s.log.frame) > 0 {
		c.drop()
		return
	}
	c.out.b = c.out.b[:start]
	c.out.error(err.Error())
	if cap(c.out.b) > maxKept {
		c.out.b = append([]byte(nil), c.out.b...)
	}
	c.chargeReplies()
}

// drop closes a client without its replies.
func (c *Client) drop() {
	c.dropped = true
	c.out.b = nil
	c.chargeReplies()
	c.Kill()
}

// fail answers a request with an error. A transaction is not run after that.
func (c *Client) fail(err error) {
	if c.queue != nil {
		c.queue.failed = true
	}
	c.store.countError(err.Error())
	c.out.error(err.Error())
}

// failReplies replaces the replies of the turn by errors.
func (c *Client) failReplies(text string) {
	c.out.b = c.out.b[:0]
	for range c.out.requests {
		c.out.error(text)
	}
}

// keptBuffer is the size up to which a client keeps a buffer of replies while it has none.
const keptBuffer = 4 << 10

// flush hands the replies of a turn over to what sends them.
func (c *Client) flush() {
	c.out.requests = 0
	if len(c.out.b) == 0 && !c.quitting {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.outbox) == 0 {
		c.outbox, c.out.b = c.out.b, c.spare
		c.spare = nil
	} else {
		c.outbox = append(c.outbox, c.out.b...)
		c.out.b = nil
	}
	if len(c.outbox) > maxOutbox || c.dropped || c.cut {
		c.dropped = true
		c.outbox = nil
	}
	c.pending = 0
	c.adjustReplies() // it needs no more than before
	if c.quitting || c.dropped {
		c.end()
	}
	if c.dropped && c.Hangup != nil {
		c.Hangup()
	}
	c.sent.Signal()
}

// end closes the client. The caller holds mu.
func (c *Client) end() {
	c.closed = true
	c.room.Broadcast()
	c.sent.Broadcast()
}

// subscriptions returns the number of channels and patterns of the client.
func (c *Client) subscriptions() int { return len(c.channels) + len(c.patterns) + len(c.shards) }

// pin keeps the store open while the client has state in it: subscriptions, watched keys, a transaction, a
// command that blocks, or messages about keys that it has not read or that go to another client. It must be called when one of them begins or ends.
func (c *Client) pin() {
	c.mu.Lock()
	c.waits = c.blocked != nil || c.paused
	c.subscribed = c.subscriptions() > 0
	c.room.Broadcast()
	c.mu.Unlock()
	pinned := c.subscriptions() > 0 || c.tracking.broadcast || c.tracking.redirect != nil || len(c.watching) > 0 || c.queue != nil || c.blocked != nil
	if pinned == c.pinned || c.store == nil {
		return
	}
	c.pinned = pinned
	if pinned {
		c.store.pin(1)
	} else {
		c.store.pin(-1)
	}
}

// pin adds to the number of reasons why the store must not be closed.
func (s *Store) pin(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinned += n
}
