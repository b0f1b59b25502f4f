package lua

import (
	"encoding/binary"
	"math"

	gopher "github.com/yuin/gopher-lua"
)

// maxMsgpackDepth is how deep tables are encoded; deeper ones become nil. Decoding has a limit of its own.
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
type msgpackEncoder struct {
	*Interpreter
	l *gopher.LState
	b []byte
}

func (i *Interpreter) msgpackPack(l *gopher.LState) int {
	if l.GetTop() == 0 {
		argError(l, 0, "MessagePack pack needs input.")
	}
	e := &msgpackEncoder{Interpreter: i, l: l}
	for n := 1; n <= l.GetTop(); n++ {
		e.value(l.Get(n), 0)
	}
	i.guard.charge(l, len(e.b))
	l.Push(gopher.LString(e.b))
	return 1
}

func (e *msgpackEncoder) value(v gopher.LValue, depth int) {
	switch v := v.(type) {
	case gopher.LString:
		e.string(string(v))
	case gopher.LNumber:
		e.number(float64(v))
	case gopher.LBool:
		if v {
			e.b = append(e.b, 0xc3)
		} else {
			e.b = append(e.b, 0xc2)
		}
	case *gopher.LTable:
		if depth == maxMsgpackDepth {
			e.b = append(e.b, 0xc0)
			return
		}
		e.table(e.Original(v), depth)
	default:
		e.b = append(e.b, 0xc0)
	}
}

func (e *msgpackEncoder) string(s string) {
	e.guard.charge(e.l, len(e.b)+len(s))
	e.guard.charged -= int64(len(e.b))
	switch n := len(s); {
	case n < 32:
		e.b = append(e.b, 0xa0|byte(n))
	case n <= 0xff:
		e.b = append(e.b, 0xd9, byte(n))
	case n <= 0xffff:
		e.b = binary.BigEndian.AppendUint16(append(e.b, 0xda), uint16(n))
	default:
		e.b = binary.BigEndian.AppendUint32(append(e.b, 0xdb), uint32(n))
	}
	e.b = append(e.b, s...)
}

func (e *msgpackEncoder) number(v float64) {
	if !math.IsInf(v, 0) && float64(Integer(v)) == v {
		e.int(Integer(v))
		return
	}
	if f := float32(v); float64(f) == v {
		e.b = binary.BigEndian.AppendUint32(append(e.b, 0xca), math.Float32bits(f))
		return
	}
	e.b = binary.BigEndian.AppendUint64(append(e.b, 0xcb), math.Float64bits(v))
}

func (e *msgpackEncoder) int(n int64) {
	switch {
	case n >= 0 && n <= 127:
		e.b = append(e.b, byte(n))
	case n >= 0 && n <= 0xff:
		e.b = append(e.b, 0xcc, byte(n))
	case n >= 0 && n <= 0xffff:
		e.b = binary.BigEndian.AppendUint16(append(e.b, 0xcd), uint16(n))
	case n >= 0 && n <= 0xffffffff:
		e.b = binary.BigEndian.AppendUint32(append(e.b, 0xce), uint32(n))
	case n >= 0:
		e.b = binary.BigEndian.AppendUint64(append(e.b, 0xcf), uint64(n))
	case n >= -32:
		e.b = append(e.b, byte(n))
	case n >= math.MinInt8:
		e.b = append(e.b, 0xd0, byte(n))
	case n >= math.MinInt16:
		e.b = binary.BigEndian.AppendUint16(append(e.b, 0xd1), uint16(n))
	case n >= math.MinInt32:
		e.b = binary.BigEndian.AppendUint32(append(e.b, 0xd2), uint32(n))
	default:
		e.b = binary.BigEndian.AppendUint64(append(e.b, 0xd3), uint64(n))
	}
}

// table appends a table as a list if its keys are 1 to the number of its elements, or as a map.
func (e *msgpackEncoder) table(t *gopher.LTable, depth int) {
	e.guard.charge(e.l, len(e.b))
	e.guard.charged -= int64(len(e.b))
	e.guard.check(e.l)
	items, list := 0, true
	most := gopher.LNumber(0)
	for k, _ := t.Next(gopher.LNil); k != gopher.LNil; k, _ = t.Next(k) {
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

// header appends the head of a list or map of n elements.
func (e *msgpackEncoder) header(n int, small, large byte) {
	switch {
	case n <= 15:
		e.b = append(e.b, small|byte(n))
	case n <= 0xffff:
		e.b = binary.BigEndian.AppendUint16(append(e.b, large), uint16(n))
	default:
		e.b = binary.BigEndian.AppendUint32(append(e.b, large+1), uint32(n))
	}
}

// msgpackDecoder reads MessagePack.
type msgpackDecoder struct {
	*Interpreter
	l     *gopher.LState
	text  string
	depth int
}

// msgpackUnpack pushes at most limit values behind an offset, and before them where to go on. Zero for both means all
// values, without that.
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

// uint takes a number of some bytes.
func (d *msgpackDecoder) uint(bytes int) uint64 {
	n := uint64(0)
	for _, c := range []byte(d.take(bytes)) {
		n = n<<8 | uint64(c)
	}
	return n
}

func (d *msgpackDecoder) value() gopher.LValue {
	c := d.take(1)[0]
	switch {
	case c < 0x80:
		return gopher.LNumber(c)
	case c >= 0xe0:
		return gopher.LNumber(int8(c))
	case c&0xe0 == 0xa0:
		return gopher.LString(d.take(int(c & 0x1f)))
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
		return gopher.LString(d.take(int(d.uint(1 << (c - 0xd9)))))
	case 0xdc, 0xdd:
		return d.list(int(d.uint(2 << (c - 0xdc))))
	case 0xde, 0xdf:
		return d.pairs(int(d.uint(2 << (c - 0xde))))
	}
	raise(d.l, "Bad data format in input.")
	return gopher.LNil
}

// enter counts a level of nesting.
func (d *msgpackDecoder) enter() {
	d.depth++
	if d.depth > maxMsgpackNested {
		raise(d.l, "too many nested values")
	}
}

func (d *msgpackDecoder) list(n int) gopher.LValue {
	d.enter()
	defer func() { d.depth-- }()
	t := d.l.NewTable()
	for k := range n {
		t.RawSetInt(k+1, d.value())
	}
	return t
}

func (d *msgpackDecoder) pairs(n int) gopher.LValue {
	d.enter()
	defer func() { d.depth-- }()
	t := d.l.NewTable()
	for range n {
		key := d.value()
		v := d.value()
		if key == gopher.LNil {
			raise(d.l, "table index is nil")
		}
		t.RawSet(key, v)
	}
	return t
}
