package redis

import (
	"errors"

	gopher "github.com/yuin/gopher-lua"

	"steward/internal/redis/lua"
)

// interpreter runs the scripts of a store, one after the other.
type interpreter struct {
	*lua.Interpreter
	// current is the script that runs; nil if none does.
	current *scriptRun
	// loading is the library of functions that is loaded, and loader the global variables that it sees meanwhile.
	loading *library
	loader  *gopher.LTable
}

// newInterpreter returns an interpreter of a store.
func newInterpreter(s *Store) *interpreter {
	i := &interpreter{Interpreter: lua.New(s.scriptMemory(), s.options.ScriptCharge)}
	i.openRedis()
	return i
}

// run calls a function for a run of a script and appends what it returns.
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
		return r.failure(failed)
	}
	var stopped lua.StopError
	if errors.As(err, &stopped) {
		return errorf("ERR %v script: %s.", stopped, r.name)
	}
	return err
}

// protect calls a function, and done with what it returns, within the limits of scripts.
func (i *interpreter) protect(done func(gopher.LValue) error, x *call, f *gopher.LFunction, args ...gopher.LValue) error {
	x.slot.enter(x.options.Enter)
	err := i.Call(x.options.ScriptTime, done, f, args...)
	var stopped lua.StopError
	if errors.As(err, &stopped) {
		x.scripts.forget(i)
	}
	return err
}

// forget has the store make a new interpreter in place of one, which may be nil.
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

// reply appends what a script returns.
func (i *interpreter) reply(r *scriptRun, v gopher.LValue) error {
	limit := len(r.x.out.b) + int(min(r.x.options.Memory, maxString))
	w := replyWriter{interpreter: i, out: r.x.out, resp3: r.out.resp3, limit: limit}
	w.value(v, 0)
	return w.err
}

// failure returns what a client is told of an error that the script has raised.
func (r *scriptRun) failure(e *lua.Error) error {
	text := cString(gopher.LString(e.Text))
	if e.Source == "" || e.Line == "" {
		return replyError(text)
	}
	return errorf("%s script: %s, on %s:%s.", text, r.name, e.Source, e.Line)
}
