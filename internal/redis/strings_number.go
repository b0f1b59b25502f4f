package redis

import (
	"math"
	"math/big"
	"strconv"
)

func incr(x *call) error { return x.incrBy(1) }

func decr(x *call) error { return x.incrBy(-1) }

func incrBy(x *call) error {
	by, err := x.int(2)
	if err != nil {
		return err
	}
	return x.incrBy(by)
}

func decrBy(x *call) error {
	by, err := x.int(2)
	if err != nil {
		return err
	}
	if by == math.MinInt64 {
		return errorf("ERR decrement would overflow")
	}
	return x.incrBy(-by)
}

// incrBy adds a number to a key's string.
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
	if by > 0 && n > math.MaxInt64-by || by < 0 && n < math.MinInt64-by {
		return errOverflow
	}
	n += by
	if e == nil {
		x.put(nil, x.args[1], newStr(formatInt(n)))
	} else {
		s := e.value.(*str)
		s.b = strconv.AppendInt(s.b[:0], n, 10)
		s.edited = false
		s.float = false
		x.changed(e)
	}
	return x.replyInt(n)
}

func incrByFloat(x *call, e *entry) error {
	text := "0"
	at := int64(0)
	if e != nil {
		text = string(e.value.(*str).b)
		at = e.expires
	}
	sum, err := addFloats(text, x.args[2])
	if err != nil {
		return err
	}
	x.setString(x.args[1], sum, at)
	if e := x.keys.find(x.args[1]); e != nil {
		e.value.(*str).float = true
	}
	return x.replyBulk(sum)
}

// addFloats adds two numbers like Redis: in extended precision, and written with at most 17 digits
// after the point.
func addFloats(a, b string) (string, error) {
	m, ok := parseLongDouble(a)
	n, also := parseLongDouble(b)
	if !ok || !also {
		return "", errNotFloat
	}
	if m.IsInf() || n.IsInf() {
		return "", errorf("ERR increment would produce NaN or Infinity")
	}
	m.Add(m, n)
	if m.MantExp(nil) > longDoubleMax {
		return "", errorf("ERR increment would produce NaN or Infinity")
	}
	return formatLongDouble(m), nil
}

// formatLongDouble formats a number with at most 17 digits after the point.
func formatLongDouble(v *big.Float) string {
	text := trimZeros(v.Text('f', 17))
	if text == "-0" {
		return "0"
	}
	return text
}
