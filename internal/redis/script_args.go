package redis

import (
	"math"

	lua "github.com/yuin/gopher-lua"
)

// argError raises an error about an argument.
func argError(l *lua.LState, n int, text string) {
	name := "?"
	if at, found := l.GetStack(0); found {
		if _, err := l.GetInfo("n", at, lua.LNil); err == nil && at.Name != "" {
			name = at.Name
		}
	}
	l.RaiseError("bad argument #%d to '%s' (%s)", n, name, text)
}

// typeName returns the type of an argument, or "no value".
func typeName(l *lua.LState, n int) string {
	if n > l.GetTop() {
		return "no value"
	}
	return l.Get(n).Type().String()
}

// stringArg returns an argument that is a string or a number.
func stringArg(l *lua.LState, n int) string {
	v := l.Get(n)
	if !lua.LVCanConvToString(v) {
		typeError(l, n, "string")
	}
	return numberOrString(v)
}

// intArg returns an argument that is a number, or a default if there is none.
func intArg(l *lua.LState, n, otherwise int) int {
	v := l.Get(n)
	if v == lua.LNil && otherwise != noDefault {
		return otherwise
	}
	f, ok := toNumber(v)
	if !ok {
		typeError(l, n, "number")
	}
	return int(toInt64(f))
}

// noDefault is for arguments that must be there.
const noDefault = math.MinInt

// typeError raises an error about an argument of another type.
func typeError(l *lua.LState, n int, want string) {
	argError(l, n, want+" expected, got "+typeName(l, n))
}

// numberArg returns an argument that is a number, or can be read as one.
func numberArg(l *lua.LState, n int) lua.LNumber {
	v, ok := toNumber(l.Get(n))
	if !ok {
		typeError(l, n, "number")
	}
	return lua.LNumber(v)
}

// optStringArg returns an argument that is a string, or a default if there is none.
func optStringArg(l *lua.LState, n int, otherwise string) string {
	if l.Get(n) == lua.LNil {
		return otherwise
	}
	return stringArg(l, n)
}

// tableArg returns an argument that is a table.
func tableArg(l *lua.LState, n int) *lua.LTable {
	t, ok := l.Get(n).(*lua.LTable)
	if !ok {
		typeError(l, n, "table")
	}
	return t
}

// functionArg returns an argument that is a function.
func functionArg(l *lua.LState, n int) *lua.LFunction {
	f, ok := l.Get(n).(*lua.LFunction)
	if !ok {
		typeError(l, n, "function")
	}
	return f
}

// anyArg returns an argument that must be there.
func anyArg(l *lua.LState, n int) lua.LValue {
	if n > l.GetTop() {
		argError(l, n, "value expected")
	}
	return l.Get(n)
}
