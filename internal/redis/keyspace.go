package redis

import (
	"strings"

	"github.com/tidwall/btree"
)

// kind is the type of a value.
type kind uint8

// The kinds. Their numbers are part of the format of dumps.
const (
	kindString kind = iota + 1
	kindList
	kindSet
	kindZSet
	kindHash
	kindStream
)

// kindNames are the names that TYPE returns.
var kindNames = [...]string{
	kindString: "string", kindList: "list", kindSet: "set", kindZSet: "zset", kindHash: "hash", kindStream: "stream",
}

// value is the value of a key.
type value interface {
	kind() kind
	// encoding returns what OBJECT ENCODING says.
	encoding() string
	// size returns about the number of bytes in memory. It takes no time that grows with the value.
	size() int64
	// empty reports whether the value has no elements. Keys with empty values are deleted, but for strings
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
	// expires is when the key expires, in milliseconds since 1970; 0 if it does not.
	expires int64
	// used is when the key was last used, in milliseconds.
	used int64
	// charged is what the entry counts for in the memory of the store.
	charged int64
}

// entryOverhead is about what an entry takes in memory beside its key and value.
const entryOverhead = 96

func (e *entry) name() string { return e.key }

func expiresLess(a, b *entry) bool {
	return a.expires < b.expires || a.expires == b.expires && a.key < b.key
}

// keyspace has the keys of a store, in the order of their hashes, and those that expire, by time.
type keyspace struct {
	entries  *hashTree[*entry]
	expiring *btree.BTreeG[*entry]
	probe    entry
	// memory is about the number of bytes of all entries.
	memory int64
}

func newKeyspace() keyspace {
	return keyspace{
		entries:  newHashTree[*entry](),
		expiring: btree.NewBTreeGOptions(expiresLess, btree.Options{NoLocks: true}),
	}
}

// find returns the entry of a key, or nil. It may have expired.
func (k *keyspace) find(key string) *entry {
	k.probe.key = key
	e, _ := k.entries.Get(hashOf(key), &k.probe)
	k.probe.key = ""
	return e
}

// add adds an entry for a new key, of which it keeps a copy.
func (k *keyspace) add(key string, v value) *entry {
	e := &entry{hash: hashOf(key), key: strings.Clone(key), value: v}
	k.entries.Set(e.hash, e)
	k.charge(e)
	return e
}

// remove removes an entry.
func (k *keyspace) remove(e *entry) {
	k.setExpires(e, 0)
	k.entries.Delete(e.hash, e)
	k.memory -= e.charged
	e.charged = 0
}

// setExpires sets when an entry expires.
func (k *keyspace) setExpires(e *entry, at int64) {
	if e.expires != 0 {
		k.expiring.Delete(e)
	}
	e.expires = at
	if at != 0 {
		k.expiring.Set(e)
	}
}

// charge counts the memory of an entry again.
func (k *keyspace) charge(e *entry) {
	k.memory -= e.charged
	e.charged = entryOverhead + int64(len(e.key)) + e.value.size()
	k.memory += e.charged
}

// expired reports whether an entry has expired.
func (e *entry) expired(now int64) bool { return e.expires != 0 && e.expires <= now }

// lookup returns the entry of a key, or nil if there is none or it has expired. Commands that change a
// key must not be left with one that has expired: a command with flagWrite deletes it.
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

// countLookup counts a read of a key, for INFO, and publishes one that finds nothing.
func (x *call) countLookup(key string, found bool) {
	if found {
		x.stats.hits++
	} else {
		x.stats.misses++
		x.publishEvent(eventMiss, "keymiss", key)
	}
}

// peek is lookup without using the key, as OBJECT and TTL do.
func (x *call) peek(key string) *entry {
	e := x.keys.find(key)
	if e == nil || e.expired(x.now) && !x.replaying {
		return nil
	}
	return e
}

// lookupKind returns the entry of a key if it has a kind of value, nil if there is none, or errWrongType.
func (x *call) lookupKind(key string, k kind) (*entry, error) {
	e := x.lookup(key)
	if e != nil && e.value.kind() != k {
		return nil, errWrongType
	}
	return e, nil
}

// find returns the value of a key, or nil if there is none, or errWrongType. V is a pointer to a type of
// values.
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

// set gives a key a value and no time to expire.
func (x *call) set(key string, v value) *entry { return x.put(x.keys.find(key), key, v) }

// put is set for a key whose entry is known. It is nil if there is none.
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

// changed must be called when the value of an entry, or when it expires, has been changed, once for each
// command at least. It deletes the key if its value is empty.
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

// remove deletes an entry. Clients that wait for entries of a stream are told that it is gone.
func (x *call) remove(e *entry) {
	x.keys.remove(e)
	x.touched(e.key)
	if x.waiting[e.key] != nil {
		x.signal(e.key)
	}
}

// changedFor breaks the transactions that watch a key, and tells clients that have read it.
func (s *Store) changedFor(key string) {
	for c := range s.watched[key] {
		c.broken = true
	}
	s.invalidate(key)
}

// touched counts a change of a key.
func (x *call) touched(key string) {
	x.changes++
	x.note(key)
	x.changedFor(key)
}

// expireNow deletes an entry that has expired, with an effect of its own.
func (x *call) expireNow(e *entry) {
	key := e.key
	x.keys.remove(e)
	x.stats.expired++
	x.log.effect("del", key)
	x.publishEvent(eventExpired, "expired", key)
	x.signalGone(key)
}

// signalGone tells clients that wait for a key, or watch it, that it was deleted without a command.
func (s *Store) signalGone(key string) {
	if s.waiting[key] != nil {
		s.signal(key)
	}
	s.changedFor(key)
}

// expireSome deletes keys that have expired, some at a time. It reports whether there may be more.
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

// effect writes an effect of a command instead of the command itself: one with one key at most and the
// same result whenever it runs.
func (x *call) effect(args ...string) {
	x.effects = true
	x.log.effect(args...)
}

// effectOf writes what a key has become: its whole value, or that it is gone. Commands that have several
// keys and are not often used write that.
func (x *call) effectOf(key string) {
	e := x.keys.find(key)
	if e == nil {
		x.effect("del", key)
		return
	}
	x.effect("restore", key, formatInt(e.expires), string(dump(e.value)), "replace", "absttl")
}
