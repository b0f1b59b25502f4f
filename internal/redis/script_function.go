package redis

import (
	"errors"
	"maps"
	"slices"
	"strings"

	gopher "github.com/yuin/gopher-lua"

	"steward/internal/redis/lua"
)

// functionCommands has the function commands.
var functionCommands = []*command{
	{name: "fcall", arity: -3, flags: evals, keys: scriptKeys, run: fcall, categories: "scripting"},
	{name: "fcall_ro", arity: -3, flags: evals | flagReadonly, keys: scriptKeys, run: fcall, categories: "scripting"},
	{name: "function", arity: -2, sub: []*command{
		{name: "function|load", arity: -3, flags: flagNoScript | writes, run: functionLoad, categories: "scripting"},
		{name: "function|delete", arity: 3, flags: flagNoScript | flagWrite, run: functionDelete, categories: "scripting"},
		{name: "function|flush", arity: -2, flags: flagNoScript | flagWrite, run: functionFlush, categories: "scripting"},
		{name: "function|list", arity: -2, flags: flagNoScript, run: functionList, categories: "scripting"},
		{name: "function|dump", arity: 2, flags: flagNoScript, run: functionDump, categories: "scripting"},
		{name: "function|restore", arity: -3, flags: flagNoScript | writes, run: functionRestore, categories: "scripting"},
		{name: "function|stats", arity: 2, flags: flagNoScript | flagAllowBusy, run: functionStats, categories: "scripting"},
		{name: "function|kill", arity: 2, flags: flagNoScript | flagAllowBusy, run: functionKill, categories: "scripting"},
		{name: "function|help", arity: 2, run: help, categories: "scripting"},
	}},
}

// library is a function library. We store its text, and run that for each new interpreter to get the
// functions.
type library struct {
	name, text string
	functions  []*function
	// in is the interpreter that has its functions; nil before the text has run.
	in *interpreter
}

// function is one function in a library.
type function struct {
	name, description string
	hasDescription    bool
	flags             scriptFlags
	callback          *gopher.LFunction
}

// find returns a function, or nil.
func (b *library) find(name string) *function {
	for _, f := range b.functions {
		if f.name == name {
			return f
		}
	}
	return nil
}

// findFold is like find but ignores case, as FCALL does. So function names in different libraries must
// differ by more than case.
func (b *library) findFold(name string) *function {
	for _, f := range b.functions {
		if strings.EqualFold(f.name, name) {
			return f
		}
	}
	return nil
}

// functionInterpreter returns the interpreter for functions.
func (x *call) functionInterpreter() *interpreter {
	if x.scripts.functions == nil {
		x.scripts.functions = newInterpreter(x.Store)
		x.scripts.functions.Kept = x.scripts.kept
	}
	return x.scripts.functions
}

// kept calls yield for the functions in all libraries.
func (s *scripting) kept(yield func(*gopher.LFunction)) {
	for _, b := range s.libraries {
		for _, f := range b.functions {
			yield(f.callback)
		}
	}
}

// libraries returns all libraries by name, with their functions. A library whose text fails now, though
// it ran before, has none.
func (x *call) libraries() []*library {
	var all []*library
	for _, name := range slices.Sorted(maps.Keys(x.scripts.libraries)) {
		b := x.scripts.libraries[name]
		if b.in == nil || b.in != x.scripts.functions {
			if err := x.runLibrary(b); err != nil {
				x.options.Log.Warn("a library of functions cannot be loaded", "library", name, "error", err)
			}
		}
		all = append(all, b)
	}
	return all
}

// runLibrary runs a library's text to get its functions.
func (x *call) runLibrary(b *library) error {
	i := x.functionInterpreter()
	_, body, _ := strings.Cut(b.text, "\n")
	proto, err := lua.Compile("\n"+body, "user_function")
	if err != nil {
		return errorf("ERR Error compiling function: %v", err)
	}
	b.functions = nil
	b.in = i
	i.loading = b
	i.Show(i.loader)
	err = i.protect(func(gopher.LValue) error { return nil }, x, i.Function(proto))
	i.loading = nil
	i.Show(nil)
	if stopped, ok := errors.AsType[lua.StopError](err); ok && stopped.Timeout() {
		return errorf("ERR Error registering functions: ERR FUNCTION LOAD timeout")
	}
	if err != nil {
		return errorf("ERR Error registering functions: %v", err)
	}
	return nil
}

// registerFunction implements redis.register_function.
func (i *interpreter) registerFunction(l *gopher.LState) int {
	if i.loading == nil {
		return i.fail(l, "ERR redis.register_function can only be called on FUNCTION LOAD command", true)
	}
	f, err := readFunction(l)
	if err == nil && !isFunctionName(f.name) {
		err = errFunctionName
	}
	if err == nil && i.loading.find(f.name) != nil {
		err = errorf("ERR Function already exists in the library")
	}
	if err != nil {
		return i.fail(l, err.Error(), true)
	}
	i.loading.functions = append(i.loading.functions, f)
	return 0
}

const errFunctionName replyError = "ERR Library names can only contain letters, numbers, or underscores(_) and must be at least one character long"

