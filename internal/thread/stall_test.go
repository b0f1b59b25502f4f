package thread

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"steward/internal/budget"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
	"steward/internal/waittest"
)

// fill takes all that an organization may have of a pool, with parts that are not those of sockets.
func fill(pool *budget.Pool, orgID string) (release func()) {
	var all []*budget.Charge
	for part := range 10 {
		c := pool.Charge(orgID, fmt.Sprint("other ", part))
		for n := pool.Usage().Total; n > 0; n /= 2 {
			for c.Take(n) {
			}
		}
		all = append(all, c)
	}
	return func() {
		for _, c := range all {
			c.Release()
		}
	}
}

// dialFrom opens a socket from a local address, and returns the connection below it too.
func (s *socketFixture) dialFrom(address string) (c *client, below net.Conn, err error) {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		below, err = dialer.DialContext(ctx, network, address)
		return below, err
	}}
	ws, _, err := websocket.Dial(s.Context(), s.url, &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		return nil, nil, err
	}
	s.Cleanup(func() { _ = ws.CloseNow() }) // it may be closed already
	ws.SetReadLimit(maxFrame)
	return &client{t: s.T, conn: ws}, below, nil
}

// stall opens a socket that announces a frame of a size, sends a part of it, and stalls.
func (s *socketFixture) stall(key string, announced, sent int) *client {
	s.Helper()
	c, below, err := s.dialFrom("127.0.0.1")
	must(s, err)
	c.send(fmt.Sprintf(`{"authorization":%q}`, key))
	if a := c.receive(); !a.Success {
		s.Fatalf("login with %s: %+v", key, a)
	}
	head := binary.BigEndian.AppendUint64([]byte{0x81, 0x80 | 127}, uint64(announced))
	head = append(head, 0, 0, 0, 0) // a mask that changes nothing
	go func() { _, _ = io.WriteString(below, string(head)+`{"pad":"`+strings.Repeat("x", sent-8)) }()
	return c
}

// TestViewersSendNoLargeFrames has a viewer with 40 sockets that stall inside large frames. They are
// closed before these are read, and others save.
func TestViewersSendNoLargeFrames(t *testing.T) {
	s := newSocketFixture(t, dbtest.Open(t, db.SQLite))
	var viewers []*client
	for range 40 {
		viewers = append(viewers, s.stall("viewer", 1<<20, smallFrame))
	}
	for _, key := range []string{"whole", "other"} {
		s.login(key).ok("save", object{"thread_id": key, "user_data": `"` + strings.Repeat("x", 500_000) + `"`})
	}
	for _, c := range viewers {
		c.closed(websocket.StatusMessageTooBig)
	}
	waittest.True(t, "memory to be returned", func() bool { return s.socket.Frames.Usage().Owners == 0 })
}

// TestStalledFramesHoldTheShareOfTheirOrganization has 40 sockets of one organization that stall inside
// large frames, and one of another that saves and restores the largest threads.
func TestStalledFramesHoldTheShareOfTheirOrganization(t *testing.T) {
	dbtest.Long(t)
	s := newSocketFixture(t, dbtest.Open(t, db.SQLite))
	for range 40 {
		s.stall("whole", maxFrame, 1<<20)
	}
	waittest.Until(t, "the frames to arrive", func() (int64, bool) {
		n := s.socket.Frames.Usage().Common
		return n, n >= 8<<20
	})
	c := s.login("other")
	large := `"` + strings.Repeat(`\"`, MaxText/2-1) + `"`
	for i := range 10 {
		c.ok("save", object{"thread_id": fmt.Sprint(i), "user_data": large})
		if got := c.ok("restore", object{"thread_id": fmt.Sprint(i)}); got == nil || *got != large {
			t.Fatal("not what was saved")
		}
	}
	if u := s.socket.Frames.Usage(); u.Common > u.Total/2 {
		t.Errorf("one organization has %d of %d bytes", u.Common, u.Total)
	}
}

