package lua

import (
	"errors"

	gopher "github.com/yuin/gopher-lua"
)

// protectedCall implements pcall. If a command fails, it returns the error's text.
func (i *Interpreter) protectedCall(l *gopher.LState) int {
	anyArg(l, 1)
	v, ok := i.tryCall(l, l.GetTop()-1)
	if ok {
		l.Insert(gopher.LTrue, 1)
		return l.GetTop()
	}
	if t, ok := v.(*gopher.LTable); ok {
		if text := l.GetField(t, "err"); gopher.LVCanConvToString(text) {
			v = text
		}
	}
	l.Push(gopher.LFalse)
	l.Push(v)
	return 2
}

// handledCall implements xpcall. It calls the error handler after the stack has been unwound.
func (i *Interpreter) handledCall(l *gopher.LState) int {
	handler := l.Get(2)
	l.SetTop(1)
	v, ok := i.tryCall(l, 0)
	if ok {
		l.Insert(gopher.LTrue, 1)
		return l.GetTop()
	}
	l.Push(handler)
	l.Push(v)
	l.Call(1, 1)
	l.Insert(gopher.LFalse, l.GetTop())
	return 2
}

// tryCall calls a function with n arguments from the stack, and returns the error, if there is one.
//
// The function gets its own stack. An error detaches variables from all closures that use them on the
// same stack, even in functions that go on after a protected call.
func (i *Interpreter) tryCall(l *gopher.LState, n int) (gopher.LValue, bool) {
	if i.protected >= maxProtected {
		raise(l, "C stack overflow")
	}
	own := i.protectedStack(l)
	held, building := i.guard.held, len(i.building)
	i.protected++
	i.running = append(i.running, own)
	defer func() {
		i.protected--
		i.running = i.running[:len(i.running)-1]
		i.guard.held = held
		i.building = i.building[:building]
	}()
	l.XMoveTo(own, n+1)
	if f := own.Get(1); f.Type() != gopher.LTFunction && l.GetMetaField(f, "__call") == gopher.LNil {
		own.SetTop(0)
		return gopher.LString("attempt to call a " + f.Type().String() + " value"), false
	}
	err := own.PCall(n, gopher.MultRet, nil)
	if err == nil {
		own.XMoveTo(l, own.GetTop())
		return gopher.LNil, true
	}
	own.SetTop(0)
	if failed, ok := errors.AsType[*gopher.ApiError](err); ok {
		return luaError(failed.Object), false
	}
	return gopher.LString(err.Error()), false
}

// keptStacks is the number of stacks that we keep for later protected calls.
const keptStacks = 2

// protectedStack returns an empty stack for a protected call.
func (i *Interpreter) protectedStack(l *gopher.LState) *gopher.LState {
	if i.protected < len(i.stacks) {
		own := i.stacks[i.protected]
		own.SetContext(&i.guard)
		return own
	}
	i.guard.hold(l, coroutineSize)
	own, _ := l.NewThread()
	own.SetContext(&i.guard)
	if i.protected < keptStacks {
		i.stacks = append(i.stacks, own)
	}
	return own
}
