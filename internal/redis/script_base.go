package redis

import (
	"errors"
	"math"
	"sort"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// baseFunctions are the global functions that differ from those of the interpreter: they know of tables that cannot be
// changed, bound what they take, and read and write numbers as Lua does.
func (i *interpreter) baseFunctions() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"collectgarbage": collectGarbage,
		"error":          raiseError,
		"gcinfo":         collectGarbage,
		"getmetatable":   i.getMetatable,
		"ipairs":         i.ipairs,
		"load":           i.load,
		"loadstring":     i.loadString,
		"next":           i.next,
		"pairs":          i.pairs,
		"pcall":          i.protectedCall,
		"rawget":         i.rawGet,
		"rawset":         i.rawSet,
		"setmetatable":   i.setMetatable,
		"tonumber":       toNumberFunction,
		"tostring":       func(l *lua.LState) int { l.Push(lua.LString(tostring(l, anyArg(l, 1)))); return 1 },
		"unpack":         i.unpack,
		"xpcall":         i.handledCall,
	}
}

func collectGarbage(l *lua.LState) int {
	l.Push(lua.LNumber(0))
	return 1
}

// raiseError is error.
func raiseError(l *lua.LState) int {
	v := l.Get(1)
	text, ok := v.(lua.LString)
	if level := intArg(l, 2, 1); ok && level > 0 {
		v = lua.LString(callPosition(l, level)) + text
	}
	l.Error(v, 0)
	return 0
}

// callPosition returns where a function was called, or "" if that was not in a script.
func callPosition(l *lua.LState, level int) string {
	at, found := l.GetStack(level)
	if !found {
		return ""
	}
	if _, err := l.GetInfo("Sl", at, lua.LNil); err != nil || at.Source == "" {
		return ""
	}
	return at.Source + ":" + strconv.Itoa(at.CurrentLine) + ": "
}

func (i *interpreter) getMetatable(l *lua.LState) int {
	v := anyArg(l, 1)
	t, ok := v.(*lua.LTable)
	if v.Type() == lua.LTString || ok && i.originals[t] != nil {
		l.Push(lua.LNil)
		return 1
	}
	meta := l.GetMetatable(v)
	if hidden, ok := meta.(*lua.LTable); ok {
		if field := hidden.RawGetString("__metatable"); field != lua.LNil {
			meta = field
		}
	}
	l.Push(meta)
	return 1
}

func (i *interpreter) setMetatable(l *lua.LState) int {
	t := tableArg(l, 1)
	if i.originals[t] != nil {
		return readonlyRaw(l)
	}
	meta := l.Get(2)
	if meta != lua.LNil && meta.Type() != lua.LTTable {
		argError(l, 2, "nil or table expected")
	}
	if old, ok := t.Metatable.(*lua.LTable); ok && old.RawGetString("__metatable") != lua.LNil {
		l.RaiseError("cannot change a protected metatable")
	}
	l.SetMetatable(t, meta)
	l.Push(t)
	return 1
}

// ipairsNext is the iterator of ipairs.
func (i *interpreter) ipairsNext(l *lua.LState) int {
	n := numberArg(l, 2) + 1
	v := i.original(tableArg(l, 1)).RawGet(n)
	if v == lua.LNil {
		l.Push(lua.LNil)
		return 1
	}
	l.Push(n)
	l.Push(v)
	return 2
}

func (i *interpreter) ipairs(l *lua.LState) int {
	t := tableArg(l, 1)
	l.Push(l.NewFunction(i.ipairsNext))
	l.Push(t)
	l.Push(lua.LNumber(0))
	return 3
}

func (i *interpreter) next(l *lua.LState) int {
	k, v := i.original(tableArg(l, 1)).Next(l.Get(2))
	l.Push(k)
	if k == lua.LNil {
		return 1
	}
	l.Push(v)
	return 2
}

func (i *interpreter) pairs(l *lua.LState) int {
	t := tableArg(l, 1)
	l.Push(l.NewFunction(i.next))
	l.Push(t)
	l.Push(lua.LNil)
	return 3
}

func (i *interpreter) rawGet(l *lua.LState) int {
	l.Push(i.original(tableArg(l, 1)).RawGet(anyArg(l, 2)))
	return 1
}

