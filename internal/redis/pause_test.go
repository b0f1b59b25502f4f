package redis

import (
	"testing"
	"time"

	"steward/internal/waittest"
)

func TestPause(t *testing.T) {
	r := newRunner(t)
	admin, c, other := r.client(1), r.client(2), r.client(3)
	r.expect(admin, "CLIENT PAUSE 1000 WRITE", simple("OK"))
	r.expect(c, "GET k", nil)
	r.expect(c, "SET k v PX 5000", nothing{})
	r.expect(other, "MULTI", simple("OK"))
	r.expect(other, "INCR n", simple("QUEUED"))
	r.expect(other, "EXEC", nothing{})
	r.expect(admin, "CLIENT PAUSE 10 WRITE", simple("OK")) // the longer one stays
	r.pass(999 * time.Millisecond)
	r.receive(c, nothing{})
	r.pass(time.Millisecond)
	r.expect(admin, "PING", simple("PONG")) // others go on, too
	r.receive(c, simple("OK"))
	r.receive(other, []any{int64(1)})

	r.expect(admin, "CLIENT PAUSE 1000000000000", simple("OK"))
	r.expect(c, "GET k", nothing{})
	r.pass(10 * time.Second)
	if r.store.keys.entries.Len() != 2 {
		t.Error("a key has expired during the pause")
	}
	r.expect(admin, "CLIENT UNPAUSE", simple("OK"))
	r.receive(c, nil)
	r.expect(admin, "CLIENT PAUSE 1000000000000", simple("OK"))
	r.expect(c, "GET n", nothing{})
	r.pass(maxPause)
	r.expect(admin, "PING", simple("PONG"))
	r.receive(c, "1")
	r.expect(admin, "CLIENT PAUSE x", failure("ERR timeout is not an integer or out of range"))
	r.expect(admin, "CLIENT PAUSE -1", failure("ERR timeout is negative"))
	r.expect(admin, "CLIENT PAUSE 1 READ", failure("ERR CLIENT PAUSE mode must be WRITE or ALL"))
}

// TestScriptsDuringAPause runs those that do not write.
func TestScriptsDuringAPause(t *testing.T) {
	r := newRunner(t)
	admin := r.client(1)
	r.expect(admin, "CLIENT PAUSE 1000 WRITE", simple("OK"))
	for i, test := range []struct {
		request []string
		want    any
	}{
		{[]string{"EVAL", "return 1", "0"}, nothing{}},
		{[]string{"EVAL_RO", "return 1", "0"}, int64(1)},
		{[]string{"EVAL", "#!lua flags=no-writes\nreturn 1", "0"}, int64(1)},
		{[]string{"PUBLISH", "c", "m"}, nothing{}},
	} {
		c := r.client(int64(i + 2))
		r.submit(c, test.request)
		r.receive(c, test.want)
	}
}

// TestPausedClientEnds closes a connection whose request waits.
func TestPausedClientEnds(t *testing.T) {
	s := open(t, Dir(t.TempDir()), Options{})
	addr := serve(t, s)
	admin, c := dial(t, addr), dial(t, addr)
	admin.pipeline(t, [][]string{{"CLIENT", "PAUSE", "1000000"}})
	c.send(t, [][]string{{"PING"}})
	waiting := func() (n int) {
		_ = s.do(func() { n = len(s.pause.waiting) })
		return n
	}
	waittest.True(t, "the request to wait", func() bool { return waiting() == 1 })
	if err := c.conn.Close(); err != nil {
		t.Fatal(err)
	}
	waittest.True(t, "the client to end", func() bool { return waiting() == 0 })
}
