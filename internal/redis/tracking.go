package redis

import (
	"maps"
	"slices"
	"strings"
)

// tracking is a client's choice with CLIENT TRACKING: we tell it when a key that it has read changes,
// or any key with one of its prefixes.
type tracking struct {
	on, optIn, optOut, noLoop bool
	// broadcast reports whether we tell the client about all keys with one of its prefixes.
	broadcast bool
	prefixes  []string
	// caching reports whether CLIENT CACHING was called for the next command or transaction.
	caching bool
	// redirect, if not nil, receives the messages instead of the client. broken reports whether it has
	// gone.
	redirect *Client
	broken   bool
}

// A client may have at most maxPrefixes prefixes, each of at most maxPrefix bytes.
const (
	maxPrefixes = 64
	maxPrefix   = 4 << 10
)

// trackedKeys holds the keys that clients have read and may have cached.
type trackedKeys struct {
	// readers has the clients that have read each key. broadcasts has the clients that we tell about
	// all keys.
	readers    subscribers
	broadcasts map[*Client]bool
	// changed has the keys that the current request changed, and the client that did it, or nil if they
	// expired or were evicted. changedSize estimates their bytes. Both stay empty without broadcasts.
	changed     map[string]*Client
	changedSize int
}

// maxChanged is the size of changed keys at which we tell clients, even if the request has not ended.
const maxChanged = 1 << 20

func (s *Store) addTracked(key string, c *Client) {
	key = strings.Clone(key)
	s.tracked.readers.add(key, c)
	if c.tracked == nil {
		c.tracked = map[string]bool{}
	}
	c.tracked[key] = true
}

func (s *Store) removeTracked(key string, c *Client) {
	s.tracked.readers.remove(key, c)
	delete(c.tracked, key)
	s.release(key)
}

// remember tracks the keys that a call has read. If there is no memory for a key, we tell the client at
// once that the key has changed, so that it reads it again next time.
func (x *call) remember() {
	c := x.client
	if t := &c.tracking; !t.on || t.broadcast || t.optIn && !t.caching || t.optOut && t.caching {
		return
	}
	for _, key := range x.cmd.keysOf(x.args) {
		switch {
		case c.tracked[key]:
		case x.reserve(key):
			x.addTracked(key, c)
		default:
			x.sendInvalid(c, []string{key})
		}
	}
}

// invalidate tells clients that a key has changed. by is the client that changed it, or nil.
func (s *Store) invalidate(key string, by *Client) {
	s.invalidateRead(key, by)
	t := &s.tracked
	if len(t.broadcasts) == 0 {
		return
	}
	if t.changed == nil {
		t.changed = map[string]*Client{}
	}
	if _, known := t.changed[key]; !known {
		t.changedSize += nameOverhead + len(key)
	}
	t.changed[key] = by
	if t.changedSize > maxChanged {
		s.broadcast()
	}
}

// invalidateRead tells the clients that have read a key that it has changed.
func (s *Store) invalidateRead(key string, by *Client) {
	for c := range s.tracked.readers[key] {
		s.removeTracked(key, c)
		if c != by || !c.tracking.noLoop {
			s.sendInvalid(c, []string{key})
		}
	}
}

// broadcast tells clients which keys with their prefixes have changed, in one message for each prefix.
func (s *Store) broadcast() {
	changed := s.tracked.changed
	if len(changed) == 0 {
		return
	}
	s.tracked.changed = nil
	s.tracked.changedSize = 0
	all := slices.Sorted(maps.Keys(changed))
	for c := range s.tracked.broadcasts {
		for _, prefix := range c.tracking.prefixes {
			var keys []string
			first, _ := slices.BinarySearch(all, prefix)
			for _, key := range all[first:] {
				if !strings.HasPrefix(key, prefix) {
					break
				}
				if changed[key] != c || !c.tracking.noLoop {
					keys = append(keys, key)
				}
			}
			if len(keys) > 0 {
				s.sendInvalid(c, keys)
			}
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

// sendInvalid tells a client that keys have changed; nil means all keys.
func (s *Store) sendInvalid(c *Client, keys []string) {
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
	s.tell(to, func(out *reply) { out.invalidate(keys) })
}

// invalidate appends the message that keys have changed; nil means all keys.
func (r *reply) invalidate(keys []string) {
	if r.resp3 {
		r.push(2)
		r.bulk("invalidate")
	} else {
		r.push(3)
		r.bulk("message")
		r.bulk("__redis__:invalidate")
	}
	if keys == nil {
		r.null()
	} else {
		r.bulks(keys)
	}
}

// dropTracked tells clients in tracking mode that all keys have changed. We call it when the store is
// closed or read again, because we then no longer know which keys they have read. Their replies have
// been handed over.
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
		s.removeTracked(key, c)
	}
	c.tracked = nil
}

// untrack ends a client's tracking mode.
func (s *Store) untrack(c *Client) {
	s.forgetTracked(c)
	delete(s.tracked.broadcasts, c)
	s.release(c.tracking.prefixes...)
	c.tracking = tracking{}
	c.pin()
}

// trackedPrefixes counts all clients' prefixes.
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
		return x.replyOK()
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
		if !x.reserve(wanted.prefixes[len(had.prefixes):]...) {
			return errNames
		}
		x.tracked.broadcasts[c] = true
	}
	wanted.on = true
	wanted.caching = had.caching
	c.tracking = wanted
	c.pin()
	return x.replyOK()
}

// trackingArgs reads CLIENT TRACKING's options.
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

// clientOf returns the store's client with an ID, or nil.
func (s *Store) clientOf(id int64) *Client {
	all := s.attached()
	if i := slices.IndexFunc(all, func(c *Client) bool { return c.ID == id }); i >= 0 {
		return all[i]
	}
	return nil
}

// has reports whether a client belongs to the store.
func (s *Store) has(c *Client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients[c]
}

// joinPrefixes adds prefixes to a client's. No prefix may begin another one, so that we tell the client
// about each key once.
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
	return x.replyOK()
}

// redirection returns the ID of the client that receives messages about keys: 0 for the client itself,
// and -1 if tracking is off.
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

func clientGetRedir(x *call) error { return x.replyInt(x.client.redirection()) }

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
	x.out.values("redirect", x.client.redirection(), "prefixes")
	prefixes := slices.Sorted(slices.Values(t.prefixes))
	return x.replyBulks(prefixes)
}
