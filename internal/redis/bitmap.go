package redis

import (
	"math/bits"
	"strings"
)

// bitmapCommands has the commands for bitmaps, which are strings. bitfield.go has BITFIELD.
var bitmapCommands = append([]*command{
	{name: "setbit", arity: 4, flags: writes, first: 1, run: setBit, categories: "bitmap"},
	{name: "getbit", arity: 3, flags: readsFast, first: 1, run: getBit, categories: "bitmap"},
	{name: "bitcount", arity: -2, flags: flagReadonly, first: 1, run: withValue(bitCount), categories: "bitmap"},
	{name: "bitpos", arity: -3, flags: flagReadonly, first: 1, run: bitPos, categories: "bitmap"},
	{name: "bitop", arity: -4, flags: writes, first: 2, last: -1, run: bitOp, categories: "bitmap"},
}, bitfieldCommands...)

const (
	errBitOffset replyError = "ERR bit offset is not an integer or out of range"
	errBit       replyError = "ERR bit is not an integer or out of range"
)

// bitOffset parses a bit's position.
func bitOffset(text string) (int64, error) {
	n, ok := parseInt(text)
	if !ok || n < 0 || n >= maxString*8 {
		return 0, errBitOffset
	}
	return n, nil
}

func setBit(x *call) error {
	offset, err := bitOffset(x.args[2])
	if err != nil {
		return err
	}
	bit, ok := parseInt(x.args[3])
	if !ok || bit != 0 && bit != 1 {
		return errBit
	}
	e, grown, err := x.stringFor(x.args[1], offset/8+1)
	if err != nil {
		return err
	}
	s := e.value.(*str)
	mask := byte(0x80) >> (offset % 8)
	old := s.b[offset/8]&mask != 0
	s.b[offset/8] &^= mask
	if bit == 1 {
		s.b[offset/8] |= mask
	}
	s.edited = true
	if grown || old != (bit == 1) {
		x.changed(e)
	}
	return x.replyFlag(old)
}

// stringFor returns a string's entry for a change, extended to at least n bytes, and whether that made
// it longer. It adds a missing one.
func (x *call) stringFor(key string, n int64) (e *entry, grown bool, err error) {
	e, err = x.lookupKind(key, kindString)
	if err != nil {
		return nil, false, err
	}
	if err := x.admitLength(e, n); err != nil {
		return nil, false, err
	}
	if e == nil {
		e = x.keys.add(key, &str{edited: true})
		e.used = x.now
	}
	s := e.value.(*str)
	grown = int64(len(s.b)) < n
	s.grow(int(n))
	return e, grown, nil
}

func getBit(x *call) error {
	offset, err := bitOffset(x.args[2])
	if err != nil {
		return err
	}
	s, err := find[*str](x, x.args[1])
	if err != nil {
		return err
	}
	return x.replyFlag(s != nil && offset/8 < int64(len(s.b)) && s.b[offset/8]&(0x80>>(offset%8)) != 0)
}

// bitRange is a part of a bitmap.
type bitRange struct {
	start, end int64
	// inBits reports whether start and end count bits instead of bytes.
	inBits bool
	hasEnd bool
	// empty reports whether the range is empty for every bitmap.
	empty bool
}

// bitRange reads a range from argument at on. BITCOUNT requires an end, checks it before the unit, and
// finds nothing between negative numbers in the wrong order.
func (x *call) bitRange(at int, counting bool) (r bitRange, err error) {
	r.end = -1
	n := len(x.args) - at
	if n == 0 {
		return r, nil
	}
	if n > 3 || counting && n < 2 {
		return r, errSyntax
	}
	if r.start, err = x.int(at); err != nil || n == 1 {
		return r, err
	}
	r.hasEnd = true
	var ok, unitOK bool
	r.end, ok = parseInt(x.args[at+1])
	r.inBits = x.is(at+2, "BIT")
	unitOK = n == 2 || r.inBits || x.is(at+2, "BYTE")
	r.empty = counting && ok && r.start < 0 && r.end < 0 && r.start > r.end
	switch {
	case r.empty:
		return r, nil
	case !ok && (counting || unitOK):
		return r, errNotInt
	case !unitOK:
		return r, errSyntax
	}
	return r, nil
}

