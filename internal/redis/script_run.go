package redis

import (
	"errors"

	gopher "github.com/yuin/gopher-lua"

	"steward/internal/redis/lua"
)

// interpreter runs a store's scripts, one after the other.
type interpreter struct {
	*lua.Interpreter
	// current is the script that runs, or nil.
	current *scriptRun
	// loading is the function library being loaded, and loader has the global variables that it sees
	// meanwhile.
	loading *library
	loader  *gopher.LTable
}

// newInterpreter returns an interpreter for a store.
func newInterpreter(s *Store) *interpreter {
	i := &interpreter{Interpreter: lua.New(s.scriptMemory(), s.options.ScriptCharge)}
	i.openRedis()
	return i
}

// run calls a function for a script's run and appends its result.
func (i *interpreter) run(r *scriptRun, f *gopher.LFunction, args ...gopher.LValue) error {
	i.current = r
	i.Poll = r.poll
	r.x.scripts.running = r
	err := i.protect(func(v gopher.LValue) error { return i.reply(r, v) }, r.x, f, args...)
	i.current = nil
	i.Poll = nil
	r.x.scripts.running = nil
	r.x.effects = true // the commands have written theirs
	var failed *lua.Error
	if errors.As(err, &failed) {
		r.x.counted = isCounted(failed.Table)
		return r.failure(failed)
	}
	var stopped lua.StopError
	if errors.As(err, &stopped) {
		return errorf("ERR %v script: %s.", stopped, r.name)
	}
	return err
}

// protect calls a function, and then done with its result, within the limits on scripts.
func (i *interpreter) protect(done func(gopher.LValue) error, x *call, f *gopher.LFunction, args ...gopher.LValue) error {
	x.slot.enter(x.options.Enter)
	err := i.Call(x.options.ScriptTime, done, f, args...)
	var stopped lua.StopError
	if errors.As(err, &stopped) {
		x.scripts.forget(i)
	}
	return err
}

// forget drops an interpreter, so that the store makes a new one when it needs one. i may be nil.
func (s *scripting) forget(i *interpreter) {
	if i == nil {
		return
	}
	i.Close()
	if s.lua == i {
		s.lua = nil
	}
	if s.functions == i {
		s.functions = nil
	}
}

// reply appends a script's result.
func (i *interpreter) reply(r *scriptRun, v gopher.LValue) error {
	limit := len(r.x.out.b) + int(min(r.x.options.Memory, maxString))
	w := replyWriter{interpreter: i, out: r.x.out, resp3: r.out.resp3, limit: limit}
	w.value(v, 0)
	if t, ok := v.(*gopher.LTable); ok {
		r.x.counted = isCounted(i.Original(t))
	}
	return w.err
}

// countedField marks the errors of commands, which INFO counts when the commands fail. Redis has it too.
const countedField = "ignore_error_stats_update"

// isCounted reports whether INFO already counts an error. t may be nil.
func isCounted(t *gopher.LTable) bool {
	return t != nil && t.RawGetString(countedField) == gopher.LTrue
}

// failure turns an error that the script raised into the client's error reply.
func (r *scriptRun) failure(e *lua.Error) error {
	text := cString(gopher.LString(e.Text))
	if e.Source == "" || e.Line == "" {
		return replyError(text)
	}
	return errorf("%s script: %s, on %s:%s.", text, r.name, e.Source, e.Line)
}
