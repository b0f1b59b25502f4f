package redis

import (
	"cmp"
	"errors"
	"strings"
	"time"

	gopher "github.com/yuin/gopher-lua"

	"steward/internal/redis/lua"
)

// scriptRun is a running script.
type scriptRun struct {
	x *call
	// name is the script's SHA-1, or the function's name.
	name string
	// readonly refuses commands that write. allowOOM runs commands that need memory even if there is
	// none.
	readonly, allowOOM bool
	// denied is the error for commands that need memory, if there was none when the script began.
	denied error
	// dirty reports whether the script has called a command that writes.
	dirty bool
	// polled is the script's running time when poll last looked at other requests. killed is the reason
	// why it must end.
	polled time.Duration
	killed lua.StopError
	// out holds a command's reply.
	out reply
}

// newRun returns a run for a script, or an error if it must not run now.
func (x *call) newRun(name string, flags scriptFlags) (*scriptRun, error) {
	r := &scriptRun{x: x, name: name, readonly: x.cmd.flags.has(flagReadonly) || flags.has(scriptNoWrites), allowOOM: flags.has(scriptAllowOOM)}
	if flags.has(scriptHasShebang) && !flags.has(scriptNoWrites) && x.cmd.flags.has(flagReadonly) {
		return nil, errorf("ERR Can not execute a script with write flag using *_ro command.")
	}
	r.out.limit = cmp.Or(x.options.Reply, int(x.scriptMemory()/4))
	r.denied = x.admitWrite(flagDenyOOM)
	if errors.Is(r.denied, errOOM) && flags.has(scriptHasShebang) && !flags.has(scriptAllowOOM|scriptNoWrites) {
		return nil, errorf("OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'")
	}
	return r, nil
}

// openRedis sets up the global variable redis.
func (i *interpreter) openRedis() {
	t := i.OpenLibrary("redis", map[string]gopher.LGFunction{
		"call":               func(l *gopher.LState) int { return i.call(l, true) },
		"pcall":              func(l *gopher.LState) int { return i.call(l, false) },
		"error_reply":        errorReply,
		"status_reply":       statusReply,
		"sha1hex":            sha1HexOf,
		"log":                i.logText,
		"setresp":            i.setResp,
		"set_repl":           setRepl,
		"replicate_commands": replicateCommands,
		"acl_check_cmd":      i.checkCommand,
		"breakpoint":         breakpoint,
		"debug":              func(*gopher.LState) int { return 0 },
	})
	addConstants(t)
	for name, n := range map[string]int{"REPL_NONE": 0, "REPL_AOF": 1, "REPL_SLAVE": 2, "REPL_REPLICA": 2, "REPL_ALL": 3} {
		t.RawSetString(name, gopher.LNumber(n))
	}
	api := i.Strings(nil)
	i.AddFunctions(api, map[string]gopher.LGFunction{"register_function": i.registerFunction, "log": i.logText})
	addConstants(api)
	api.Metatable = i.StrictMeta()
	i.loader = i.Strings(nil)
	i.loader.RawSetString("redis", i.Readonly(api))
	i.loader.Metatable = i.StrictMeta()
}

// addConstants adds the constants that describe the server to scripts and libraries.
func addConstants(t *gopher.LTable) {
	for name, n := range map[string]int{"LOG_DEBUG": 0, "LOG_VERBOSE": 1, "LOG_NOTICE": 2, "LOG_WARNING": 3, "REDIS_VERSION_NUM": 0x07000f} {
		t.RawSetString(name, gopher.LNumber(n))
	}
	t.RawSetString("REDIS_VERSION", gopher.LString("7.0.15"))
}

// call runs a command for redis.call and redis.pcall.
func (i *interpreter) call(l *gopher.LState, raise bool) int {
	r := i.current
	if r == nil {
		return i.fail(l, "ERR redis.call/pcall can only be called inside a script invocation", true)
	}
	args, err := commandArgs(l)
	if err != nil {
		return i.fail(l, err.Error(), raise)
	}
	if err := i.runCommand(r, args); err != nil {
		r.x.countError(err.Error())
		r.out.error(err.Error())
	}
	if r.out.full {
		r.out.b = nil
		r.out.full = false
		return i.fail(l, "ERR the reply of the command is too long", raise)
	}
	reader := replyReader{interpreter: i, l: l, b: r.out.b}
	failed := r.out.b[0] == '-'
	v := reader.value()
	r.out.b = emptied(r.out.b)
	if failed && raise {
		l.Error(v, 0)
	}
	l.Push(v)
	return 1
}

// fail returns an error as a table, or raises it.
func (i *interpreter) fail(l *gopher.LState, text string, raise bool) int {
	t := errorTable(l, text)
	if raise {
		l.Error(t, 0)
	}
	l.Push(t)
	return 1
}

func errorTable(l *gopher.LState, text string) *gopher.LTable {
	t := l.NewTable()
	t.RawSetString("err", gopher.LString(text))
	return t
}

// commandArgs returns redis.call's arguments.
func commandArgs(l *gopher.LState) ([]string, error) {
	if l.GetTop() == 0 {
		return nil, errorf("ERR Please specify at least one argument for this redis lib call")
	}
	args := make([]string, l.GetTop())
	for n := range args {
		switch v := l.Get(n + 1).(type) {
		case gopher.LString:
			args[n] = string(v)
		case gopher.LNumber:
			args[n] = lua.FormatG(float64(v), 17)
		default:
			return nil, errorf("ERR Lua redis lib command arguments must be strings or integers")
		}
	}
	return args, nil
}

