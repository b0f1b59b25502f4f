package redis

import (
	"math/rand/v2"
	"strconv"
	"strings"
)

// keyCommands has the commands for keys with any type. expire.go has those about expiry.
var keyCommands = append([]*command{
	{name: "del", arity: -2, flags: flagWrite, first: 1, last: -1, run: del, categories: "keyspace"},
	{name: "unlink", arity: -2, flags: flagWrite | flagFast, first: 1, last: -1, run: del, categories: "keyspace"},
	{name: "exists", arity: -2, flags: readsFast, first: 1, last: -1, run: exists, categories: "keyspace"},
	{name: "touch", arity: -2, flags: readsFast, first: 1, last: -1, run: exists, categories: "keyspace"},
	{name: "type", arity: 2, flags: readsFast, first: 1, run: typeOf, categories: "keyspace"},
	{name: "rename", arity: 3, flags: flagWrite, first: 1, last: 2, run: rename, categories: "keyspace"},
	{name: "renamenx", arity: 3, flags: flagWrite | flagFast, first: 1, last: 2, run: renameNX, categories: "keyspace"},
	{name: "copy", arity: -3, flags: writes, first: 1, last: 2, run: copyKey, categories: "keyspace"},
	{name: "randomkey", arity: 1, flags: flagReadonly, run: randomKey, categories: "keyspace"},
	{name: "keys", arity: 2, flags: flagReadonly, run: keysLike, categories: "keyspace dangerous"},
	{name: "scan", arity: -2, flags: flagReadonly, run: scan, categories: "keyspace"},
	{name: "dump", arity: 2, flags: flagReadonly, first: 1, run: dumpKey, categories: "keyspace"},
	{name: "restore", arity: -4, flags: writes, first: 1, run: restore, categories: "keyspace dangerous"},
	{name: "object", arity: -2, sub: []*command{
		{name: "object|encoding", arity: 3, flags: flagReadonly, first: 2, run: objectEncoding, categories: "keyspace"},
		{name: "object|refcount", arity: 3, flags: flagReadonly, first: 2, run: objectRefCount, categories: "keyspace"},
		{name: "object|idletime", arity: 3, flags: flagReadonly, first: 2, run: objectIdleTime, categories: "keyspace"},
		{name: "object|freq", arity: 3, flags: flagReadonly, first: 2, run: objectFreq, categories: "keyspace"},
		{name: "object|help", arity: 2, run: help, categories: "keyspace"},
	}},
	{name: "flushall", arity: -1, flags: flagWrite, run: flushAll, categories: "keyspace dangerous"},
	{name: "flushdb", arity: -1, flags: flagWrite, run: flushAll, categories: "keyspace dangerous"},
	{name: "dbsize", arity: 1, flags: readsFast, run: dbSize, categories: "keyspace"},
}, expireCommands...)

func del(x *call) error {
	n := 0
	for _, key := range x.args[1:] {
		if e := x.lookup(key); e != nil {
			x.remove(e)
			x.effect("del", key)
			n++
		}
	}
	return x.replyLen(n)
}

func exists(x *call) error {
	n := 0
	for _, key := range x.args[1:] {
		if x.exists(key) {
			n++
		}
	}
	return x.replyLen(n)
}

// exists reports whether a key exists. Only TOUCH counts as a use.
func (x *call) exists(key string) bool {
	if x.cmd.name == "touch" {
		return x.lookup(key) != nil
	}
	found := x.peek(key) != nil
	x.countLookup(key, found)
	return found
}

func typeOf(x *call) error {
	if e := x.peek(x.args[1]); e != nil {
		x.out.simple(kindNames[e.value.kind()])
	} else {
		x.out.simple("none")
	}
	return nil
}

func rename(x *call) error {
	if err := x.rename(x.args[1], x.args[2]); err != nil {
		return err
	}
	return x.replyOK()
}

// rename moves a key's value to another key.
func (x *call) rename(from, to string) error {
	e := x.lookup(from)
	if e == nil {
		return errNoSuchKey
	}
	if from == to {
		return nil
	}
	if err := x.admitEffect(e); err != nil {
		return err
	}
	at := e.expires
	x.remove(e)
	x.keys.setExpires(x.set(to, e.value), at)
	x.effect("del", from)
	x.effectOf(to)
	return nil
}

// maxRenamed is the largest value, in bytes, that can be renamed while the disk is almost full.
const maxRenamed = 4 << 10

// admitEffect returns an error if we must not write and an entry's value is too large to write to the
// log once more.
func (x *call) admitEffect(e *entry) error {
	if x.replaying || e.charged <= maxRenamed || x.options.Writable == nil {
		return nil
	}
	return x.countRefused(x.options.Writable())
}

