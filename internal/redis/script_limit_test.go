package redis

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// hostileScripts are scripts that would take all memory, all time or the whole stack. Those that cannot end
// by themselves fail, by the limit that is reached first.
var hostileScripts = []struct {
	name, text string
	fails      bool
}{
	{"endless loop", `while true do end`, true},
	{"endless loop in pcall", `while true do pcall(function() while true do end end) end`, true},
	{"endless loop in coroutines", `while true do coroutine.wrap(function() while true do end end)() end`, true},
	{"endless loop of commands", `while true do redis.call('set', 'x', 'y') end`, true},
	{"doubled string", `local s = 'x' while true do s = s .. s end`, true},
	{"doubled string in pcall", `local s, t = 'x', {} while true do pcall(function() s = s .. s end) t[#t + 1] = s .. 'x' end`, true},
	{"repeated string", `return string.rep('x', 2^30)`, true},
	{"repeated method", `return ('x'):rep(2^53)`, true},
	{"joined table", `local t = {} for i = 1, 1000 do t[i] = string.rep('x', 2^20) end return table.concat(t)`, false},
	{"replaced string", `return (string.rep('x', 2^20):gsub('x', string.rep('y', 2^20)))`, true},
	{"expanded string", `return (string.rep('x', 2^24):gsub('.*', string.rep('%0', 100)))`, true},
	{"formatted string", `local s = string.rep('x', 2^23) return string.format(string.rep('%s', 20), s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s, s)`, true},
	{"width of a format", `return string.format('%999999999d', 1)`, true},
	{"endless table", `local t = {} while true do t[#t + 1] = {} end`, true},
	{"endless hash", `local t = {} local i = 0 while true do i = i + 1 t['k' .. i] = i end`, true},
	{"endless functions", `local f = function() end while true do local g = f f = function() return g end end`, true},
	{"endless coroutines", `local t = {} while true do t[#t + 1] = coroutine.create(function() end) end`, true},
	{"large index", `local t = {} for i = 1, 1000 do t[i] = {} t[i][60000000] = 1 end return #t`, false},
	{"endless keys", `local i = 0 while true do i = i + 1 redis.call('set', 'k' .. i, string.rep('x', 10000)) end`, false},
	{"deep recursion", `local function f() return 1 + f() end return f()`, true},
	{"deep recursion in pcall", `local function f() return pcall(f) end return {f()}`, false},
	{"deep metamethods", `local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k + 1] end return t[1]`, true},
	{"deep coroutines", `local function f() return coroutine.wrap(f)() end return f()`, true},
	{"deep recursion in coroutines", `local function f() pcall(f) return coroutine.wrap(f)() end return f()`, false},
	{"slow pattern", `return string.find(string.rep('a', 5000), string.rep('a*', 100) .. 'b')`, true},
	{"slow choice", `return string.find(string.rep('a', 40), string.rep('a?', 40) .. string.rep('a', 40) .. 'b')`, false},
	{"long pattern", `return string.find('a', string.rep('a?', 2^18))`, false},
	{"deep pattern", `return string.find(string.rep('a', 2^18), string.rep('a?', 2^18))`, true},
	{"all bytes", `return string.byte(string.rep('x', 2^20), 1, -1)`, true},
	{"unpack", `return unpack({}, 1, 2^40)`, true},
	{"shared tables", `local t = {} for i = 1, 60 do t = {t, t} end return t`, true},
	{"shared tables in JSON", `local t = {} for i = 1, 60 do t = {t, t} end return cjson.encode(t)`, false},
	{"shared tables in MessagePack", `local t = {} for i = 1, 60 do t = {t, t, t, t, t, t} end return cmsgpack.pack(t)`, false},
	{"cyclic table", `local t = {} t[1] = t return t`, false},
	{"large sort", `local t = {} for i = 1, 100000 do t[i] = i % 7 end table.sort(t, function(a, b) while true do end end)`, true},
	{"deep text", `return loadstring('return ' .. string.rep('(', 100000) .. '1' .. string.rep(')', 100000)) == nil`, false},
	{"deep operators", `return loadstring('return ' .. string.rep('- ', 200000) .. '1') == nil`, false},
	{"deep tables", `return loadstring('return ' .. string.rep('{', 100000) .. string.rep('}', 100000)) == nil`, false},
	{"long chain", `return loadstring('local a = "x" return a' .. string.rep('..a', 100000))`, false},
	{"deep JSON", `cjson.decode_max_depth(2^31 - 1) return type(cjson.decode(string.rep('[', 2^20)))`, true},
	{"deep MessagePack", `return type(cmsgpack.unpack(string.rep('\145', 2^20)))`, true},
}

// TestHostileScripts runs scripts that are stopped while another store is used, which must go on.
func TestHostileScripts(t *testing.T) {
	other := dial(t, serve(t, open(t, Dir(t.TempDir()), Options{})))
	for _, script := range hostileScripts {
		t.Run(script.name, func(t *testing.T) {
			s := open(t, Dir(t.TempDir()), Options{Memory: 64 << 20, ScriptTime: 100 * time.Millisecond})
			hostile := dial(t, serve(t, s))
			done := make(chan any, 1)
			go func() { done <- hostile.pipeline(t, [][]string{{"EVAL", script.text, "0"}})[0] }()
			for {
				_ = other.conn.SetDeadline(time.Now().Add(3 * time.Minute)) // it should take milliseconds
				other.pipeline(t, [][]string{{"PING"}})
				select {
				case reply := <-done:
					text := fmt.Sprint(reply)
					text = text[:min(len(text), 200)]
					if _, ok := reply.(failure); script.fails && !ok {
						t.Errorf("it was not stopped: %s", text)
					}
					hostile.pipeline(t, [][]string{{"SET", "after", "1"}})
					var m runtime.MemStats
					runtime.ReadMemStats(&m)
					t.Logf("%d MiB of the system, %s", m.Sys>>20, text)
					return
				default:
				}
			}
		})
	}
}

// TestStoppedScriptKeepsItsEffects stops a script half way and compares the keys with those of the log.
func TestStoppedScriptKeepsItsEffects(t *testing.T) {
	var dir string
	var s *Store
	var want map[string]string
	for limit := 100 * time.Millisecond; len(want) != 2; limit *= 2 { // until it gets that far
		dir = t.TempDir()
		s = open(t, Dir(dir), Options{ScriptTime: limit})
		replies := dial(t, serve(t, s)).pipeline(t, [][]string{
			{"EVAL", `redis.call('set', 'a', 1) while true do redis.call('incr', 'b') end`, "0"},
		})
		if f, ok := replies[0].(failure); !ok || !strings.Contains(string(f), fmt.Sprint("ran longer than ", limit)) {
			t.Fatalf("the script was not stopped: %v", replies[0])
		}
		want = dumps(s)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := dumps(open(t, Dir(dir), Options{})); len(got) != 2 || got["b"] != want["b"] {
		t.Errorf("want %v, got %v", want, got)
	}
}