// runCommand runs a command. The reply is in r.out, unless the command was refused.
func (i *interpreter) runCommand(r *scriptRun, args []string) error {
	cmd, err := r.find(args)
	if err != nil {
		return err
	}
	if err := r.admit(cmd); err != nil {
		r.x.commandStats(cmd).rejected++
		return err
	}
	if cmd.flags.has(flagWrite) {
		r.dirty = true
	}
	x := r.x
	x.stats.commands++
	x.Store.call(&call{Store: x.Store, client: x.client, cmd: cmd, args: args, out: &r.out, now: x.now, nested: true, script: true})
	return nil
}

// find returns a command that a script may call.
func (r *scriptRun) find(args []string) (*command, error) {
	cmd, err := r.x.table.find(args)
	if err != nil && strings.HasPrefix(err.Error(), "ERR wrong number") {
		return nil, errorf("ERR Wrong number of args calling Redis command from script")
	}
	if err != nil {
		return nil, errorf("ERR Unknown Redis command called from script")
	}
	if cmd.flags.has(flagNoScript) {
		return nil, errorf("ERR This Redis command is not allowed from script")
	}
	return cmd, nil
}

// admit returns an error if a script must not run a command now. When memory becomes scarce, a script
// that has already written may go on so that it does not stop half way, but only within limits.
func (r *scriptRun) admit(cmd *command) error {
	if r.readonly && (cmd.flags.has(flagWrite) || cmd.mayReplicate()) {
		return errorf("ERR Write commands are not allowed from read-only scripts.")
	}
	if cmd.flags.has(flagDenyOOM) && !r.dirty && !r.allowOOM && r.denied != nil {
		return r.x.countRefused(r.denied)
	}
	return r.x.countRefused(r.x.admitMore(cmd.flags))
}

// mayReplicate reports whether Redis treats a command as a write in scripts, though it does not write.
func (c *command) mayReplicate() bool {
	return c.name == "publish" || c.name == "spublish" || c.name == "pfcount"
}

func errorReply(l *gopher.LState) int {
	text, ok := l.Get(1).(gopher.LString)
	if !ok || l.GetTop() != 1 {
		l.Push(errorTable(l, "ERR wrong number or type of arguments"))
		return 1
	}
	l.Push(errorTable(l, withCode(strings.TrimPrefix(cString(text), "-"))))
	return 1
}

// withCode puts a code before an error's text if that is a single word.
func withCode(text string) string {
	code, message, found := strings.Cut(text, " ")
	if !found {
		code = "ERR"
		message = text
	}
	return code + " " + strings.Trim(message, "\r\n")
}

func statusReply(l *gopher.LState) int {
	text, ok := l.Get(1).(gopher.LString)
	if !ok || l.GetTop() != 1 {
		l.Push(errorTable(l, "ERR wrong number or type of arguments"))
		return 1
	}
	t := l.NewTable()
	t.RawSetString("ok", text)
	l.Push(t)
	return 1
}

func sha1HexOf(l *gopher.LState) int {
	if l.GetTop() != 1 {
		l.Error(errorTable(l, "ERR wrong number of arguments"), 0)
	}
	l.Push(gopher.LString(sha1Hex(lua.Text(l.Get(1)))))
	return 1
}

// logText writes to the process's log at debug level, because the text comes from users.
func (i *interpreter) logText(l *gopher.LState) int {
	if l.GetTop() < 2 {
		return i.fail(l, "ERR redis.log() requires two arguments or more.", true)
	}
	level, ok := lua.Number(l.Get(1))
	if !ok {
		return i.fail(l, "ERR First argument must be a number (log level).", true)
	}
	if level < 0 || level > 3 {
		return i.fail(l, "ERR Invalid debug level.", true)
	}
	var words []string
	for n := 2; n <= l.GetTop(); n++ {
		words = append(words, lua.Text(l.Get(n)))
	}
	if i.current != nil {
		i.current.x.options.Log.Debug("a script says", "text", strings.Join(words, " "))
	}
	return 0
}

func (i *interpreter) setResp(l *gopher.LState) int {
	if l.GetTop() != 1 {
		return i.fail(l, "ERR redis.setresp() requires one argument.", true)
	}
	v, _ := lua.Number(l.Get(1))
	if v = float64(int64(v)); v != 2 && v != 3 {
		return i.fail(l, "ERR RESP version must be 2 or 3.", true)
	}
	i.current.out.resp3 = v == 3
	return 0
}

// setRepl accepts the same values as Redis but ignores them: we log all that a script changes.
func setRepl(l *gopher.LState) int {
	if l.GetTop() != 1 {
		l.Error(errorTable(l, "ERR redis.set_repl() requires two arguments."), 0)
	}
	v, _ := lua.Number(l.Get(1))
	if int64(v)&^3 != 0 {
		l.Error(errorTable(l, "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE."), 0)
	}
	return 0
}

func replicateCommands(l *gopher.LState) int {
	l.Push(gopher.LTrue)
	return 1
}

func breakpoint(l *gopher.LState) int {
	l.Push(gopher.LFalse)
	return 1
}

// checkCommand returns true for every command that exists, because a store's users may run them all.
func (i *interpreter) checkCommand(l *gopher.LState) int {
	args, err := commandArgs(l)
	if err != nil {
		return i.fail(l, err.Error(), true)
	}
	if i.current.x.table[strings.ToLower(args[0])] == nil {
		return i.fail(l, "ERR Invalid command passed to redis.acl_check_cmd()", true)
	}
	l.Push(gopher.LTrue)
	return 1
}
