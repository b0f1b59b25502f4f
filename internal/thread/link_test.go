package thread

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coder/websocket"
	"pgregory.net/rapid"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
)

// ask sends an action under an id, and does not wait for the answer.
func (c *client) ask(id, action string, data dict) {
	c.t.Helper()
	text, err := json.Marshal(dict{"id": id, "action": action, "data": data})
	must(c.t, err)
	c.send(string(text))
}

// answers receives so many answers, all of which must be good, and gives their ids in the order in which they came.
func (c *client) answers(n int) (ids []string) {
	c.t.Helper()
	for range n {
		a := c.receive()
		if !a.Success {
			c.t.Errorf("got %+v", a)
		}
		var id string
		must(c.t, json.Unmarshal(a.ID, &id))
		ids = append(ids, id)
	}
	return ids
}

// holdFirst keeps the first thread that is made from being finished: entered tells that it is under way, leave lets it go on.
func (s *socketTest) holdFirst() (entered, leave chan struct{}) {
	entered, leave = make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	project := s.store.Project
	s.store.Project = func(tx *db.Tx, caller *auth.Caller, location, projectID string) error {
		if once.CompareAndSwap(false, true) {
			close(entered)
			<-leave
		}
		return project(tx, caller, location, projectID)
	}
	return entered, leave
}

// TestSocketOrder: of actions that are sent at once, those on the same thread are done, and answered, in their order.
func TestSocketOrder(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := serveSocket(t, d)
		c := s.login("p1")
		const threads, pushes = 5, 40
		var want [threads][]string
		go func() {
			for i := range threads * pushes {
				push := []dict{{"op": "push", "key": "l", "value": i / threads}}
				c.ask(fmt.Sprint(i), "merge", dict{"thread_id": fmt.Sprint("t", i%threads), "operations": push})
			}
		}()
		var got [threads][]string
		for _, id := range c.answers(threads * pushes) {
			var i int
			_, err := fmt.Sscan(id, &i)
			must(t, err)
			got[i%threads] = append(got[i%threads], id)
		}
		var list []int
		for i := range pushes {
			list = append(list, i)
			for n := range threads {
				want[n] = append(want[n], fmt.Sprint(i*threads+n))
			}
		}
		state, err := json.Marshal(dict{"state": dict{"l": list}})
		must(t, err)
		for n := range threads {
			if !slices.Equal(got[n], want[n]) {
				t.Errorf("thread %d was answered in the order %v", n, got[n])
			}
			if data := c.ok("restore", dict{"thread_id": fmt.Sprint("t", n)}); data == nil || *data != string(state) {
				t.Errorf("thread %d has %v, want %s", n, data, state)
			}
		}
	})
}

// TestSocketAtOnce: an action waits for those on its own thread, and for no others.
func TestSocketAtOnce(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := serveSocket(t, d)
		entered, leave := s.holdFirst()
		c := s.login("whole")
		c.ask("save", "save", dict{"thread_id": "t", "user_data": "{}"})
		<-entered
		c.ask("same thread", "restore", dict{"thread_id": "t"})
		c.ask("other thread", "restore", dict{"thread_id": "u"})
		if got := c.answers(1); got[0] != "other thread" {
			t.Errorf("the first answer is that of %s", got[0])
		}
		close(leave)
		if got := c.answers(2); !slices.Equal(got, []string{"save", "same thread"}) {
			t.Errorf("then came %v", got)
		}
	})
}

// TestSocketInHand: a socket reads no further while it owes maxInHand answers, and others do not mind.
func TestSocketInHand(t *testing.T) {
	s := serveSocket(t, dbtest.Open(t, db.SQLite))
	entered, leave := s.holdFirst()
	c, other := s.login("whole"), s.login("whole")
	c.ask("0", "save", dict{"thread_id": "t"})
	<-entered
	var want []string
	for i := range maxInHand + 10 {
		if i > 0 {
			c.ask(fmt.Sprint(i), "restore", dict{"thread_id": "t"})
		}
		want = append(want, fmt.Sprint(i))
	}
	c.ask("late", "restore", dict{"thread_id": "u"})
	for range 20 {
		other.ok("restore", dict{"thread_id": "u"})
	}
	close(leave)
	got := c.answers(len(want) + 1)
	if late := slices.Index(got, "late"); late < 11 {
		t.Errorf("the answer of one beyond those in hand is number %d", late)
	}
	if got = slices.DeleteFunc(got, func(id string) bool { return id == "late" }); !slices.Equal(got, want) {
		t.Errorf("those on one thread are answered in the order %v", got)
	}
}

