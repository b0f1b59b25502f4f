package redis

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/gammazero/deque"
)

// Client runs commands on a store, for a connection or for code in this process.
type Client struct {
	// ID is the client's number. Address is the remote end of its connection and Local our end.
	ID             int64
	Address, Local string
	Began          time.Time
	// Hangup closes the connection without sending the rest. It may be nil.
	Hangup func()

	// The store's goroutine owns the fields from here to mu.

	store    *Store
	out      output
	name     string
	software software
	// last is the command that ran last, and lastAt its time.
	last   *command
	lastAt time.Time
	// queue holds the commands since MULTI. It is nil outside a transaction.
	queue *queue
	// watching has WATCH's keys. broken reports whether one of them has changed.
	watching map[string]bool
	broken   bool
	blocked  *blocked
	// channels, patterns and shards are the client's subscriptions.
	channels, patterns, shards map[string]bool
	tracking                   tracking
	// tracked has the keys that the client has read and may have cached.
	tracked map[string]bool
	// later holds messages that the client's own command caused. The client receives them after the
	// reply.
	later reply
	// muted says which replies the client does not want.
	muted muted
	// unsent counts the reply bytes from earlier turns that were still unsent when we took the current
	// request from the inbox.
	unsent int
	// We keep noEvict only for CLIENT INFO. noTouch keeps the client's commands from counting as uses
	// of a key.
	noEvict, noTouch bool
	pinned           bool
	// paused reports whether the next request waits for CLIENT PAUSE to end.
	paused bool
	// quitting closes the client once its replies have been handed over. dropped closes it without
	// sending anything more.
	quitting, dropped bool

	// mu guards the fields below.
	mu     sync.Mutex
	access Access
	// inbox holds requests that have been read but not run; size is roughly their bytes.
	inbox deque.Deque[request]
	size  int
	// queued reports whether the store knows about the requests.
	queued bool
	closed bool
	// stalled is the store that will run more requests once replies have been sent; nil if the client
	// does not wait.
	stalled *Store
	// waits reports whether a command blocks, and subscribed whether there are subscriptions.
	waits, subscribed bool
	// room is signalled when requests have left the inbox, or the client is closed.
	room sync.Cond
	// outbox holds replies to send; sent is signalled when there are some. sending counts the bytes
	// being sent now, and pending the reply bytes in the current turn. After cut we send nothing more.
	outbox, spare    []byte
	sending, pending int
	sent             sync.Cond
	cut              bool
	// The bytes charged for the request being read, for the one that runs, and for replies.
	reading, running, replies int
}

// request is a request in an inbox, with the bytes charged for it.
type request struct {
	args    []string
	charged int
}

// Access gives a client its store.
type Access struct {
	// User is the name that the client authenticated with.
	User string
	// URL is the address where clients reach the store, such as redis://host:6379, for CLUSTER.
	URL string
	// Open returns the store. It is called again whenever the client has requests for a store that was
	// closed because nobody used it.
	Open func() (*Store, error)
	// Clients lists the store's clients. It may be nil.
	Clients *Clients
	// Memory is charged for requests and replies beyond FreeMemory. It may be nil.
	Memory Memory
}

// Memory accounts for bytes held in memory.
type Memory interface {
	// Take takes n bytes, and reports whether there was room.
	Take(n int64) bool
	// Return gives n bytes back.
	Return(n int64)
}

// output holds a client's replies in the current turn.
type output struct {
	reply
	// requests counts the requests answered.
	requests int
}

// Errors for data that does not fit into memory.
const (
	errMemory        replyError = "ERR the server is handling too much data at once, try again"
	errReplyTooLarge replyError = "ERR the reply is larger than this server allows"
)

// ErrMemory is returned if there is no memory for a request.
const ErrMemory = errMemory

// largeOutput is the number of reply bytes at which a client's next requests wait.
const largeOutput = 1 << 20

// nextToRun takes a request from the inbox, unless replies must be sent first. If it returns none, the
// client must be enqueued again when one arrives.
func (c *Client) nextToRun() ([]string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stalled = nil
	if len(c.out.b)+len(c.outbox) >= largeOutput && !c.closed {
		c.stalled = c.store // Send enqueues the client again
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

// emptyInbox drops the requests in the inbox. The caller holds mu.
func (c *Client) emptyInbox() {
	for c.inbox.Len() > 0 {
		r := c.inbox.PopFront()
		c.giveBack(&r.charged)
	}
	c.size = 0
}

// sizeOf estimates a request's bytes in memory.
func sizeOf(args []string) int {
	n := 0
	for _, arg := range args {
		n += len(arg) + argOverhead
	}
	return n
}

// take charges bytes, and reports whether there was room. The caller holds mu.
func (c *Client) take(n int) bool {
	return n <= 0 || c.access.Memory == nil || c.access.Memory.Take(int64(n))
}

// giveBack returns a charge. The caller holds mu.
func (c *Client) giveBack(charged *int) {
	if *charged > 0 && c.access.Memory != nil {
		c.access.Memory.Return(int64(*charged))
	}
	*charged = 0
}

// chargeReplies charges the unsent replies, and reports whether there was memory for them.
func (c *Client) chargeReplies() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = len(c.out.b) + len(c.later.b)
	return c.adjustReplies()
}

// adjustReplies brings the charge for replies to what they take beyond FreeMemory. The caller holds mu.
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

// limitReply replaces a reply by an error if it is too large or there is no memory for it. If the
// request has changed data, an error would claim that it has not, so we close the client instead.
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

// drop closes a client without sending its replies.
func (c *Client) drop() {
	c.dropped = true
	c.out.b = nil
	c.chargeReplies()
	c.Kill()
}

// fail answers a request with an error. A transaction that contains it will not run.
func (c *Client) fail(err error) {
	if c.queue != nil {
		c.queue.failed = true
	}
	c.store.countError(err.Error())
	c.out.error(err.Error())
}

// failReplies replaces the turn's replies by errors.
func (c *Client) failReplies(text string) {
	c.out.b = c.out.b[:0]
	for range c.out.requests {
		c.out.error(text)
	}
}

// keptBuffer is the largest reply buffer that an idle client keeps.
const keptBuffer = 4 << 10

// flush hands the turn's replies to the sender.
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
	c.adjustReplies() // cannot fail: it needs no more than before
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

// subscriptions returns how many channels and patterns the client has subscribed to.
func (c *Client) subscriptions() int { return len(c.channels) + len(c.patterns) + len(c.shards) }

// pin keeps the store open while the client has state in it: subscriptions, watched keys, a
// transaction, a blocked command, or invalidation messages for keys that it has not read or that go to
// another client. Call it whenever one of these begins or ends.
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

// pin changes the number of reasons to keep the store open.
func (s *Store) pin(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinned += n
}

// Clients lists a store's clients. They stay in it while the store is closed. The zero value is empty,
// and nil stays empty.
type Clients struct {
	mu  sync.Mutex
	all map[*Client]bool
}

func (r *Clients) add(c *Client) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[*Client]bool{}
	}
	r.all[c] = true
}

func (r *Clients) remove(c *Client) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, c)
}

// list returns the clients ordered by ID.
func (r *Clients) list() []*Client {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*Client, 0, len(r.all))
	for c := range r.all {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *Client) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// others returns all clients of the call's store, including its own.
func (x *call) others() []*Client {
	x.client.mu.Lock()
	registry := x.client.access.Clients
	x.client.mu.Unlock()
	all := registry.list()
	if !slices.Contains(all, x.client) {
		all = append(all, x.client)
	}
	return all
}
