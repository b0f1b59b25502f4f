package redis

import (
	"slices"
	"strings"
)

// tracking is what a client has asked for with CLIENT TRACKING: to be told when a key that it has read changes, or any
// key with one of its prefixes.
type tracking struct {
	on, optIn, optOut, noLoop bool
	// broadcast is whether the client is told of all keys with one of its prefixes.
	broadcast bool
	prefixes  []string
	// caching is whether CLIENT CACHING was called for the next command, or transaction.
	caching bool
	// redirect receives the messages in place of the client, unless it is nil. broken is whether it has gone.
	redirect *Client
	broken   bool
}

// A client has at most maxPrefixes prefixes of at most maxPrefix bytes.
const (
	maxPrefixes = 64
	maxPrefix   = 4 << 10
)

// trackedKeys are the keys that clients have read and may have kept.
type trackedKeys struct {
	// readers are the clients that have read a key, by key, and broadcasts those that are told of all keys.
	readers    subscribers
	broadcasts map[*Client]bool
	// size is about the number of bytes of readers, and charged what is charged for them.
	size, charged int64
}

// trackedOverhead is about what a key of a client takes beside its name.
const trackedOverhead = 320

// trackingShare is the part of a store's memory that tracked keys may take in addition.
const trackingShare = 8

func (t *trackedKeys) add(key string, c *Client) {
	key = strings.Clone(key)
	t.readers.add(key, c)
	if c.tracked == nil {
		c.tracked = map[string]bool{}
	}
	c.tracked[key] = true
	t.size += trackedOverhead + int64(len(key))
}

func (t *trackedKeys) remove(key string, c *Client) {
	t.readers.remove(key, c)
	delete(c.tracked, key)
	t.size -= trackedOverhead + int64(len(key))
}

// remember tracks the keys that a call has read. If there is no memory for a key, its client is told at once that it
// has changed, and so reads it again.
func (x *call) remember() {
	c := x.client
	if t := &c.tracking; !t.on || t.broadcast || t.optIn && !t.caching || t.optOut && t.caching {
		return
	}
	for _, key := range x.cmd.keysOf(x.args) {
		switch {
		case c.tracked[key]:
		case x.admitTracked(key):
			x.tracked.add(key, c)
		default:
			x.sendInvalid(c, &key)
		}
	}
}

// admitTracked reports whether there is memory for one more key of a client. Others make room for it.
func (s *Store) admitTracked(key string) bool {
	t := &s.tracked
	size := trackedOverhead + int64(len(key))
	limit := s.options.Memory / trackingShare
	if size > limit {
		return false
	}
	for t.size+size > limit {
		for other := range t.readers {
			s.invalidate(other)
			break
		}
	}
	return s.chargeTracked(t.size + size)
}

// chargeTracked charges memory for tracked keys. It reports whether there was room for it.
func (s *Store) chargeTracked(size int64) bool {
	more := (size+memoryStep-1)/memoryStep*memoryStep - s.tracked.charged
	switch {
	case s.options.Charge == nil || -memorySlack <= more && more <= 0:
		return true
	case more < 0:
		s.options.Charge.Return(-more)
	case !s.options.Charge.Take(more):
		return false
	}
	s.tracked.charged += more
	return true
}

// invalidate tells the clients that have read a key, and those that are told of all keys, that it has changed.
func (s *Store) invalidate(key string) {
	for c := range s.tracked.readers[key] {
		s.tracked.remove(key, c)
		if c != s.running || !c.tracking.noLoop {
			s.sendInvalid(c, &key)
		}
	}
	for c := range s.tracked.broadcasts {
		hasPrefix := func(prefix string) bool { return strings.HasPrefix(key, prefix) }
		if slices.ContainsFunc(c.tracking.prefixes, hasPrefix) && (c != s.running || !c.tracking.noLoop) {
			s.sendInvalid(c, &key)
		}
	}
}

// invalidateAll tells all clients in tracking mode that all keys have changed.
func (s *Store) invalidateAll() {
	for _, c := range s.attached() {
		if c.tracking.on {
			s.forgetTracked(c)
			s.sendInvalid(c, nil)
		}
	}
}