// TestSocketLargeFrames: while as many large frames as may be are held, the next one waits for its turn, and small ones do not.
func TestSocketLargeFrames(t *testing.T) {
	s := serveSocket(t, dbtest.Open(t, db.SQLite))
	c, other := s.login("whole"), s.login("whole")
	for range maxLarge {
		s.socket.large <- struct{}{}
	}
	c.ask("1", "save", dict{"thread_id": "t", "user_data": `"` + strings.Repeat("x", smallFrame) + `"`})
	for range 50 {
		if other.ok("restore", dict{"thread_id": "t"}) != nil {
			t.Fatal("the large frame was done without a turn")
		}
	}
	<-s.socket.large
	c.answers(1)
	if other.ok("restore", dict{"thread_id": "t"}) == nil {
		t.Error("nothing was saved")
	}
	for range maxLarge - 1 {
		<-s.socket.large
	}
	if len(s.socket.large) != 0 {
		t.Errorf("%d turns were not given back", len(s.socket.large))
	}
}

// TestSocketShutdown: an idle socket is closed at once, one with actions in hand after all of their answers.
func TestSocketShutdown(t *testing.T) {
	s := serveSocket(t, dbtest.Open(t, db.SQLite))
	idle, fresh := s.login("whole"), s.dial()
	busy := s.login("whole")
	entered, leave := s.holdFirst()
	busy.ask("1", "save", dict{"thread_id": "t", "user_data": "{}"})
	<-entered
	busy.ask("2", "merge", dict{"thread_id": "t", "operations": []dict{{"op": "set", "key": "a", "value": 1}}})
	busy.ask("3", "save", dict{"thread_id": "u"})
	busy.ok("restore", dict{"thread_id": "v"}) // the others are in hand now
	done := make(chan error)
	go func() { done <- s.socket.Close(t.Context()) }()
	idle.closed(websocket.StatusGoingAway)
	fresh.closed(websocket.StatusGoingAway)
	close(leave)
	if got := busy.answers(3); !slices.Contains(got, "3") || slices.Index(got, "1") > slices.Index(got, "2") {
		t.Errorf("the answers at shutdown are %v", got)
	}
	busy.closed(websocket.StatusGoingAway)
	must(t, <-done)
	late := s.dial()
	late.closed(websocket.StatusGoingAway)
}

// TestSocketOwes: what is in hand is answered before a socket is closed for a frame that is none.
func TestSocketOwes(t *testing.T) {
	s := serveSocket(t, dbtest.Open(t, db.SQLite))
	c := s.login("whole")
	entered, leave := s.holdFirst()
	c.ask("1", "save", dict{"thread_id": "t"})
	<-entered
	c.ask("2", "restore", dict{"thread_id": "t"})
	c.send("{")
	close(leave)
	if got := c.answers(2); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("got %v", got)
	}
	c.closed(websocket.StatusInvalidFramePayloadData)
}

func TestAnswersAreAppendedAsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := answer{Success: rapid.Bool().Draw(t, "success"), Error: rapid.String().Draw(t, "error")}
		if rapid.Bool().Draw(t, "id") {
			a.ID = json.RawMessage(fmt.Sprint(rapid.Int().Draw(t, "number")))
		}
		if rapid.Bool().Draw(t, "data") {
			text := rapid.String().Draw(t, "text")
			a.Data = &text
		}
		want, err := encodeJSON(a)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.appendJSON(nil); !bytes.Equal(got, want) {
			t.Fatalf("got %s, want %s", got, want)
		}
	})
}
