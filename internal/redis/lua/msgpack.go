package lua

import (
	"encoding/binary"
	"math"

	gopher "github.com/yuin/gopher-lua"
)

// maxMsgpackDepth limits how deep we encode tables; deeper ones become nil. Decoding has a separate
// limit.
const (
	maxMsgpackDepth  = 16
	maxMsgpackNested = 10000
)

func (i *Interpreter) msgpackFunctions() map[string]gopher.LGFunction {
	return map[string]gopher.LGFunction{
		"pack":       i.msgpackPack,
		"unpack":     func(l *gopher.LState) int { return i.msgpackUnpack(l, 0, 0) },
		"unpack_one": func(l *gopher.LState) int { return i.msgpackUnpack(l, 1, intArg(l, 2, 0)) },
		"unpack_limit": func(l *gopher.LState) int {
			return i.msgpackUnpack(l, intArg(l, 2, noDefault), intArg(l, 3, 0))
		},
	}
}

// msgpackEncoder appends values as MessagePack.
type msgpackEncoder struct{ *builder }

func (i *Interpreter) msgpackPack(l *gopher.LState) int {
	if l.GetTop() == 0 {
		argError(l, 0, "MessagePack pack needs input.")
	}
	e := msgpackEncoder{i.build(l)}
	for n := 1; n <= l.GetTop(); n++ {
		e.value(l.Get(n), 0)
	}
	return e.push()
}

func (e msgpackEncoder) value(v gopher.LValue, depth int) {
	e.guard.step(e.l)
	switch v := v.(type) {
	case gopher.LString:
		e.text(string(v))
	case gopher.LNumber:
		e.number(float64(v))
	case gopher.LBool:
		if v {
			e.byte(0xc3)
		} else {
			e.byte(0xc2)
		}
	case *gopher.LTable:
		if depth == maxMsgpackDepth {
			e.byte(0xc0)
			return
		}
		e.table(e.Original(v), depth)
	default:
		e.byte(0xc0)
	}
}

func (e msgpackEncoder) text(s string) {
	switch n := len(s); {
	case n < 32:
		e.byte(0xa0 | byte(n))
	case n <= 0xff:
		e.uint(0xd9, 1, uint64(n))
	case n <= 0xffff:
		e.uint(0xda, 2, uint64(n))
	default:
		e.uint(0xdb, 4, uint64(n))
	}
	e.string(s)
}

func (e msgpackEncoder) number(v float64) {
	if !math.IsInf(v, 0) && float64(Integer(v)) == v {
		e.int(Integer(v))
		return
	}
	if f := float32(v); float64(f) == v {
		e.uint(0xca, 4, uint64(math.Float32bits(f)))
		return
	}
	e.uint(0xcb, 8, math.Float64bits(v))
}

// uint appends a first byte and then a number in the given number of bytes.
func (e msgpackEncoder) uint(first byte, bytes int, n uint64) {
	b := binary.BigEndian.AppendUint64([]byte{first}, n)
	e.string(string(append(b[:1], b[len(b)-bytes:]...)))
}

func (e msgpackEncoder) int(n int64) {
	switch {
	case n >= 0 && n <= 127:
		e.byte(byte(n))
	case n >= 0 && n <= 0xff:
		e.uint(0xcc, 1, uint64(n))
	case n >= 0 && n <= 0xffff:
		e.uint(0xcd, 2, uint64(n))
	case n >= 0 && n <= 0xffffffff:
		e.uint(0xce, 4, uint64(n))
	case n >= 0:
		e.uint(0xcf, 8, uint64(n))
	case n >= -32:
		e.byte(byte(n))
	case n >= math.MinInt8:
		e.uint(0xd0, 1, uint64(n))
	case n >= math.MinInt16:
		e.uint(0xd1, 2, uint64(n))
	case n >= math.MinInt32:
		e.uint(0xd2, 4, uint64(n))
	default:
		e.uint(0xd3, 8, uint64(n))
	}
}

// table appends a table as a list if its keys run from 1 to the number of elements, and otherwise as a
// map.
func (e msgpackEncoder) table(t *gopher.LTable, depth int) {
	items, list := 0, true
	most := gopher.LNumber(0)
	for k, _ := t.Next(gopher.LNil); k != gopher.LNil; k, _ = t.Next(k) {
		e.guard.step(e.l)
		n, ok := k.(gopher.LNumber)
		list = list && ok && n > 0 && n == gopher.LNumber(int32(n))
		most = max(most, n)
		items++
	}
	if list && int(most) == items {
		e.header(items, 0x90, 0xdc)
		for n := range items {
			e.value(t.RawGet(gopher.LNumber(n+1)), depth+1)
		}
		return
	}
	e.header(items, 0x80, 0xde)
	for k, v := t.Next(gopher.LNil); k != gopher.LNil; k, v = t.Next(k) {
		e.value(k, depth+1)
		e.value(v, depth+1)
	}
}

