package lua

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"sort"
	"strconv"
	"strings"

	gopher "github.com/yuin/gopher-lua"
)

// baseFunctions has the global functions that must differ from the interpreter's. Ours know read-only
// tables, bound the memory and time that they take, and read and write numbers like Lua.
func (i *Interpreter) baseFunctions() map[string]gopher.LGFunction {
	return map[string]gopher.LGFunction{
		"assert":         assert,
		"collectgarbage": collectGarbage,
		"error":          i.raiseError,
		"gcinfo":         collectGarbage,
		"getmetatable":   i.getMetatable,
		"ipairs":         i.ipairs,
		"load":           i.load,
		"loadstring":     i.loadString,
		"next":           i.next,
		"pairs":          i.pairs,
		"pcall":          i.protectedCall,
		"rawequal":       func(l *gopher.LState) int { l.Push(gopher.LBool(l.RawEqual(anyArg(l, 1), anyArg(l, 2)))); return 1 },
		"rawget":         i.rawGet,
		"rawset":         i.rawSet,
		"select":         selectArgs,
		"setmetatable":   i.setMetatable,
		"tonumber":       toNumberFunction,
		"tostring":       func(l *gopher.LState) int { l.Push(gopher.LString(i.tostring(l, anyArg(l, 1)))); return 1 },
		"type":           func(l *gopher.LState) int { l.Push(gopher.LString(anyArg(l, 1).Type().String())); return 1 },
		"unpack":         i.unpack,
		"xpcall":         i.handledCall,
	}
}

func collectGarbage(l *gopher.LState) int {
	l.Push(gopher.LNumber(0))
	return 1
}

func assert(l *gopher.LState) int {
	if gopher.LVIsFalse(anyArg(l, 1)) {
		raise(l, "%s", optStringArg(l, 2, "assertion failed!"))
	}
	return l.GetTop()
}

// raiseError implements error.
func (i *Interpreter) raiseError(l *gopher.LState) int {
	v := l.Get(1)
	if level := intArg(l, 2, 1); gopher.LVCanConvToString(v) && level > 0 {
		b := i.build(l)
		b.string(callPosition(l, level))
		b.string(Text(v))
		v = gopher.LString(b.b.String())
	}
	l.Error(v, 0)
	return 0
}

// selectArgs implements select.
func selectArgs(l *gopher.LState) int {
	top := l.GetTop()
	if s, ok := l.Get(1).(gopher.LString); ok && strings.HasPrefix(string(s), "#") {
		l.Push(gopher.LNumber(top - 1))
		return 1
	}
	n := intArg(l, 1, noDefault)
	if n < 0 {
		n += top
	}
	n = min(n, top)
	if n < 1 {
		argError(l, 1, "index out of range")
	}
	return top - n
}

func (i *Interpreter) getMetatable(l *gopher.LState) int {
	v := anyArg(l, 1)
	t, ok := v.(*gopher.LTable)
	if t == i.env {
		l.Push(i.strict)
		return 1
	}
	if v.Type() == gopher.LTString || ok && i.originals[t] != nil {
		l.Push(gopher.LNil)
		return 1
	}
	meta := l.GetMetatable(v)
	if hidden, ok := meta.(*gopher.LTable); ok {
		if field := hidden.RawGetString("__metatable"); field != gopher.LNil {
			meta = field
		}
	}
	l.Push(meta)
	return 1
}

func (i *Interpreter) setMetatable(l *gopher.LState) int {
	t := tableArg(l, 1)
	if i.originals[t] != nil {
		return readonlyRaw(l)
	}
	meta := l.Get(2)
	if meta != gopher.LNil && meta.Type() != gopher.LTTable {
		argError(l, 2, "nil or table expected")
	}
	if old, ok := t.Metatable.(*gopher.LTable); ok && old.RawGetString("__metatable") != gopher.LNil {
		raise(l, "cannot change a protected metatable")
	}
	l.SetMetatable(t, meta)
	l.Push(t)
	return 1
}

// ipairsNext is the iterator for ipairs.
func (i *Interpreter) ipairsNext(l *gopher.LState) int {
	n := numberArg(l, 2) + 1
	v := i.Original(tableArg(l, 1)).RawGet(n)
	if v == gopher.LNil {
		l.Push(gopher.LNil)
		return 1
	}
	l.Push(n)
	l.Push(v)
	return 2
}

func (i *Interpreter) ipairs(l *gopher.LState) int {
	t := tableArg(l, 1)
	l.Push(i.ipairsStep)
	l.Push(t)
	l.Push(gopher.LNumber(0))
	return 3
}