func renameNX(x *call) error {
	if x.lookup(x.args[1]) == nil {
		return errNoSuchKey
	}
	taken := x.lookup(x.args[2]) != nil
	if !taken {
		if err := x.rename(x.args[1], x.args[2]); err != nil {
			return err
		}
	}
	return x.replyFlag(!taken)
}

func copyKey(x *call) error {
	replace := false
	for i := 3; i < len(x.args); i++ {
		switch {
		case x.is(i, "REPLACE"):
			replace = true
		case x.is(i, "DB") && i+1 < len(x.args):
			i++
			if err := x.database(i); err != nil {
				return err
			}
		default:
			return errSyntax
		}
	}
	from, to := x.args[1], x.args[2]
	if from == to {
		return errorf("ERR source and destination objects are the same")
	}
	e := x.lookup(from)
	if e == nil || x.lookup(to) != nil && !replace {
		return x.replyInt(0)
	}
	if err := x.admitGrowth(e.charged); err != nil {
		return err
	}
	v, err := clone(e.value)
	if err != nil {
		return err
	}
	x.keys.setExpires(x.set(to, v), e.expires)
	x.effectOf(to)
	return x.replyInt(1)
}

// clone copies a value, with its encoding.
func clone(v value) (value, error) {
	copied, err := undump(string(dump(v)))
	if err != nil {
		return nil, err
	}
	if v, ok := v.(*str); ok {
		copied.(*str).edited = v.edited
		copied.(*str).float = v.float
	}
	return copied, nil
}

// database returns an error unless an argument is the number of our only database.
func (x *call) database(i int) error {
	n, err := x.int(i)
	if err != nil {
		return err
	}
	if n != 0 {
		return errorf("ERR DB index is out of range")
	}
	return nil
}

func randomKey(x *call) error {
	for range 100 { // expired keys are deleted soon
		n := x.keys.entries.Len()
		if n == 0 {
			break
		}
		if e := x.keys.entries.At(rand.IntN(n)); !e.expired(x.now) {
			return x.replyBulk(e.key)
		}
	}
	return x.replyNull()
}

func keysLike(x *call) error {
	var all []string
	x.keys.entries.All(func(e *entry) bool {
		if !e.expired(x.now) && (x.args[1] == "*" || globMatch(x.args[1], e.key)) {
			all = append(all, e.key)
		}
		return true
	})
	return x.replyBulks(all)
}

// scanOptions are the options for SCAN, HSCAN, SSCAN and ZSCAN.
type scanOptions struct {
	pattern string
	like    bool // there is a pattern
	count   int
	kind    string // "" for all
}

// cursor reads a scan's cursor.
func (x *call) cursor(i int) (uint64, error) {
	cursor, err := strconv.ParseUint(x.args[i], 10, 64)
	if err != nil {
		return 0, errorf("ERR invalid cursor")
	}
	return cursor, nil
}

// scanOptions reads the arguments after a cursor.
func (x *call) scanOptions(from int, types bool) (scanOptions, error) {
	o := scanOptions{count: 10}
	for i := from; i < len(x.args); i += 2 {
		switch {
		case i+1 == len(x.args):
			return o, errSyntax
		case x.is(i, "COUNT"):
			n, err := x.int(i + 1)
			if err != nil {
				return o, err
			}
			if n < 1 {
				return o, errSyntax
			}
			o.count = int(n)
		case x.is(i, "MATCH"):
			o.pattern = x.args[i+1]
			o.like = o.pattern != "*"
		case x.is(i, "TYPE") && types:
			o.kind = strings.ToLower(x.args[i+1])
		default:
			return o, errSyntax
		}
	}
	return o, nil
}

// matches reports whether a key or member should be returned.
func (o *scanOptions) matches(key string) bool {
	return !o.like || o.pattern == "*" || globMatch(o.pattern, key)
}

// replyScan appends a scan's cursor and elements.
func (x *call) replyScan(cursor uint64, all []string) {
	x.out.array(2)
	x.out.bulk(strconv.FormatUint(cursor, 10))
	x.out.bulks(all)
}

// scanDict replies to a scan of the dict that of returns for a key's value. extra, unless it is nil,
// returns a string to send after each element.
func scanDict[T value, V any](x *call, of func(T) *dict[V], extra func(*item[V]) string) error {
	cursor, err := x.cursor(2)
	if err != nil {
		return err
	}
	e := x.lookup(x.args[1])
	if e == nil {
		x.replyScan(0, nil)
		return nil
	}
	v, ok := e.value.(T)
	if !ok {
		return errWrongType
	}
	o, err := x.scanOptions(3, false)
	if err != nil {
		return err
	}
	var all []string
	next := of(v).scan(cursor, o.count, func(it *item[V]) {
		if !o.matches(it.key) {
			return
		}
		all = append(all, it.key)
		if extra != nil {
			all = append(all, extra(it))
		}
	})
	x.replyScan(next, all)
	return nil
}