// within returns the position of the range's first bit and the position after its last, in a bitmap
// with n bytes.
func (r bitRange) within(n int) (from, to int64) {
	total := int64(n)
	if r.inBits {
		total *= 8
	}
	start, end := r.start, r.end
	if start < 0 {
		start = max(start+total, 0)
	}
	if end < 0 {
		end = max(end+total, 0)
	}
	end = min(end, total-1)
	if start > end || r.empty {
		return 0, 0
	}
	if r.inBits {
		return start, end + 1
	}
	return start * 8, (end + 1) * 8
}

func bitCount(x *call, s *str) error {
	if s == nil {
		return x.replyInt(0)
	}
	r, err := x.bitRange(2, true)
	if err != nil {
		return err
	}
	from, to := r.within(len(s.b))
	return x.replyInt(countBits(s.b, from, to))
}

// countBits counts the ones between two positions.
func countBits(b []byte, from, to int64) int64 {
	n := int64(0)
	for from < to && from%8 != 0 {
		n += int64(b[from/8] >> (7 - from%8) & 1)
		from++
	}
	for to > from && to%8 != 0 {
		to--
		n += int64(b[to/8] >> (7 - to%8) & 1)
	}
	for _, c := range b[from/8 : to/8] {
		n += int64(bits.OnesCount8(c))
	}
	return n
}

func bitPos(x *call) error {
	bit, ok := parseInt(x.args[2])
	if !ok {
		return errNotInt
	}
	if bit != 0 && bit != 1 {
		return errorf("ERR The bit argument must be 1 or 0.")
	}
	s, err := find[*str](x, x.args[1])
	if err != nil {
		return err
	}
	if s == nil {
		return x.replyInt(-bit)
	}
	r, err := x.bitRange(3, false)
	if err != nil {
		return err
	}
	from, to := r.within(len(s.b))
	found := findBit(s.b, from, to, bit == 1)
	if found < 0 && bit == 0 && !r.hasEnd && from < to {
		found = int64(len(s.b)) * 8 // zeros follow the string
	}
	return x.replyInt(found)
}

// findBit returns a bit's first position between two others, or -1.
func findBit(b []byte, from, to int64, one bool) int64 {
	skip := byte(0xff)
	if one {
		skip = 0
	}
	for from < to {
		if from%8 == 0 && from+8 <= to && b[from/8] == skip {
			from += 8
			continue
		}
		if (b[from/8]>>(7-from%8)&1 == 1) == one {
			return from
		}
		from++
	}
	return -1
}

func bitOp(x *call) error {
	op := strings.ToUpper(x.args[1])
	switch op {
	case "AND", "OR", "XOR":
	case "NOT":
		if len(x.args) != 4 {
			return errorf("ERR BITOP NOT must be called with a single source key.")
		}
	default:
		return errSyntax
	}
	var sources [][]byte
	longest := 0
	for _, key := range x.args[3:] {
		s, err := find[*str](x, key)
		if err != nil {
			return err
		}
		var b []byte
		if s != nil {
			b = s.b
		}
		longest = max(longest, len(b))
		sources = append(sources, b)
	}
	if longest == 0 {
		if e := x.lookup(x.args[2]); e != nil {
			x.remove(e)
			x.effect("del", x.args[2])
		}
		return x.replyInt(0)
	}
	x.set(x.args[2], &str{b: combineBits(op, sources, longest), edited: true})
	x.effectOf(x.args[2])
	return x.replyLen(longest)
}

// combineBits applies an operation to strings. It treats shorter ones as padded with zeros.
func combineBits(op string, sources [][]byte, n int) []byte {
	result := make([]byte, n)
	copy(result, sources[0])
	if op == "NOT" {
		for i := range result {
			result[i] = ^result[i]
		}
		return result
	}
	for _, source := range sources[1:] {
		for i := range result {
			c := byte(0)
			if i < len(source) {
				c = source[i]
			}
			switch op {
			case "AND":
				result[i] &= c
			case "OR":
				result[i] |= c
			default:
				result[i] ^= c
			}
		}
	}
	return result
}