func (i *Interpreter) next(l *gopher.LState) int {
	k, v := i.Original(tableArg(l, 1)).Next(l.Get(2))
	l.Push(k)
	if k == gopher.LNil {
		return 1
	}
	l.Push(v)
	return 2
}

func (i *Interpreter) pairs(l *gopher.LState) int {
	t := tableArg(l, 1)
	l.Push(i.pairsStep)
	l.Push(t)
	l.Push(gopher.LNil)
	return 3
}

func (i *Interpreter) rawGet(l *gopher.LState) int {
	l.Push(i.Original(tableArg(l, 1)).RawGet(anyArg(l, 2)))
	return 1
}

func (i *Interpreter) rawSet(l *gopher.LState) int {
	t := tableArg(l, 1)
	if i.originals[t] != nil {
		return readonlyRaw(l)
	}
	t.RawSet(anyArg(l, 2), anyArg(l, 3))
	l.Push(t)
	return 1
}

// load compiles a text that a function returns in parts.
func (i *Interpreter) load(l *gopher.LState) int {
	f := functionArg(l, 1)
	text := i.build(l)
	for text.b.Len() <= maxScriptText {
		l.Push(f)
		l.Call(0, 1)
		part := Text(l.Get(-1))
		l.Pop(1)
		if part == "" {
			break
		}
		text.string(part)
	}
	return i.compile(l, text.b.String(), optStringArg(l, 2, "=(load)"))
}

func (i *Interpreter) loadString(l *gopher.LState) int {
	text := stringArg(l, 1)
	return i.compile(l, text, optStringArg(l, 2, text))
}

// compileCost estimates the compiler's memory for each byte in a text.
const compileCost = 64

// compile returns a text's function, or nil and an error.
func (i *Interpreter) compile(l *gopher.LState, text, name string) int {
	i.guard.take(l, compileCost*min(len(text), maxScriptText))
	proto, err := Compile(text, chunkName(name))
	if err != nil {
		l.Push(gopher.LNil)
		l.Push(gopher.LString(err.Error()))
		return 2
	}
	l.Push(i.Function(proto))
	return 1
}

// chunkName returns a text's name in errors.
func chunkName(name string) string {
	if strings.HasPrefix(name, "=") || strings.HasPrefix(name, "@") {
		return name[1:]
	}
	line, _, more := strings.Cut(name, "\n")
	if more || len(line) > 40 {
		line = line[:min(len(line), 40)] + "..."
	}
	return `[string "` + line + `"]`
}

// isLuaSpace is C's isspace.
func isLuaSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// trimNumber returns the part that C reads from a text that may be a number: up to a zero byte, without
// surrounding space.
func trimNumber(text string) string {
	text, _, _ = strings.Cut(text, "\x00")
	return strings.TrimFunc(text, func(r rune) bool { return r < 128 && isLuaSpace(byte(r)) })
}

// parseLuaNumber parses a number like Lua.
func parseLuaNumber(text string) (float64, bool) {
	text = trimNumber(text)
	if text == "" || strings.Contains(text, "_") {
		return 0, false
	}
	digits := strings.TrimLeft(text, "+-")
	if len(digits) > 2 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X') && len(text)-len(digits) <= 1 {
		if n, err := strconv.ParseUint(digits[2:], 16, 64); err == nil {
			if text[0] == '-' {
				return -float64(n), true
			}
			return float64(n), true
		}
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(v, 0) {
		return 0, false
	}
	return v, true
}

// Number returns a value as a number, if it is one or reads as one.
func Number(v gopher.LValue) (float64, bool) {
	switch v := v.(type) {
	case gopher.LNumber:
		return float64(v), true
	case gopher.LString:
		return parseLuaNumber(string(v))
	}
	return 0, false
}

func toNumberFunction(l *gopher.LState) int {
	base := intArg(l, 2, 10)
	if base == 10 {
		if n, ok := Number(anyArg(l, 1)); ok {
			l.Push(gopher.LNumber(n))
		} else {
			l.Push(gopher.LNil)
		}
		return 1
	}
	text := stringArg(l, 1)
	if base < 2 || base > 36 {
		argError(l, 2, "base out of range")
	}
	text = trimNumber(text)
	if base == 16 {
		text = strings.TrimPrefix(strings.TrimPrefix(text, "0x"), "0X")
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "-"), base, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		l.Push(gopher.LNumber(n)) // the largest one, like strtoul
	case err != nil:
		l.Push(gopher.LNil)
	case strings.HasPrefix(text, "-"):
		l.Push(gopher.LNumber(-n)) // like strtoul
	default:
		l.Push(gopher.LNumber(n))
	}
	return 1
}

