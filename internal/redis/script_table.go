package redis

import (
	"math"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

func (i *interpreter) tableFunctions() map[string]lua.LGFunction {
	return map[string]lua.LGFunction{
		"concat":   i.tableConcat,
		"foreach":  i.tableForEach,
		"foreachi": i.tableForEachI,
		"getn":     func(l *lua.LState) int { l.Push(lua.LNumber(i.tableLength(i.original(tableArg(l, 1))))); return 1 },
		"insert":   i.tableInsert,
		"maxn":     i.tableMaxN,
		"remove":   i.tableRemove,
		"sort":     i.tableSort,
	}
}

// changeable returns an argument that is a table, or raises an error if it cannot be changed.
func (i *interpreter) changeable(l *lua.LState) *lua.LTable {
	t := tableArg(l, 1)
	if i.originals[t] != nil {
		readonlyTable(l)
	}
	return t
}

func (i *interpreter) tableConcat(l *lua.LState) int {
	t := i.original(tableArg(l, 1))
	separator := optStringArg(l, 2, "")
	first := intArg(l, 3, 1)
	last := i.tableLength(t)
	if l.Get(4) != lua.LNil {
		last = intArg(l, 4, noDefault)
	}
	var b strings.Builder
	for n := first; n <= last; n++ {
		v := t.RawGet(lua.LNumber(n))
		if !lua.LVCanConvToString(v) {
			l.RaiseError("invalid value (%s) at index %d in table for 'concat'", v.Type(), n)
		}
		text := numberOrString(v)
		i.guard.charge(l, b.Len()+len(text)+len(separator))
		i.guard.charged -= int64(b.Len()) // which was counted before
		b.WriteString(text)
		if n < last {
			b.WriteString(separator)
		}
	}
	l.Push(lua.LString(b.String()))
	return 1
}

func (i *interpreter) tableForEach(l *lua.LState) int {
	t := i.original(tableArg(l, 1))
	f := functionArg(l, 2)
	for k, v := t.Next(lua.LNil); k != lua.LNil; k, v = t.Next(k) {
		if i.callFor(l, f, k, v) {
			return 1
		}
	}
	return 0
}

func (i *interpreter) tableForEachI(l *lua.LState) int {
	t := i.original(tableArg(l, 1))
	f := functionArg(l, 2)
	for n := range i.tableLength(t) {
		k := lua.LNumber(n + 1)
		if i.callFor(l, f, k, t.RawGet(k)) {
			return 1
		}
	}
	return 0
}

// callFor calls a function with an element. If it returns a value, that stays on the stack.
func (i *interpreter) callFor(l *lua.LState, f *lua.LFunction, k, v lua.LValue) bool {
	l.Push(f)
	l.Push(k)
	l.Push(v)
	l.Call(2, 1)
	if l.Get(-1) != lua.LNil {
		return true
	}
	l.Pop(1)
	return false
}

func (i *interpreter) tableInsert(l *lua.LState) int {
	t := i.changeable(l)
	end := i.tableLength(t) + 1
	switch l.GetTop() {
	case 2:
		t.RawSet(lua.LNumber(end), l.Get(2))
	case 3:
		at := intArg(l, 2, noDefault)
		for n := max(end, at); n > at; n-- {
			t.RawSet(lua.LNumber(n), t.RawGet(lua.LNumber(n-1)))
		}
		t.RawSet(lua.LNumber(at), l.Get(3))
	default:
		l.RaiseError("wrong number of arguments to 'insert'")
	}
	return 0
}

func (i *interpreter) tableRemove(l *lua.LState) int {
	t := i.changeable(l)
	end := i.tableLength(t)
	at := intArg(l, 2, end)
	if at < 1 || at > end {
		return 0
	}
	l.Push(t.RawGet(lua.LNumber(at)))
	for n := at; n < end; n++ {
		t.RawSet(lua.LNumber(n), t.RawGet(lua.LNumber(n+1)))
	}
	t.RawSet(lua.LNumber(end), lua.LNil)
	return 1
}

func (i *interpreter) tableMaxN(l *lua.LState) int {
	t := i.original(tableArg(l, 1))
	most := lua.LNumber(0)
	for k, _ := t.Next(lua.LNil); k != lua.LNil; k, _ = t.Next(k) {
		if n, ok := k.(lua.LNumber); ok {
			most = max(most, n)
		}
	}
	l.Push(most)
	return 1
}

func (i *interpreter) tableSort(l *lua.LState) int {
	t := i.changeable(l)
	less := l.LessThan
	if l.Get(2) != lua.LNil {
		f := functionArg(l, 2)
		less = func(a, b lua.LValue) bool {
			l.Push(f)
			l.Push(a)
			l.Push(b)
			l.Call(2, 1)
			r := lua.LVAsBool(l.Get(-1))
			l.Pop(1)
			return r
		}
	}
	all := make([]lua.LValue, i.tableLength(t))
	i.guard.charge(l, 16*len(all))
	for n := range all {
		all[n] = t.RawGet(lua.LNumber(n + 1))
	}
	slices.SortFunc(all, func(a, b lua.LValue) int {
		i.guard.check(l)
		switch {
		case less(a, b):
			return -1
		case less(b, a):
			return 1
		}
		return 0
	})
	for n, v := range all {
		t.RawSet(lua.LNumber(n+1), v)
	}
	return 0
}

// openMath makes the global variable math, with random numbers as Redis makes them.
func (i *interpreter) openMath(t *lua.LTable) {
	t.ForEach(func(name, v lua.LValue) {
		if f, ok := v.(*lua.LFunction); ok {
			t.RawSet(name, i.l.NewFunction(numbersOnly(f.GFunction)))
		}
	})
	i.addFunctions(t, map[string]lua.LGFunction{"random": i.mathRandom, "randomseed": i.mathRandomSeed, "log10": mathLog10})
	i.globals.RawSetString("math", i.readonly(t))
}

// numbersOnly returns a function of numbers that checks and reads its arguments as Lua does.
func numbersOnly(f lua.LGFunction) lua.LGFunction {
	return func(l *lua.LState) int {
		for n := 1; n <= max(l.GetTop(), 1); n++ {
			v := numberArg(l, n)
			l.Replace(n, v)
		}
		return f(l)
	}
}

// randomStart is where the random numbers of scripts begin.
const randomStart = 0x1234ABCD330E

// nextRandom returns the next of the numbers of the POSIX function lrand48.
func (i *interpreter) nextRandom() int64 {
	i.random = (i.random*0x5DEECE66D + 0xB) & (1<<48 - 1)
	return int64(i.random >> 17)
}

func (i *interpreter) mathRandom(l *lua.LState) int {
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
		l.RaiseError("wrong number of arguments")
	}
	l.Push(lua.LNumber(v))
	return 1
}

