package redis

import (
	"math"
	"strings"
)

// expireCommands has the commands about expiry.
var expireCommands = []*command{
	{name: "expire", arity: -3, flags: flagWrite | flagFast, first: 1, run: expire, categories: "keyspace"},
	{name: "pexpire", arity: -3, flags: flagWrite | flagFast, first: 1, run: expire, categories: "keyspace"},
	{name: "expireat", arity: -3, flags: flagWrite | flagFast, first: 1, run: expire, categories: "keyspace"},
	{name: "pexpireat", arity: -3, flags: flagWrite | flagFast, first: 1, run: expire, categories: "keyspace"},
	{name: "persist", arity: 2, flags: flagWrite | flagFast, first: 1, run: persist, categories: "keyspace"},
	{name: "ttl", arity: 2, flags: readsFast, first: 1, run: ttl, categories: "keyspace"},
	{name: "pttl", arity: 2, flags: readsFast, first: 1, run: ttl, categories: "keyspace"},
	{name: "expiretime", arity: 2, flags: readsFast, first: 1, run: expireTime, categories: "keyspace"},
	{name: "pexpiretime", arity: 2, flags: readsFast, first: 1, run: expireTime, categories: "keyspace"},
}

// expireAt sets an entry's expiry. A time in the past deletes the entry.
func (x *call) expireAt(e *entry, at int64) {
	if at <= x.now && !x.replaying {
		x.remove(e)
		x.effect("del", e.key)
		return
	}
	x.keys.setExpires(e, at)
	x.changed(e)
	x.effect("pexpireat", e.key, formatInt(at))
}

// expire runs EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT.
func expire(x *call) error {
	conditions, err := x.expireConditions()
	if err != nil {
		return err
	}
	at, err := x.expireArg()
	if err != nil {
		return err
	}
	e := x.lookup(x.args[1])
	if e == nil || !conditions.allow(e.expires, at) {
		return x.replyInt(0)
	}
	x.expireAt(e, at)
	return x.replyInt(1)
}

// expireArg reads the time in the second argument, in milliseconds since 1970.
func (x *call) expireArg() (int64, error) {
	n, err := x.int(2)
	if err != nil {
		return 0, err
	}
	if !strings.HasPrefix(x.cmd.name, "p") {
		if n > math.MaxInt64/1000 || n < math.MinInt64/1000 {
			return 0, x.errExpire()
		}
		n *= 1000
	}
	if strings.HasSuffix(x.cmd.name, "at") {
		return n, nil
	}
	if n > math.MaxInt64-x.now {
		return 0, x.errExpire()
	}
	return n + x.now, nil
}

// expireConditions says when to set a new time.
type expireConditions struct{ ifNone, ifSome, ifLater, ifEarlier bool }

func (x *call) expireConditions() (c expireConditions, err error) {
	for i := 3; i < len(x.args); i++ {
		switch strings.ToUpper(x.args[i]) {
		case "NX":
			c.ifNone = true
		case "XX":
			c.ifSome = true
		case "GT":
			c.ifLater = true
		case "LT":
			c.ifEarlier = true
		default:
			return c, errorf("ERR Unsupported option %s", x.args[i])
		}
	}
	if c.ifNone && (c.ifSome || c.ifLater || c.ifEarlier) {
		return c, errorf("ERR NX and XX, GT or LT options at the same time are not compatible")
	}
	if c.ifLater && c.ifEarlier {
		return c, errorf("ERR GT and LT options at the same time are not compatible")
	}
	return c, nil
}

// allow reports whether a new time may replace the old one, which is 0 if there is none.
func (c expireConditions) allow(old, at int64) bool {
	switch {
	case c.ifNone && old != 0, c.ifSome && old == 0:
		return false
	case c.ifLater && (old == 0 || at <= old):
		return false
	case c.ifEarlier && old != 0 && at >= old:
		return false
	}
	return true
}

func persist(x *call) error {
	e := x.lookup(x.args[1])
	if e == nil || e.expires == 0 {
		return x.replyInt(0)
	}
	x.keys.setExpires(e, 0)
	x.changed(e)
	return x.replyInt(1)
}

// ttl runs TTL and PTTL.
func ttl(x *call) error { return x.replyTime(func(at int64) int64 { return max(at-x.now, 0) }) }

// expireTime runs EXPIRETIME and PEXPIRETIME.
func expireTime(x *call) error { return x.replyTime(func(at int64) int64 { return at }) }

// replyTime applies f to a key's expiry and appends the result, or -1 if the key does not expire, or -2
// if there is no key. Commands without a p reply in seconds.
func (x *call) replyTime(f func(at int64) int64) error {
	e := x.peek(x.args[1])
	switch {
	case e == nil:
		x.out.int(-2)
	case e.expires == 0:
		x.out.int(-1)
	case strings.HasPrefix(x.cmd.name, "p"):
		x.out.int(f(e.expires))
	default:
		ms := f(e.expires)
		x.out.int(ms/1000 + (ms%1000+500)/1000)
	}
	return nil
}
