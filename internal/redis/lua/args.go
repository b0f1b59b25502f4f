package lua

import (
	"math"

	gopher "github.com/yuin/gopher-lua"
)

// nameless has the names that the interpreter gives functions without one.
var nameless = map[string]bool{"": true, "(anonymous)": true, "main chunk": true}

// argError raises an error about an argument.
func argError(l *gopher.LState, n int, text string) {
	name := "?"
	if at, found := l.GetStack(0); found {
		if _, err := l.GetInfo("n", at, gopher.LNil); err == nil && !nameless[at.Name] {
			name = at.Name
		}
	}
	raise(l, "bad argument #%d to '%s' (%s)", n, name, text)
}

// stringArg returns an argument that must be a string or a number.
func stringArg(l *gopher.LState, n int) string {
	v := l.Get(n)
	if !gopher.LVCanConvToString(v) {
		typeError(l, n, "string")
	}
	return Text(v)
}

// intArg returns an argument that must be a number, or a default if it is missing.
func intArg(l *gopher.LState, n, otherwise int) int {
	v := l.Get(n)
	if v == gopher.LNil && otherwise != noDefault {
		return otherwise
	}
	f, ok := Number(v)
	if !ok {
		typeError(l, n, "number")
	}
	return int(Integer(f))
}

// noDefault marks arguments that must be there.
const noDefault = math.MinInt

// typeError raises an error about an argument with the wrong type.
func typeError(l *gopher.LState, n int, want string) {
	got := "no value"
	if n <= l.GetTop() {
		got = l.Get(n).Type().String()
	}
	argError(l, n, want+" expected, got "+got)
}

// numberArg returns an argument that must be a number or read as one.
func numberArg(l *gopher.LState, n int) gopher.LNumber {
	v, ok := Number(l.Get(n))
	if !ok {
		typeError(l, n, "number")
	}
	return gopher.LNumber(v)
}

// optStringArg returns an argument that must be a string, or a default if it is missing.
func optStringArg(l *gopher.LState, n int, otherwise string) string {
	if l.Get(n) == gopher.LNil {
		return otherwise
	}
	return stringArg(l, n)
}

// tableArg returns an argument that must be a table.
func tableArg(l *gopher.LState, n int) *gopher.LTable {
	t, ok := l.Get(n).(*gopher.LTable)
	if !ok {
		typeError(l, n, "table")
	}
	return t
}

// functionArg returns an argument that must be a function.
func functionArg(l *gopher.LState, n int) *gopher.LFunction {
	f, ok := l.Get(n).(*gopher.LFunction)
	if !ok {
		typeError(l, n, "function")
	}
	return f
}

// anyArg returns an argument that must be there.
func anyArg(l *gopher.LState, n int) gopher.LValue {
	if n > l.GetTop() {
		argError(l, n, "value expected")
	}
	return l.Get(n)
}

// Integer converts a number like C on most machines.
func Integer(v float64) int64 {
	if math.IsNaN(v) || v >= 1<<63 || v < -1<<63 {
		return math.MinInt64
	}
	return int64(v)
}