func isFunctionName(name string) bool {
	for _, c := range []byte(name) {
		isLetter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !isLetter && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return name != ""
}

// readFunction reads a function from redis.register_function's arguments.
func readFunction(l *gopher.LState) (*function, error) {
	switch l.GetTop() {
	case 1:
		t, ok := l.Get(1).(*gopher.LTable)
		if !ok {
			return nil, errorf("ERR calling redis.register_function with a single argument is only applicable to Lua table (representing named arguments).")
		}
		return readNamedFunction(t)
	case 2:
		f := &function{name: lua.Text(l.Get(1))}
		if !gopher.LVCanConvToString(l.Get(1)) {
			return nil, errorf("ERR first argument to redis.register_function must be a string")
		}
		var ok bool
		if f.callback, ok = l.Get(2).(*gopher.LFunction); !ok {
			return nil, errorf("ERR second argument to redis.register_function must be a function")
		}
		return f, nil
	}
	return nil, errorf("ERR wrong number of arguments to redis.register_function")
}

// readNamedFunction reads a function from a table.
func readNamedFunction(t *gopher.LTable) (*function, error) {
	f := &function{}
	hasName := false
	for k, v := t.Next(gopher.LNil); k != gopher.LNil; k, v = t.Next(k) {
		if !gopher.LVCanConvToString(k) {
			return nil, errorf("ERR named argument key given to redis.register_function is not a string")
		}
		var ok bool
		switch strings.ToLower(lua.Text(k)) {
		case "function_name":
			if hasName = gopher.LVCanConvToString(v); !hasName {
				return nil, errorf("ERR function_name argument given to redis.register_function must be a string")
			}
			f.name = lua.Text(v)
		case "description":
			if f.hasDescription = gopher.LVCanConvToString(v); !f.hasDescription {
				return nil, errorf("ERR description argument given to redis.register_function must be a string")
			}
			f.description = lua.Text(v)
		case "callback":
			if f.callback, ok = v.(*gopher.LFunction); !ok {
				return nil, errorf("ERR callback argument given to redis.register_function must be a function")
			}
		case "flags":
			flags, ok := v.(*gopher.LTable)
			if !ok {
				return nil, errorf("ERR flags argument to redis.register_function must be a table representing function flags")
			}
			if !f.readFlags(flags) {
				return nil, errorf("ERR unknown flag given")
			}
		default:
			return nil, errorf("ERR unknown argument given to redis.register_function")
		}
	}
	if !hasName {
		return nil, errorf("ERR redis.register_function must get a function name argument")
	}
	if f.callback == nil {
		return nil, errorf("ERR redis.register_function must get a callback argument")
	}
	return f, nil
}

// readFlags reads a function's flags. It returns false if one is unknown.
func (f *function) readFlags(t *gopher.LTable) bool {
	for n := 1; ; n++ {
		v := t.RawGet(gopher.LNumber(n))
		if v == gopher.LNil {
			return true
		}
		flag, ok := findScriptFlag(strings.ToLower(lua.Text(v)))
		if !ok {
			return false
		}
		f.flags |= flag
	}
}

func fcall(x *call) error {
	var f *function
	for _, b := range x.libraries() {
		if found := b.findFold(x.args[1]); found != nil {
			f = found
		}
	}
	if f == nil {
		return errorf("ERR Function not found")
	}
	if _, ok := parseInt(x.args[2]); !ok {
		return errorf("ERR Bad number of keys provided")
	}
	keys, argv, err := x.scriptArgs()
	if err != nil {
		return err
	}
	r, err := x.newRun(f.name, f.flags|scriptHasShebang)
	if err != nil {
		return err
	}
	i := x.functionInterpreter()
	return i.run(r, f.callback, i.Strings(keys), i.Strings(argv))
}

// libraryName reads a library's name from its first line.
func libraryName(text string) (string, error) {
	if !strings.HasPrefix(text, "#!") {
		return "", errorf("ERR Missing library metadata")
	}
	line, _, found := strings.Cut(text, "\n")
	parts, ok := splitLine(line)
	if !found || !ok || len(parts) == 0 {
		return "", errorf("ERR Invalid library metadata")
	}
	name, hasName := "", false
	for _, part := range parts[1:] {
		if len(part) < 5 || !strings.EqualFold(part[:5], "name=") {
			return "", errorf("ERR Invalid metadata value given: %s", part)
		}
		if hasName {
			return "", errorf("ERR Invalid metadata value, name argument was given multiple times")
		}
		name, hasName = part[5:], true
	}
	switch {
	case !hasName:
		return "", errorf("ERR Library name was not given")
	case !isFunctionName(name):
		return "", errFunctionName
	case !strings.EqualFold(parts[0], "#!lua"):
		return "", errorf("ERR Engine '%s' not found", strings.TrimPrefix(parts[0], "#!"))
	}
	return name, nil
}

// addLibrary adds a library. While we replay the log it does not run the text, because that may take
// long and fail; the text runs when its functions are needed.
func (x *call) addLibrary(text string, replace bool) (*library, error) {
	name, err := libraryName(text)
	if err != nil {
		return nil, err
	}
	if x.scripts.libraries[name] != nil && !replace {
		return nil, errorf("ERR Library '%s' already exists", name)
	}
	b := &library{name: strings.Clone(name), text: strings.Clone(text)}
	if !x.replaying {
		if err := x.checkLibrary(b); err != nil {
			return nil, err
		}
	}
	if x.scripts.libraries == nil {
		x.scripts.libraries = map[string]*library{}
	}
	x.scripts.libraries[b.name] = b
	return b, nil
}

// checkLibrary runs a new library's text and checks that its functions do not clash with others.
func (x *call) checkLibrary(b *library) error {
	size := len(b.text)
	for _, other := range x.scripts.libraries {
		size += len(other.text)
	}
	if size > maxScriptBytes {
		return errorf("ERR the libraries are too large")
	}
	if err := x.runLibrary(b); err != nil {
		return err
	}
	if len(b.functions) == 0 {
		return errorf("ERR No functions registered")
	}
	for _, other := range x.libraries() {
		for _, f := range b.functions {
			if other.name != b.name && other.findFold(f.name) != nil {
				return errorf("ERR Function %s already exists", f.name)
			}
		}
	}
	return nil
}
