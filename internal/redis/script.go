package redis

import (
	lru "container/list"
	"crypto/sha1"
	"encoding/hex"
	"strings"
	"time"

	gopher "github.com/yuin/gopher-lua"

	"steward/internal/redis/lua"
)

// evals has the flags for commands that run scripts.
const evals = flagNoScript | flagMovableKeys

// scriptCommands has the script commands. script_function.go has those for functions.
var scriptCommands = append([]*command{
	{name: "eval", arity: -3, flags: evals, keys: scriptKeys, run: eval, categories: "scripting"},
	{name: "eval_ro", arity: -3, flags: evals | flagReadonly, keys: scriptKeys, run: eval, categories: "scripting"},
	{name: "evalsha", arity: -3, flags: evals, keys: scriptKeys, run: evalSHA, categories: "scripting"},
	{name: "evalsha_ro", arity: -3, flags: evals | flagReadonly, keys: scriptKeys, run: evalSHA, categories: "scripting"},
	{name: "script", arity: -2, sub: []*command{
		{name: "script|load", arity: 3, flags: flagNoScript, run: scriptLoad, categories: "scripting"},
		{name: "script|exists", arity: -3, flags: flagNoScript, run: scriptExists, categories: "scripting"},
		{name: "script|flush", arity: -2, flags: flagNoScript, run: scriptFlush, categories: "scripting"},
		{name: "script|kill", arity: 2, flags: flagNoScript | flagAllowBusy, run: scriptKill, categories: "scripting"},
		{name: "script|debug", arity: 3, flags: flagNoScript, run: scriptDebug, categories: "scripting"},
		{name: "script|help", arity: 2, run: help, categories: "scripting"},
	}},
}, functionCommands...)

const errNoScript replyError = "NOSCRIPT No matching script. Please use EVAL."

// defaultScriptTime limits a script's run unless the store's options set another limit.
const defaultScriptTime = 5 * time.Second

// scripting is a store's state for scripts. The store's goroutine owns it.
type scripting struct {
	// lua is the interpreter; nil before the first script, and after a script was stopped.
	lua   *interpreter
	cache scriptCache
	// functions is a separate interpreter, for functions. libraries has their source.
	functions *interpreter
	libraries map[string]*library
	// running is the script that runs, or nil.
	running *scriptRun
}

// interpreter returns the interpreter for the store's scripts.
func (x *call) interpreter() *interpreter {
	if x.scripts.lua == nil {
		x.scripts.lua = newInterpreter(x.Store)
	}
	return x.scripts.lua
}

// scriptMemory returns how many bytes a script may take.
func (s *Store) scriptMemory() int64 { return min(s.options.Memory, maxScriptMemory) }

// script is a compiled script.
type script struct {
	sha   string
	size  int
	flags scriptFlags
	proto *gopher.FunctionProto
}

// maxScriptMemory limits a script's memory, in bytes, even if the store has more.
const maxScriptMemory = 256 << 20

// The cache keeps at most maxScripts scripts, with at most maxScriptBytes of text in total.
const (
	maxScripts     = 1024
	maxScriptBytes = 4 << 20
)

// scriptCache keeps the most recently used scripts, by their text's SHA-1.
type scriptCache struct {
	scripts map[string]*lru.Element
	// used lists the scripts, most recently used first.
	used lru.List
	size int
}

// find returns a script and counts it as used, or returns nil.
func (c *scriptCache) find(sha string) *script {
	e := c.scripts[sha]
	if e == nil {
		return nil
	}
	c.used.MoveToFront(e)
	return e.Value.(*script)
}

// add adds a script, and evicts the least recently used ones if there are too many.
func (c *scriptCache) add(s *script) {
	if c.scripts == nil {
		c.scripts = map[string]*lru.Element{}
	}
	c.scripts[s.sha] = c.used.PushFront(s)
	c.size += s.size
	for c.used.Len() > 1 && (c.used.Len() > maxScripts || c.size > maxScriptBytes) {
		old := c.used.Remove(c.used.Back()).(*script)
		delete(c.scripts, old.sha)
		c.size -= old.size
	}
}

