package redis

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRandomScripts compares random programs with redis-server: their replies, the keys that they leave, and what the
// log makes of them.
func TestRandomScripts(t *testing.T) {
	j := newJudge(t)
	rapid.Check(t, func(rt *rapid.T) {
		j.begin(rt, rapid.SampledFrom([]int{2, 3}).Draw(rt, "protocol"))
		var requests [][]string
		for range rapid.IntRange(1, 10).Draw(rt, "length") {
			name := rapid.SampledFrom([]string{"EVAL", "EVAL", "EVAL", "EVAL_RO"}).Draw(rt, "command")
			requests = append(requests, []string{name, someScript(rt), "2", someKey(rt), someKey(rt), someValue(rt), someInt(rt)})
		}
		for _, key := range []string{"a", "b", "c", "d", "{e}f"} {
			requests = append(requests, []string{"TYPE", key}, []string{"GET", key}, []string{"LRANGE", key, "0", "-1"})
		}
		_ = j.theirs.conn.SetDeadline(time.Now().Add(time.Minute)) // programs are small
		theirs, ours := j.theirs.pipeline(rt, requests), j.run(requests)
		for i, args := range requests {
			if scriptReply(theirs[i]) != scriptReply(ours[i]) {
				rt.Fatalf("%s, %q:\n%s\nredis-server %#v\nhere         %#v", args[0], args[2:], strings.TrimPrefix(args[1], scriptHead), theirs[i], ours[i])
			}
		}
		j.compareReplay(rt)
	})
}

// interpreterError matches an error of the interpreter itself, which names variables on redis-server.
var interpreterError = regexp.MustCompile(`(user_script:\d+:|ERR) attempt to[^"]*?( script: \w+, on @user_script:\d+)`)

// badArgument matches the number of an argument, which does not count the receiver of a method on redis-server.
var badArgument = regexp.MustCompile(`bad argument #\d+`)

// address matches that of a table, as tostring has it.
var address = regexp.MustCompile(`table: 0x\w+`)

// scriptReply returns a reply without the words of the interpreter's own errors, without addresses, and without the
// sign of what is no number, which depends on the processor.
func scriptReply(reply any) string {
	text := strings.ReplaceAll(fmt.Sprintf("%#v", reply), "-nan", "nan")
	text = badArgument.ReplaceAllString(text, "bad argument")
	text = address.ReplaceAllString(text, "table")
	return interpreterError.ReplaceAllString(text, "$1$2")
}

// scriptHead has what random programs use: show returns any value as text, try calls a function and returns its
// results or its error without the words that are the interpreter's own, and cap keeps loops from making large values.
const scriptHead = `local function plain(e)
 if type(e) ~= 'string' then return e end
 return (e:gsub('attempt to.*', 'attempt'):gsub('bad argument #%d', 'bad argument'))
end
local function show(v)
 if type(v) == 'function' or type(v) == 'userdata' or type(v) == 'thread' then return type(v) end
 if v == 0 then return '0' end
 if type(v) ~= 'table' then return tostring(v) end
 if v.err then return 'err:' .. show(plain(v.err)) end
 if v.ok then return 'ok:' .. show(v.ok) end
 if v.double then return 'double:' .. show(v.double) end
 local p = {}
 for i = 1, #v do p[i] = show(v[i]) end
 return '{' .. table.concat(p, ',') .. '}'
end
local function try(f, ...)
 local r = {pcall(f, ...)}
 if not r[1] then r[2] = plain(r[2]) end
 for i = 1, 4 do r[i] = show(r[i]) end
 return table.concat(r, '|')
end
local n, m, s, u, l, b = 3, -1.5, 'abc 123', ARGV[1], {'x', 2, 'three'}, true
local function cap()
 if #show(s) > 300 then s = show(s):sub(1, 300) end
 if #show(u) > 300 then u = show(u):sub(1, 300) end
 if #show(l) > 300 then l = {} end
end
`