// TestFramesWaitForRoom fills the share of an organization: its saves wait, and those of another do not.
func TestFramesWaitForRoom(t *testing.T) {
	s := newSocketFixture(t, dbtest.Open(t, db.SQLite))
	c, second := s.login("whole"), s.login("other")
	release := fill(s.socket.Frames, org)
	c.start("1", "save", object{"thread_id": "t", "user_data": `{}`})
	for range 50 {
		second.ok("save", object{"thread_id": "t", "user_data": `{}`})
	}
	if _, err := s.store.Get(t.Context(), whole, "t"); errs.KindOf(err) != errs.NotFound {
		t.Errorf("the save did not wait: %v", err)
	}
	release()
	c.responses(1)
	waittest.True(t, "memory to be returned", func() bool { return s.socket.Frames.Usage().Owners == 0 })
}

// TestResponsesOfSlowReadersAreBounded has 40 sockets of one organization that restore a large thread
// again and again and read nothing.
func TestResponsesOfSlowReadersAreBounded(t *testing.T) {
	dbtest.Long(t)
	s := newSocketFixture(t, dbtest.Open(t, db.SQLite))
	large := `"` + strings.Repeat("x", MaxText-2) + `"`
	for _, key := range []string{"whole", "other"} {
		s.login(key).ok("save", object{"thread_id": "t", "user_data": large})
	}
	for range 40 {
		c := s.login("viewer")
		for i := range maxInFlight {
			c.start(fmt.Sprint(i), "restore", object{"thread_id": "t"})
		}
	}
	waittest.Until(t, "responses that are not read", func() (int64, bool) {
		n := s.socket.Responses.Usage().Common
		return n, n >= 8<<20
	})
	c := s.login("other")
	for range 10 {
		c.ok("save", object{"thread_id": "t", "user_data": large})
		c.ok("restore", object{"thread_id": "t"})
	}
	if u := s.socket.Responses.Usage(); u.Common > u.Total/2 {
		t.Errorf("one organization has %d of %d bytes", u.Common, u.Total)
	}
}

// TestSocketsAreShared has an organization with as many sockets as it may have, and an address with as
// many that send no key. Other organizations and addresses still get theirs.
func TestSocketsAreShared(t *testing.T) {
	s := newSocketFixture(t, dbtest.Open(t, db.SQLite))
	s.socket.Open = budget.NewPool(32, 4)
	s.socket.Unauthenticated = budget.NewPool(32, 4)
	for range 12 {
		s.login("whole")
	}
	c := s.dial()
	c.send(`{"authorization":"whole"}`)
	if a := c.receive(); a.Success || !strings.Contains(a.Error, "try again later") {
		t.Errorf("another socket: %+v", a)
	}
	c.closed(websocket.StatusTryAgainLater)
	waittest.True(t, "the slot to be returned", func() bool { return s.socket.Unauthenticated.Usage().Owners == 0 })
	for range 12 {
		s.dial()
	}
	if _, _, err := s.dialFrom("127.0.0.1"); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("another socket of the address: %v", err)
	}
	c, _, err := s.dialFrom("127.0.0.2")
	must(t, err)
	c.send(`{"authorization":"other"}`)
	if a := c.receive(); !a.Success {
		t.Errorf("another organization: %+v", a)
	}
	waittest.True(t, "all sockets to be registered", func() bool {
		s.socket.mu.Lock()
		defer s.socket.mu.Unlock()
		return len(s.socket.conns) == 12+12+1
	})
	must(t, s.socket.Close(t.Context()))
	if open, unknown := s.socket.Open.Usage(), s.socket.Unauthenticated.Usage(); open.Owners+unknown.Owners != 0 {
		t.Errorf("slots are in use: %+v, %+v", open, unknown)
	}
}

// TestRightsAreCheckedInsideALargeFrame takes the key away while a frame is being sent.
func TestRightsAreCheckedInsideALargeFrame(t *testing.T) {
	s := newSocketFixture(t, dbtest.Open(t, db.SQLite))
	c := s.login("p1")
	s.keys.set("p1", nil)
	c.send(`{"id":"1","pad":"` + strings.Repeat("x", smallFrame) + `"}`)
	if _, err := c.read(); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("closed with %v", err)
	}
}
