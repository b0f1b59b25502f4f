package redis

import (
	"strconv"

	"pgregory.net/rapid"
)

// Keys and values are few, so that commands meet.

func someKey(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d", "{e}f", ""}).Draw(t, "key")
}

func someValue(t *rapid.T) string {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", "x", "y", "z", "foo", "bar", "0", "1", "-1", "10", "3.5", "1e3", "inf", " 1", "9223372036854775807"}),
		rapid.StringN(0, 8, 16),
		rapid.Map(rapid.IntRange(-20, 20), strconv.Itoa),
	).Draw(t, "value")
}

func someInt(t *rapid.T) string {
	return rapid.OneOf(
		rapid.Map(rapid.IntRange(-12, 12), strconv.Itoa),
		rapid.SampledFrom([]string{"", "x", "1.5", "100000", "-100000", "9223372036854775807", "-9223372036854775808", "9223372036854775808", "01", "+1", "-0"}),
	).Draw(t, "int")
}

func someFloat(t *rapid.T) string {
	return rapid.OneOf(
		rapid.Map(rapid.IntRange(-12, 12), strconv.Itoa),
		rapid.Map(rapid.Float64Range(-1e6, 1e6), func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }),
		rapid.SampledFrom([]string{"", "x", "inf", "-inf", "+inf", "nan", "1e300", "0.1"}),
		rapid.SampledFrom(strangeFloats),
	).Draw(t, "float")
}

// strangeFloats are what C's strtod reads in its own way.
var strangeFloats = []string{
	"0x1F", "0X1.8p1", "-0xa", "0x", "0x1p", "0x.8", "0xg", "0x1p-2000", "0x0p-2000", "+5", "++5", "+-5", "- 5", " 5", "5 ", "\t5", " ",
	"1e400", "-1e400", "1e-400", "0e-400", "4e-320", "1e5000", "1e-5000", "Infinity", "-INFINITY", "iNf", "infinit", "NaN", "nan(1)", "1.", ".5",
	".", "-.", "1e", "1e+", "1e+2", "1E2", "1p2", "1_0", "0x_1p0", "0b1", "0o7", "017", "1\x00", "1\x002", "\x00", "-0", "-0.0", "1e17", "1e-7",
	"123456789012345678901234567890", "0.1234567890123456789", "3.0000000000000000001", "1,5", "１",
}

// several returns some of what draw returns.
func several(t *rapid.T, least, most int, draw func(*rapid.T) string) []string {
	return rapid.SliceOfN(rapid.Custom(draw), least, most).Draw(t, "several")
}

// options returns some of a number of groups of words, each of which may have been drawn, in any order.
func options(t *rapid.T, groups ...[]string) []string {
	var all []string
	for _, g := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(groups)-1), 0, len(groups), rapid.ID[int]).Draw(t, "options") {
		all = append(all, groups[g]...)
	}
	return all
}

// words returns the arguments of a command that has these.
func words(draws ...func(*rapid.T) string) func(*rapid.T) []string {
	return func(t *rapid.T) []string {
		var all []string
		for _, draw := range draws {
			all = append(all, draw(t))
		}
		return all
	}
}
