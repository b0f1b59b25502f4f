package redis

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// jsonOptions are the settings of cjson.
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

// maxJSONDepth is the largest limit of the depth that a script can set, since encoding and decoding are recursive.
const maxJSONDepth = 10000

func (i *interpreter) jsonFunctions() map[string]lua.LGFunction {
	o := &i.json
	return map[string]lua.LGFunction{
		"encode": i.jsonEncode,
		"decode": i.jsonDecode,
		"encode_sparse_array": func(l *lua.LState) int {
			jsonArgs(l, 3)
			l.SetTop(3)
			jsonBool(l, 1, &o.sparseConvert)
			jsonInt(l, 2, &o.sparseRatio, intRange{0, math.MaxInt32})
			jsonInt(l, 3, &o.sparseSafe, intRange{0, math.MaxInt32})
			return 3
		},
		"encode_max_depth": func(l *lua.LState) int {
			jsonArgs(l, 1)
			return jsonInt(l, 1, &o.encodeDepth, intRange{1, math.MaxInt32})
		},
		"decode_max_depth": func(l *lua.LState) int {
			jsonArgs(l, 1)
			return jsonInt(l, 1, &o.decodeDepth, intRange{1, math.MaxInt32})
		},
		"encode_number_precision": func(l *lua.LState) int { jsonArgs(l, 1); return jsonInt(l, 1, &o.precision, intRange{1, 14}) },
		"encode_keep_buffer":      func(l *lua.LState) int { jsonArgs(l, 1); return jsonBool(l, 1, &o.keepBuffer) },
		"decode_invalid_numbers":  func(l *lua.LState) int { jsonArgs(l, 1); return jsonBool(l, 1, &o.decodeInvalidNumbers) },
		"encode_invalid_numbers":  i.jsonInvalidNumbers,
	}
}

func jsonArgs(l *lua.LState, most int) {
	if l.GetTop() > most {
		argError(l, most+1, "found too many arguments")
	}
}

// intRange is what a number may be.
type intRange struct{ least, most int }

// jsonInt changes a setting if there is an argument, and pushes it.
func jsonInt(l *lua.LState, n int, setting *int, within intRange) int {
	if l.Get(n) != lua.LNil {
		v := intArg(l, n, noDefault)
		if v < within.least || v > within.most {
			argError(l, 1, fmt.Sprintf("expected integer between %d and %d", within.least, within.most))
		}
		*setting = v
	}
	l.Push(lua.LNumber(*setting))
	return 1
}

func jsonBool(l *lua.LState, n int, setting *bool) int {
	switch v := l.Get(n).(type) {
	case *lua.LNilType:
	case lua.LBool:
		*setting = bool(v)
	default:
		*setting = l.CheckOption(n, []string{"off", "on"}) == 1
	}
	l.Push(lua.LBool(*setting))
	return 1
}

func (i *interpreter) jsonInvalidNumbers(l *lua.LState) int {
	jsonArgs(l, 1)
	names := []string{"off", "on", "null"}
	switch v := l.Get(1).(type) {
	case *lua.LNilType:
	case lua.LBool:
		i.json.encodeInvalidNumbers = "off"
		if v {
			i.json.encodeInvalidNumbers = "on"
		}
	default:
		i.json.encodeInvalidNumbers = names[l.CheckOption(1, names)]
	}
	switch i.json.encodeInvalidNumbers {
	case "null":
		l.Push(lua.LString("null"))
	default:
		l.Push(lua.LBool(i.json.encodeInvalidNumbers == "on"))
	}
	return 1
}

// jsonEncoder appends values as JSON.
type jsonEncoder struct {
	*interpreter
	l *lua.LState
	b []byte
}

func (i *interpreter) jsonEncode(l *lua.LState) int {
	if l.GetTop() != 1 {
		argError(l, 1, "expected 1 argument")
	}
	e := &jsonEncoder{interpreter: i, l: l}
	e.value(l.Get(1), 0)
	i.guard.charge(l, len(e.b))
	l.Push(lua.LString(e.b))
	return 1
}