func (i *interpreter) mathRandomSeed(l *lua.LState) int {
	i.random = uint64(uint32(intArg(l, 1, noDefault)))<<16 | 0x330E
	return 0
}

func mathLog10(l *lua.LState) int {
	l.Push(lua.LNumber(math.Log10(float64(numberArg(l, 1)))))
	return 1
}

// openCoroutine makes the global variable coroutine, with a limit of how many resume each other.
func (i *interpreter) openCoroutine(t *lua.LTable) {
	create := t.RawGetString("create").(*lua.LFunction).GFunction
	resume := t.RawGetString("resume").(*lua.LFunction).GFunction
	limited := func(l *lua.LState) int {
		if i.resumed >= maxResumed {
			l.RaiseError("C stack overflow")
		}
		i.resumed++
		defer func() { i.resumed-- }()
		return resume(l)
	}
	charged := func(l *lua.LState) int {
		i.guard.charge(l, coroutineSize)
		return create(l)
	}
	wrapped := func(l *lua.LState) int {
		l.Insert(l.Get(lua.UpvalueIndex(1)), 1)
		n := limited(l)
		if l.Get(-n) == lua.LFalse {
			l.Error(l.Get(-1), 0)
		}
		return n - 1
	}
	i.addFunctions(t, map[string]lua.LGFunction{
		"create": charged,
		"resume": limited,
		"wrap": func(l *lua.LState) int {
			charged(l)
			l.Push(l.NewClosure(wrapped, l.Get(-1)))
			return 1
		},
	})
	i.globals.RawSetString("coroutine", i.readonly(t))
}

// coroutineSize is about what a coroutine takes in memory.
const coroutineSize = 32 << 10
