package lua

import (
	"math"
	"slices"

	gopher "github.com/yuin/gopher-lua"
)

func (i *Interpreter) tableFunctions() map[string]gopher.LGFunction {
	return map[string]gopher.LGFunction{
		"concat":   i.tableConcat,
		"foreach":  i.tableForEach,
		"foreachi": i.tableForEachI,
		"getn": func(l *gopher.LState) int {
			l.Push(gopher.LNumber(i.tableLength(i.Original(tableArg(l, 1)))))
			return 1
		},
		"insert": i.tableInsert,
		"maxn":   i.tableMaxN,
		"remove": i.tableRemove,
		"sort":   i.tableSort,
	}
}

// changeable returns an argument that must be a table. It raises an error if the table is read-only.
func (i *Interpreter) changeable(l *gopher.LState) *gopher.LTable {
	t := tableArg(l, 1)
	if i.originals[t] != nil {
		readonlyTable(l)
	}
	return t
}

func (i *Interpreter) tableConcat(l *gopher.LState) int {
	separator := optStringArg(l, 2, "") // Lua checks it before the table
	t := i.Original(tableArg(l, 1))
	first := intArg(l, 3, 1)
	last := i.tableLength(t)
	if l.Get(4) != gopher.LNil {
		last = intArg(l, 4, noDefault)
	}
	b := i.build(l)
	for n := first; n <= last; n++ {
		v := t.RawGet(gopher.LNumber(n))
		if !gopher.LVCanConvToString(v) {
			raise(l, "invalid value (%s) at index %d in table for 'concat'", v.Type(), n)
		}
		i.guard.step(l)
		b.string(Text(v))
		if n < last {
			b.string(separator)
		}
	}
	return b.push()
}

func (i *Interpreter) tableForEach(l *gopher.LState) int {
	t := i.Original(tableArg(l, 1))
	f := functionArg(l, 2)
	for k, v := t.Next(gopher.LNil); k != gopher.LNil; k, v = t.Next(k) {
		if i.callFor(l, f, k, v) {
			return 1
		}
	}
	return 0
}

func (i *Interpreter) tableForEachI(l *gopher.LState) int {
	t := i.Original(tableArg(l, 1))
	f := functionArg(l, 2)
	for n := range i.tableLength(t) {
		k := gopher.LNumber(n + 1)
		if i.callFor(l, f, k, t.RawGet(k)) {
			return 1
		}
	}
	return 0
}

// callFor calls a function with an element. If that returns a value, it stays on the stack.
func (i *Interpreter) callFor(l *gopher.LState, f *gopher.LFunction, k, v gopher.LValue) bool {
	i.guard.step(l)
	l.Push(f)
	l.Push(k)
	l.Push(v)
	l.Call(2, 1)
	if l.Get(-1) != gopher.LNil {
		return true
	}
	l.Pop(1)
	return false
}

func (i *Interpreter) tableInsert(l *gopher.LState) int {
	t := i.changeable(l)
	end := i.tableLength(t) + 1
	switch l.GetTop() {
	case 2:
		t.RawSet(gopher.LNumber(end), l.Get(2))
	case 3:
		at := intArg(l, 2, noDefault)
		for n := max(end, at); n > at; n-- {
			i.guard.step(l)
			t.RawSet(gopher.LNumber(n), t.RawGet(gopher.LNumber(n-1)))
		}
		t.RawSet(gopher.LNumber(at), l.Get(3))
	default:
		raise(l, "wrong number of arguments to 'insert'")
	}
	return 0
}

func (i *Interpreter) tableRemove(l *gopher.LState) int {
	t := i.changeable(l)
	end := i.tableLength(t)
	at := intArg(l, 2, end)
	if at < 1 || at > end {
		return 0
	}
	l.Push(t.RawGet(gopher.LNumber(at)))
	for n := at; n < end; n++ {
		i.guard.step(l)
		t.RawSet(gopher.LNumber(n), t.RawGet(gopher.LNumber(n+1)))
	}
	t.RawSet(gopher.LNumber(end), gopher.LNil)
	return 1
}

func (i *Interpreter) tableMaxN(l *gopher.LState) int {
	t := i.Original(tableArg(l, 1))
	most := gopher.LNumber(0)
	for k, _ := t.Next(gopher.LNil); k != gopher.LNil; k, _ = t.Next(k) {
		i.guard.step(l)
		if n, ok := k.(gopher.LNumber); ok {
			most = max(most, n)
		}
	}
	l.Push(most)
	return 1
}

func (i *Interpreter) tableSort(l *gopher.LState) int {
	t := i.changeable(l)
	less := func(a, b gopher.LValue) bool { return lessThan(l, a, b) }
	if l.Get(2) != gopher.LNil {
		f := functionArg(l, 2)
		less = func(a, b gopher.LValue) bool {
			l.Push(f)
			l.Push(a)
			l.Push(b)
			l.Call(2, 1)
			r := gopher.LVAsBool(l.Get(-1))
			l.Pop(1)
			return r
		}
	}
	length := i.tableLength(t)
	i.guard.hold(l, valueSize*length)
	all := make([]gopher.LValue, length)
	for n := range all {
		i.guard.step(l)
		all[n] = t.RawGet(gopher.LNumber(n + 1))
	}
	slices.SortFunc(all, func(a, b gopher.LValue) int {
		i.guard.step(l)
		switch {
		case less(a, b):
			return -1
		case less(b, a):
			return 1
		}
		return 0
	})
	for n, v := range all {
		t.RawSet(gopher.LNumber(n+1), v)
	}
	return 0
}

