// Package lua is the Lua that Redis's scripts run in: Lua 5.1 plus the libraries that Redis adds (bit,
// struct, cjson, cmsgpack), within limits on time and memory.
//
// An Interpreter runs functions one after the other. Compile makes them; it rewrites the operators that
// take memory into calls. A function can reach the process only through the libraries and through
// functions that you add with OpenLibrary. Scripts cannot change any library. The interpreter itself is
// github.com/yuin/gopher-lua. We do not use its string and table libraries, because they take unlimited
// memory and time and differ from Lua's.
package lua

import (
	"errors"
	"hash/maphash"
	"strconv"
	"sync"
	"time"

	gopher "github.com/yuin/gopher-lua"
)

// Interpreter runs scripts, one after the other.
type Interpreter struct {
	l *gopher.LState
	// globals has the global variables, and env is the read-only table that scripts see instead.
	globals, env *gopher.LTable
	// strict is the metatable that scripts see for env.
	strict *gopher.LTable
	// originals maps read-only tables to the tables behind them.
	originals map[*gopher.LTable]*gopher.LTable
	// operators has the functions for some operators, and handler is called with an error.
	operators []*gopher.LFunction
	handler   *gopher.LFunction
	// ipairsStep and pairsStep are the iterators that ipairs and pairs return.
	ipairsStep, pairsStep *gopher.LFunction
	guard                 guard
	// protected counts the nested protected calls, and resumed the nested coroutines.
	protected, resumed int
	// Kept calls yield for each script function that will be called again, so that we measure it
	// between scripts. It may be nil.
	Kept func(yield func(*gopher.LFunction))
	// Poll is called now and then with the script's running time. It stops the script unless it returns
	// "". It may be nil.
	Poll func(elapsed time.Duration) StopError
	// running has the stacks in use: the first one, and then those for protected calls. building has
	// tables that functions are filling and that scripts cannot reach yet.
	running  []*gopher.LState
	building []*gopher.LTable
	// stacks has the stacks kept for protected calls, outermost first.
	stacks []*gopher.LState
	random uint64
	seed   maphash.Seed
	json   jsonOptions
	null   *gopher.LUserData
}

// The interpreter limits nested calls, all their values together, nested protected calls and
// coroutines, values returned at once, and the bytes in a string. The limits bound the goroutine's
// stack, which must not overflow, and the time to unwind it.
const (
	maxCalls     = 8000
	maxRegistry  = 1 << 20
	maxProtected = 200
	maxResumed   = 16
	maxResults   = 8000
	MaxArrayPart = 1 << 16
	MaxString    = 512 << 20
)

// limitArrays makes tables keep keys from MaxArrayPart on in hashes. Otherwise a script that sets a
// single element with a large number takes the memory for all elements before it.
var limitArrays = sync.OnceFunc(func() { gopher.MaxArrayIndex = MaxArrayPart })

// New returns an interpreter whose scripts may take this many bytes of memory. It charges them to a
// budget, which may be nil.
func New(memory int64, budget Budget) *Interpreter {
	limitArrays()
	l := gopher.NewState(gopher.Options{
		SkipOpenLibs: true, CallStackSize: maxCalls, MinimizeStackMemory: true,
		RegistrySize: 1024, RegistryMaxSize: maxRegistry, RegistryGrowStep: 1024,
	})
	i := &Interpreter{l: l, originals: map[*gopher.LTable]*gopher.LTable{}}
	i.guard.limit = memory
	i.guard.budget = budget
	i.guard.measure = i.measure
	i.guard.poll = i.poll
	i.random = randomStart
	i.seed = maphash.MakeSeed()
	i.json = defaultJSONOptions
	i.null = l.NewUserData()
	for _, f := range []gopher.LGFunction{i.concatenate, i.lengthOf, i.modulo} { // in the order of operatorNames
		i.operators = append(i.operators, i.function(f))
	}
	i.handler = i.function(i.handleError)
	i.ipairsStep = i.function(i.ipairsNext)
	i.pairsStep = i.function(i.next)
	i.openGlobals()
	return i
}