func (e *jsonEncoder) fail(v lua.LValue, reason string) {
	e.l.RaiseError("Cannot serialise %s: %s", v.Type(), reason)
}

func (e *jsonEncoder) value(v lua.LValue, depth int) {
	switch v := v.(type) {
	case lua.LString:
		e.string(string(v))
	case lua.LNumber:
		e.number(v)
	case lua.LBool:
		e.b = strconv.AppendBool(e.b, bool(v))
	case *lua.LNilType:
		e.b = append(e.b, "null"...)
	case *lua.LTable:
		e.table(e.original(v), depth+1)
	case *lua.LUserData:
		if v != e.null {
			e.fail(v, "type not supported")
		}
		e.b = append(e.b, "null"...)
	default:
		e.fail(v, "type not supported")
	}
}

func (e *jsonEncoder) table(t *lua.LTable, depth int) {
	if depth > min(e.json.encodeDepth, maxJSONDepth) {
		e.l.RaiseError("Cannot serialise, excessive nesting (%d)", depth)
	}
	e.guard.charge(e.l, len(e.b))
	e.guard.charged -= int64(len(e.b))
	e.guard.check(e.l)
	n := e.arrayLength(t)
	if n <= 0 {
		e.object(t, depth)
		return
	}
	e.b = append(e.b, '[')
	for k := range n {
		if k > 0 {
			e.b = append(e.b, ',')
		}
		e.value(t.RawGet(lua.LNumber(k+1)), depth)
		if k%matchSteps == 0 {
			e.guard.charge(e.l, len(e.b))
		}
	}
	e.b = append(e.b, ']')
}

// arrayLength returns the number of elements if a table is an array, or -1.
func (e *jsonEncoder) arrayLength(t *lua.LTable) int {
	most, items := 0.0, 0
	for k, _ := t.Next(lua.LNil); k != lua.LNil; k, _ = t.Next(k) {
		n, ok := k.(lua.LNumber)
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

func (e *jsonEncoder) object(t *lua.LTable, depth int) {
	e.b = append(e.b, '{')
	first := true
	for k, v := t.Next(lua.LNil); k != lua.LNil; k, v = t.Next(k) {
		if !first {
			e.b = append(e.b, ',')
		}
		first = false
		switch k := k.(type) {
		case lua.LString:
			e.string(string(k))
		case lua.LNumber:
			e.b = append(e.b, '"')
			e.number(k)
			e.b = append(e.b, '"')
		default:
			e.fail(k, "table key must be a number or string")
		}
		e.b = append(e.b, ':')
		e.value(v, depth)
	}
	e.b = append(e.b, '}')
}

func (e *jsonEncoder) number(n lua.LNumber) {
	v := float64(n)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		switch e.json.encodeInvalidNumbers {
		case "off":
			e.fail(n, "must not be NaN or Inf")
		case "null":
			e.b = append(e.b, "null"...)
			return
		default:
			e.b = append(e.b, strings.TrimPrefix(formatG(v, 14), map[bool]string{true: "-"}[math.IsNaN(v)])...)
			return
		}
	}
	e.b = append(e.b, formatG(v, e.json.precision)...)
}

func (e *jsonEncoder) string(s string) {
	if len(s) > guardCharge {
		e.guard.charge(e.l, len(e.b)+len(s))
	}
	e.b = append(e.b, '"')
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\' || c == '/':
			e.b = append(e.b, '\\', c)
		case c == '\b':
			e.b = append(e.b, '\\', 'b')
		case c == '\t':
			e.b = append(e.b, '\\', 't')
		case c == '\n':
			e.b = append(e.b, '\\', 'n')
		case c == '\f':
			e.b = append(e.b, '\\', 'f')
		case c == '\r':
			e.b = append(e.b, '\\', 'r')
		case c < 32 || c == 127:
			e.b = fmt.Appendf(e.b, "\\u%04x", c)
		default:
			e.b = append(e.b, c)
		}
	}
	e.b = append(e.b, '"')
}
