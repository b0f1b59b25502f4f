package redis

import (
	"fmt"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// walkGlobals returns the names of all functions that a script can reach from its global variables.
const walkGlobals = `
local names, seen = {}, {}
local function walk(prefix, t)
  if seen[t] then return end
  seen[t] = true
  for k, v in pairs(t) do
    if type(v) == 'function' then names[#names + 1] = prefix .. k end
    if type(v) == 'table' then walk(k == '_G' and '' or prefix .. k .. '.', v) end
  end
end
walk('', _G)
return names`

// largeArguments are what each function is called with. s is the largest string that a script may have, t a
// table of many elements, and n a number.
var largeArguments = []string{
	"s", "s, s", "s, n", "s, 1, n", "s, -n, n", "n", "n, n", "n, s", "-n, n, s", "s, '(.-)b', 'x'", "s, '.', s", "s, '%f[a].*b', t",
	"'%q', s", "'%s%s%s%s', s, s, s, s", "('s'):rep(9), s, s, s, s, s, s, s, s, s", "s:rep(1), s",
	"t", "t, s", "t, n", "t, n, n", "t, 1, n", "t, -n, n", "t, '', -n, n", "t, f", "t, f, n", "f", "f, s", "f, t", "f, f",
	"{s, s, s, s}", "{{s}, {s}, {s}, {s}}", "{[s] = s, [s .. 'x'] = s}",
	"'[' .. ('{},'):rep(n / 4096) .. '{}]'", "'\\221\\0\\127\\255\\255' .. ('\\129\\1\\144'):rep(n / 4096)",
	"('i'):rep(n / 4096), s", "'c0', s", "'!1073741824' .. ('xd'):rep(n / 4096), 1",
}

// largeResults call what functions return.
var largeResults = []string{
	"string.gmatch(s, '.-b')()", "string.gmatch(s, '')()", "coroutine.wrap(function() return s:upper() .. s end)()",
	"load(function() return s end)", "loadstring(('x=1;'):rep(n))", "s .. s .. s", "#s % s", "s < s .. 'x'",
	"setmetatable({}, {__index = function(_, k) return s .. k end})[s]", "tostring(setmetatable({}, {__tostring = function() return s .. s end}))",
	"(function() local x return x[s] end)()", "nil + s", "_G[s]", "(function() _G[s] = 1 end)()", "error(s)", "assert(false, s)", "pcall(error, s)", "redis.call('echo', s)", "redis.call('mget', unpack((function() local l = {} for i = 1, 7000 do l[i] = 'large' end return l end)()))",
	"redis.call('set', 'x', s)", "redis.sha1hex(s .. 'x')", "redis.error_reply(s)", "redis.status_reply(s)",
}

// TestBuiltInsAreBounded calls each function that a script can reach with large arguments. None may run much longer than
// scripts may, or have the process take several times the memory that scripts may take.
func TestBuiltInsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("make test-long runs it")
	}
	const (
		memory = 32 << 20
		most   = 12 * memory
		slow   = time.Minute
	)
	const limit = 50 * time.Millisecond
	s := open(t, Dir(t.TempDir()), Options{Memory: memory, ScriptTime: limit})
	w := dial(t, serve(t, s))
	eval := func(text string) any {
		_ = w.conn.SetDeadline(time.Now().Add(5 * slow))
		return w.pipeline(t, [][]string{{"EVAL", text, "0"}})[0]
	}
	w.pipeline(t, [][]string{{"SET", "large", strings.Repeat("x", 1<<20)}})
	found, _ := eval(walkGlobals).([]any)
	var names []string
	for _, name := range found {
		names = append(names, name.(string))
	}
	if len(names) < 100 || !slices.Contains(names, "string.format") || !slices.Contains(names, "redis.call") {
		t.Fatalf("functions: %v", names)
	}
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil { // the peak begins here
		t.Fatal(err)
	}
	before := peakMemory(t)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(before + most/2)) // so that the rest of the peak is not garbage
	for _, name := range append(names, "") {
		calls := largeResults
		if name != "" {
			calls = nil
			for _, args := range largeArguments {
				calls = append(calls, fmt.Sprintf("%s(%s)", name, args))
			}
		}
		for next := 0; next < len(calls); {
			began := time.Now()
			reply := eval(largeScript(calls[next:]))
			took := time.Since(began)
			done := len(calls) - next // of which the last one was stopped
			if text := fmt.Sprint(reply); text != "done" {
				if !strings.Contains(text, "Script stopped") {
					t.Fatal(text)
				}
				done, _ = strconv.Atoi(fmt.Sprint(w.pipeline(t, [][]string{{"GETDEL", "at"}})[0]))
				if done == 0 { // the machine is too busy for it to come to the first one
					s.options.ScriptTime *= 2
					continue
				}
				if done > 1 {
					done-- // it is called again, with all time
				}
			}
			at := calls[next+done-1]
			if took > slow {
				t.Errorf("%s ran for %v: %.100v", at, took, reply)
			}
			if peak := peakMemory(t); peak-before > most {
				t.Fatalf("%s: the process has taken %d MiB: %.100v", at, (peak-before)>>20, reply)
			}
			next += done
			s.options.ScriptTime = limit
		}
	}
	t.Logf("%d functions, %d MiB", len(names), (peakMemory(t)-before)>>20)
}

// largeScript returns a script that makes calls, with the variables that they have. The key at has the number of the last
// one.
func largeScript(calls []string) string {
	return "local n = 2^28\nlocal f = function() return 'x' end\nlocal s = string.rep('\\0', 2^23)\n" +
		"local t = {} for i = 1, 20000 do t[i] = i end\nlocal calls = {function() return " +
		strings.Join(calls, " end,\nfunction() return ") + " end}\n" +
		"for i, call in ipairs(calls) do redis.call('set', 'at', i) pcall(call) end return 'done'"
}

// peakMemory returns the most memory that the process has had.
func peakMemory(t *testing.T) int64 {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	kib, err := strconv.ParseInt(string(regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
