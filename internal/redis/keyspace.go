package redis

import "strings"

// kind is a value's type.
type kind uint8

// Dumps contain these numbers, so they must not change.
const (
	kindString kind = iota + 1
	kindList
	kindSet
	kindZSet
	kindHash
	kindStream
)

// kindNames has the names that TYPE returns.
var kindNames = [...]string{
	kindString: "string", kindList: "list", kindSet: "set", kindZSet: "zset", kindHash: "hash", kindStream: "stream",
}

// value is a key's value.
type value interface {
	kind() kind
	// encoding returns the name that OBJECT ENCODING shows.
	encoding() string
	// size estimates the value's bytes in memory, in constant time.
	size() int64
	// empty reports whether the value has no elements. We delete keys with empty values, except strings
	// and streams.
	empty() bool
	// appendTo appends the value in the format that load reads.
	appendTo(b []byte) []byte
}

// entry is a key and its value.
type entry struct {
	hash  uint64
	key   string
	value value
	// expires is the time the key expires, in milliseconds since 1970; 0 if it does not.
	expires int64
	// used is the time the key was last used, in milliseconds.
	used int64
	// charged is the entry's share in the store's memory.
	charged int64
}

// entryOverhead estimates an entry's memory without its key and value.
const entryOverhead = 96

func (e *entry) name() string { return e.key }

func expiresLess(a, b *entry) bool {
	return a.expires < b.expires || a.expires == b.expires && a.key < b.key
}

// keyspace has the store's entries ordered by hash, and those that expire ordered by time.
type keyspace struct {
	entries  *hashTree[*entry]
	expiring tree[*entry]
	probe    entry
	// memory estimates the bytes in all entries.
	memory int64
}

func newKeyspace() keyspace {
	return keyspace{
		entries:  newHashTree[*entry](),
		expiring: newTree(0, expiresLess),
	}
}

// find returns a key's entry, or nil. It may have expired.
func (k *keyspace) find(key string) *entry {
	k.probe.key = key
	e, _ := k.entries.Get(hashOf(key), &k.probe)
	k.probe.key = ""
	return e
}

// add adds an entry for a new key, which it copies.
func (k *keyspace) add(key string, v value) *entry {
	e := &entry{hash: hashOf(key), key: strings.Clone(key), value: v}
	k.entries.Set(e.hash, e)
	k.charge(e)
	return e
}

func (k *keyspace) remove(e *entry) {
	k.setExpires(e, 0)
	k.entries.Delete(e.hash, e)
	k.memory -= e.charged
	e.charged = 0
}

// setExpires sets an entry's expiry.
func (k *keyspace) setExpires(e *entry, at int64) {
	if e.expires != 0 {
		k.expiring.Delete(e)
	}
	e.expires = at
	if at != 0 {
		k.expiring.Set(e)
	}
}

// charge counts an entry's memory again.
func (k *keyspace) charge(e *entry) {
	k.memory -= e.charged
	e.charged = entryOverhead + int64(len(e.key)) + e.value.size()
	k.memory += e.charged
}

// expired reports whether an entry has expired.
func (e *entry) expired(now int64) bool { return e.expires != 0 && e.expires <= now }

// lookup returns a key's entry, or nil if there is none or it has expired. For a command with flagWrite
// it also deletes an expired entry, so that the command cannot change one.
func (x *call) lookup(key string) *entry {
	e := x.keys.find(key)
	if x.cmd.flags.has(flagReadonly) {
		x.countLookup(key, e != nil && !e.expired(x.now))
	}
	if e == nil {
		return nil
	}
	if e.expired(x.now) && !x.replaying {
		if x.cmd.flags.has(flagWrite) {
			x.expireNow(e)
		}
		return nil
	}
	if !x.client.noTouch || x.cmd.name == "touch" {
		e.used = x.now
	}
	return e
}

// countLookup counts a read for INFO, and publishes a miss.
func (x *call) countLookup(key string, found bool) {
	if found {
		x.stats.hits++
	} else {
		x.stats.misses++
		x.publishEvent(eventMiss, "keymiss", key)
	}
}

// peek is like lookup but does not count as a use, as for OBJECT and TTL.
func (x *call) peek(key string) *entry {
	e := x.keys.find(key)
	if e == nil || e.expired(x.now) && !x.replaying {
		return nil
	}
	return e
}

