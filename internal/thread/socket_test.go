package thread

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/waittest"
)

func TestSocketActions(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newSocketFixture(t, d)
		c := s.login("p1")
		if got := c.ok("restore", object{"thread_id": "t"}); got != nil {
			t.Errorf("restored %q of nothing", *got)
		}
		c.ok("save", object{"thread_id": "t", "user_data": `{"a":1}`, "metadata": object{"k": "v"}})
		if got := c.ok("restore", object{"thread_id": "t"}); got == nil || *got != `{"a":1}` {
			t.Errorf("restored %v", got)
		}
		c.ok("merge", object{"thread_id": "t", "operations": []object{
			{"op": "push", "key": "l", "value": 1}, {"op": "push", "key": "l", "value": 2, "maxRecords": 1},
		}})
		if got := c.ok("restore", object{"thread_id": "t"}); *got != `{"a":1,"l":[2]}` {
			t.Errorf("merged to %s", *got)
		}
		c.ok("save", object{"thread_id": "t", "user_data": nil})
		got, err := s.store.Get(t.Context(), whole, "t")
		must(t, err)
		if got.UserData != nil || string(got.Metadata) != `{"k":"v"}` || got.ProjectID != "p1" {
			t.Errorf("got %+v: null clears, what is not sent stays", got)
		}
		set := []object{{"op": "set", "key": "x", "value": "y"}}
		c.ok("merge", object{"thread_id": "new", "operations": set, "metadata": object{"m": 1}})
		if got := c.ok("restore", object{"thread_id": "new"}); *got != `{"metadata":{"m":1},"state":{"x":"y"}}` {
			t.Errorf("merged to %s", *got)
		}
		c.ok("delete", object{"thread_id": "t"})
		c.ok("delete", object{"thread_id": "t"})
		c.refused("save", object{"thread_id": "t"}, "was deleted")
		if c.ok("restore", object{"thread_id": "t"}) != nil {
			t.Error("restored a deleted thread")
		}
	})
}

func TestSocketRefusesInvalidActions(t *testing.T) {
	s := newSocketFixture(t, dbtest.Open(t, db.SQLite))
	c := s.login("whole")
	c.refused("saev", object{"thread_id": "t"}, "expected save, merge, restore or delete")
	c.refused("save", object{"thread_id": "a b"}, "data.thread_id")
	c.refused("save", object{"thread_id": "t", "user_data": "no JSON"}, "data.user_data: expected JSON text")
	c.refused("save", object{"thread_id": "ws"}, "is the socket")
	c.refused("save", object{"thread_id": "t", "user_data": object{}}, `"user_data": "JSON as text"`)
	c.refused("save", object{"thread_id": "t", "metadata": []int{1}}, "data.metadata")
	c.refused("save", object{"thread_id": "t", "user_data": `"` + strings.Repeat("x", MaxText) + `"`}, "at most")
	c.refused("merge", object{"thread_id": "t", "operations": []object{{"op": "add"}}}, "data.operations[0].op")
	full := `"` + strings.Repeat(`\"`, MaxText/2-1) + `"`
	c.ok("save", object{"thread_id": "t", "user_data": full, "metadata": object{"m": strings.Repeat("x", MaxText-8)}})
	c.send(`{"id":1,"authorization":"other"}`)
	if a := c.receive(); a.Success || !strings.Contains(a.Error, "has its key") {
		t.Errorf("a second key: %+v", a)
	}
	viewer := s.login("viewer")
	for _, action := range []string{"save", "merge", "delete"} {
		viewer.refused(action, object{"thread_id": "t"}, "is required to write threads")
	}
	if viewer.ok("restore", object{"thread_id": "t"}) == nil {
		t.Error("a viewer reads threads")
	}
}

func TestSocketSeesOwnProjectOnly(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newSocketFixture(t, d)
		s.login("p1").ok("save", object{"thread_id": "t", "user_data": `{"of":"p1"}`})
		for _, key := range []string{"p2", "other"} {
			c := s.login(key)
			if got := c.ok("restore", object{"thread_id": "t"}); got != nil {
				t.Errorf("%s restored %s", key, *got)
			}
			c.ok("delete", object{"thread_id": "t"})
		}
		s.login("p2").refused("save", object{"thread_id": "t", "user_data": `{}`}, "thread t not found")
		s.login("p2").refused("merge", object{"thread_id": "t"}, "thread t not found")
		s.login("other").ok("save", object{"thread_id": "t", "user_data": `{"of":"other"}`})
		if got := s.login("p1").ok("restore", object{"thread_id": "t"}); got == nil || *got != `{"of":"p1"}` {
			t.Errorf("restored %v", got)
		}
	})
}

func TestSocketNeedsAValidKey(t *testing.T) {
	s := newSocketFixture(t, dbtest.Open(t, db.SQLite))
	token := *whole // an access token for something else
	token.ClientID, token.Scopes = "oac_a", []string{"storage:read"}
	s.keys.set("token", &token)
	for _, first := range []string{
		`{"authorization":"token"}`, `{"authorization":"no"}`, `{"authorization":7}`, `{`, `{}`, `[]`, `""`,
	} {
		c := s.dial()
		c.send(first)
		if a := c.receive(); a.Success || a.Error == "" {
			t.Errorf("%s: %+v", first, a)
		}
		c.closed(websocket.StatusPolicyViolation)
	}
	c := s.dial()
	c.send(`{"authorization":"` + strings.Repeat("x", maxFirstFrame) + `"}`)
	c.closed(websocket.StatusMessageTooBig)

	c = s.login("p1")
	c.ok("save", object{"thread_id": "t"})
	s.keys.set("p1", nil)
	c.refused("save", object{"thread_id": "t"}, "unknown key")
	c.closed(websocket.StatusPolicyViolation)
}

