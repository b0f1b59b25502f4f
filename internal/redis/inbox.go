package redis

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
)

// maxInbox is the number of request bytes beyond which a client's next request must wait. Bytes beyond
// FreeMemory are charged.
const maxInbox = 256 << 10

// maxOutbox is the number of unsent bytes at which we close a client as too slow.
const maxOutbox = 64 << 20

// ErrClientClosed is returned for a closed client.
var ErrClientClosed = errors.New("the client is closed")

// NewClient returns a client that has no store yet.
func NewClient(id int64, address string) *Client {
	c := &Client{
		ID: id, Address: address, Began: time.Now(),
		channels: map[string]bool{}, patterns: map[string]bool{}, shards: map[string]bool{},
	}
	c.room.L = &c.mu
	c.sent.L = &c.mu
	return c
}

// Attach gives the client a store, in place of any other. It waits for the client's requests. Among
// these methods, only Send and Kill may run at the same time.
func (c *Client) Attach(a Access) {
	c.Detach()
	c.mu.Lock()
	c.access = a
	c.mu.Unlock()
	a.Clients.add(c)
}

// Attached reports whether the client has a store.
func (c *Client) Attached() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.access.Open != nil
}

// Detach takes the client's store away.
func (c *Client) Detach() {
	c.Drain()
	c.leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.access.Clients.remove(c)
	c.giveBack(&c.reading)
	c.giveBack(&c.running)
	c.giveBack(&c.replies)
	c.access = Access{}
}

// leave removes the client's state from its store.
func (c *Client) leave() {
	s := c.store
	if s == nil {
		return
	}
	if s.do(func() { s.leave(c) }) != nil {
		<-s.ended // then the store has removed it
	}
	c.store = nil
	c.tracking = tracking{}
}

// Grow charges memory for the request being read. It serves as a Reader's Grow.
func (c *Client) Grow(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.take(n) {
		return errMemory
	}
	c.reading += n
	return nil
}

// Do hands a request to the store, which runs a client's requests in order. It waits while too many are
// queued, and returns ErrClientClosed if the client is closed.
func (c *Client) Do(args []string) error {
	c.mu.Lock()
	r := request{args: args, charged: c.reading}
	c.reading = 0
	for !c.hasRoom(&r) && !c.closed {
		c.room.Wait()
	}
	if c.closed {
		c.giveBack(&r.charged)
		c.mu.Unlock()
		return ErrClientClosed
	}
	c.inbox.PushBack(r)
	c.size += sizeOf(args)
	start := !c.queued
	c.queued = true
	c.mu.Unlock()
	if start {
		c.start()
	}
	return nil
}

// hasRoom reports whether the inbox may take one more request, and charges it. An empty inbox takes
// any. The caller holds mu.
func (c *Client) hasRoom(r *request) bool {
	size := sizeOf(r.args)
	switch {
	case c.size == 0 || c.size+size <= FreeMemory:
		return true
	case c.size > maxInbox:
		return false
	case size <= r.charged:
		return true
	}
	more := size - r.charged
	if !c.take(more) {
		return false
	}
	r.charged += more
	return true
}

// start schedules the requests in the inbox. It opens the store again if that was closed.
func (c *Client) start() {
	if c.store != nil && c.store.enqueue(c) {
		return
	}
	for {
		s, err := c.access.Open()
		if err != nil {
			c.mu.Lock()
			c.awaitSent()
			c.mu.Unlock()
			c.refuse(err)
			return
		}
		if s.attach(c) {
			return
		}
		<-s.ended
	}
}

// refuse answers all requests in the inbox with an error, since the store could not be opened. Clients
// such as ioredis poll INFO until loading has ended.
func (c *Client) refuse(err error) {
	c.mu.Lock()
	for {
		args, ok := c.next()
		switch {
		case !ok:
			c.mu.Unlock()
			c.flush()
			return
		case errors.Is(err, ErrLoading) && strings.EqualFold(args[0], "info"):
			c.out.bulk("# Persistence\r\nloading:1\r\nloading_eta_seconds:1\r\n")
		default:
			c.out.error(err.Error())
		}
	}
}

// attach schedules a client's requests. It returns false if the store is closed; by then the store has
// ended and no longer uses the client.
func (s *Store) attach(c *Client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.mu.Unlock()
		<-s.ended
		s.mu.Lock()
		return false
	}
	c.store = s // nothing else uses it: the client was not queued
	s.clients[c] = true
	s.runnable = append(s.runnable, c)
	s.wakeUp()
	return true
}

// Drain waits until no request is waiting or running and all earlier replies have been handed over.
func (c *Client) Drain() {
	c.mu.Lock()
	for c.queued && !c.closed {
		c.room.Wait()
	}
	c.mu.Unlock()
	c.awaitTurn()
}

