package redis

import (
	"math"
	"strings"
)

// str is a string value.
type str struct {
	b []byte
	// edited reports whether a part was changed in place, which makes the encoding "raw".
	edited bool
	// float reports whether this is INCRBYFLOAT's result, whose encoding is never "int".
	float bool
}

func newStr(s string) *str { return &str{b: []byte(s)} }

// replaceString returns the string to replace an entry's value; e may be nil. It reuses the old
// string's memory unless that is much too large.
func replaceString(e *entry, text string) *str {
	if e == nil {
		return newStr(text)
	}
	s, ok := e.value.(*str)
	if !ok || cap(s.b) < len(text) || cap(s.b) > 2*len(text)+8 {
		return newStr(text)
	}
	*s = str{b: append(s.b[:0], text...)}
	return s
}

func (*str) kind() kind { return kindString }

func (s *str) encoding() string {
	switch {
	case s.edited:
		return "raw"
	case !s.float && isInt(s.b):
		return "int"
	case len(s.b) <= 44:
		return "embstr"
	}
	return "raw"
}

func isInt(b []byte) bool {
	_, ok := parseInt(string(b))
	return ok && len(b) <= 20
}

func (s *str) size() int64 { return int64(cap(s.b)) + 32 }

func (*str) empty() bool { return false }

func (s *str) appendTo(b []byte) []byte {
	b = append(appendUint(b, uint64(len(s.b))), s.b...)
	return b
}

func loadString(r *loader) value { return newStr(r.string()) }

// maxString is the longest string, in bytes.
const maxString = 512 << 20

// Flags that most string commands have.
const (
	readsFast  = flagReadonly | flagFast
	writes     = flagWrite | flagDenyOOM
	writesFast = flagWrite | flagDenyOOM | flagFast
)

// stringCommands has the string commands.
var stringCommands = []*command{
	{name: "get", arity: 2, flags: readsFast, first: 1, run: withValue(get), categories: "string"},
	{name: "set", arity: -3, flags: writes, first: 1, run: set, categories: "string"},
	{name: "setnx", arity: 3, flags: writesFast, first: 1, run: setNX, categories: "string"},
	{name: "setex", arity: 4, flags: writes, first: 1, run: setEX, categories: "string"},
	{name: "psetex", arity: 4, flags: writes, first: 1, run: pSetEX, categories: "string"},
	{name: "getset", arity: 3, flags: writesFast, first: 1, run: withEntry(kindString, getSet), categories: "string"},
	{name: "getdel", arity: 2, flags: flagWrite | flagFast, first: 1, run: withEntry(kindString, getDel), categories: "string"},
	{name: "getex", arity: -2, flags: flagWrite | flagFast, first: 1, run: getEX, categories: "string"},
	{name: "mget", arity: -2, flags: readsFast, first: 1, last: -1, run: mGet, categories: "string"},
	{name: "mset", arity: -3, flags: writes, first: 1, last: -1, step: 2, run: mSet, categories: "string"},
	{name: "msetnx", arity: -3, flags: writes, first: 1, last: -1, step: 2, run: mSetNX, categories: "string"},
	{name: "append", arity: 3, flags: writesFast, first: 1, run: withEntry(kindString, appendTo), categories: "string"},
	{name: "strlen", arity: 2, flags: readsFast, first: 1, run: withValue(strLen), categories: "string"},
	{name: "getrange", arity: 4, flags: flagReadonly, first: 1, run: getRange, categories: "string"},
	{name: "substr", arity: 4, flags: flagReadonly, first: 1, run: getRange, categories: "string"},
	{name: "setrange", arity: 4, flags: writes, first: 1, run: setRange, categories: "string"},
	{name: "incr", arity: 2, flags: writesFast, first: 1, run: incr, categories: "string"},
	{name: "decr", arity: 2, flags: writesFast, first: 1, run: decr, categories: "string"},
	{name: "incrby", arity: 3, flags: writesFast, first: 1, run: incrBy, categories: "string"},
	{name: "decrby", arity: 3, flags: writesFast, first: 1, run: decrBy, categories: "string"},
	{name: "incrbyfloat", arity: 3, flags: writesFast, first: 1, run: withEntry(kindString, incrByFloat), categories: "string"},
	{name: "lcs", arity: -3, flags: flagReadonly, first: 1, last: 2, run: lcs, categories: "string"},
}

func get(x *call, s *str) error {
	x.replyStr(s)
	return nil
}

// replyStr appends a string, which may be nil.
func (x *call) replyStr(s *str) {
	if s == nil {
		x.out.null()
	} else {
		x.out.bytes(s.b)
	}
}