// sendInvalid tells a client that a key has changed, or all keys if it is nil.
func (s *Store) sendInvalid(c *Client, key *string) {
	to := c
	if c.tracking.redirect != nil {
		to = c.tracking.redirect
	}
	if !s.has(to) {
		c.tracking.broken = true
		if c.out.resp3 {
			s.tell(c, func(out *reply) {
				out.push(2)
				out.bulk("tracking-redir-broken")
				out.int(to.ID)
			})
		}
		return
	}
	if !to.out.resp3 && (to == c || to.subscriptions() == 0) {
		return // a client in RESP2 reads replies only
	}
	s.tell(to, func(out *reply) { out.invalidate(key) })
}

// invalidate appends the message that a key has changed, or all keys if it is nil.
func (r *reply) invalidate(key *string) {
	if r.resp3 {
		r.push(2)
		r.bulk("invalidate")
	} else {
		r.push(3)
		r.bulk("message")
		r.bulk("__redis__:invalidate")
	}
	if key == nil {
		r.null()
	} else {
		r.bulks([]string{*key})
	}
}

// dropTracked tells the clients in tracking mode that all keys have changed, when the store is closed or read again
// and does not know any more what they have read. Their replies have been handed over.
func (s *Store) dropTracked() {
	for _, c := range s.attached() {
		if !c.tracking.on {
			continue
		}
		s.forgetTracked(c)
		if c.out.resp3 {
			message := reply{resp3: true}
			message.invalidate(nil)
			c.mu.Lock()
			c.outbox = append(c.outbox, message.b...)
			c.sent.Signal()
			c.mu.Unlock()
		}
	}
}

// forgetTracked forgets the keys that a client has read.
func (s *Store) forgetTracked(c *Client) {
	for key := range c.tracked {
		s.tracked.remove(key, c)
	}
	c.tracked = nil
}

// untrack ends the tracking mode of a client.
func (s *Store) untrack(c *Client) {
	s.forgetTracked(c)
	delete(s.tracked.broadcasts, c)
	c.tracking = tracking{}
	c.pin()
}

// trackedPrefixes returns the number of prefixes of all clients.
func (s *Store) trackedPrefixes() int {
	n := 0
	for c := range s.tracked.broadcasts {
		n += len(c.tracking.prefixes)
	}
	return n
}

const errBroadcastMode replyError = "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode."

func clientTracking(x *call) error {
	wanted, err := x.trackingArgs()
	if err != nil {
		return err
	}
	on, err := x.onOff(2)
	if err != nil {
		return err
	}
	c := x.client
	if !on {
		x.untrack(c)
		x.out.ok()
		return nil
	}
	had := c.tracking
	switch {
	case !wanted.broadcast && len(wanted.prefixes) > 0:
		return errorf("ERR PREFIX option requires BCAST mode to be enabled")
	case had.on && had.broadcast != wanted.broadcast:
		return errBroadcastMode
	case wanted.broadcast && (wanted.optIn || wanted.optOut):
		return errorf("ERR OPTIN and OPTOUT are not compatible with BCAST")
	case wanted.optIn && wanted.optOut:
		return errorf("ERR You can't specify both OPTIN mode and OPTOUT mode")
	case wanted.optIn && had.optOut || wanted.optOut && had.optIn:
		return errorf("ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.")
	}
	if wanted.broadcast {
		if wanted.prefixes, err = joinPrefixes(had.prefixes, wanted.prefixes); err != nil {
			return err
		}
		x.tracked.broadcasts[c] = true
	}
	wanted.on = true
	wanted.caching = had.caching
	c.tracking = wanted
	c.pin()
	x.out.ok()
	return nil
}