// lookupKind returns a key's entry if its value has the given kind, nil if there is none, or
// errWrongType.
func (x *call) lookupKind(key string, k kind) (*entry, error) {
	e := x.lookup(key)
	if e != nil && e.value.kind() != k {
		return nil, errWrongType
	}
	return e, nil
}

// find returns a key's value, nil if there is none, or errWrongType. V is a pointer to one of the value
// types.
func find[V value](x *call, key string) (V, error) {
	var none V
	e := x.lookup(key)
	if e == nil {
		return none, nil
	}
	v, ok := e.value.(V)
	if !ok {
		return none, errWrongType
	}
	return v, nil
}

// withValue returns a command that reads its first key's value, which is nil if there is none.
func withValue[V value](run func(x *call, v V) error) func(x *call) error {
	return func(x *call) error {
		v, err := find[V](x, x.args[1])
		if err != nil {
			return err
		}
		return run(x, v)
	}
}

// withEntry is like withValue for a command that may change the value.
func withEntry(k kind, run func(x *call, e *entry) error) func(x *call) error {
	return func(x *call) error {
		e, err := x.lookupKind(x.args[1], k)
		if err != nil {
			return err
		}
		return run(x, e)
	}
}

// set gives a key a value that does not expire.
func (x *call) set(key string, v value) *entry { return x.put(x.keys.find(key), key, v) }

// put is like set for callers that know the key's entry, which is nil if there is none.
func (x *call) put(e *entry, key string, v value) *entry {
	if e == nil {
		e = x.keys.add(key, v)
	} else {
		e.value = v
		x.keys.setExpires(e, 0)
	}
	e.used = x.now
	x.changed(e)
	return e
}

// changed must be called at least once by a command that has changed an entry's value or expiry. It
// deletes the key if its value is empty.
func (x *call) changed(e *entry) {
	if e.value.empty() {
		x.remove(e)
		return
	}
	if l, ok := e.value.(*list); ok {
		l.repack(x.limits.listMaxListpackSize)
	}
	x.keys.charge(e)
	x.touched(e.key)
	if x.waiting[e.key] != nil {
		x.signal(e.key)
	}
}

// remove deletes an entry, and tells clients that wait for the key's stream that it is gone.
func (x *call) remove(e *entry) {
	x.keys.remove(e)
	x.touched(e.key)
	if x.waiting[e.key] != nil {
		x.signal(e.key)
	}
}

// changedFor breaks the transactions that watch a key, and tells clients that have read it. by is the
// client that changed it, or nil if it expired or was evicted.
func (s *Store) changedFor(key string, by *Client) {
	for c := range s.watched[key] {
		c.broken = true
	}
	s.invalidate(key, by)
}

// touched counts a change to a key.
func (x *call) touched(key string) {
	x.changes++
	x.note(key)
	x.changedFor(key, x.running)
}

// expireNow deletes an expired entry, with an effect for the log.
func (x *call) expireNow(e *entry) {
	key := e.key
	x.keys.remove(e)
	x.stats.expired++
	x.log.effect("del", key)
	x.publishEvent(eventExpired, "expired", key)
	x.signalGone(key)
}

// signalGone tells the clients that wait for a key or watch it that it was deleted without a command.
func (s *Store) signalGone(key string) {
	if s.waiting[key] != nil {
		s.signal(key)
	}
	s.changedFor(key, nil)
}

// expireSome deletes at most limit expired keys. It reports whether there may be more.
func (s *Store) expireSome(limit int) bool {
	now := s.now()
	for range limit {
		e, ok := s.keys.expiring.Min()
		if !ok || !e.expired(now) {
			return false
		}
		x := &call{Store: s, now: now}
		x.expireNow(e)
		s.log.endFrame()
	}
	return true
}

// effect writes an effect in place of the command itself: one with at most one key that gives the same
// result whenever it runs.
func (x *call) effect(args ...string) {
	x.effects = true
	x.log.effect(args...)
}

// effectOf writes a key's new state: its whole value, or that it is gone. Rarely used commands with
// several keys write that.
func (x *call) effectOf(key string) {
	e := x.keys.find(key)
	if e == nil {
		x.effect("del", key)
		return
	}
	x.effect("restore", key, formatInt(e.expires), string(dump(e.value)), "replace", "absttl")
}