func mGet(x *call) error {
	x.out.array(len(x.args) - 1)
	for _, key := range x.args[1:] {
		s, _ := find[*str](x, key)
		x.replyStr(s)
	}
	return nil
}

// setOptions are the options for SET and GETEX.
type setOptions struct {
	onlyNew, onlyOld, get, keepTTL, persist bool
	// expires says how to read deadline, such as EX; "" if there is none.
	expires  string
	deadline string
}

// setOptions reads options from an argument on. It refuses those that exclude each other.
func (x *call) setOptions(from int, isGet bool) (setOptions, error) {
	var o setOptions
	for i := from; i < len(x.args); i++ {
		switch word := strings.ToUpper(x.args[i]); {
		case word == "NX" && !isGet && !o.onlyOld:
			o.onlyNew = true
		case word == "XX" && !isGet && !o.onlyNew:
			o.onlyOld = true
		case word == "GET" && !isGet:
			o.get = true
		case word == "KEEPTTL" && !isGet && o.expires == "":
			o.keepTTL = true
		case word == "PERSIST" && isGet && o.expires == "":
			o.persist = true
		case (word == "EX" || word == "PX" || word == "EXAT" || word == "PXAT") &&
			!o.keepTTL && !o.persist && (o.expires == "" || o.expires == word) && i+1 < len(x.args):
			o.expires = word
			i++
			o.deadline = x.args[i]
		default:
			return o, errSyntax
		}
	}
	return o, nil
}

// expiresAt returns a key's expiry in milliseconds since 1970, from a word such as EX and its argument.
func (x *call) expiresAt(word, text string) (int64, error) {
	n, ok := parseInt(text)
	if !ok {
		return 0, errNotInt
	}
	if n <= 0 {
		return 0, x.errExpire()
	}
	if strings.HasPrefix(word, "EX") {
		if n > math.MaxInt64/1000 {
			return 0, x.errExpire()
		}
		n *= 1000
	}
	if !strings.HasSuffix(word, "AT") {
		if n > math.MaxInt64-x.now {
			return 0, x.errExpire()
		}
		n += x.now
	}
	return n, nil
}

func (x *call) errExpire() error {
	return errorf("ERR invalid expire time in '%s' command", x.cmd.name)
}

func set(x *call) error {
	o, err := x.setOptions(3, false)
	if err != nil {
		return err
	}
	at := int64(0)
	if o.expires != "" {
		if at, err = x.expiresAt(o.expires, o.deadline); err != nil {
			return err
		}
	}
	e := x.lookup(x.args[1])
	if o.get {
		if e != nil && e.value.kind() != kindString {
			return errWrongType
		}
		x.replyEntry(e)
	}
	if o.onlyNew && e != nil || o.onlyOld && e == nil {
		if !o.get {
			x.out.null()
		}
		return nil
	}
	if o.keepTTL && e != nil {
		at = e.expires
	}
	x.putString(e, x.args[1], x.args[2], at)
	if !o.get {
		x.out.ok()
	}
	return nil
}

// replyEntry appends an entry's string, or null if there is none.
func (x *call) replyEntry(e *entry) {
	if e == nil {
		x.out.null()
	} else {
		x.out.bytes(e.value.(*str).b)
	}
}

// setString gives a key a string that expires at a time, unless that is 0. A time in the past deletes
// the key.
func (x *call) setString(key, text string, at int64) { x.putString(x.keys.find(key), key, text, at) }

// putString is like setString for callers that know the key's entry, which is nil if there is none.
func (x *call) putString(e *entry, key, text string, at int64) {
	if at != 0 && at <= x.now && !x.replaying {
		if e := x.lookup(key); e != nil {
			x.remove(e)
		}
		x.touched(key)
		x.effect("del", key)
		return
	}
	e = x.put(e, key, replaceString(e, text))
	if at == 0 {
		x.effect("set", key, text)
		return
	}
	x.keys.setExpires(e, at)
	x.effect("set", key, text, "pxat", formatInt(at))
}

func setNX(x *call) error {
	missing := x.lookup(x.args[1]) == nil
	if missing {
		x.setString(x.args[1], x.args[2], 0)
	}
	return x.replyFlag(missing)
}

func setEX(x *call) error { return x.setExpiring("EX") }

func pSetEX(x *call) error { return x.setExpiring("PX") }

func (x *call) setExpiring(word string) error {
	at, err := x.expiresAt(word, x.args[2])
	if err != nil {
		return err
	}
	x.setString(x.args[1], x.args[3], at)
	return x.replyOK()
}