// trackingArgs reads the options of CLIENT TRACKING.
func (x *call) trackingArgs() (tracking, error) {
	var t tracking
	for i := 3; i < len(x.args); i++ {
		more := i+1 < len(x.args)
		switch strings.ToUpper(x.args[i]) {
		case "BCAST":
			t.broadcast = true
		case "OPTIN":
			t.optIn = true
		case "OPTOUT":
			t.optOut = true
		case "NOLOOP":
			t.noLoop = true
		case "PREFIX":
			if !more {
				return t, errSyntax
			}
			i++
			t.prefixes = append(t.prefixes, x.args[i])
		case "REDIRECT":
			if !more {
				return t, errSyntax
			}
			i++
			if t.redirect != nil {
				return t, errorf("ERR A client can only redirect to a single other client")
			}
			id, err := x.int(i)
			if err != nil {
				return t, err
			}
			if t.redirect = x.clientOf(id); t.redirect == nil {
				return t, errorf("ERR The client ID you want redirect to does not exist")
			}
		default:
			return t, errSyntax
		}
	}
	return t, nil
}

// clientOf returns the client of an ID that the store has, or nil.
func (s *Store) clientOf(id int64) *Client {
	all := s.attached()
	if i := slices.IndexFunc(all, func(c *Client) bool { return c.ID == id }); i >= 0 {
		return all[i]
	}
	return nil
}

// has reports whether a client is one of the store.
func (s *Store) has(c *Client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients[c]
}

// joinPrefixes adds prefixes to those of a client. None of them may begin another one, so that it is told of each
// key once.
func joinPrefixes(had, more []string) ([]string, error) {
	all := slices.Clone(had)
	for i, prefix := range more {
		for _, other := range had {
			if overlap(prefix, other) {
				return nil, errorf("ERR Prefix '%s' overlaps with an existing prefix '%s'. Prefixes for a single client must not overlap.", prefix, other)
			}
		}
		for _, other := range more[i+1:] {
			if overlap(prefix, other) {
				return nil, errorf("ERR Prefix '%s' overlaps with another provided prefix '%s'. Prefixes for a single client must not overlap.", prefix, other)
			}
		}
		if len(prefix) > maxPrefix || len(all) == maxPrefixes {
			return nil, errorf("ERR a client has at most %d prefixes of at most %d bytes", maxPrefixes, maxPrefix)
		}
		all = append(all, strings.Clone(prefix))
	}
	if len(more) == 0 && !slices.Contains(all, "") {
		all = append(all, "")
	}
	return all, nil
}

func overlap(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }

func clientCaching(x *call) error {
	t := &x.client.tracking
	yes := x.is(2, "YES")
	switch {
	case !t.on:
		return errorf("ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")
	case !yes && !x.is(2, "NO"):
		return errSyntax
	case yes && !t.optIn:
		return errorf("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
	case !yes && !t.optOut:
		return errorf("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
	}
	t.caching = true
	x.out.ok()
	return nil
}

// redirection returns the ID of the client that receives messages about keys: 0 if it is the client itself, and -1 if
// there are none.
func (c *Client) redirection() int64 {
	switch t := c.tracking; {
	case !t.on:
		return -1
	case t.redirect == nil:
		return 0
	default:
		return t.redirect.ID
	}
}

func clientGetRedir(x *call) error {
	x.out.int(x.client.redirection())
	return nil
}

func clientTrackingInfo(x *call) error {
	t := x.client.tracking
	var names []string
	for _, flag := range []struct {
		set  bool
		name string
	}{
		{t.on, "on"},
		{!t.on, "off"},
		{t.broadcast, "bcast"},
		{t.optIn, "optin"},
		{t.optIn && t.caching, "caching-yes"},
		{t.optOut, "optout"},
		{t.optOut && t.caching, "caching-no"},
		{t.noLoop, "noloop"},
		{t.broken, "broken_redirect"},
	} {
		if flag.set {
			names = append(names, flag.name)
		}
	}
	x.out.mapOf(3)
	x.out.bulk("flags")
	x.out.set(len(names))
	for _, name := range names {
		x.out.bulk(name)
	}
	x.out.bulk("redirect")
	x.out.int(x.client.redirection())
	x.out.bulk("prefixes")
	prefixes := slices.Sorted(slices.Values(t.prefixes))
	x.out.bulks(prefixes)
	return nil
}