func sha1Hex(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// loadScript returns the script with a text. It compiles it unless the cache has it.
func (x *call) loadScript(text string) (*script, error) {
	sha := sha1Hex(text)
	if s := x.scripts.cache.find(sha); s != nil {
		return s, nil
	}
	flags, body, err := cutShebang(text)
	if err != nil {
		return nil, err
	}
	proto, err := lua.Compile(body, "user_script")
	if err != nil {
		return nil, errorf("ERR Error compiling script (new function): %v", err)
	}
	s := &script{sha: sha, size: len(text), flags: flags, proto: proto}
	x.scripts.cache.add(s)
	return s, nil
}

// scriptFlags are the flags in a script's first line.
type scriptFlags uint8

// The flags about replicas and clusters have no effect here.
const (
	scriptNoWrites scriptFlags = 1 << iota
	scriptAllowOOM
	scriptAllowStale
	scriptNoCluster
	scriptAllowCrossSlot
	// scriptHasShebang is set if the script has a line for flags at all.
	scriptHasShebang
)

func (f scriptFlags) has(other scriptFlags) bool { return f&other != 0 }

var scriptFlagNames = []struct {
	name string
	flag scriptFlags
}{
	{"no-writes", scriptNoWrites},
	{"allow-oom", scriptAllowOOM},
	{"allow-stale", scriptAllowStale},
	{"no-cluster", scriptNoCluster},
	{"allow-cross-slot-keys", scriptAllowCrossSlot},
}

func findScriptFlag(name string) (scriptFlags, bool) {
	for _, f := range scriptFlagNames {
		if f.name == name {
			return f.flag, true
		}
	}
	return 0, false
}

// cutShebang reads a script's flags from its first line if that begins with #!, and returns the rest.
// The rest keeps the first line's end, so that line numbers stay right.
func cutShebang(text string) (scriptFlags, string, error) {
	if !strings.HasPrefix(text, "#!") {
		return 0, text, nil
	}
	line, _, found := strings.Cut(text, "\n")
	if !found {
		return 0, "", errorf("ERR Invalid script shebang")
	}
	parts, ok := splitLine(line)
	if !ok || len(parts) == 0 {
		return 0, "", errorf("ERR Invalid engine in script shebang")
	}
	if !strings.EqualFold(parts[0], "#!lua") {
		return 0, "", errorf("ERR Unexpected engine in script shebang: %s", parts[0])
	}
	flags := scriptHasShebang
	for _, part := range parts[1:] {
		names, ok := strings.CutPrefix(part, "flags=")
		if !ok {
			return 0, "", errorf("ERR Unknown lua shebang option: %s", part)
		}
		if names == "" {
			continue
		}
		for _, name := range strings.Split(names, ",") {
			flag, ok := findScriptFlag(name)
			if !ok {
				return 0, "", errorf("ERR Unexpected flag in script shebang: %s", name)
			}
			flags |= flag
		}
	}
	return flags, text[len(line):], nil
}

// scriptKeys returns the keys for EVAL and FCALL, whose second argument counts them.
func scriptKeys(args []string) []string {
	n, ok := parseInt(args[2])
	if !ok || n < 0 || n > int64(len(args)-3) {
		return nil
	}
	return args[3 : 3+n]
}

// scriptArgs splits the arguments for EVAL and FCALL into keys and others.
func (x *call) scriptArgs() (keys, argv []string, err error) {
	n, err := x.int(2)
	switch {
	case err != nil:
		return nil, nil, err
	case n > int64(len(x.args)-3):
		return nil, nil, errorf("ERR Number of keys can't be greater than number of args")
	case n < 0:
		return nil, nil, errorf("ERR Number of keys can't be negative")
	}
	return x.args[3 : 3+n], x.args[3+n:], nil
}

func eval(x *call) error {
	keys, argv, err := x.scriptArgs()
	if err != nil {
		return err
	}
	s, err := x.loadScript(x.args[1])
	if err != nil {
		return err
	}
	return x.runScript(s, keys, argv)
}

func evalSHA(x *call) error {
	if len(x.args[1]) != 40 {
		return errNoScript
	}
	keys, argv, err := x.scriptArgs()
	if err != nil {
		return err
	}
	s := x.scripts.cache.find(strings.ToLower(x.args[1]))
	if s == nil {
		return errNoScript
	}
	return x.runScript(s, keys, argv)
}

// runScript runs a script and appends its result.
func (x *call) runScript(s *script, keys, argv []string) error {
	r, err := x.newRun(s.sha, s.flags)
	if err != nil {
		return err
	}
	i := x.interpreter()
	i.SetGlobal("KEYS", i.Strings(keys))
	i.SetGlobal("ARGV", i.Strings(argv))
	err = i.run(r, i.Function(s.proto))
	i.SetGlobal("KEYS", gopher.LNil) // they may be large
	i.SetGlobal("ARGV", gopher.LNil)
	return err
}

func scriptLoad(x *call) error {
	s, err := x.loadScript(x.args[2])
	if err != nil {
		return err
	}
	return x.replyBulk(s.sha)
}

func scriptExists(x *call) error {
	x.out.array(len(x.args) - 2)
	for _, sha := range x.args[2:] {
		_, found := x.scripts.cache.scripts[strings.ToLower(sha)]
		x.out.flag(found)
	}
	return nil
}

func scriptFlush(x *call) error {
	if len(x.args) > 3 || len(x.args) == 3 && !x.is(2, "SYNC") && !x.is(2, "ASYNC") {
		return errorf("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
	}
	x.scripts.cache = scriptCache{}
	x.scripts.forget(x.scripts.lua)
	return x.replyOK()
}

func scriptDebug(x *call) error {
	if x.is(2, "NO") {
		return x.replyOK()
	}
	if !x.is(2, "YES") && !x.is(2, "SYNC") {
		return errorf("ERR Use SCRIPT DEBUG YES/SYNC/NO")
	}
	return errorf("ERR SCRIPT DEBUG is not supported")
}