// openGlobals sets up the global variables.
func (i *Interpreter) openGlobals() {
	for _, open := range []gopher.LGFunction{gopher.OpenBase, gopher.OpenMath, gopher.OpenCoroutine} {
		i.l.Push(i.l.NewFunction(open))
		i.l.Call(0, 0)
	}
	old := i.l.G.Global
	i.l.G.Global = i.l.NewTable()
	i.globals = i.l.NewTable()
	i.env = i.Readonly(i.globals)
	i.globals.RawSetString("_VERSION", old.RawGetString("_VERSION"))
	i.AddFunctions(i.globals, i.baseFunctions())
	i.globals.RawSetString("_G", i.env)
	i.openMath(old.RawGetString("math").(*gopher.LTable))
	i.openCoroutine(old.RawGetString("coroutine").(*gopher.LTable))
	i.OpenLibrary("table", i.tableFunctions())
	i.openString()
	i.OpenLibrary("bit", bitFunctions)
	i.OpenLibrary("struct", map[string]gopher.LGFunction{"pack": i.structPack, "unpack": i.structUnpack, "size": i.structSize})
	i.OpenLibrary("cmsgpack", i.msgpackFunctions()).RawSetString("_NAME", gopher.LString("cmsgpack"))
	i.OpenLibrary("cjson", i.jsonFunctions()).RawSetString("null", i.null)
	meta := i.StrictMeta()
	i.globals.Metatable = meta
	i.strict = i.Readonly(meta)
}

// StrictMeta returns a metatable that makes reading a missing field an error.
func (i *Interpreter) StrictMeta() *gopher.LTable {
	meta := i.l.NewTable()
	meta.RawSetString("__index", i.function(noSuchGlobal))
	return meta
}

// AddFunctions adds functions to a table.
func (i *Interpreter) AddFunctions(t *gopher.LTable, functions map[string]gopher.LGFunction) {
	for name, f := range functions {
		t.RawSetString(name, i.function(f))
	}
}

// function returns a function for scripts.
func (i *Interpreter) function(f gopher.LGFunction) *gopher.LFunction {
	return i.l.NewFunction(i.guarded(f))
}

// guarded wraps a function to charge each call, and the strings it may read. Every function that
// scripts can call must be wrapped.
func (i *Interpreter) guarded(f gopher.LGFunction) gopher.LGFunction {
	return func(l *gopher.LState) int {
		ticks := functionTicks
		for n := l.GetTop(); n > 0; n-- {
			if s, ok := l.Get(n).(gopher.LString); ok {
				ticks += len(s) / tickBytes
			}
		}
		i.guard.tick(ticks)
		if i.guard.stopped != "" {
			raise(l, "%s", i.guard.stopped)
		}
		held, building := i.guard.held, len(i.building)
		n := f(l)
		i.guard.held = held
		clear(i.building[building:])
		i.building = i.building[:building]
		return n
	}
}

// Close returns the interpreter's share to the budget. You cannot use the interpreter after that.
func (i *Interpreter) Close() {
	i.Kept = nil
	i.guard.grant(0)
}

// NewTable returns a table for a function to fill.
func (i *Interpreter) NewTable(l *gopher.LState) *gopher.LTable {
	i.guard.take(l, tableSize+hashSize)
	t := l.CreateTable(0, 0) // NewTable would make room for 32 values and keys
	i.building = append(i.building, t)
	return t
}

// OpenLibrary makes a global variable that holds functions, and returns the table behind it.
func (i *Interpreter) OpenLibrary(name string, functions map[string]gopher.LGFunction) *gopher.LTable {
	t := i.l.NewTable()
	i.AddFunctions(t, functions)
	i.globals.RawSetString(name, i.Readonly(t))
	return t
}

// Readonly returns a read-only view of a table.
func (i *Interpreter) Readonly(t *gopher.LTable) *gopher.LTable {
	p := i.l.NewTable()
	meta := i.l.NewTable()
	meta.RawSetString("__index", t)
	meta.RawSetString("__newindex", i.function(readonlyTable))
	p.Metatable = meta
	i.originals[p] = t
	return p
}

// Original returns the table behind a read-only one, or else the table itself.
func (i *Interpreter) Original(t *gopher.LTable) *gopher.LTable {
	if o := i.originals[t]; o != nil {
		return o
	}
	return t
}

func readonlyTable(l *gopher.LState) int {
	raise(l, "Attempt to modify a readonly table")
	return 0
}

// readonlyRaw raises readonlyTable's error without a position, as raw functions do.
func readonlyRaw(l *gopher.LState) int {
	l.Error(gopher.LString("Attempt to modify a readonly table"), 0)
	return 0
}

func noSuchGlobal(l *gopher.LState) int {
	raise(l, "Script attempted to access nonexistent global variable '%s'", Text(l.Get(2)))
	return 0
}

// built forgets the tables made since t. t holds them now.
func (i *Interpreter) built(t *gopher.LTable) {
	for last := len(i.building) - 1; i.building[last] != t; last-- {
		i.building = i.building[:last]
	}
}

// Strings returns a table with strings.
func (i *Interpreter) Strings(all []string) *gopher.LTable {
	t := i.l.CreateTable(len(all), 0)
	for n, s := range all {
		t.RawSetInt(n+1, gopher.LString(s))
	}
	return t
}