// header appends the header for a list or map with n elements.
func (e msgpackEncoder) header(n int, small, large byte) {
	switch {
	case n <= 15:
		e.byte(small | byte(n))
	case n <= 0xffff:
		e.uint(large, 2, uint64(n))
	default:
		e.uint(large+1, 4, uint64(n))
	}
}

// msgpackDecoder reads MessagePack.
type msgpackDecoder struct {
	*Interpreter
	l     *gopher.LState
	text  string
	depth int
}

// msgpackUnpack pushes the offset to continue from, and then at most limit values from offset on. If
// both are zero, it pushes all values and no offset.
func (i *Interpreter) msgpackUnpack(l *gopher.LState, limit, offset int) int {
	text := stringArg(l, 1)
	if offset < 0 || limit < 0 {
		raise(l, "Invalid request to unpack with offset of %d and limit of %d.", offset, len(text))
	}
	if offset > len(text) {
		raise(l, "Start offset %d greater than input length %d.", offset, len(text))
	}
	all := limit == 0 && offset == 0
	if all {
		limit = math.MaxInt
	}
	d := &msgpackDecoder{Interpreter: i, l: l, text: text[offset:]}
	var values []gopher.LValue
	for d.text != "" && len(values) < limit {
		if len(values) > maxResults {
			raise(l, "too many return values at once; use unpack_one or unpack_limit instead.")
		}
		values = append(values, d.value())
	}
	n := len(values)
	if !all {
		next := len(text) - len(d.text)
		if d.text == "" {
			next = -1
		}
		l.Push(gopher.LNumber(next))
		n++
	}
	for _, v := range values {
		l.Push(v)
	}
	return n
}

// take takes n bytes.
func (d *msgpackDecoder) take(n int) string {
	if n > len(d.text) {
		raise(d.l, "Missing bytes in input.")
	}
	s := d.text[:n]
	d.text = d.text[n:]
	return s
}

// uint takes a number with the given number of bytes.
func (d *msgpackDecoder) uint(bytes int) uint64 {
	n := uint64(0)
	for _, c := range []byte(d.take(bytes)) {
		n = n<<8 | uint64(c)
	}
	return n
}

func (d *msgpackDecoder) value() gopher.LValue {
	d.guard.take(d.l, keySize)
	c := d.take(1)[0]
	switch {
	case c < 0x80:
		return gopher.LNumber(c)
	case c >= 0xe0:
		return gopher.LNumber(int8(c))
	case c&0xe0 == 0xa0:
		return d.guard.part(d.l, d.take(int(c&0x1f)))
	case c&0xf0 == 0x90:
		return d.list(int(c & 0xf))
	case c&0xf0 == 0x80:
		return d.pairs(int(c & 0xf))
	}
	switch c {
	case 0xc0:
		return gopher.LNil
	case 0xc2, 0xc3:
		return gopher.LBool(c == 0xc3)
	case 0xca:
		return gopher.LNumber(math.Float32frombits(uint32(d.uint(4))))
	case 0xcb:
		return gopher.LNumber(math.Float64frombits(d.uint(8)))
	case 0xcc, 0xcd, 0xce, 0xcf:
		return gopher.LNumber(d.uint(1 << (c - 0xcc)))
	case 0xd0:
		return gopher.LNumber(int8(d.uint(1)))
	case 0xd1:
		return gopher.LNumber(int16(d.uint(2)))
	case 0xd2:
		return gopher.LNumber(int32(d.uint(4)))
	case 0xd3:
		return gopher.LNumber(int64(d.uint(8)))
	case 0xd9, 0xda, 0xdb:
		return d.guard.part(d.l, d.take(int(d.uint(1<<(c-0xd9)))))
	case 0xdc, 0xdd:
		return d.list(int(d.uint(2 << (c - 0xdc))))
	case 0xde, 0xdf:
		return d.pairs(int(d.uint(2 << (c - 0xde))))
	}
	raise(d.l, "Bad data format in input.")
	return gopher.LNil
}

// enter counts a nesting level.
func (d *msgpackDecoder) enter() {
	d.depth++
	if d.depth > maxMsgpackNested {
		raise(d.l, "too many nested values")
	}
}

func (d *msgpackDecoder) list(n int) gopher.LValue {
	d.enter()
	defer func() { d.depth-- }()
	t := d.NewTable(d.l)
	for k := range n {
		t.RawSetInt(k+1, d.value())
		d.built(t)
	}
	return t
}

func (d *msgpackDecoder) pairs(n int) gopher.LValue {
	d.enter()
	defer func() { d.depth-- }()
	t := d.NewTable(d.l)
	for range n {
		key := d.value()
		v := d.value()
		if key == gopher.LNil {
			raise(d.l, "table index is nil")
		}
		t.RawSet(key, v)
		d.built(t)
	}
	return t
}
