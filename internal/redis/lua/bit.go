package lua

import (
	"math"
	"math/bits"

	gopher "github.com/yuin/gopher-lua"
)

// bitFunctions has LuaBitOp's functions on 32-bit numbers.
var bitFunctions = map[string]gopher.LGFunction{
	"tobit":   func(l *gopher.LState) int { return pushBits(l, bitsArg(l, 1)) },
	"bnot":    func(l *gopher.LState) int { return pushBits(l, ^bitsArg(l, 1)) },
	"band":    bitFold(func(a, b uint32) uint32 { return a & b }),
	"bor":     bitFold(func(a, b uint32) uint32 { return a | b }),
	"bxor":    bitFold(func(a, b uint32) uint32 { return a ^ b }),
	"lshift":  bitShift(func(b uint32, n int) uint32 { return b << n }),
	"rshift":  bitShift(func(b uint32, n int) uint32 { return b >> n }),
	"arshift": bitShift(func(b uint32, n int) uint32 { return uint32(int32(b) >> n) }),
	"rol":     bitShift(bits.RotateLeft32),
	"ror":     bitShift(func(b uint32, n int) uint32 { return bits.RotateLeft32(b, -n) }),
	"bswap":   func(l *gopher.LState) int { return pushBits(l, bits.ReverseBytes32(bitsArg(l, 1))) },
	"tohex":   bitToHex,
}

// bitsArg returns the low 32 bits in a numeric argument, rounded to even. NaN gives zero, as in C but
// unlike Go.
func bitsArg(l *gopher.LState, n int) uint32 {
	v, ok := Number(l.Get(n))
	if !ok {
		typeError(l, n, "number")
	}
	if math.IsNaN(v) {
		return 0
	}
	return uint32(math.Float64bits(v + (1<<52 + 1<<51)))
}

func pushBits(l *gopher.LState, b uint32) int {
	l.Push(gopher.LNumber(int32(b)))
	return 1
}

func bitFold(f func(a, b uint32) uint32) gopher.LGFunction {
	return func(l *gopher.LState) int {
		b := bitsArg(l, 1)
		for n := l.GetTop(); n > 1; n-- {
			b = f(b, bitsArg(l, n))
		}
		return pushBits(l, b)
	}
}

func bitShift(f func(b uint32, n int) uint32) gopher.LGFunction {
	return func(l *gopher.LState) int {
		b := bitsArg(l, 1)
		return pushBits(l, f(b, int(bitsArg(l, 2)&31)))
	}
}

func bitToHex(l *gopher.LState) int {
	b := bitsArg(l, 1)
	n := int32(8)
	if l.GetTop() > 1 {
		n = int32(bitsArg(l, 2))
	}
	digits := "0123456789abcdef"
	if n < 0 {
		n = -n
		digits = "0123456789ABCDEF"
	}
	if n > 8 || n < 0 {
		n = 8
	}
	text := make([]byte, n)
	for k := int(n) - 1; k >= 0; k-- {
		text[k] = digits[b&15]
		b >>= 4
	}
	l.Push(gopher.LString(text))
	return 1
}
