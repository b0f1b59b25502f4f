package redis

import (
	"strconv"

	"pgregory.net/rapid"
)

// Keys and values are few, so that commands meet.

func someKey(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d", "{e}f"}).Draw(t, "key")
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
	).Draw(t, "float")
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
