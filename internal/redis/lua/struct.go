package lua

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	gopher "github.com/yuin/gopher-lua"
)

// structFormat reads a struct's format.
type structFormat struct {
	*Interpreter
	l      *gopher.LState
	format string
	big    bool
	align  int
}

// next returns the next option and its size, or false at the end.
func (f *structFormat) next() (option byte, size int, ok bool) {
	if f.format == "" || f.format[0] == 0 {
		return 0, 0, false
	}
	f.guard.step(f.l)
	option = f.format[0]
	f.format = f.format[1:]
	return option, f.size(option), true
}

func (f *structFormat) size(option byte) int {
	switch option {
	case 'b', 'B', 'x':
		return 1
	case 'h', 'H':
		return 2
	case 'l', 'L', 'T', 'd':
		return 8
	case 'f':
		return 4
	case 'c':
		return f.number(1)
	case 'i', 'I':
		n := f.number(4)
		if n > 32 {
			raise(f.l, "integral size %d is larger than limit of %d", n, 32)
		}
		return n
	}
	return 0
}

// number takes a number, or returns a default.
func (f *structFormat) number(otherwise int) int {
	if f.format == "" || !isDigit(f.format[0]) {
		return otherwise
	}
	n := 0
	for f.format != "" && isDigit(f.format[0]) {
		if n = n*10 + int(f.format[0]-'0'); n > math.MaxInt32 {
			raise(f.l, "integral size overflow")
		}
		f.format = f.format[1:]
	}
	return n
}

// zeros has the padding before an element.
const zeros = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

// padding returns how many bytes must precede an element with this size at a position.
func (f *structFormat) padding(pos int, option byte, size int) int {
	if size == 0 || option == 'c' {
		return 0
	}
	size = min(size, f.align)
	return (size - pos&(size-1)) & (size - 1)
}

// control reads an option that is no element.
func (f *structFormat) control(option byte) {
	switch option {
	case ' ':
	case '>':
		f.big = true
	case '<':
		f.big = false
	case '!':
		n := f.number(8)
		if n <= 0 || n&(n-1) != 0 {
			raise(f.l, "alignment %d is not a power of 2", n)
		}
		f.align = n
	default:
		argError(f.l, 1, fmt.Sprintf("invalid format option '%c'", option))
	}
}

// order reverses bytes in place if the order is big-endian.
func (f *structFormat) order(b []byte) []byte {
	if f.big {
		slices.Reverse(b)
	}
	return b
}

// integer returns a number's bytes.
func (f *structFormat) integer(v float64, size int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, unsigned(gopher.LNumber(v)))
	b = append(b, make([]byte, 24)...)
	return f.order(b[:size])
}

func (i *Interpreter) structPack(l *gopher.LState) int {
	f := &structFormat{Interpreter: i, l: l, format: stringArg(l, 1), align: 1}
	l.Push(gopher.LNil) // Redis's library finds this where the first argument is missing
	b := i.build(l)
	arg := 2
	number := func() float64 {
		v, ok := Number(l.Get(arg))
		if !ok {
			typeError(l, arg, "number")
		}
		arg++
		return v
	}
	for {
		option, size, ok := f.next()
		if !ok {
			break
		}
		b.string(zeros[:f.padding(b.b.Len(), option, size)])
		switch option {
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I':
			b.string(string(f.integer(number(), size)))
		case 'x':
			b.byte(0)
		case 'f':
			b.string(string(f.order(binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(number()))))))
		case 'd':
			b.string(string(f.order(binary.LittleEndian.AppendUint64(nil, math.Float64bits(number())))))
		case 'c', 's':
			s := stringArg(l, arg)
			arg++
			if size == 0 {
				size = len(s)
			}
			if len(s) < size {
				argError(l, arg, "string too short")
			}
			b.string(s[:size])
			if option == 's' {
				b.byte(0)
			}
		default:
			f.control(option)
		}
	}
	return b.push()
}

func (i *Interpreter) structUnpack(l *gopher.LState) int {
	f := &structFormat{Interpreter: i, l: l, format: stringArg(l, 1), align: 1}
	data := stringArg(l, 2)
	pos := intArg(l, 3, 1) - 1
	if pos < 0 {
		argError(l, 3, "offset must be 1 or greater")
	}
	var values []gopher.LValue
	for {
		option, size, ok := f.next()
		if !ok {
			break
		}
		pos += f.padding(pos, option, size)
		f.fits(data, pos, size)
		if len(values) > maxResults {
			raise(l, "stack overflow (too many results)")
		}
		switch option {
		case 'b', 'B', 'h', 'H', 'l', 'L', 'T', 'i', 'I':
			values = append(values, f.readInteger(data[pos:pos+size], option))
		case 'x':
		case 'f':
			values = append(values, gopher.LNumber(math.Float32frombits(binary.LittleEndian.Uint32(f.order([]byte(data[pos:pos+4]))))))
		case 'd':
			values = append(values, gopher.LNumber(math.Float64frombits(binary.LittleEndian.Uint64(f.order([]byte(data[pos:pos+8]))))))
		case 'c':
			if size == 0 {
				values, size = f.previousSize(values)
				f.fits(data, pos, size)
			}
			values = append(values, i.guard.part(l, data[pos:pos+size]))
		case 's':
			end := strings.IndexByte(data[pos:], 0)
			if end < 0 {
				raise(l, "unfinished string in data")
			}
			values = append(values, i.guard.part(l, data[pos:pos+end]))
			size = end + 1
		default:
			f.control(option)
		}
		pos += size
	}
	for _, v := range values {
		l.Push(v)
	}
	l.Push(gopher.LNumber(pos + 1))
	return len(values) + 1
}

// fits raises an error unless there are enough bytes.
func (f *structFormat) fits(data string, pos, size int) {
	if size < 0 || size > len(data) || pos > len(data)-size {
		argError(f.l, 2, "data string too short")
	}
}

// previousSize takes the last value as a string's size.
func (f *structFormat) previousSize(values []gopher.LValue) ([]gopher.LValue, int) {
	if len(values) == 0 || values[len(values)-1].Type() != gopher.LTNumber {
		raise(f.l, "format 'c0' needs a previous size")
	}
	n := values[len(values)-1].(gopher.LNumber)
	return values[:len(values)-1], int(Integer(float64(n)))
}

// readInteger reads a number. A lower-case option makes it signed.
func (f *structFormat) readInteger(data string, option byte) gopher.LValue {
	b := f.order([]byte(data))
	n := uint64(0)
	for k := min(len(b), 8) - 1; k >= 0; k-- {
		n = n<<8 | uint64(b[k])
	}
	if option < 'a' {
		return gopher.LNumber(n)
	}
	if shift := 64 - 8*min(len(b), 8); shift < 64 {
		return gopher.LNumber(int64(n<<shift) >> shift)
	}
	return gopher.LNumber(0)
}

func (i *Interpreter) structSize(l *gopher.LState) int {
	f := &structFormat{Interpreter: i, l: l, format: stringArg(l, 1), align: 1}
	pos := 0
	for {
		option, size, ok := f.next()
		if !ok {
			break
		}
		pos += f.padding(pos, option, size)
		switch {
		case option == 's':
			argError(l, 1, "option 's' has no fixed size")
		case option == 'c' && size == 0:
			argError(l, 1, "option 'c0' has no fixed size")
		case !isAlpha(option) && !isDigit(option):
			f.control(option)
		}
		pos += size
	}
	l.Push(gopher.LNumber(pos))
	return 1
}
