package redis

import (
	"context"
	"errors"
	"strconv"
	"sync"

	lua "github.com/yuin/gopher-lua"
)

// interpreter runs the scripts of a store, one after the other.
type interpreter struct {
	l *lua.LState
	// globals are the global variables, and env what scripts see of them: a table that cannot be changed.
	globals, env *lua.LTable
	// originals are the tables behind those that cannot be changed.
	originals map[*lua.LTable]*lua.LTable
	// concat and length are the operators .. and #, and handler what is called with an error.
	concat, length, handler *lua.LFunction
	// current is the script that runs; nil if none does.
	current *scriptRun
	guard   scriptGuard
	// protected is how many protected calls are within each other, and resumed how many coroutines.
	protected, resumed int
	random             uint64
	json               jsonOptions
	null               *lua.LUserData
	// redis and loader are the global variable of that name: the second while a library of functions is loaded, which
	// is loading.
	redis, loader *lua.LTable
	loading       *library
}

// Limits of the interpreter: functions that call each other, values of all of them, protected calls and coroutines
// within each other, and values that are returned at once. They bound the stack of the goroutine, which must not
// overflow, and the time to unwind it.
const (
	maxCalls     = 8000
	maxRegistry  = 1 << 20
	maxProtected = 200
	maxResumed   = 16
	maxResults   = 8000
	maxArrayPart = 1 << 16
)

// limitArrays has tables keep numbers from maxArrayPart on as hashes do. Otherwise a script that sets one element with
// a large number takes the memory of all before it.
var limitArrays = sync.OnceFunc(func() { lua.MaxArrayIndex = maxArrayPart })

// newInterpreter returns an interpreter whose scripts may take a number of bytes of memory.
func newInterpreter(memory int64) *interpreter {
	limitArrays()
	l := lua.NewState(lua.Options{
		SkipOpenLibs: true, CallStackSize: maxCalls, MinimizeStackMemory: true,
		RegistrySize: 1024, RegistryMaxSize: maxRegistry, RegistryGrowStep: 1024,
	})
	i := &interpreter{l: l, originals: map[*lua.LTable]*lua.LTable{}, guard: scriptGuard{limit: memory}}
	i.random = randomStart
	i.json = defaultJSONOptions
	i.null = l.NewUserData()
	i.concat = l.NewFunction(i.concatenate)
	i.length = l.NewFunction(i.lengthOf)
	i.handler = l.NewFunction(handleError)
	i.openGlobals()
	return i
}

// openGlobals makes the global variables.
func (i *interpreter) openGlobals() {
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenMath, lua.OpenCoroutine} {
		i.l.Push(i.l.NewFunction(open))
		i.l.Call(0, 0)
	}
	old := i.l.G.Global
	i.l.G.Global = i.l.NewTable()
	i.globals = i.l.NewTable()
	i.env = i.readonly(i.globals)
	for _, name := range []string{"assert", "getfenv", "setfenv", "newproxy", "rawequal", "select", "type", "_VERSION"} {
		i.globals.RawSetString(name, old.RawGetString(name))
	}
	i.addFunctions(i.globals, i.baseFunctions())
	i.globals.RawSetString("_G", i.env)
	i.openMath(old.RawGetString("math").(*lua.LTable))
	i.openCoroutine(old.RawGetString("coroutine").(*lua.LTable))
	i.openLibrary("table", i.tableFunctions())
	i.openString()
	i.openLibrary("bit", bitFunctions)
	i.openLibrary("struct", i.structFunctions())
	i.openLibrary("cmsgpack", i.msgpackFunctions()).RawSetString("_NAME", lua.LString("cmsgpack"))
	i.openLibrary("cjson", i.jsonFunctions()).RawSetString("null", i.null)
	i.openRedis()
	i.globals.Metatable = i.noSuchGlobal()
}

// noSuchGlobal returns the metatable of a table that has all that can be read from it.
func (i *interpreter) noSuchGlobal() *lua.LTable {
	meta := i.l.NewTable()
	meta.RawSetString("__index", i.l.NewFunction(noSuchGlobal))
	return meta
}

// addFunctions adds functions to a table.
func (i *interpreter) addFunctions(t *lua.LTable, functions map[string]lua.LGFunction) {
	for name, f := range functions {
		t.RawSetString(name, i.l.NewFunction(f))
	}
}

// openLibrary makes a global variable of functions, and returns the table behind it.
func (i *interpreter) openLibrary(name string, functions map[string]lua.LGFunction) *lua.LTable {
	t := i.l.NewTable()
	i.addFunctions(t, functions)
	i.globals.RawSetString(name, i.readonly(t))
	return t
}

// readonly returns a table that has what another has and cannot be changed.
func (i *interpreter) readonly(t *lua.LTable) *lua.LTable {
	p := i.l.NewTable()
	meta := i.l.NewTable()
	meta.RawSetString("__index", t)
	meta.RawSetString("__newindex", i.l.NewFunction(readonlyTable))
	p.Metatable = meta
	i.originals[p] = t
	return p
}

// original returns the table behind one that cannot be changed, or the table itself.
func (i *interpreter) original(t *lua.LTable) *lua.LTable {
	if o := i.originals[t]; o != nil {
		return o
	}
	return t
}

func readonlyTable(l *lua.LState) int {
	l.RaiseError("Attempt to modify a readonly table")
	return 0
}

