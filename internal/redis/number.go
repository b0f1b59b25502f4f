package redis

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// parseInt parses a number by Redis's rules: no spaces, no plus, no leading zeros.
func parseInt(text string) (int64, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || text[0] == '+' {
		return 0, false
	}
	digits := strings.TrimPrefix(text, "-")
	if len(digits) > 1 && digits[0] == '0' || text == "-0" {
		return 0, false
	}
	return n, true
}

// parseFloat parses a floating-point number, which may be infinite. It returns false if the number is
// too large, or too small to differ from zero.
func parseFloat(text string) (float64, bool) {
	v, err := strtod(text)
	if err != nil || v == 0 && !isZero(text) {
		return 0, false
	}
	return v, true
}

// parsePrefix is like parseFloat, for score bounds and SORT's keys. As in Redis, it skips white space,
// stops at a NUL, and accepts any magnitude. A text that is empty up to there is 0.
func parsePrefix(text string) (float64, bool) {
	text, _, _ = strings.Cut(text, "\x00")
	if text == "" {
		return 0, true
	}
	v, err := strtod(strings.TrimLeft(text, " \t\n\v\f\r"))
	return v, err == nil || errors.Is(err, strconv.ErrRange)
}

// strtod parses a whole text like C's function with this name, but refuses NaN. The error is
// strconv.ErrRange if the number is too large.
func strtod(text string) (float64, error) {
	if !isFloat(text) {
		return 0, strconv.ErrSyntax
	}
	if isHexFloat(text) && !strings.ContainsAny(text, "pP") {
		text += "p0"
	}
	v, err := strconv.ParseFloat(text, 64)
	if math.IsNaN(v) {
		return 0, strconv.ErrSyntax
	}
	return v, err
}

// isFloat reports whether a text is free of characters that Go accepts in numbers and C does not.
func isFloat(text string) bool {
	return text != "" && !strings.ContainsAny(text, "_ \t\n\r\v\f")
}

// unsigned strips a number's sign.
func unsigned(text string) string {
	if text[0] == '+' || text[0] == '-' {
		return text[1:]
	}
	return text
}

func isHexFloat(text string) bool {
	digits := unsigned(text)
	return len(digits) > 1 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X')
}

// isZero reports whether all digits in a number are zero.
func isZero(text string) bool {
	exponent, digits := "eE", "123456789"
	if isHexFloat(text) {
		exponent, digits = "pP", "123456789abcdefABCDEF"
	}
	if i := strings.IndexAny(text, exponent); i >= 0 {
		text = text[:i]
	}
	return !strings.ContainsAny(text, digits)
}

// C's long double on most machines: its precision, its range, and the longest text that Redis reads.
const (
	longDoubleBits  = 64
	longDoubleMax   = 16384
	longDoubleMin   = -16445
	longDoubleChars = 5 << 10
)

// parseLongDouble parses a number in C's long double precision, by parseFloat's rules.
func parseLongDouble(text string) (*big.Float, bool) {
	if !isFloat(text) || len(text) >= longDoubleChars {
		return nil, false
	}
	if word := unsigned(text); strings.EqualFold(word, "inf") || strings.EqualFold(word, "infinity") {
		return new(big.Float).SetInf(text[0] == '-'), true
	}
	base := 0
	if !isHexFloat(text) {
		base = 10
		if strings.ContainsAny(text, "pP") {
			return nil, false
		}
	}
	v, _, err := big.ParseFloat(text, base, longDoubleBits, big.ToNearestEven)
	if err != nil {
		return nil, false
	}
	if v.Sign() == 0 {
		return v, isZero(text)
	}
	if n := v.MantExp(nil); !v.IsInf() && (n > longDoubleMax || n < longDoubleMin) {
		return nil, false
	}
	return v, true
}
