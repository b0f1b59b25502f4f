package lua

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	gopher "github.com/yuin/gopher-lua"
)

// FormatG formats a number like C's printf with %.*g.
func FormatG(v float64, digits int) string {
	switch {
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	case math.IsNaN(v) && math.Signbit(v):
		return "-nan"
	case math.IsNaN(v):
		return "nan"
	}
	return strconv.FormatFloat(v, 'g', digits, 64)
}

// stringFormat implements string.format.
func (i *Interpreter) stringFormat(l *gopher.LState) int {
	format := stringArg(l, 1)
	b := i.build(l)
	arg := 1
	for {
		plain, rest, found := strings.Cut(format, "%")
		b.string(plain)
		if !found {
			break
		}
		if strings.HasPrefix(rest, "%") {
			b.byte('%')
			format = rest[1:]
			continue
		}
		arg++
		spec, verb, rest := cutSpec(l, rest)
		b.formatArg(arg, spec, verb)
		format = rest
	}
	return b.push()
}

// cutSpec returns the flags, width and precision after a percent sign, the letter after them, and the
// rest.
func cutSpec(l *gopher.LState, text string) (spec string, verb byte, rest string) {
	n := 0
	for n < len(text) && strings.IndexByte("-+ #0", text[n]) >= 0 {
		n++
	}
	if n > 5 {
		raise(l, "invalid format (repeated flags)")
	}
	digits := func() {
		start := n
		for n < len(text) && isDigit(text[n]) {
			n++
		}
		if n-start > 2 {
			raise(l, "invalid format (width or precision too long)")
		}
	}
	digits()
	if n < len(text) && text[n] == '.' {
		n++
		digits()
	}
	if n == len(text) {
		raise(l, "invalid option '%s' to 'format'", "%")
	}
	return "%" + text[:n], text[n], text[n+1:]
}

// formatArg appends an argument in a format.
func (b *builder) formatArg(n int, spec string, verb byte) {
	l := b.l
	if n > l.GetTop() {
		argError(l, n, "no value")
	}
	switch verb {
	case 'c':
		b.string(formatText(spec, string([]byte{byte(intArg(l, n, noDefault))})))
	case 'd', 'i':
		b.string(formatInteger(spec, 'd', int64(intArg(l, n, noDefault))))
	case 'u':
		b.string(formatInteger(spec, 'd', unsigned(numberArg(l, n))))
	case 'o', 'x', 'X':
		b.string(formatInteger(spec, verb, unsigned(numberArg(l, n))))
	case 'e', 'E', 'f', 'g', 'G':
		v, ok := Number(l.Get(n))
		if !ok {
			typeError(l, n, "number")
		}
		b.string(formatFloatArg(spec, verb, v))
	case 'q':
		b.quote(stringArg(l, n))
	case 's':
		b.string(formatText(spec, stringArg(l, n)))
	default:
		raise(l, "invalid option '%%%c' to 'format'", verb)
	}
}

// formatInteger formats a number. A precision sets the least number of digits, and disables the flag 0.
func formatInteger(spec string, verb byte, v any) string {
	if strings.Contains(spec, ".") {
		flags := spec[:len(spec)-len(strings.TrimLeft(spec, "%-+ #0"))]
		spec = strings.ReplaceAll(flags, "0", "") + spec[len(flags):]
	}
	if _, ok := v.(uint64); ok {
		spec = strings.NewReplacer("+", "", " ", "").Replace(spec)
	}
	if v == uint64(0) {
		spec = strings.ReplaceAll(spec, "#", "") // zero has no prefix
	}
	return fmt.Sprintf(spec+string(verb), v)
}

func formatFloatArg(spec string, verb byte, v float64) string {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		width, _, _ := strings.Cut(spec, ".")
		flags := width[:len(width)-len(strings.TrimLeft(width, "%-+ #0"))]
		text := FormatG(v, 14)
		if verb == 'E' || verb == 'G' {
			text = strings.ToUpper(text)
		}
		return fmt.Sprintf(strings.NewReplacer("0", "", "+", "", " ", "", "#", "").Replace(flags)+width[len(flags):]+"s", text)
	}
	if !strings.Contains(spec, ".") {
		spec += ".6"
	}
	return fmt.Sprintf(spec+string(verb), v)
}

// unsigned converts a number like C on most machines.
func unsigned(v gopher.LNumber) uint64 {
	if v >= 1<<63 {
		return uint64(Integer(float64(v-1<<63))) ^ 1<<63
	}
	return uint64(Integer(float64(v))) // NaN too
}

// formatText formats a string byte by byte. Like C, it stops at the first zero byte, unless the string
// is long.
func formatText(spec, s string) string {
	width, precision, found := strings.Cut(strings.TrimPrefix(spec, "%"), ".")
	if !found && len(s) >= 100 {
		return s
	}
	s, _, _ = strings.Cut(s, "\x00")
	if found {
		n, _ := strconv.Atoi(precision)
		s = s[:min(n, len(s))]
	}
	left := strings.HasPrefix(width, "-")
	n, _ := strconv.Atoi(strings.TrimLeft(width, "-+ #0"))
	pad := strings.Repeat(" ", max(n-len(s), 0))
	if left {
		return s + pad
	}
	return pad + s
}

// quote appends a string in a form that Lua can read back.
func (b *builder) quote(s string) {
	b.byte('"')
	for n := range len(s) {
		switch c := s[n]; c {
		case '"', '\\', '\n':
			b.byte('\\')
			b.byte(c)
		case '\r':
			b.string(`\r`)
		case 0:
			b.string(`\000`)
		default:
			b.byte(c)
		}
	}
	b.byte('"')
}
