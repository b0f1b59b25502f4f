package term

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// appendCanonical appends a text that is the same for equal values, and only for them. Keys are
// sorted, strings are not escaped, and numbers are equal if their values are (1, 1.0 and 10e-1).
// The value was decoded with UseNumber.
func appendCanonical(out []byte, value any) []byte {
	switch v := value.(type) {
	case map[string]any:
		out = append(out, '{')
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = appendCanonical(append(appendText(out, key), ':'), v[key])
		}
		return append(out, '}')
	case []any:
		out = append(out, '[')
		for _, element := range v {
			out = append(appendCanonical(out, element), ',')
		}
		return append(out, ']')
	case string:
		return appendText(out, v)
	case json.Number:
		return append(out, canonicalNumber(string(v))...)
	case bool:
		return strconv.AppendBool(out, v)
	}
	return append(out, "null"...)
}

// appendText appends the length before the text, so that nothing in the text needs an escape.
func appendText(out []byte, s string) []byte {
	out = append(strconv.AppendInt(append(out, '"'), int64(len(s)), 10), '"')
	return append(out, s...)
}

// canonicalNumber returns a JSON number as its significant digits and a power of ten. Exponents of
// more than 18 digits are compared by their text.
func canonicalNumber(text string) string {
	sign := ""
	if rest, negative := strings.CutPrefix(text, "-"); negative {
		sign = "-"
		text = rest
	}
	text, exponent, _ := strings.Cut(strings.ToLower(text), "e")
	whole, fraction, _ := strings.Cut(text, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	if digits == "" {
		return "0"
	}
	significant := strings.TrimRight(digits, "0")
	power, err := strconv.ParseInt(cmp.Or(exponent, "0"), 10, 62)
	if err != nil {
		return sign + text + "e" + exponent
	}
	power += int64(len(digits) - len(significant) - len(fraction))
	return sign + significant + "e" + strconv.FormatInt(power, 10)
}
