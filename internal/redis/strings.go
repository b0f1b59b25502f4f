package redis

import "strconv"

// str is the value of a string.
type str struct {
	b []byte
	// edited is whether a part of it was changed in place, after which it is "raw".
	edited bool
}

func newStr(s string) *str { return &str{b: []byte(s)} }

func (*str) kind() kind { return kindString }

func (s *str) encoding() string {
	switch {
	case s.edited:
		return "raw"
	case isInt(s.b):
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

// stringCommands are the commands of strings.
var stringCommands = []*command{
	{name: "get", arity: 2, flags: flagReadonly | flagFast, first: 1, last: 1, step: 1, run: get, categories: "string"},
	{name: "set", arity: -3, flags: flagWrite | flagDenyOOM, first: 1, last: 1, step: 1, run: set, categories: "string"},
	{name: "incr", arity: 2, flags: flagWrite | flagDenyOOM | flagFast, first: 1, last: 1, step: 1, run: incr, categories: "string"},
}

func get(x *call) error {
	s, err := find[*str](x, x.args[1])
	if err != nil {
		return err
	}
	if s == nil {
		x.out.null()
		return nil
	}
	x.out.bytes(s.b)
	return nil
}

func set(x *call) error {
	x.set(x.args[1], newStr(x.args[2]))
	x.out.ok()
	return nil
}

func incr(x *call) error { return x.incrBy(1) }

// incrBy adds a number to the string of a key.
func (x *call) incrBy(by int64) error {
	e, err := x.lookupKind(x.args[1], kindString)
	if err != nil {
		return err
	}
	n := int64(0)
	if e != nil {
		parsed, ok := parseInt(string(e.value.(*str).b))
		if !ok {
			return errNotInt
		}
		n = parsed
	}
	if by > 0 && n+by < n || by < 0 && n+by > n {
		return errOverflow
	}
	n += by
	if e == nil {
		x.set(x.args[1], newStr(formatInt(n)))
	} else {
		s := e.value.(*str)
		s.b = strconv.AppendInt(s.b[:0], n, 10)
		s.edited = false
		x.changed(e)
	}
	x.out.int(n)
	return nil
}