// tostring returns a value as text. Values other than strings and numbers get distinct texts that
// reveal no address.
func (i *Interpreter) tostring(l *gopher.LState, v gopher.LValue) string {
	switch v := v.(type) {
	case gopher.LString, gopher.LNumber:
		return Text(v)
	case *gopher.LUserData:
		if v.Metatable == gopher.LNil || v.Metatable == nil {
			return "userdata: NULL"
		}
	}
	if l.GetMetaField(v, "__tostring") != gopher.LNil {
		v = l.ToStringMeta(v)
	}
	switch v.(type) {
	case *gopher.LTable, *gopher.LFunction, *gopher.LState, *gopher.LUserData:
		return fmt.Sprintf("%s: 0x%012x", v.Type(), maphash.Comparable(i.seed, v)>>16)
	}
	return v.String()
}

func (i *Interpreter) unpack(l *gopher.LState) int {
	t := i.Original(tableArg(l, 1))
	first := intArg(l, 2, 1)
	last := i.tableLength(t)
	if l.Get(3) != gopher.LNil {
		last = intArg(l, 3, noDefault)
	}
	if first > last {
		return 0
	}
	if last-first >= maxResults || last-first < 0 {
		raise(l, "too many results to unpack")
	}
	for n := first; n <= last; n++ {
		l.Push(t.RawGet(gopher.LNumber(n)))
	}
	return last - first + 1
}

// tableLength returns the number of elements before a nil.
func (i *Interpreter) tableLength(t *gopher.LTable) int {
	n := t.Len()
	has := func(n int) bool { return t.RawGet(gopher.LNumber(n)) != gopher.LNil }
	if n < MaxArrayPart-1 || !has(n+1) {
		return n
	}
	end := 2 * n
	for has(end) {
		end *= 2
	}
	return n + sort.Search(end-n, func(k int) bool { return !has(n + k + 1) })
}

// lengthOf implements the operator #.
func (i *Interpreter) lengthOf(l *gopher.LState) int {
	switch v := l.Get(1).(type) {
	case gopher.LString:
		l.Push(gopher.LNumber(len(v)))
	case *gopher.LTable:
		l.Push(gopher.LNumber(i.tableLength(i.Original(v))))
	default:
		f, ok := l.GetMetaField(v, "__len").(*gopher.LFunction)
		if !ok {
			raise(l, "attempt to get length of a %s value", v.Type())
		}
		l.Push(f)
		l.Push(v)
		l.Call(1, 1)
	}
	return 1
}

// modulo implements the operator %.
func (i *Interpreter) modulo(l *gopher.LState) int {
	a, okA := Number(l.Get(1))
	b, okB := Number(l.Get(2))
	if okA && okB {
		l.Push(gopher.LNumber(a - math.Floor(a/b)*b))
		return 1
	}
	for n := 1; n <= 2; n++ {
		if f := l.GetMetaField(l.Get(n), "__mod"); f != gopher.LNil {
			l.Push(f)
			l.Push(l.Get(1))
			l.Push(l.Get(2))
			l.Call(2, 1)
			return 1
		}
	}
	bad := l.Get(1)
	if okA {
		bad = l.Get(2)
	}
	raise(l, "attempt to perform arithmetic on a %s value", bad.Type())
	return 0
}

// concatenate implements the operator .. for two or more values.
func (i *Interpreter) concatenate(l *gopher.LState) int {
	n := l.GetTop()
	size := 0
	for k := 1; k <= n; k++ {
		v := l.Get(k)
		if !gopher.LVCanConvToString(v) {
			return i.concatenateMeta(l)
		}
		if s, ok := v.(gopher.LString); ok {
			size += len(s)
		}
	}
	b := i.build(l)
	b.room(size)
	for k := 1; k <= n; k++ {
		b.string(Text(l.Get(k)))
	}
	return b.push()
}

// concatenateMeta concatenates values that are not all strings, from the right.
func (i *Interpreter) concatenateMeta(l *gopher.LState) int {
	right := l.Get(l.GetTop())
	for k := l.GetTop() - 1; k >= 1; k-- {
		left := l.Get(k)
		if gopher.LVCanConvToString(left) && gopher.LVCanConvToString(right) {
			a, b := Text(left), Text(right)
			i.guard.charge(l, len(a)+len(b))
			right = gopher.LString(a + b)
			continue
		}
		f := l.GetMetaField(left, "__concat")
		if f == gopher.LNil {
			f = l.GetMetaField(right, "__concat")
		}
		if f == gopher.LNil {
			bad := left
			if gopher.LVCanConvToString(left) {
				bad = right
			}
			raise(l, "attempt to concatenate a %s value", bad.Type())
		}
		l.Push(f)
		l.Push(left)
		l.Push(right)
		l.Call(2, 1)
		right = l.Get(-1)
		l.Pop(1)
	}
	l.Push(right)
	return 1
}