// Function returns a compiled script's function.
func (i *Interpreter) Function(proto *gopher.FunctionProto) *gopher.LFunction {
	outer := i.l.NewFunctionFromProto(proto)
	outer.Env = i.env
	i.l.Push(outer)
	for _, f := range i.operators {
		i.l.Push(f)
	}
	i.l.Call(len(i.operators), 1)
	f := i.l.Get(-1).(*gopher.LFunction)
	i.l.Pop(1)
	return f
}

// handleError turns an error into a table with its text and position.
func (i *Interpreter) handleError(l *gopher.LState) int {
	raised := luaError(l.Get(1))
	t, ok := raised.(*gopher.LTable)
	if !ok {
		t = l.NewTable()
		t.RawSetString("err", gopher.LString("ERR "+i.tostring(l, raised)))
	}
	at, found := l.GetStack(1)
	if found {
		f, err := l.GetInfo("fSl", at, gopher.LNil)
		if g, ok := f.(*gopher.LFunction); err == nil && ok && g.IsG {
			at, found = l.GetStack(2)
		}
	}
	if found {
		if _, err := l.GetInfo("Sl", at, gopher.LNil); err == nil && at.Source != "" {
			t.RawSetString("source", gopher.LString("@"+at.Source))
			t.RawSetString("line", gopher.LNumber(at.CurrentLine))
		}
	}
	l.Push(t)
	return 1
}

// poll calls Poll.
func (i *Interpreter) poll(elapsed time.Duration) StopError {
	if i.Poll == nil {
		return ""
	}
	return i.Poll(elapsed)
}

// Call calls a function, and then done with its result, within the limits on scripts. It returns done's
// error, an Error that the function raised, or a StopError. After a StopError you cannot use the
// interpreter any more.
func (i *Interpreter) Call(timeout time.Duration, done func(gopher.LValue) error, f *gopher.LFunction, args ...gopher.LValue) error {
	i.protected = 0
	i.resumed = 0
	i.running = append(i.running, i.l)
	i.guard.start(timeout)
	i.l.SetContext(&i.guard)
	i.l.Env = i.env
	i.l.Push(f)
	for _, arg := range args {
		i.l.Push(arg)
	}
	err := i.l.PCall(len(args), 1, i.handler)
	if err != nil {
		err = newError(err)
	} else {
		err = done(i.l.Get(-1))
	}
	i.l.RemoveContext()
	i.l.SetTop(0)
	i.running = nil
	i.building = nil
	i.guard.end()
	if stopped := i.guard.Err(); stopped != nil {
		return stopped // its state is unknown
	}
	return err
}

// Error is an error that a script raised: its text, and the script and line that raised it, if known.
type Error struct {
	Text, Source, Line string
	// Table is what the script raised, or nil.
	Table *gopher.LTable
}

func (e *Error) Error() string { return e.Text }

// newError converts a call's error.
func newError(err error) *Error {
	var failed *gopher.ApiError
	if !errors.As(err, &failed) {
		return &Error{Text: "ERR " + err.Error()}
	}
	t, ok := failed.Object.(*gopher.LTable)
	if !ok {
		return &Error{Text: "ERR " + Text(failed.Object)}
	}
	return &Error{Text(t.RawGetString("err")), Text(t.RawGetString("source")), Text(t.RawGetString("line")), t}
}

// Show makes functions see a table's elements in place of the global variables. nil restores those.
func (i *Interpreter) Show(t *gopher.LTable) {
	if t == nil {
		t = i.globals
	}
	i.env.Metatable.(*gopher.LTable).RawSetString("__index", t)
	i.originals[i.env] = t
}

// SetGlobal sets a global variable, which scripts can only read.
func (i *Interpreter) SetGlobal(name string, v gopher.LValue) { i.globals.RawSetString(name, v) }

// NewString returns a string for a function's result.
func (i *Interpreter) NewString(l *gopher.LState, b []byte) gopher.LString {
	i.guard.hold(l, len(b))
	return gopher.LString(b)
}

// Step counts a loop step, and reports whether the script may go on.
func (i *Interpreter) Step() bool {
	i.guard.tick(1)
	return i.guard.stopped == ""
}

// Text returns a string's or number's text, and "" for any other value.
func Text(v gopher.LValue) string {
	switch v := v.(type) {
	case gopher.LString:
		return string(v)
	case gopher.LNumber:
		return formatNumber(float64(v))
	}
	return ""
}

// formatNumber formats a number like Lua, with 14 digits.
func formatNumber(v float64) string {
	if n := int64(v); float64(n) == v && n > -1e14 && n < 1e14 && (n != 0 || 1/v > 0) {
		return strconv.FormatInt(n, 10)
	}
	return FormatG(v, 14)
}