func (i *interpreter) rawSet(l *lua.LState) int {
	t := tableArg(l, 1)
	if i.originals[t] != nil {
		return readonlyRaw(l)
	}
	t.RawSet(anyArg(l, 2), anyArg(l, 3))
	l.Push(t)
	return 1
}

// protectedCall is pcall, which returns the text of an error of a command.
func (i *interpreter) protectedCall(l *lua.LState) int {
	anyArg(l, 1)
	v, ok := i.tryCall(l, l.GetTop()-1)
	if ok {
		l.Insert(lua.LTrue, 1)
		return l.GetTop()
	}
	if t, ok := v.(*lua.LTable); ok {
		if text := l.GetField(t, "err"); lua.LVCanConvToString(text) {
			v = text
		}
	}
	l.Push(lua.LFalse)
	l.Push(v)
	return 2
}

// handledCall is xpcall. The function for errors is called when the stack has been unwound.
func (i *interpreter) handledCall(l *lua.LState) int {
	handler := l.Get(2)
	l.SetTop(1)
	v, ok := i.tryCall(l, 0)
	if ok {
		l.Insert(lua.LTrue, 1)
		return l.GetTop()
	}
	l.Push(handler)
	l.Push(v)
	l.Call(1, 1)
	l.Insert(lua.LFalse, l.GetTop())
	return 2
}

// tryCall calls a function with n arguments that are on the stack, and returns the error, if there is one.
func (i *interpreter) tryCall(l *lua.LState, n int) (lua.LValue, bool) {
	if i.protected >= maxProtected {
		l.RaiseError("C stack overflow")
	}
	i.protected++
	defer func() { i.protected-- }()
	err := l.PCall(n, lua.MultRet, nil)
	if err == nil {
		return lua.LNil, true
	}
	var failed *lua.ApiError
	if errors.As(err, &failed) {
		return failed.Object, false
	}
	return lua.LString(err.Error()), false
}

// load compiles a text that a function returns in parts.
func (i *interpreter) load(l *lua.LState) int {
	f := functionArg(l, 1)
	var text strings.Builder
	for {
		l.Push(f)
		l.Call(0, 1)
		part := numberOrString(l.Get(-1))
		l.Pop(1)
		if part == "" {
			break
		}
		text.WriteString(part)
		if text.Len() > maxScriptText {
			break
		}
	}
	return i.compile(l, text.String(), optStringArg(l, 2, "=(load)"))
}

func (i *interpreter) loadString(l *lua.LState) int {
	text := stringArg(l, 1)
	return i.compile(l, text, optStringArg(l, 2, text))
}

// compile returns the function of a text, or nil and an error.
func (i *interpreter) compile(l *lua.LState, text, name string) int {
	proto, err := compileScript(text, chunkName(name))
	if err != nil {
		l.Push(lua.LNil)
		l.Push(lua.LString(err.Error()))
		return 2
	}
	outer := l.NewFunctionFromProto(proto)
	outer.Env = i.env
	l.Push(outer)
	l.Push(i.concat)
	l.Push(i.length)
	l.Call(2, 1)
	return 1
}

// chunkName returns the name of a text for errors.
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

