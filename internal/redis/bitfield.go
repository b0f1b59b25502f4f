package redis

import (
	"strconv"
	"strings"
)

// bitfieldCommands has BITFIELD and BITFIELD_RO.
var bitfieldCommands = []*command{
	{name: "bitfield", arity: -2, flags: writes, first: 1, run: bitField, categories: "bitmap"},
	{name: "bitfield_ro", arity: -2, flags: readsFast, first: 1, run: bitField, categories: "bitmap"},
}

// bitType is the type of an integer in a bitmap, such as i8 or u63.
type bitType struct {
	signed bool
	bits   int64
}

// overflow says what to do with a number that does not fit.
type overflow int

const (
	overflowWrap overflow = iota
	overflowSat
	overflowFail
)

// bitOperation is one operation in a BITFIELD request.
type bitOperation struct {
	word     string // get, set or incrby
	of       bitType
	offset   int64
	value    int64
	overflow overflow
}

func bitField(x *call) error {
	operations, err := x.bitOperations()
	if err != nil {
		return err
	}
	length := int64(0) // the least length that the string needs, in bytes
	for _, op := range operations {
		if op.word != "get" {
			length = max(length, (op.offset+op.of.bits-1)/8+1)
		}
	}
	writing := length > 0
	if writing && x.cmd.name == "bitfield_ro" {
		return errorf("ERR BITFIELD_RO only supports the GET subcommand")
	}
	var s *str
	var e *entry
	grown := false
	if writing {
		if e, grown, err = x.stringFor(x.args[1], length); err != nil {
			return err
		}
		s = e.value.(*str)
		s.edited = true
	} else if s, err = find[*str](x, x.args[1]); err != nil {
		return err
	}
	if s == nil {
		s = &str{}
	}
	x.out.array(len(operations))
	changed := false
	for _, op := range operations {
		set, differs := x.runBitOperation(s, op)
		changed = changed || set && (grown || differs)
	}
	switch {
	case changed:
		x.changed(e)
	case grown:
		x.keys.charge(e)
		x.changes++ // in Redis it does not count as a change of the key
		x.publishNew(x.args[1])
	}
	return nil
}

// bitOperations reads the operations.
func (x *call) bitOperations() ([]bitOperation, error) {
	var all []bitOperation
	mode := overflowWrap
	for i := 2; i < len(x.args); {
		left := len(x.args) - i - 1
		word := strings.ToLower(x.args[i])
		switch {
		case word == "overflow" && left >= 1:
			switch strings.ToUpper(x.args[i+1]) {
			case "WRAP":
				mode = overflowWrap
			case "SAT":
				mode = overflowSat
			case "FAIL":
				mode = overflowFail
			default:
				return nil, errorf("ERR Invalid OVERFLOW type specified")
			}
			i += 2
			continue
		case word == "get" && left >= 2, (word == "set" || word == "incrby") && left >= 3:
		default:
			return nil, errSyntax
		}
		op := bitOperation{word: word, overflow: mode}
		var err error
		if op.of, err = parseBitType(x.args[i+1]); err != nil {
			return nil, err
		}
		if op.offset, err = parseBitField(x.args[i+2], op.of.bits); err != nil {
			return nil, err
		}
		i += 3
		if word != "get" {
			if op.value, err = x.int(i); err != nil {
				return nil, err
			}
			i++
		}
		all = append(all, op)
	}
	return all, nil
}

func parseBitType(text string) (bitType, error) {
	err := errorf("ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.")
	if text == "" || text[0] != 'i' && text[0] != 'u' {
		return bitType{}, err
	}
	t := bitType{signed: text[0] == 'i'}
	n, convErr := strconv.ParseInt(text[1:], 10, 64)
	t.bits = n
	if convErr != nil || n < 1 || n > 64 || !t.signed && n > 63 {
		return bitType{}, err
	}
	return t, nil
}

// parseBitField returns a field's position in bits. With # the argument counts fields instead.
func parseBitField(text string, width int64) (int64, error) {
	text, counted := strings.CutPrefix(text, "#")
	n, ok := parseInt(text)
	if !ok || n < 0 {
		return 0, errBitOffset
	}
	if counted {
		if n > maxString*8/width {
			return 0, errBitOffset
		}
		n *= width
	}
	if n>>3 >= maxString || n+width-1 >= maxString*8 {
		return 0, errBitOffset
	}
	return n, nil
}

// runBitOperation runs an operation and appends its result. It reports whether it has set the number,
// and whether that changed it.
func (x *call) runBitOperation(s *str, op bitOperation) (set, differs bool) {
	old := s.field(op.offset, op.of)
	if op.word == "get" {
		x.out.int(old)
		return false, false
	}
	result, fits := op.of.set(op.value, op.overflow)
	reply := old
	if op.word == "incrby" {
		result, fits = op.of.add(old, op.value, op.overflow)
		reply = result
	}
	if !fits && op.overflow == overflowFail {
		x.out.null()
		return false, false
	}
	s.setField(op.offset, op.of, result)
	x.out.int(reply)
	return true, result != old
}

// field returns the number at a position. Bits beyond the end are zero.
func (s *str) field(offset int64, t bitType) int64 {
	v := uint64(0)
	for i := range t.bits {
		at := offset + i
		bit := byte(0)
		if at/8 < int64(len(s.b)) {
			bit = s.b[at/8] >> (7 - at%8) & 1
		}
		v = v<<1 | uint64(bit)
	}
	return t.extend(v)
}

// extend turns bits into a number with this type, extending the sign.
func (t bitType) extend(v uint64) int64 {
	if t.signed && t.bits < 64 && v>>(t.bits-1)&1 == 1 {
		v |= ^uint64(0) << t.bits
	}
	return int64(v)
}

func (s *str) setField(offset int64, t bitType, v int64) {
	for i := range t.bits {
		at := offset + i
		mask := byte(0x80) >> (at % 8)
		s.b[at/8] &^= mask
		if uint64(v)>>(t.bits-1-i)&1 == 1 {
			s.b[at/8] |= mask
		}
	}
}

// bounds returns the type's least and greatest number.
func (t bitType) bounds() (least, most int64) {
	if t.signed {
		return -1 << (t.bits - 1), 1<<(t.bits-1) - 1
	}
	return 0, 1<<t.bits - 1
}

// set fits a number into the type, and reports whether it fitted as it was.
func (t bitType) set(v int64, mode overflow) (int64, bool) {
	least, most := t.bounds()
	above := v > most || t.bits < 64 && most-v < 0 // Redis subtracts, and takes the least numbers as large ones
	if !t.signed && v < 0 {
		above = true // it counts as a large number
	}
	return t.limit(v, mode, !above && v < least, above)
}

// add adds two numbers, fits the sum into the type, and reports whether it fitted as it was.
func (t bitType) add(old, by int64, mode overflow) (int64, bool) {
	least, most := t.bounds()
	above := by > 0 && (old >= 0 || t.bits < 64) && by > most-old
	below := by < 0 && (old < 0 || t.bits < 64) && by < least-old
	return t.limit(old+by, mode, below, above)
}

// limit changes a number that is too small or too large as mode says.
func (t bitType) limit(v int64, mode overflow, below, above bool) (int64, bool) {
	least, most := t.bounds()
	switch {
	case !below && !above:
		return v, true
	case mode == overflowSat && below:
		return least, false
	case mode == overflowSat:
		return most, false
	}
	if t.bits < 64 {
		return t.extend(uint64(v) & (1<<t.bits - 1)), false
	}
	return v, false
}
