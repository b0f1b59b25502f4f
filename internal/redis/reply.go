package redis

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// reply collects the output of commands, in the client's protocol: RESP2, or RESP3 after HELLO 3.
type reply struct {
	b     []byte
	resp3 bool
	// limit caps b's size, unless it is 0. Strings beyond it are left out, and full is set.
	limit int
	full  bool
}

// fits reports whether a string of n bytes may be appended.
func (r *reply) fits(n int) bool {
	if r.limit > 0 && len(r.b)+n > r.limit {
		r.full = true
		return false
	}
	return true
}

// header appends a type, a number and a line end.
func (r *reply) header(kind byte, n int64) {
	r.b = append(r.b, kind)
	r.b = strconv.AppendInt(r.b, n, 10)
	r.b = append(r.b, '\r', '\n')
}

func (r *reply) ok() { r.simple("OK") }

// simple appends a simple string.
func (r *reply) simple(s string) {
	r.b = append(r.b, '+')
	r.b = append(r.b, s...)
	r.b = append(r.b, '\r', '\n')
}

// error appends an error. Line ends in the text become spaces.
func (r *reply) error(text string) {
	r.b = append(r.b, '-')
	r.b = append(r.b, strings.NewReplacer("\r", " ", "\n", " ").Replace(text)...)
	r.b = append(r.b, '\r', '\n')
}

// int appends a number.
func (r *reply) int(n int64) { r.header(':', n) }

// len appends a length.
func (r *reply) len(n int) { r.header(':', int64(n)) }

// flag appends 1 or 0.
func (r *reply) flag(v bool) {
	if v {
		r.int(1)
	} else {
		r.int(0)
	}
}

// bool appends a RESP3 boolean, or 1 or 0 in RESP2.
func (r *reply) bool(v bool) {
	switch {
	case r.resp3 && v:
		r.b = append(r.b, "#t\r\n"...)
	case r.resp3:
		r.b = append(r.b, "#f\r\n"...)
	default:
		r.flag(v)
	}
}

// bulk appends a string.
func (r *reply) bulk(s string) {
	if !r.fits(len(s)) {
		return
	}
	r.header('$', int64(len(s)))
	r.b = append(r.b, s...)
	r.b = append(r.b, '\r', '\n')
}

// bytes appends a string.
func (r *reply) bytes(s []byte) {
	if !r.fits(len(s)) {
		return
	}
	r.header('$', int64(len(s)))
	r.b = append(r.b, s...)
	r.b = append(r.b, '\r', '\n')
}

// values appends strings, numbers and IDs, such as the names and values of a map.
func (r *reply) values(all ...any) {
	for _, v := range all {
		switch v := v.(type) {
		case string:
			r.bulk(v)
		case int:
			r.len(v)
		case int64:
			r.int(v)
		case streamID:
			r.streamID(v)
		default:
			panic(fmt.Sprintf("a reply cannot have a %T", v))
		}
	}
}

// null appends a missing value.
func (r *reply) null() {
	if r.resp3 {
		r.b = append(r.b, "_\r\n"...)
	} else {
		r.b = append(r.b, "$-1\r\n"...)
	}
}

// nullArray appends a missing list.
func (r *reply) nullArray() {
	if r.resp3 {
		r.b = append(r.b, "_\r\n"...)
	} else {
		r.b = append(r.b, "*-1\r\n"...)
	}
}

// array starts a list with n values.
func (r *reply) array(n int) { r.header('*', int64(n)) }

// mapOf starts a map with n pairs, which RESP2 sends as a list with 2n values.
func (r *reply) mapOf(n int) {
	if r.resp3 {
		r.header('%', int64(n))
	} else {
		r.header('*', 2*int64(n))
	}
}

// set starts a set with n values, which RESP2 sends as a list.
func (r *reply) set(n int) {
	if r.resp3 {
		r.header('~', int64(n))
	} else {
		r.header('*', int64(n))
	}
}

// push starts an out-of-band message with n values.
func (r *reply) push(n int) {
	if r.resp3 {
		r.header('>', int64(n))
	} else {
		r.header('*', int64(n))
	}
}

// double appends a floating-point number, which RESP2 sends as a string.
func (r *reply) double(v float64) {
	if !r.resp3 {
		r.bulk(formatFloat(v))
		return
	}
	r.b = append(r.b, ',')
	r.b = append(r.b, formatFloat(v)...)
	r.b = append(r.b, '\r', '\n')
}

// verbatim appends a text, which RESP2 sends as a string.
func (r *reply) verbatim(text string) {
	if !r.resp3 {
		r.bulk(text)
		return
	}
	r.header('=', int64(len(text))+4)
	r.b = append(r.b, "txt:"...)
	r.b = append(r.b, text...)
	r.b = append(r.b, '\r', '\n')
}

// bulks appends a list of strings.
func (r *reply) bulks(all []string) {
	r.array(len(all))
	for _, s := range all {
		r.bulk(s)
	}
}

// formatFloat formats a number as Redis writes scores: whole numbers below 2^53 in full, others with up
// to 17 significant digits, and an exponent where they are very large or small.
func formatFloat(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	case math.IsNaN(v):
		return "nan"
	}
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return strconv.FormatFloat(v, 'f', -1, 64) // -0 is "-0", as in Redis
	}
	return printfG17(v)
}

// printfG17 formats a number like C's printf with %.17g.
func printfG17(v float64) string {
	text := strconv.FormatFloat(v, 'e', 16, 64)
	mantissa, exponent, _ := strings.Cut(text, "e")
	exp, _ := strconv.Atoi(exponent)
	if exp >= -4 && exp < 17 {
		text = strconv.FormatFloat(v, 'f', 16-exp, 64)
		return trimZeros(text)
	}
	sign := "+"
	if exp < 0 {
		sign = "-"
		exp = -exp
	}
	digits := strconv.Itoa(exp)
	if exp < 10 {
		digits = "0" + digits
	}
	return trimZeros(mantissa) + "e" + sign + digits
}

// trimZeros removes trailing zeros after the decimal point.
func trimZeros(text string) string {
	if !strings.Contains(text, ".") {
		return text
	}
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
