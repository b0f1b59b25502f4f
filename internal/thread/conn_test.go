package thread

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/coder/websocket"

	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/waittest"
)

func TestSocketRunsActionsOnOneThreadInOrder(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newSocketFixture(t, d)
		c := s.login("p1")
		const threads, pushes = 5, 40
		var want [threads][]string
		go func() {
			for i := range threads * pushes {
				push := []object{{"op": "push", "key": "l", "value": i / threads}}
				c.start(fmt.Sprint(i), "merge", object{"thread_id": fmt.Sprint("t", i%threads), "operations": push})
			}
		}()
		var got [threads][]string
		for _, id := range c.responses(threads * pushes) {
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
		state, err := json.Marshal(object{"state": object{"l": list}})
		must(t, err)
		for n := range threads {
			if !slices.Equal(got[n], want[n]) {
				t.Errorf("thread %d was answered in the order %v", n, got[n])
			}
			if data := c.ok("restore", object{"thread_id": fmt.Sprint("t", n)}); data == nil || *data != string(state) {
				t.Errorf("thread %d has %v, want %s", n, data, state)
			}
		}
	})
}

func TestSocketRunsActionsOnOtherThreadsConcurrently(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := newSocketFixture(t, d)
		entered, proceed := s.blockFirst()
		c := s.login("whole")
		c.start("save", "save", object{"thread_id": "t", "user_data": "{}"})
		waittest.Receive(t, "the first save to begin", entered)
		c.start("same thread", "restore", object{"thread_id": "t"})
		c.start("other thread", "restore", object{"thread_id": "u"})
		if got := c.responses(1); got[0] != "other thread" {
			t.Errorf("the first response is that of %s", got[0])
		}
		close(proceed)
		if got := c.responses(2); !slices.Equal(got, []string{"save", "same thread"}) {
			t.Errorf("the other responses are %v", got)
		}
	})
}

func TestSocketIsNotReadWhileTooManyActionsAreInFlight(t *testing.T) {
	s := newSocketFixture(t, dbtest.Open(t, db.SQLite))
	entered, proceed := s.blockFirst()
	c, other := s.login("whole"), s.login("whole")
	c.start("0", "save", object{"thread_id": "t"})
	waittest.Receive(t, "the first save to begin", entered)
	var want []string
	for i := range maxInFlight + 10 {
		if i > 0 {
			c.start(fmt.Sprint(i), "restore", object{"thread_id": "t"})
		}
		want = append(want, fmt.Sprint(i))
	}
	c.start("late", "restore", object{"thread_id": "u"})
	for range 20 {
		other.ok("restore", object{"thread_id": "u"})
	}
	close(proceed)
	got := c.responses(len(want) + 1)
	if late := slices.Index(got, "late"); late < 11 {
		t.Errorf("the response to a frame beyond those in flight is number %d", late)
	}
	if got = slices.DeleteFunc(got, func(id string) bool { return id == "late" }); !slices.Equal(got, want) {
		t.Errorf("the actions on one thread are answered in the order %v", got)
	}
}

// TestSocketCloseWaitsForResponses closes idle sockets at once, and one with actions in flight
// after its responses.
func TestSocketCloseWaitsForResponses(t *testing.T) {
	s := newSocketFixture(t, dbtest.Open(t, db.SQLite))
	idle, fresh := s.login("whole"), s.dial()
	busy := s.login("whole")
	entered, proceed := s.blockFirst()
	busy.start("1", "save", object{"thread_id": "t", "user_data": "{}"})
	waittest.Receive(t, "the first save to begin", entered)
	busy.start("2", "merge", object{"thread_id": "t", "operations": []object{{"op": "set", "key": "a", "value": 1}}})
	busy.start("3", "save", object{"thread_id": "u"})
	busy.ok("restore", object{"thread_id": "v"}) // now the others are in flight
	done := make(chan error, 1)
	go func() { done <- s.socket.Close(t.Context()) }()
	idle.closed(websocket.StatusGoingAway)
	fresh.closed(websocket.StatusGoingAway)
	close(proceed)
	if got := busy.responses(3); !slices.Contains(got, "3") || slices.Index(got, "1") > slices.Index(got, "2") {
		t.Errorf("the responses at shutdown are %v", got)
	}
	busy.closed(websocket.StatusGoingAway)
	must(t, waittest.Receive(t, "the sockets to close", done))
	late := s.dial()
	late.closed(websocket.StatusGoingAway)
}

func TestSocketAnswersActionsInFlightBeforeItClosesForABadFrame(t *testing.T) {
	s := newSocketFixture(t, dbtest.Open(t, db.SQLite))
	c := s.login("whole")
	entered, proceed := s.blockFirst()
	c.start("1", "save", object{"thread_id": "t"})
	waittest.Receive(t, "the first save to begin", entered)
	c.start("2", "restore", object{"thread_id": "t"})
	c.send("{")
	close(proceed)
	if got := c.responses(2); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("got %v", got)
	}
	c.closed(websocket.StatusInvalidFramePayloadData)
}