func getSet(x *call, e *entry) error {
	x.replyEntry(e)
	x.putString(e, x.args[1], x.args[2], 0)
	return nil
}

func getDel(x *call, e *entry) error {
	x.replyEntry(e)
	if e != nil {
		x.remove(e)
		x.effect("del", x.args[1])
	}
	return nil
}

func getEX(x *call) error {
	o, err := x.setOptions(2, true)
	if err != nil {
		return err
	}
	e, err := x.lookupKind(x.args[1], kindString)
	if err != nil {
		return err
	}
	at := int64(0)
	if e != nil && o.expires != "" {
		if at, err = x.expiresAt(o.expires, o.deadline); err != nil {
			return err
		}
	}
	x.replyEntry(e)
	switch {
	case e == nil:
	case at != 0:
		x.expireAt(e, at)
	case o.persist && e.expires != 0:
		x.keys.setExpires(e, 0)
		x.changed(e)
		x.effect("persist", e.key)
	}
	return nil
}

func mSet(x *call) error {
	if len(x.args)%2 == 0 {
		return errorf("ERR wrong number of arguments for '%s' command", x.cmd.name)
	}
	for i := 1; i < len(x.args); i += 2 {
		x.setString(x.args[i], x.args[i+1], 0)
	}
	return x.replyOK()
}

func mSetNX(x *call) error {
	if len(x.args)%2 == 0 {
		return errorf("ERR wrong number of arguments for '%s' command", x.cmd.name)
	}
	for i := 1; i < len(x.args); i += 2 {
		if x.lookup(x.args[i]) != nil {
			return x.replyInt(0)
		}
	}
	for i := 1; i < len(x.args); i += 2 {
		x.setString(x.args[i], x.args[i+1], 0)
	}
	return x.replyInt(1)
}

func appendTo(x *call, e *entry) error {
	if e == nil {
		x.set(x.args[1], newStr(x.args[2]))
		return x.replyLen(len(x.args[2]))
	}
	s := e.value.(*str)
	if len(s.b)+len(x.args[2]) > maxString {
		return errTooLong
	}
	s.b = append(s.b, x.args[2]...)
	s.edited = true
	x.changed(e)
	return x.replyLen(len(s.b))
}

func strLen(x *call, s *str) error {
	if s == nil {
		return x.replyInt(0)
	}
	return x.replyLen(len(s.b))
}

func getRange(x *call) error {
	start, err := x.int(2)
	if err != nil {
		return err
	}
	end, err := x.int(3)
	if err != nil {
		return err
	}
	s, err := find[*str](x, x.args[1])
	if err != nil {
		return err
	}
	if s == nil || start < 0 && end < 0 && start > end {
		return x.replyBulk("")
	}
	n := int64(len(s.b))
	if start < 0 {
		start = max(start+n, 0)
	}
	if end < 0 {
		end = max(end+n, 0)
	}
	end = min(end, n-1)
	if start > end || n == 0 {
		return x.replyBulk("")
	}
	x.out.bytes(s.b[start : end+1])
	return nil
}

func setRange(x *call) error {
	offset, err := x.int(2)
	if err != nil {
		return err
	}
	if offset < 0 {
		return errorf("ERR offset is out of range")
	}
	e, err := x.lookupKind(x.args[1], kindString)
	if err != nil {
		return err
	}
	text := x.args[3]
	if text == "" {
		n := 0
		if e != nil {
			n = len(e.value.(*str).b)
		}
		return x.replyLen(n)
	}
	if offset > maxString || offset+int64(len(text)) > maxString {
		return errTooLong
	}
	if err := x.admitLength(e, offset+int64(len(text))); err != nil {
		return err
	}
	if e == nil {
		e = x.set(x.args[1], &str{})
	}
	s := e.value.(*str)
	s.grow(int(offset) + len(text))
	copy(s.b[offset:], text)
	s.edited = true
	x.changed(e)
	return x.replyLen(len(s.b))
}

// admitLength returns an error if there is no memory for an n-byte string in place of an entry, which
// may be nil.
func (x *call) admitLength(e *entry, n int64) error {
	if e != nil {
		n -= int64(len(e.value.(*str).b))
	}
	return x.admitGrowth(n)
}

// grow makes the string at least n bytes long, padding with zeros.
func (s *str) grow(n int) {
	if missing := n - len(s.b); missing > 0 {
		s.b = append(s.b, make([]byte, missing)...)
	}
}
