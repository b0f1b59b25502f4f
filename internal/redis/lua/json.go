package lua

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	gopher "github.com/yuin/gopher-lua"
)

// jsonOptions are cjson's settings.
type jsonOptions struct {
	sparseConvert            bool
	sparseRatio, sparseSafe  int
	encodeDepth, decodeDepth int
	precision                int
	keepBuffer               bool
	encodeInvalidNumbers     string
	decodeInvalidNumbers     bool
}

var defaultJSONOptions = jsonOptions{
	sparseRatio: 2, sparseSafe: 10, encodeDepth: 1000, decodeDepth: 1000, precision: 14, keepBuffer: true,
	encodeInvalidNumbers: "off", decodeInvalidNumbers: true,
}

// maxJSONDepth caps the depth limit that a script can set, because encoding and decoding are recursive.
const maxJSONDepth = 10000

func (i *Interpreter) jsonFunctions() map[string]gopher.LGFunction {
	o := &i.json
	return map[string]gopher.LGFunction{
		"encode": i.jsonEncode,
		"decode": i.jsonDecode,
		"encode_sparse_array": func(l *gopher.LState) int {
			jsonArgs(l, 3)
			l.SetTop(3)
			jsonBool(l, 1, &o.sparseConvert)
			jsonInt(l, 2, &o.sparseRatio, intRange{0, math.MaxInt32})
			jsonInt(l, 3, &o.sparseSafe, intRange{0, math.MaxInt32})
			return 3
		},
		"encode_max_depth": func(l *gopher.LState) int {
			jsonArgs(l, 1)
			return jsonInt(l, 1, &o.encodeDepth, intRange{1, math.MaxInt32})
		},
		"decode_max_depth": func(l *gopher.LState) int {
			jsonArgs(l, 1)
			return jsonInt(l, 1, &o.decodeDepth, intRange{1, math.MaxInt32})
		},
		"encode_number_precision": func(l *gopher.LState) int { jsonArgs(l, 1); return jsonInt(l, 1, &o.precision, intRange{1, 14}) },
		"encode_keep_buffer":      func(l *gopher.LState) int { jsonArgs(l, 1); return jsonBool(l, 1, &o.keepBuffer) },
		"decode_invalid_numbers":  func(l *gopher.LState) int { jsonArgs(l, 1); return jsonBool(l, 1, &o.decodeInvalidNumbers) },
		"encode_invalid_numbers":  i.jsonInvalidNumbers,
	}
}

func jsonArgs(l *gopher.LState, most int) {
	if l.GetTop() > most {
		argError(l, most+1, "found too many arguments")
	}
}

// intRange bounds a number.
type intRange struct{ least, most int }

// jsonInt changes a setting if there is an argument, and pushes the setting.
func jsonInt(l *gopher.LState, n int, setting *int, within intRange) int {
	if l.Get(n) != gopher.LNil {
		v := intArg(l, n, noDefault)
		if v < within.least || v > within.most {
			argError(l, 1, fmt.Sprintf("expected integer between %d and %d", within.least, within.most))
		}
		*setting = v
	}
	l.Push(gopher.LNumber(*setting))
	return 1
}

func jsonBool(l *gopher.LState, n int, setting *bool) int {
	switch v := l.Get(n).(type) {
	case *gopher.LNilType:
	case gopher.LBool:
		*setting = bool(v)
	default:
		*setting = l.CheckOption(n, []string{"off", "on"}) == 1
	}
	l.Push(gopher.LBool(*setting))
	return 1
}

func (i *Interpreter) jsonInvalidNumbers(l *gopher.LState) int {
	jsonArgs(l, 1)
	names := []string{"off", "on", "null"}
	switch v := l.Get(1).(type) {
	case *gopher.LNilType:
	case gopher.LBool:
		i.json.encodeInvalidNumbers = "off"
		if v {
			i.json.encodeInvalidNumbers = "on"
		}
	default:
		i.json.encodeInvalidNumbers = names[l.CheckOption(1, names)]
	}
	switch i.json.encodeInvalidNumbers {
	case "null":
		l.Push(gopher.LString("null"))
	default:
		l.Push(gopher.LBool(i.json.encodeInvalidNumbers == "on"))
	}
	return 1
}

