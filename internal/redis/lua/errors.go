package lua

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	gopher "github.com/yuin/gopher-lua"
)

// maxErrorText caps how much of a script's string an error's text contains, in bytes.
const maxErrorText = 4 << 10

// raise raises a function's error, with the position where a script called the function.
func raise(l *gopher.LState, format string, args ...any) {
	for n, arg := range args {
		if s, ok := arg.(string); ok && len(s) > maxErrorText {
			args[n] = s[:maxErrorText]
		}
	}
	l.Error(gopher.LString(callPosition(l, 1)+fmt.Sprintf(format, args...)), 0)
}

// callPosition returns the position where a function was called, or "" if that was not in a script.
func callPosition(l *gopher.LState, level int) string {
	at, found := l.GetStack(level)
	if !found {
		return ""
	}
	if _, err := l.GetInfo("Sl", at, gopher.LNil); err != nil || at.Source == "" {
		return ""
	}
	return at.Source + ":" + strconv.Itoa(at.CurrentLine) + ": "
}

// ownErrors has the interpreter's errors that are worded differently from Lua's. Lua also names the
// variable, which we do not know.
var ownErrors = []struct {
	pattern *regexp.Regexp
	words   string
}{
	{regexp.MustCompile(`^cannot perform \w+ operation between (?:number|string) and (\w+)$`), "attempt to perform arithmetic on a $1 value"},
	{regexp.MustCompile(`^cannot perform \w+ operation between (\w+) and \w+$`), "attempt to perform arithmetic on a $1 value"},
	{regexp.MustCompile(`^__unm undefined$`), "attempt to perform arithmetic on a nil value"},
	{regexp.MustCompile(`^attempt to index a non-table object\((\w+)\) with key '(?s:.*)'$`), "attempt to index a $1 value"},
	{regexp.MustCompile(`^attempt to call a non-function object$`), "attempt to call a nil value"},
	{regexp.MustCompile(`^attempt to compare nil with nil$`), "attempt to compare two nil values"},
	{regexp.MustCompile(`^attempt to compare boolean with boolean$`), "attempt to compare two boolean values"},
	{regexp.MustCompile(`^attempt to compare table with table$`), "attempt to compare two table values"},
	{regexp.MustCompile(`^attempt to compare function with function$`), "attempt to compare two function values"},
	{regexp.MustCompile(`^for statement (step|limit) must be a number$`), "'for' $1 must be a number"},
	{regexp.MustCompile(`^for statement init must be a number$`), "'for' initial value must be a number"},
	{regexp.MustCompile(`^too many recursions in (\w+)$`), "loop in $1"},
}

// luaError rewords an error from the interpreter like Lua.
func luaError(v gopher.LValue) gopher.LValue {
	s, ok := v.(gopher.LString)
	if !ok {
		return v
	}
	source, rest, _ := strings.Cut(string(s), ":")
	line, text, found := strings.Cut(rest, ": ")
	if !found {
		return v
	}
	for _, e := range ownErrors {
		if e.pattern.MatchString(text) {
			return gopher.LString(source + ":" + line + ": " + e.pattern.ReplaceAllString(text, e.words))
		}
	}
	return v
}