// isLuaSpace reports whether C's isspace does.
func isLuaSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// parseLuaNumber reads a number as Lua does.
func parseLuaNumber(text string) (float64, bool) {
	text = strings.TrimFunc(text, func(r rune) bool { return r < 128 && isLuaSpace(byte(r)) })
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

// toNumber returns the number that a value is or can be read as.
func toNumber(v lua.LValue) (float64, bool) {
	switch v := v.(type) {
	case lua.LNumber:
		return float64(v), true
	case lua.LString:
		return parseLuaNumber(string(v))
	}
	return 0, false
}

func toNumberFunction(l *lua.LState) int {
	v := anyArg(l, 1)
	base := intArg(l, 2, 10)
	if base == 10 {
		if n, ok := toNumber(v); ok {
			l.Push(lua.LNumber(n))
		} else {
			l.Push(lua.LNil)
		}
		return 1
	}
	if base < 2 || base > 36 {
		argError(l, 2, "base out of range")
	}
	text := strings.TrimFunc(numberOrString(v), func(r rune) bool { return r < 128 && isLuaSpace(byte(r)) })
	if base == 16 {
		text = strings.TrimPrefix(strings.TrimPrefix(text, "0x"), "0X")
	}
	n, err := strconv.ParseUint(strings.TrimPrefix(text, "-"), base, 64)
	switch {
	case err != nil:
		l.Push(lua.LNil)
	case strings.HasPrefix(text, "-"):
		l.Push(lua.LNumber(-n)) // as strtoul does
	default:
		l.Push(lua.LNumber(n))
	}
	return 1
}

// tostring returns a value as text.
func tostring(l *lua.LState, v lua.LValue) string {
	switch v := v.(type) {
	case lua.LString, lua.LNumber:
		return numberOrString(v)
	case *lua.LUserData:
		if v.Metatable == lua.LNil || v.Metatable == nil {
			return "userdata: NULL"
		}
	}
	return l.ToStringMeta(v).String()
}

func (i *interpreter) unpack(l *lua.LState) int {
	t := i.original(tableArg(l, 1))
	first := intArg(l, 2, 1)
	last := i.tableLength(t)
	if l.Get(3) != lua.LNil {
		last = intArg(l, 3, noDefault)
	}
	if first > last {
		return 0
	}
	if last-first >= maxResults || last-first < 0 {
		l.RaiseError("too many results to unpack")
	}
	for n := first; n <= last; n++ {
		l.Push(t.RawGet(lua.LNumber(n)))
	}
	return last - first + 1
}

// tableLength returns the number of elements of a table before a nil.
func (i *interpreter) tableLength(t *lua.LTable) int {
	n := t.Len()
	has := func(n int) bool { return t.RawGet(lua.LNumber(n)) != lua.LNil }
	if n < maxArrayPart-1 || !has(n+1) {
		return n
	}
	end := 2 * n
	for has(end) {
		end *= 2
	}
	return n + sort.Search(end-n, func(k int) bool { return !has(n + k + 1) })
}

// lengthOf is the operator #.
func (i *interpreter) lengthOf(l *lua.LState) int {
	switch v := l.Get(1).(type) {
	case lua.LString:
		l.Push(lua.LNumber(len(v)))
	case *lua.LTable:
		l.Push(lua.LNumber(i.tableLength(i.original(v))))
	default:
		f, ok := l.GetMetaField(v, "__len").(*lua.LFunction)
		if !ok {
			l.RaiseError("attempt to get length of a %s value", v.Type())
		}
		l.Push(f)
		l.Push(v)
		l.Call(1, 1)
	}
	return 1
}

// concatenate is the operator .. for two values or more.
func (i *interpreter) concatenate(l *lua.LState) int {
	n := l.GetTop()
	size := 0
	for k := 1; k <= n; k++ {
		v := l.Get(k)
		if !lua.LVCanConvToString(v) {
			return i.concatenateMeta(l)
		}
		if s, ok := v.(lua.LString); ok {
			size += len(s)
		}
	}
	i.guard.charge(l, size)
	var b strings.Builder
	b.Grow(size)
	for k := 1; k <= n; k++ {
		b.WriteString(numberOrString(l.Get(k)))
	}
	l.Push(lua.LString(b.String()))
	return 1
}

// concatenateMeta concatenates values of which some are no strings, from the right.
func (i *interpreter) concatenateMeta(l *lua.LState) int {
	right := l.Get(l.GetTop())
	for k := l.GetTop() - 1; k >= 1; k-- {
		left := l.Get(k)
		if lua.LVCanConvToString(left) && lua.LVCanConvToString(right) {
			a, b := numberOrString(left), numberOrString(right)
			i.guard.charge(l, len(a)+len(b))
			right = lua.LString(a + b)
			continue
		}
		f := l.GetMetaField(left, "__concat")
		if f == lua.LNil {
			f = l.GetMetaField(right, "__concat")
		}
		if f == lua.LNil {
			bad := left
			if lua.LVCanConvToString(left) {
				bad = right
			}
			l.RaiseError("attempt to concatenate a %s value", bad.Type())
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