func scan(x *call) error {
	cursor, err := x.cursor(1)
	if err != nil {
		return err
	}
	o, err := x.scanOptions(2, true)
	if err != nil {
		return err
	}
	var all []string
	next := x.keys.entries.Scan(cursor, &entry{}, o.count, func(e *entry) {
		if !e.expired(x.now) && o.matches(e.key) && (o.kind == "" || o.kind == kindNames[e.value.kind()]) {
			all = append(all, e.key)
		}
	})
	x.replyScan(next, all)
	return nil
}

func dumpKey(x *call) error {
	if e := x.lookup(x.args[1]); e != nil {
		x.out.bytes(dump(e.value))
	} else {
		x.out.null()
	}
	return nil
}

// restoreOptions are RESTORE's options.
type restoreOptions struct {
	replace, absolute, hasIdle, hasFreq bool
	idle                                int64
}

func (x *call) restoreOptions() (o restoreOptions, err error) {
	for i := 4; i < len(x.args); i++ {
		switch {
		case x.is(i, "REPLACE"):
			o.replace = true
		case x.is(i, "ABSTTL"):
			o.absolute = true
		case x.is(i, "IDLETIME") && i+1 < len(x.args) && !o.hasFreq:
			i++
			o.hasIdle = true
			if o.idle, err = x.int(i); err != nil {
				return o, err
			}
			if o.idle < 0 {
				return o, errorf("ERR Invalid IDLETIME value, must be >= 0")
			}
		case x.is(i, "FREQ") && i+1 < len(x.args) && !o.hasIdle:
			i++
			o.hasFreq = true
			n, err := x.int(i)
			if err != nil {
				return o, err
			}
			if n < 0 || n > 255 {
				return o, errorf("ERR Invalid FREQ value, must be >= 0 and <= 255")
			}
		default:
			return o, errSyntax
		}
	}
	return o, nil
}

func restore(x *call) error {
	o, err := x.restoreOptions()
	if err != nil {
		return err
	}
	old := x.lookup(x.args[1])
	if old != nil && !o.replace {
		return errorf("BUSYKEY Target key name already exists.")
	}
	at, err := x.int(2)
	if err != nil {
		return err
	}
	if at < 0 {
		return errorf("ERR Invalid TTL value, must be >= 0")
	}
	v, err := undump(x.args[3])
	if err != nil {
		return errorf("ERR DUMP payload version or checksum are wrong")
	}
	if at != 0 && !o.absolute {
		at += x.now
	}
	if at != 0 && at <= x.now && !x.replaying {
		if old != nil {
			x.remove(old)
			x.effect("del", x.args[1])
		}
		return x.replyOK()
	}
	e := x.set(x.args[1], v)
	x.keys.setExpires(e, at)
	e.used -= o.idle * 1000
	x.effect("restore", x.args[1], formatInt(at), x.args[3], "replace", "absttl")
	return x.replyOK()
}

// object returns the entry that an OBJECT command names. If there is none, it replies so and returns
// nil.
func (x *call) object() *entry {
	e := x.peek(x.args[2])
	if e == nil {
		x.out.null()
	}
	return e
}

func objectEncoding(x *call) error {
	if e := x.object(); e != nil {
		x.out.bulk(e.value.encoding())
	}
	return nil
}

func objectRefCount(x *call) error {
	if e := x.object(); e != nil {
		x.out.int(1)
	}
	return nil
}

func objectIdleTime(x *call) error {
	if e := x.object(); e != nil {
		x.out.int(max(x.now-e.used, 0) / 1000)
	}
	return nil
}

func objectFreq(x *call) error {
	if e := x.object(); e != nil {
		return errorf("ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.")
	}
	return nil
}

// help lists a command's subcommands.
func help(x *call) error {
	parent := x.table[strings.ToLower(x.args[0])]
	x.out.array(len(parent.sub) + 1)
	x.out.simple(strings.ToUpper(parent.name) + " has these subcommands:")
	for _, sub := range parent.sub {
		x.out.simple("  " + strings.ToUpper(strings.TrimPrefix(sub.name, parent.name+"|")))
	}
	return nil
}

func flushAll(x *call) error {
	if len(x.args) > 2 || len(x.args) == 2 && !x.is(1, "SYNC") && !x.is(1, "ASYNC") {
		return errSyntax
	}
	n := x.keys.entries.Len()
	for key := range x.waiting {
		x.signal(key)
	}
	for key, clients := range x.watched {
		if x.keys.find(key) == nil {
			continue
		}
		for c := range clients {
			c.broken = true
		}
	}
	x.invalidateAll()
	x.Store.keys = newKeyspace()
	if n > 0 {
		x.changes += n
		x.effect("flushall")
	}
	return x.replyOK()
}

func dbSize(x *call) error { return x.replyLen(x.keys.entries.Len()) }