// lessThan compares two elements. Its error has no position, because no script has called it.
func lessThan(l *gopher.LState, a, b gopher.LValue) bool {
	comparable := a.Type() == b.Type() && (a.Type() == gopher.LTNumber || a.Type() == gopher.LTString)
	if comparable || l.GetMetaField(a, "__lt") != gopher.LNil {
		return l.LessThan(a, b)
	}
	text := "attempt to compare two " + a.Type().String() + " values"
	if a.Type() != b.Type() {
		text = "attempt to compare " + a.Type().String() + " with " + b.Type().String()
	}
	l.Error(gopher.LString(text), 0)
	return false
}

// openMath sets up the global variable math, with Redis's random numbers.
func (i *Interpreter) openMath(t *gopher.LTable) {
	t.ForEach(func(name, v gopher.LValue) {
		if f, ok := v.(*gopher.LFunction); ok {
			t.RawSet(name, i.function(numbersOnly(f.GFunction, mathArguments[name.String()])))
		}
	})
	i.AddFunctions(t, map[string]gopher.LGFunction{"random": i.mathRandom, "randomseed": i.mathRandomSeed, "log10": mathLog10})
	i.globals.RawSetString("math", i.Readonly(t))
}

// mathArguments has the number of arguments for functions that do not take one. Further arguments are
// ignored.
var mathArguments = map[string]int{"atan2": 2, "fmod": 2, "ldexp": 2, "max": anyNumber, "min": anyNumber, "mod": 2, "pow": 2}

// anyNumber stands for any number of arguments.
const anyNumber = -1

// numbersOnly wraps a function that takes numbers, at least one, to check and read its arguments like
// Lua.
func numbersOnly(f gopher.LGFunction, count int) gopher.LGFunction {
	return func(l *gopher.LState) int {
		last := max(count, 1)
		if count == anyNumber {
			last = max(l.GetTop(), 1)
		}
		for n := 1; n <= last; n++ {
			v := numberArg(l, n)
			l.Replace(n, v)
		}
		return f(l)
	}
}

// randomStart seeds the scripts' random numbers.
const randomStart = 0x1234ABCD330E

// nextRandom returns the next number in the sequence of POSIX's lrand48.
func (i *Interpreter) nextRandom() int64 {
	i.random = (i.random*0x5DEECE66D + 0xB) & (1<<48 - 1)
	return int64(i.random >> 17)
}

func (i *Interpreter) mathRandom(l *gopher.LState) int {
	v := float64(i.nextRandom()%math.MaxInt32) / math.MaxInt32
	switch l.GetTop() {
	case 0:
	case 1:
		high := intArg(l, 1, noDefault)
		if high < 1 {
			argError(l, 1, "interval is empty")
		}
		v = math.Floor(v*float64(high)) + 1
	case 2:
		low, high := intArg(l, 1, noDefault), intArg(l, 2, noDefault)
		if low > high {
			argError(l, 2, "interval is empty")
		}
		v = math.Floor(v*float64(high-low+1)) + float64(low)
	default:
		raise(l, "wrong number of arguments")
	}
	l.Push(gopher.LNumber(v))
	return 1
}

func (i *Interpreter) mathRandomSeed(l *gopher.LState) int {
	i.random = uint64(uint32(intArg(l, 1, noDefault)))<<16 | 0x330E
	return 0
}

func mathLog10(l *gopher.LState) int {
	l.Push(gopher.LNumber(math.Log10(float64(numberArg(l, 1)))))
	return 1
}

// openCoroutine sets up the global variable coroutine, and limits how deep coroutines may resume each
// other.
func (i *Interpreter) openCoroutine(t *gopher.LTable) {
	create := t.RawGetString("create").(*gopher.LFunction).GFunction
	resume := t.RawGetString("resume").(*gopher.LFunction).GFunction
	limited := func(l *gopher.LState) int {
		if i.resumed >= maxResumed {
			raise(l, "C stack overflow")
		}
		i.resumed++
		defer func() { i.resumed-- }()
		n := resume(l)
		if n == 2 && l.Get(-2) == gopher.LFalse {
			l.Replace(l.GetTop(), luaError(l.Get(-1)))
		}
		return n
	}
	charged := func(l *gopher.LState) int {
		i.guard.take(l, coroutineSize)
		n := create(l)
		l.Get(-1).(*gopher.LState).SetContext(&i.guard)
		return n
	}
	wrapped := func(l *gopher.LState) int {
		l.Insert(l.Get(gopher.UpvalueIndex(1)), 1)
		n := limited(l)
		if l.Get(-n) == gopher.LFalse {
			v := l.Get(-1)
			if text, ok := v.(gopher.LString); ok {
				v = gopher.LString(callPosition(l, 1)) + text
			}
			l.Error(v, 0)
		}
		return n - 1
	}
	i.AddFunctions(t, map[string]gopher.LGFunction{
		"create": charged,
		"resume": limited,
		"wrap": func(l *gopher.LState) int {
			charged(l)
			l.Push(l.NewClosure(i.guarded(wrapped), l.Get(-1)))
			return 1
		},
	})
	i.globals.RawSetString("coroutine", i.Readonly(t))
}

// coroutineSize estimates a coroutine's memory.
const coroutineSize = 32 << 10
