package redis

import (
	"reflect"
	"testing"
)

const counterLibrary = `#!lua name=counter
local step = 1
local function add(keys, args)
  return redis.call('incrby', keys[1], args[1] or step)
end
redis.register_function('add', add)
redis.register_function{function_name='peek', callback=function(keys) return redis.call('get', keys[1]) end, flags={'no-writes'}, description='returns it'}
redis.register_function('fails', function(keys, args)
  return redis.call('lpush', keys[1], 'x')
end)
redis.register_function('globals', function() return KEYS end)
`

// functionRequests are requests about functions that have the same replies here and on redis-server.
var functionRequests = [][]string{
	{"FUNCTION", "LOAD", counterLibrary},
	{"FUNCTION", "LOAD", counterLibrary},
	{"FUNCTION", "LOAD", "REPLACE", counterLibrary},
	{"FCALL", "add", "1", "k"},
	{"FCALL", "add", "1", "k", "5"},
	{"FCALL", "add", "1", "k", "x"},
	{"FCALL_RO", "add", "1", "k"},
	{"FCALL_RO", "peek", "1", "k"},
	{"FCALL", "peek", "1", "k"},
	{"FCALL", "fails", "1", "k"},
	{"FCALL", "nosuch", "0"},
	{"FCALL", "globals", "0"},
	{"FCALL", "add", "x"},
	{"FCALL", "add", "2", "k"},
	{"FCALL", "add", "-1"},
	{"FCALL", "add"},
	{"FUNCTION", "STATS"},
	{"FUNCTION", "LIST", "LIBRARYNAME", "no*"},
	{"FUNCTION", "LIST", "LIBRARYNAME"},
	{"FUNCTION", "LIST", "x"},
	{"FUNCTION", "LOAD", "x"},
	{"FUNCTION", "LOAD", "#!lua"},
	{"FUNCTION", "LOAD", "#!lua\n"},
	{"FUNCTION", "LOAD", "#!lua name=\n"},
	{"FUNCTION", "LOAD", "#!lua name=x-y\n"},
	{"FUNCTION", "LOAD", "#!lua name=a name=b\n"},
	{"FUNCTION", "LOAD", "#!lua x=a\n"},
	{"FUNCTION", "LOAD", "#!python name=a\n"},
	{"FUNCTION", "LOAD", "#!lua name=empty\n"},
	{"FUNCTION", "LOAD", "x", "y"},
	{"FUNCTION", "LOAD", "#!lua name=other\nredis.register_function('add', function() end)"},
	{"FUNCTION", "LOAD", "#!lua name=other\nredis.register_function('f', function() end) redis.register_function('f', function() end)"},
	{"FUNCTION", "LOAD", "#!lua name=other\nredis.register_function()"},
	{"FUNCTION", "LOAD", "#!lua name=other\nredis.register_function('f')"},
	{"FUNCTION", "LOAD", "#!lua name=other\nredis.register_function('f', 1)"},
	{"FUNCTION", "LOAD", "#!lua name=other\nredis.register_function({}, 1)"},
	{"FUNCTION", "LOAD", "#!lua name=other\nredis.register_function('f-g', function() end)"},
	{"FUNCTION", "LOAD", "#!lua name=other\nredis.register_function{callback=function() end}"},
	{"FUNCTION", "LOAD", "#!lua name=other\nredis.register_function{function_name='f'}"},
	{"FUNCTION", "LOAD", "#!lua name=other\nredis.register_function{function_name='f', x=1}"},
	{"FUNCTION", "LOAD", "#!lua name=other\nredis.register_function{flags={'nosuch'}}"},
	{"FUNCTION", "LOAD", "#!lua name=other\nredis.call('get', 'x')"},
	{"FUNCTION", "LOAD", "#!lua name=other\nreturn x"},
	{"FUNCTION", "LOAD", "#!lua name=other\nredis.register_function('f', function() return redis.register_function end)"},
	{"FCALL", "f", "0"},
	{"FUNCTION", "LIST", "LIBRARYNAME", "OTH*", "WITHCODE"},
	{"FCALL", "F", "0"},
	{"FUNCTION", "DELETE", "other"},
	{"FUNCTION", "DELETE", "other"},
	{"FUNCTION", "LOAD", "#!LUA name=other\nredis.register_function('ADD', function() end)"},
	{"FUNCTION", "LOAD", "#!LUA name=other\nreturn math.random()"},
	{"FUNCTION", "LOAD", "#!LUA name=other\nmt = getmetatable(_G)"},
	{"FUNCTION", "LOAD", "#!LUA name=other\na = 1"},
	{"FUNCTION", "LOAD", "#!LUA name=other\nlocal lib = redis lib.register_function('h', function() lib.register_function('g', function() end) end)"},
	{"FCALL", "h", "0"},
	{"FUNCTION", "DELETE", "other"},
	{"FUNCTION", "RESTORE", "x"},
	{"FUNCTION", "RESTORE", "x", "y"},
	{"FUNCTION", "KILL"},
	{"FUNCTION", "FLUSH", "x"},
	{"FUNCTION"},
	{"FUNCTION", "NOSUCH"},
	{"EVAL", "return redis.call('fcall', 'add', 0)", "0"},
	{"FLUSHALL"},
	{"FCALL", "add", "1", "k"},
	{"FUNCTION", "FLUSH", "ASYNC"},
	{"FCALL", "add", "1", "k"},
	{"FUNCTION", "LIST"},
	{"FUNCTION", "STATS"},
}

func TestFunctionsAsRedis(t *testing.T) {
	j := newJudge(t)
	for _, protocol := range []int{2, 3} {
		j.begin(t, protocol)
		theirs, ours := j.theirs.pipeline(t, functionRequests), j.run(functionRequests)
		for i, args := range functionRequests {
			if !reflect.DeepEqual(theirs[i], ours[i]) {
				t.Errorf("%q\nredis-server %#v\nhere         %#v", args, theirs[i], ours[i])
			}
		}
		j.compareReplay(t)
	}
}

// TestFunctionsSurvive reads libraries from the log, before and after it is rewritten, and from a dump.
func TestFunctionsSurvive(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Dir(dir), Options{})
	w := dial(t, serve(t, s))
	replies := w.pipeline(t, [][]string{{"FUNCTION", "LOAD", counterLibrary}, {"FCALL", "add", "1", "k", "7"}, {"FUNCTION", "DUMP"}})
	payload := replies[2].(string)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, Dir(dir), Options{})
	if got := dial(t, serve(t, s)).pipeline(t, [][]string{{"FCALL", "add", "1", "k", "7"}})[0]; got != int64(14) {
		t.Errorf("want 14 after the log was read, got %v", got)
	}
	var effects [][]string
	_ = s.do(func() { effects = s.preamble() })
	if want := [][]string{{"function", "load", "replace", counterLibrary}}; !reflect.DeepEqual(effects, want) {
		t.Errorf("want %q at the beginning of a new log, got %q", want, effects)
	}
	other := dial(t, serve(t, open(t, Dir(t.TempDir()), Options{})))
	replies = other.pipeline(t, [][]string{
		{"FUNCTION", "RESTORE", payload},
		{"FUNCTION", "RESTORE", payload},
		{"FUNCTION", "RESTORE", payload, "REPLACE"},
		{"FUNCTION", "RESTORE", payload, "FLUSH"},
		{"FCALL", "add", "1", "k", "7"},
	})
	want := []any{simple("OK"), failure("ERR Library counter already exists"), simple("OK"), simple("OK"), int64(7)}
	if !reflect.DeepEqual(replies, want) {
		t.Errorf("want %v, got %v", want, replies)
	}
}
