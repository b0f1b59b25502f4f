package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"steward/internal/waittest"
)

// startLoop has a client run a script or function that does not end, and returns another client once it is refused.
func startLoop(t *testing.T, s *Store, requests ...[]string) (replies chan []any, other *wire) {
	t.Helper()
	addr := serve(t, s)
	other = dial(t, addr)
	other.pipeline(t, [][]string{{"CONFIG", "SET", "busy-reply-threshold", "1"}})
	looping := dial(t, addr)
	replies = make(chan []any, 1)
	go func() { replies <- looping.pipeline(t, requests) }()
	waittest.True(t, "the script to be busy", func() bool {
		reply, _ := other.pipeline(t, [][]string{{"GET", "x"}})[0].(failure)
		return strings.HasPrefix(string(reply), "BUSY ")
	})
	return replies, other
}

const endless = `while true do pcall(function() while true do end end) end`

func expectReplies(t *testing.T, w *wire, requests [][]string, want ...string) {
	t.Helper()
	for i, reply := range w.pipeline(t, requests) {
		if got := fmt.Sprint(reply); !strings.HasPrefix(got, want[i]) {
			t.Errorf("%q: %s, want %s", requests[i], got, want[i])
		}
	}
}

func TestScriptIsKilled(t *testing.T) {
	s := open(t, Dir(t.TempDir()), Options{ScriptTime: time.Hour})
	replies, other := startLoop(t, s, []string{"SET", "before", "1"}, []string{"EVAL", endless, "0"}, []string{"PING"})
	expectReplies(t, other, [][]string{
		{"PING"}, {"MULTI"}, {"GET", "x"}, {"EXEC"}, {"FUNCTION", "KILL"}, {"FUNCTION", "STATS"}, {"SCRIPT", "KILL"},
	}, "BUSY Redis is busy running a script. You can only call SCRIPT KILL", "OK", "BUSY ", "EXECABORT ", "BUSY ", "[running_script ", "OK")
	got := waittest.Receive(t, "replies", replies)
	if text := fmt.Sprint(got[1]); !strings.HasPrefix(text, "ERR Script killed by user with SCRIPT KILL.") || got[2] != simple("PONG") {
		t.Errorf("got %v", got)
	}
	expectReplies(t, other, [][]string{{"GET", "before"}, {"SCRIPT", "KILL"}}, "1", "NOTBUSY ")
}

func TestFunctionIsKilled(t *testing.T) {
	s := open(t, Dir(t.TempDir()), Options{ScriptTime: time.Hour})
	library := "#!LUA name=l\nredis.register_function('loop', function() " + endless + " end)"
	replies, other := startLoop(t, s, []string{"FUNCTION", "LOAD", library}, []string{"FCALL", "loop", "0"})
	expectReplies(t, other, [][]string{{"SCRIPT", "KILL"}, {"GET", "x"}, {"FUNCTION", "KILL"}}, "BUSY ", "BUSY Redis is busy running a script. You can only call FUNCTION KILL", "OK")
	if got := fmt.Sprint(waittest.Receive(t, "replies", replies)[1]); !strings.HasPrefix(got, "ERR Script killed by user with FUNCTION KILL.") {
		t.Error(got)
	}
}

// TestScriptThatHasWrittenIsNotKilled has such a script end by itself. What it has changed is kept.
func TestScriptThatHasWrittenIsNotKilled(t *testing.T) {
	var dir string
	for limit := 100 * time.Millisecond; ; limit *= 2 { // until it gets that far
		dir = t.TempDir()
		s := open(t, Dir(dir), Options{ScriptTime: limit})
		addr := serve(t, s)
		looping, other := dial(t, addr), dial(t, addr)
		other.pipeline(t, [][]string{{"CONFIG", "SET", "busy-reply-threshold", "0"}})
		done := make(chan []any, 1)
		go func() {
			done <- looping.pipeline(t, [][]string{{"EVAL", "redis.call('set', 'k', 'v') " + endless, "0"}})
		}()
		unkillable := false
		for ended := false; !ended; {
			reply := fmt.Sprint(other.pipeline(t, [][]string{{"SCRIPT", "KILL"}})[0])
			unkillable = unkillable || strings.HasPrefix(reply, "UNKILLABLE ")
			select {
			case got := <-done:
				ended = true
				if !strings.Contains(fmt.Sprint(got), "ran longer than") {
					t.Fatalf("the script ended with %v", got)
				}
			default:
			}
		}
		if unkillable {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	expectReplies(t, dial(t, serve(t, open(t, Dir(dir), Options{}))), [][]string{{"GET", "k"}}, "v")
}

// TestScriptsDoNotBlock runs commands that block, which reply as if their time was over, as in Redis 7.2.
func TestScriptsDoNotBlock(t *testing.T) {
	r := newRunner(t)
	c := r.client(1)
	for _, command := range []string{
		"'blpop', 'l', 0", "'brpop', 'l', 0", "'blmove', 'l', 'm', 'left', 'left', 0", "'brpoplpush', 'l', 'm', 0",
		"'blmpop', 0, 1, 'l', 'left'", "'bzpopmin', 'z', 0", "'bzpopmax', 'z', 0", "'bzmpop', 0, 1, 'z', 'min'",
	} {
		r.submit(c, []string{"EVAL", "return redis.call(" + command + ")", "0"})
		r.receive(c, nil)
	}
	r.submit(c, []string{"EVAL", "return redis.call('wait', 1, 0)", "0"})
	r.receive(c, int64(0))
}