// readonlyRaw raises the error of readonlyTable as functions do that know of no position.
func readonlyRaw(l *lua.LState) int {
	l.Error(lua.LString("Attempt to modify a readonly table"), 0)
	return 0
}

func noSuchGlobal(l *lua.LState) int {
	l.RaiseError("Script attempted to access nonexistent global variable '%s'", numberOrString(l.Get(2)))
	return 0
}

// strings returns a table of strings.
func (i *interpreter) strings(all []string) *lua.LTable {
	t := i.l.CreateTable(len(all), 0)
	for n, s := range all {
		t.RawSetInt(n+1, lua.LString(s))
	}
	return t
}

// function returns the function of a script that was compiled.
func (i *interpreter) function(proto *lua.FunctionProto) *lua.LFunction {
	outer := i.l.NewFunctionFromProto(proto)
	outer.Env = i.env
	i.l.Push(outer)
	i.l.Push(i.concat)
	i.l.Push(i.length)
	i.l.Call(2, 1)
	f := i.l.Get(-1).(*lua.LFunction)
	i.l.Pop(1)
	return f
}

// handleError turns an error into a table of its text and where it happened.
func handleError(l *lua.LState) int {
	t, ok := l.Get(1).(*lua.LTable)
	if !ok {
		t = l.NewTable()
		t.RawSetString("err", lua.LString("ERR "+tostring(l, l.Get(1))))
	}
	at, found := l.GetStack(1)
	if found {
		f, err := l.GetInfo("fSl", at, lua.LNil)
		if g, ok := f.(*lua.LFunction); err == nil && ok && g.IsG {
			at, found = l.GetStack(2)
		}
	}
	if found {
		if _, err := l.GetInfo("Sl", at, lua.LNil); err == nil && at.Source != "" {
			t.RawSetString("source", lua.LString("@"+at.Source))
			t.RawSetString("line", lua.LNumber(at.CurrentLine))
		}
	}
	l.Push(t)
	return 1
}

// run calls a function for a run of a script and appends what it returns.
func (i *interpreter) run(r *scriptRun, f *lua.LFunction, args ...lua.LValue) error {
	i.current = r
	err := i.protect(r, f, args, func(v lua.LValue) error { return i.reply(r, v) })
	i.current = nil
	r.x.effects = true // the commands have written theirs
	var failed *runError
	if errors.As(err, &failed) {
		return failed.reply(r)
	}
	return err
}

// protect calls a function, and done with what it returns, within the limits of scripts.
func (i *interpreter) protect(r *scriptRun, f *lua.LFunction, args []lua.LValue, done func(lua.LValue) error) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	i.protected = 0
	i.resumed = 0
	i.guard.start(ctx, cancel, r.x.options.ScriptTime)
	i.l.SetContext(ctx)
	i.l.Env = i.env
	i.l.Push(f)
	for _, arg := range args {
		i.l.Push(arg)
	}
	err := i.l.PCall(len(args), 1, i.handler)
	if err != nil {
		err = newRunError(err)
	} else {
		err = done(i.l.Get(-1))
	}
	i.guard.stop()
	i.l.RemoveContext()
	i.l.SetTop(0)
	if cause := context.Cause(ctx); cause != nil {
		r.x.scripts.forget(i) // its state is unknown
		return errorf("ERR %v script: %s.", cause, r.name)
	}
	return err
}

// forget has the store make a new interpreter.
func (s *scripting) forget(i *interpreter) {
	if s.lua == i {
		s.lua = nil
	}
	if s.functions == i {
		s.functions = nil
	}
}

// reply appends what a script returns.
func (i *interpreter) reply(r *scriptRun, v lua.LValue) error {
	limit := len(r.x.out.b) + int(min(i.guard.limit, maxString))
	w := replyWriter{interpreter: i, out: r.x.out, resp3: r.out.resp3, limit: limit}
	w.value(v, 0)
	return w.err
}

// runError is an error that a script has raised.
type runError struct{ text, source, line string }

func (e *runError) Error() string { return e.text }

// newRunError returns the error of a call.
func newRunError(err error) *runError {
	var failed *lua.ApiError
	if !errors.As(err, &failed) {
		return &runError{text: "ERR " + err.Error()}
	}
	t, ok := failed.Object.(*lua.LTable)
	if !ok {
		return &runError{text: "ERR " + numberOrString(failed.Object)}
	}
	return &runError{numberOrString(t.RawGetString("err")), numberOrString(t.RawGetString("source")), numberOrString(t.RawGetString("line"))}
}

// reply returns what a client is told of the error.
func (e *runError) reply(r *scriptRun) error {
	if e.source == "" || e.line == "" {
		return replyError(e.text)
	}
	return errorf("%s script: %s, on %s:%s.", e.text, r.name, e.source, e.line)
}

// numberOrString returns the text of a value that is a string or a number, and "" for another.
func numberOrString(v lua.LValue) string {
	switch v := v.(type) {
	case lua.LString:
		return string(v)
	case lua.LNumber:
		return formatNumber(float64(v))
	}
	return ""
}

// formatNumber returns a number as Lua does, with 14 digits.
func formatNumber(v float64) string {
	if n := int64(v); float64(n) == v && n > -1e14 && n < 1e14 && (n != 0 || 1/v > 0) {
		return strconv.FormatInt(n, 10)
	}
	return formatG(v, 14)
}
