package redis

import (
	"errors"
	"maps"
	"slices"
	"time"
)

// maxInbox is the number of bytes of requests that wait for a client, beside one more.
const maxInbox = 256 << 10

// maxOutbox is the number of bytes of replies and messages at which a client is too slow, and closed.
const maxOutbox = 64 << 20

// ErrClientClosed is returned for a client that is closed.
var ErrClientClosed = errors.New("the client is closed")

// NewClient returns a client that has no store yet.
func NewClient(id int64, address string) *Client {
	c := newClient()
	c.ID = id
	c.Address = address
	c.Began = time.Now()
	return c
}

// Attach makes the client one of the store that open returns: again, whenever it has requests after that
// store was closed because nobody used it. No request may be waiting or running.
func (c *Client) Attach(open func() (*Store, error)) {
	c.Drain()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = open
}

// Do hands a request over to the store, which runs those of a client in their order. It waits while too
// many are waiting, and returns ErrClientClosed if the client is closed.
func (c *Client) Do(args []string) error {
	c.mu.Lock()
	for c.size > maxInbox && !c.closed {
		c.room.Wait()
	}
	if c.closed {
		c.mu.Unlock()
		return ErrClientClosed
	}
	c.inbox = append(c.inbox, args)
	c.size += sizeOf(args)
	start := !c.queued
	c.queued = true
	c.mu.Unlock()
	if !start {
		return nil
	}
	return c.start()
}

// start has the store run the requests of the inbox. It opens the store if it was closed.
func (c *Client) start() error {
	for {
		s, err := c.open()
		if err != nil {
			return c.refuse(err)
		}
		if s.attach(c) {
			return nil
		}
	}
}

// refuse answers all requests of the inbox with an error, since the store could not be opened.
func (c *Client) refuse(err error) error {
	for {
		if _, ok := c.next(); !ok {
			break
		}
		c.out.error(err.Error())
	}
	c.flush()
	return nil
}

// attach has the store run the requests of a client. It reports whether the store is open; one that is not
// has ended, and uses the client no more.
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

// Drain waits until no request is waiting or running.
func (c *Client) Drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.queued && !c.closed {
		c.room.Wait()
	}
}

// Reply appends a reply that is not one of a command of the store. No request may be waiting or running.
func (c *Client) Reply(text []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outbox = append(c.outbox, text...)
	c.sent.Signal()
}

// Send calls write with replies and messages as they come, until it returns an error or the client is
// closed. What was appended before Close is written.
func (c *Client) Send(write func([]byte) error) error {
	var b []byte
	for {
		c.mu.Lock()
		for len(c.outbox) == 0 && !c.closed {
			c.sent.Wait()
		}
		b, c.outbox = c.outbox, emptied(b)
		stalled := c.stalled
		c.stalled = false
		closed := c.closed
		c.mu.Unlock()
		if len(b) == 0 && closed {
			return nil
		}
		if err := write(b); err != nil {
			return err
		}
		if stalled {
			c.store.enqueue(c)
		}
	}
}

// Close ends the client. Requests that were not run are dropped, and a command that blocks ends.
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	c.room.Broadcast()
	c.sent.Broadcast()
	s := c.store
	c.mu.Unlock()
	if s != nil {
		_ = s.do(func() { s.leave(c) })
	}
}

// leave removes what a client has in the store.
func (s *Store) leave(c *Client) {
	if c.blocked != nil {
		s.unblock(c)
	}
	s.unwatchAll(c)
	s.unsubscribeAll(c)
	c.queue = nil
	c.pin()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clients, c)
}

// attached returns the clients of the store.
func (s *Store) attached() []*Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.clients))
}

// forgetClients closes the clients that have state in the store, which is about to be lost.
func (s *Store) forgetClients() {
	for _, c := range s.attached() {
		if !c.pinned {
			continue
		}
		s.leave(c)
		c.mu.Lock()
		c.closed = true
		c.room.Broadcast()
		c.sent.Broadcast()
		c.mu.Unlock()
	}
}