// jsonEncoder appends values as JSON.
type jsonEncoder struct{ *builder }

func (i *Interpreter) jsonEncode(l *gopher.LState) int {
	if l.GetTop() != 1 {
		argError(l, 1, "expected 1 argument")
	}
	e := jsonEncoder{i.build(l)}
	e.value(l.Get(1), 0)
	return e.push()
}

func (e jsonEncoder) fail(v gopher.LValue, reason string) {
	raise(e.l, "Cannot serialise %s: %s", v.Type(), reason)
}

func (e jsonEncoder) value(v gopher.LValue, depth int) {
	switch v := v.(type) {
	case gopher.LString:
		e.quoted(string(v))
	case gopher.LNumber:
		e.number(v)
	case gopher.LBool:
		e.string(strconv.FormatBool(bool(v)))
	case *gopher.LNilType:
		e.string("null")
	case *gopher.LTable:
		e.table(e.Original(v), depth+1)
	case *gopher.LUserData:
		if v != e.null {
			e.fail(v, "type not supported")
		}
		e.string("null")
	default:
		e.fail(v, "type not supported")
	}
}

func (e jsonEncoder) table(t *gopher.LTable, depth int) {
	if depth > min(e.json.encodeDepth, maxJSONDepth) {
		raise(e.l, "Cannot serialise, excessive nesting (%d)", depth)
	}
	e.guard.step(e.l)
	n := e.arrayLength(t)
	if n <= 0 {
		e.object(t, depth)
		return
	}
	e.byte('[')
	for k := range n {
		if k > 0 {
			e.byte(',')
		}
		e.value(t.RawGet(gopher.LNumber(k+1)), depth)
	}
	e.byte(']')
}

// arrayLength returns the number of elements if a table is an array, or -1.
func (e jsonEncoder) arrayLength(t *gopher.LTable) int {
	most, items := 0.0, 0
	for k, _ := t.Next(gopher.LNil); k != gopher.LNil; k, _ = t.Next(k) {
		e.guard.step(e.l)
		n, ok := k.(gopher.LNumber)
		if !ok || n < 1 || math.Floor(float64(n)) != float64(n) {
			return -1
		}
		most = max(most, float64(n))
		items++
	}
	o := &e.json
	if o.sparseRatio > 0 && most > float64(items*o.sparseRatio) && most > float64(o.sparseSafe) {
		if !o.sparseConvert {
			e.fail(t, "excessively sparse array")
		}
		return -1
	}
	return int(min(most, math.MaxInt32))
}

func (e jsonEncoder) object(t *gopher.LTable, depth int) {
	e.byte('{')
	first := true
	for k, v := t.Next(gopher.LNil); k != gopher.LNil; k, v = t.Next(k) {
		if !first {
			e.byte(',')
		}
		first = false
		switch k := k.(type) {
		case gopher.LString:
			e.quoted(string(k))
		case gopher.LNumber:
			e.byte('"')
			e.number(k)
			e.byte('"')
		default:
			e.fail(k, "table key must be a number or string")
		}
		e.byte(':')
		e.value(v, depth)
	}
	e.byte('}')
}

func (e jsonEncoder) number(n gopher.LNumber) {
	v := float64(n)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		switch e.json.encodeInvalidNumbers {
		case "off":
			e.fail(n, "must not be NaN or Inf")
		case "null":
			e.string("null")
			return
		default:
			e.string(strings.TrimPrefix(FormatG(v, 14), map[bool]string{true: "-"}[math.IsNaN(v)]))
			return
		}
	}
	e.string(FormatG(v, e.json.precision))
}

// quoted appends a string as JSON.
func (e jsonEncoder) quoted(s string) {
	e.byte('"')
	for n := range len(s) {
		switch c := s[n]; {
		case c == '"' || c == '\\' || c == '/':
			e.byte('\\')
			e.byte(c)
		case c == '\b':
			e.string(`\b`)
		case c == '\t':
			e.string(`\t`)
		case c == '\n':
			e.string(`\n`)
		case c == '\f':
			e.string(`\f`)
		case c == '\r':
			e.string(`\r`)
		case c < 32 || c == 127:
			e.string(fmt.Sprintf(`\u%04x`, c))
		default:
			e.byte(c)
		}
	}
	e.byte('"')
}