func TestSocketClosesForBrokenFrames(t *testing.T) {
	s := newSocketFixture(t, dbtest.Open(t, db.SQLite))
	for _, text := range []string{`{"id":`, ``, `x`, "{\"id\":\"\xff\"}", `{} {}`, `{"id":"` + strings.Repeat("x", maxID) + `"}`} {
		c := s.login("whole")
		c.send(text)
		c.closed(websocket.StatusInvalidFramePayloadData)
	}
	c := s.login("whole")
	must(t, c.conn.Write(t.Context(), websocket.MessageBinary, []byte(`{}`)))
	c.closed(websocket.StatusUnsupportedData)
	c = s.login("whole")
	c.send(`"` + strings.Repeat("x", maxFrame) + `"`)
	c.closed(websocket.StatusMessageTooBig)
	c = s.login("whole")
	for _, text := range []string{`{}`, `[]`, `7`, `null`, `{"id":{"a":1},"action":7}`, `{"id":"1","data":[]}`} {
		c.send(text)
		if a := c.receive(); a.Success || a.Error == "" {
			t.Errorf("%s: %+v", text, a)
		}
	}
	c.ok("save", object{"thread_id": "t"})
}

func TestConcurrentMerges(t *testing.T) { mergeConcurrently(t, "", 32, 10) }

// TestConcurrentLargeMerges has a state that is merged without a lock.
func TestConcurrentLargeMerges(t *testing.T) {
	mergeConcurrently(t, strings.Repeat("x", 2*maxLockedMerge), 8, 4)
}

// mergeConcurrently has sockets push to one thread. Every push is there once, and those of a
// socket are in order.
func mergeConcurrently(t *testing.T, pad string, sockets, pushes int) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newSocketFixture(t, d)
		if pad != "" { // otherwise the sockets race to create it
			s.login("p1").ok("save", object{"thread_id": "t", "user_data": `{"state":{"pad":"` + pad + `"}}`})
		}
		var all sync.WaitGroup
		for i := range sockets {
			c := s.login("p1")
			all.Go(func() {
				for j := range pushes {
					a := c.do("merge", object{"thread_id": "t", "operations": []object{{"op": "push", "key": "l", "value": []int{i, j}}}})
					if !a.Success {
						t.Errorf("socket %d: %+v", i, a)
					}
				}
			})
		}
		all.Wait()
		var got struct{ State struct{ L [][2]int } }
		must(t, json.Unmarshal([]byte(*s.login("p1").ok("restore", object{"thread_id": "t"})), &got))
		if len(got.State.L) != sockets*pushes {
			t.Fatalf("%d of %d pushes are there", len(got.State.L), sockets*pushes)
		}
		next := make([]int, sockets)
		for _, p := range got.State.L {
			if next[p[0]] != p[1] {
				t.Fatalf("socket %d: got push %d, want %d", p[0], p[1], next[p[0]])
			}
			next[p[0]]++
		}
		n, _, _, err := projectCounts(d.Read(t.Context()), org, "p1")
		must(t, err)
		if n != 1 {
			t.Errorf("counted %d threads: two sockets created the same one", n)
		}
	})
}

func TestSocketSlowReaderDelaysOnlyItself(t *testing.T) {
	s := newSocketFixture(t, dbtest.Open(t, db.SQLite))
	quick, slow := s.login("whole"), s.login("whole")
	quick.ok("save", object{"thread_id": "t", "user_data": `"` + strings.Repeat("x", MaxText-2) + `"`})
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan int, 1)
	go func() {
		n := 0
		request := []byte(`{"id":"1","action":"restore","data":{"thread_id":"t"},"pad":"` + strings.Repeat("x", 32<<10) + `"}`)
		for ctx.Err() == nil && slow.conn.Write(ctx, websocket.MessageText, request) == nil && n < 5000 {
			n++
		}
		sent <- n
	}()
	for range 200 {
		quick.ok("save", object{"thread_id": "u", "user_data": `{}`})
	}
	cancel()
	if n := waittest.Receive(t, "the writer to end", sent); n == 5000 {
		t.Error("5000 frames were read from a peer that reads no responses")
	}
}

func TestSocketAnswersPings(t *testing.T) {
	s := newSocketFixture(t, dbtest.Open(t, db.SQLite))
	c := s.login("whole")
	c.ok("save", object{"thread_id": "t"})
	must(t, c.conn.Ping(c.conn.CloseRead(t.Context())))
}

func TestSocketRefusesRequestsWithoutUpgrade(t *testing.T) {
	s := newSocketFixture(t, dbtest.Open(t, db.SQLite))
	res, err := http.Get(s.url)
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	must(t, err)
	if res.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), `"code":"malformed"`) {
		t.Errorf("got %d %s", res.StatusCode, text)
	}
	if !slices.Equal(res.Header.Values("Content-Type"), []string{"application/problem+json"}) {
		t.Errorf("got %v", res.Header)
	}
}

func TestOpenSocketsCountsSockets(t *testing.T) {
	s := newSocketFixture(t, dbtest.Open(t, db.SQLite))
	if n := s.socket.OpenSockets(); n != 0 {
		t.Errorf("%d sockets are open before the first", n)
	}
	first, _ := s.login("whole"), s.login("p1")
	if n := s.socket.OpenSockets(); n != 2 {
		t.Errorf("%d sockets are open, want 2", n)
	}
	must(t, first.conn.Close(websocket.StatusNormalClosure, ""))
	waittest.Until(t, "one socket to be left", func() (int, bool) {
		n := s.socket.OpenSockets()
		return n, n == 1
	})
}
