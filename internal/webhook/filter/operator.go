package filter

import (
	"cmp"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// scalar is a value that is neither an object nor an array. Equal numbers are equal scalars: 1, 1.0 and
// 1e0.
type scalar struct {
	kind   byte // as in jsontext: n, t, f, 0 or "
	text   string
	whole  int64 // if the number is one, and number is 0
	isInt  bool
	number float64
}

// number parses a number as JSON has it. Integers beyond 64 bits and fractions are as exact as float64.
func number(text string) scalar {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return scalar{kind: '0', whole: n, isInt: true}
	}
	x, _ := strconv.ParseFloat(text, 64) // beyond its range, ±Inf
	if x == math.Trunc(x) && math.Abs(x) < 1<<53 {
		return scalar{kind: '0', whole: int64(x), isInt: true}
	}
	return scalar{kind: '0', number: x}
}

// compare compares numbers or texts. It reports false for anything else.
func (s scalar) compare(with scalar) (order int, ok bool) {
	switch {
	case s.kind != with.kind:
		return 0, false
	case s.kind == '"':
		return cmp.Compare(s.text, with.text), true
	case s.kind != '0':
		return 0, false
	case s.isInt && with.isInt:
		return cmp.Compare(s.whole, with.whole), true
	}
	return cmp.Compare(s.float(), with.float()), true
}

func (s scalar) float() float64 {
	if s.isInt {
		return float64(s.whole)
	}
	return s.number
}

// operator is a condition on a scalar.
type operator struct {
	name  string
	value scalar
	in    map[scalar]bool
	texts []string
}

func (o *operator) matches(s scalar) bool {
	switch o.name {
	case "$eq":
		return s == o.value
	case "$in":
		return o.in[s]
	case "$startsWith":
		return s.kind == '"' && has(o.texts, s.text, strings.HasPrefix)
	case "$endsWith":
		return s.kind == '"' && has(o.texts, s.text, strings.HasSuffix)
	}
	order, ok := s.compare(o.value)
	switch o.name {
	case "$gt":
		return ok && order > 0
	case "$gte":
		return ok && order >= 0
	case "$lt":
		return ok && order < 0
	}
	return ok && order <= 0
}

func has(texts []string, in string, test func(in, text string) bool) bool {
	for _, text := range texts {
		if test(in, text) {
			return true
		}
	}
	return false
}

// operator compiles an operator and its argument.
func (c *compiler) operator(name string, v any, at string) operator {
	o := operator{name: name}
	switch name {
	case "$eq":
		o.value = c.scalar(v, at)
	case "$in":
		items, ok := v.([]any)
		c.faults.Check(ok && len(items) > 0, at, "expected a list with at least one item")
		o.in = map[scalar]bool{}
		for _, item := range items {
			o.in[c.scalar(item, at)] = true
		}
	case "$gt", "$gte", "$lt", "$lte":
		o.value = c.scalar(v, at)
		c.faults.Check(o.value.kind == '0' || o.value.kind == '"', at, "expected a number or a text")
	case "$startsWith", "$endsWith":
		items, isList := v.([]any)
		if !isList {
			items = []any{v}
		}
		for _, item := range items {
			text, ok := item.(string)
			c.faults.Check(ok, at, "expected a text, or a list of texts")
			o.texts = append(o.texts, text)
		}
		c.faults.Check(len(items) > 0, at, "expected a text, or a list of texts")
	default:
		c.faults.Add(at, "expected one of $eq, $ne, $in, $nin, $gt, $gte, $lt, $lte, $exist, $startsWith, $endsWith, $contains, $or, $and, $not")
	}
	return o
}

// scalar compiles a value to compare with.
func (c *compiler) scalar(v any, at string) scalar {
	switch v := v.(type) {
	case nil:
		return scalar{kind: 'n'}
	case bool:
		if v {
			return scalar{kind: 't'}
		}
		return scalar{kind: 'f'}
	case string:
		return scalar{kind: '"', text: v}
	case json.Number:
		return number(v.String())
	}
	c.faults.Add(at, "expected a text, a number, true, false or null; use $in or $and for several")
	return scalar{}
}