// Finish is like Drain, but does not wait for a command that blocks.
func (c *Client) Finish() {
	c.mu.Lock()
	for c.queued && !c.closed && !c.waits {
		c.room.Wait()
	}
	c.mu.Unlock()
	c.awaitTurn()
}

// awaitTurn waits for the store's current turn to end, which hands replies over.
func (c *Client) awaitTurn() {
	s := c.store
	if s == nil {
		return
	}
	if s.do(func() {}) != nil {
		<-s.ended
	}
}

// Reserved reports whether the store must decide which commands the client may use: it is in a
// transaction, or has subscriptions with RESP2. No request may be waiting or running.
func (c *Client) Reserved() bool {
	s := c.store
	if s == nil {
		return false
	}
	reserved := false
	_ = s.do(func() { reserved = c.queue != nil || c.subscriptions() > 0 && !c.out.resp3 }) // false if it is closed
	return reserved
}

// Waits reports whether the client has a reason to stay silent: one of its commands blocks, or it has
// subscriptions.
func (c *Client) Waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waits || c.subscribed
}

// Reply appends the reply to the latest request, which the caller did not pass to Do. No request may be
// waiting or running.
func (c *Client) Reply(text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveBack(&c.reading)
	c.awaitSent()
	c.outbox = append(c.outbox, text...)
	c.sent.Signal()
}

// awaitSent waits until few reply bytes remain to send. The caller holds mu.
func (c *Client) awaitSent() {
	for len(c.outbox) > FreeMemory && !c.closed {
		c.room.Wait()
	}
}

// Send calls write with replies and messages as they come, until write fails or the client is closed.
// It still writes everything appended before Close.
func (c *Client) Send(write func([]byte) error) error {
	defer func() { // drop the replies that cannot be sent
		c.mu.Lock()
		defer c.mu.Unlock()
		c.cut = true
		c.outbox = nil
		c.adjustReplies()
		c.end()
	}()
	var b []byte
	for {
		var stalled *Store
		b, stalled = c.nextOutput(b)
		if len(b) == 0 {
			return nil
		}
		if err := write(b); err != nil {
			return err
		}
		if stalled != nil {
			stalled.enqueue(c)
		}
	}
}

// nextOutput waits for replies and returns them, or nil once the client is closed and nothing is left.
// It takes the previous buffer back for reuse. If the store waits for these replies to be sent, it is
// returned as well.
func (c *Client) nextOutput(before []byte) (b []byte, stalled *Store) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cap(before) <= keptBuffer {
		c.spare = before[:0]
	}
	c.sending = 0
	c.adjustReplies() // cannot fail: it needs less than before
	for len(c.outbox) == 0 && !c.closed {
		c.sent.Wait()
	}
	b = c.outbox
	c.outbox = nil
	c.sending = len(b)
	stalled = c.stalled
	c.stalled = nil
	c.room.Broadcast()
	return b, stalled
}

// Kill closes the client and its connection. Close removes its state from the store.
func (c *Client) Kill() {
	c.mu.Lock()
	c.end()
	c.mu.Unlock()
	if c.Hangup != nil {
		c.Hangup()
	}
}

// Close ends the client. It drops requests that have not run and ends a command that blocks.
func (c *Client) Close() {
	c.mu.Lock()
	c.end()
	c.mu.Unlock()
	c.leave()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.access.Clients.remove(c)
	c.emptyInbox()
	c.giveBack(&c.reading)
	c.giveBack(&c.running)
}

// leave removes a client's state from the store.
func (s *Store) leave(c *Client) {
	if c.blocked != nil {
		s.unblock(c)
	}
	s.unwatchAll(c)
	s.unsubscribeAll(c)
	s.untrack(c)
	s.pause.waiting = slices.DeleteFunc(s.pause.waiting, func(other *Client) bool { return other == c })
	c.dropQueue()
	c.pin()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, c)
}

// attached returns the store's clients.
func (s *Store) attached() []*Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.clients))
}

// forgetClients closes the clients with state in the store, which is about to be lost.
func (s *Store) forgetClients() {
	for _, c := range s.attached() {
		if !c.pinned {
			continue
		}
		s.leave(c)
		c.mu.Lock()
		c.end()
		c.mu.Unlock()
	}
}

// hasRequests reports whether a client has requests that have not run. The caller holds the store's mu.
func (s *Store) hasRequests() bool {
	for c := range s.clients {
		c.mu.Lock()
		queued := c.queued
		c.mu.Unlock()
		if queued {
			return true
		}
	}
	return false
}
