package thread

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"steward/internal/auth"
	"steward/internal/db"
	"steward/internal/db/dbtest"
	"steward/internal/errs"
)

// keyring knows the keys of a test.
type keyring struct {
	sync.Mutex
	callers map[string]*auth.Caller
}

func (k *keyring) authenticate(_ context.Context, key string) (*auth.Caller, error) {
	k.Lock()
	defer k.Unlock()
	if c := k.callers[key]; c != nil {
		return c, nil
	}
	return nil, errs.New(errs.Unauthorized, "unknown key")
}

func (k *keyring) set(key string, c *auth.Caller) {
	k.Lock()
	defer k.Unlock()
	k.callers[key] = c
}

type socketTest struct {
	*testing.T
	store  *Store
	socket *Socket
	keys   *keyring
	url    string
}

// serveSocket serves the sockets of a fresh store. The keys are whole, other, viewer, p1 and p2.
func serveSocket(t *testing.T, d *db.DB) *socketTest {
	viewer := *whole
	viewer.Role = auth.Viewer
	keys := &keyring{callers: map[string]*auth.Caller{
		"whole": whole, "other": other, "viewer": &viewer, "p1": confined("p1"), "p2": confined("p2"),
	}}
	s := newStore(t, d)
	socket := &Socket{Store: s, Authenticate: keys.authenticate}
	srv := httptest.NewServer(socket)
	t.Cleanup(func() {
		srv.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := socket.Close(ctx); err != nil {
			t.Errorf("sockets do not close: %v", err)
		}
	})
	return &socketTest{T: t, store: s, socket: socket, keys: keys, url: srv.URL}
}

// client is the runtime's side of a socket.
type client struct {
	t    *testing.T
	conn *websocket.Conn
	n    int
}

func (s *socketTest) dial() *client {
	s.Helper()
	conn, _, err := websocket.Dial(s.Context(), s.url, nil)
	must(s, err)
	s.Cleanup(func() { conn.CloseNow() })
	conn.SetReadLimit(maxFrame)
	return &client{t: s.T, conn: conn}
}

func (s *socketTest) login(key string) *client {
	s.Helper()
	c := s.dial()
	c.send(fmt.Sprintf(`{"authorization":%q}`, key))
	if a := c.receive(); !a.Success {
		s.Fatalf("login with %s: %+v", key, a)
	}
	return c
}

func (c *client) send(text string) {
	c.t.Helper()
	must(c.t, c.conn.Write(c.t.Context(), websocket.MessageText, []byte(text)))
}

func (c *client) receive() (a answer) {
	c.t.Helper()
	_, text, err := c.conn.Read(c.t.Context())
	must(c.t, err)
	must(c.t, json.Unmarshal(text, &a))
	return a
}

// do sends an action and gives its answer.
func (c *client) do(action string, data any) answer {
	c.t.Helper()
	c.n++
	text, err := json.Marshal(map[string]any{"id": fmt.Sprint(c.n), "action": action, "data": data})
	must(c.t, err)
	c.send(string(text))
	a := c.receive()
	if string(a.ID) != fmt.Sprintf("%q", fmt.Sprint(c.n)) {
		c.t.Fatalf("the answer to %d is for %s", c.n, a.ID)
	}
	return a
}

func (c *client) ok(action string, data any) *string {
	c.t.Helper()
	a := c.do(action, data)
	if !a.Success || a.Error != "" {
		c.t.Fatalf("%s: %+v", action, a)
	}
	return a.Data
}

func (c *client) refused(action string, data any, says string) {
	c.t.Helper()
	if a := c.do(action, data); a.Success || !strings.Contains(a.Error, says) {
		c.t.Errorf("%s: %+v, want an error with %q", action, a, says)
	}
}

// closed waits until the other side closes, and checks why.
func (c *client) closed(want websocket.StatusCode) {
	c.t.Helper()
	for {
		if _, _, err := c.conn.Read(c.t.Context()); err != nil {
			if got := websocket.CloseStatus(err); got != want {
				c.t.Errorf("closed with %v (%v), want %v", got, err, want)
			}
			return
		}
	}
}

type dict = map[string]any

func TestSocket(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := serveSocket(t, d)
		c := s.login("p1")
		if got := c.ok("restore", dict{"thread_id": "t"}); got != nil {
			t.Errorf("restored %q of nothing", *got)
		}
		c.ok("save", dict{"thread_id": "t", "user_data": `{"a":1}`, "metadata": dict{"k": "v"}})
		if got := c.ok("restore", dict{"thread_id": "t"}); got == nil || *got != `{"a":1}` {
			t.Errorf("restored %v", got)
		}
		c.ok("merge", dict{"thread_id": "t", "operations": []dict{
			{"op": "push", "key": "l", "value": 1}, {"op": "push", "key": "l", "value": 2, "maxRecords": 1},
		}})
		if got := c.ok("restore", dict{"thread_id": "t"}); *got != `{"a":1,"l":[2]}` {
			t.Errorf("merged to %s", *got)
		}
		c.ok("save", dict{"thread_id": "t", "user_data": nil})
		got, err := s.store.Get(t.Context(), whole, "t")
		must(t, err)
		if got.UserData != nil || string(got.Metadata) != `{"k":"v"}` || got.ProjectID != "p1" {
			t.Errorf("got %+v: null clears, what is not sent stays", got)
		}
		c.ok("merge", dict{"thread_id": "new", "operations": []dict{{"op": "set", "key": "x", "value": "y"}}, "metadata": dict{"m": 1}})
		if got := c.ok("restore", dict{"thread_id": "new"}); *got != `{"metadata":{"m":1},"state":{"x":"y"}}` {
			t.Errorf("merged to %s", *got)
		}
		c.ok("delete", dict{"thread_id": "t"})
		c.ok("delete", dict{"thread_id": "t"})
		c.refused("save", dict{"thread_id": "t"}, "was deleted")
		if c.ok("restore", dict{"thread_id": "t"}) != nil {
			t.Error("restored a deleted thread")
		}
	})
}

func TestSocketRefusals(t *testing.T) {
	s := serveSocket(t, dbtest.Open(t, db.SQLite))
	c := s.login("whole")
	c.refused("saev", dict{"thread_id": "t"}, "expected save, merge, restore or delete")
	c.refused("save", dict{"thread_id": "a b"}, "data.thread_id")
	c.refused("save", dict{"thread_id": "t", "user_data": "no JSON"}, "data.user_data: expected JSON text")
	c.refused("save", dict{"thread_id": "ws"}, "is the socket")
	c.refused("save", dict{"thread_id": "t", "user_data": dict{}}, `"user_data": "JSON as text"`)
	c.refused("save", dict{"thread_id": "t", "metadata": []int{1}}, "data.metadata")
	c.refused("save", dict{"thread_id": "t", "user_data": `"` + strings.Repeat("x", MaxText) + `"`}, "at most")
	c.refused("merge", dict{"thread_id": "t", "operations": []dict{{"op": "add"}}}, "data.operations[0].op")
	full := `"` + strings.Repeat(`\"`, MaxText/2-1) + `"`
	c.ok("save", dict{"thread_id": "t", "user_data": full, "metadata": dict{"m": strings.Repeat("x", MaxText-8)}})
	c.send(`{"id":1,"authorization":"other"}`)
	if a := c.receive(); a.Success || !strings.Contains(a.Error, "has its key") {
		t.Errorf("a second key: %+v", a)
	}
	viewer := s.login("viewer")
	for _, action := range []string{"save", "merge", "delete"} {
		viewer.refused(action, dict{"thread_id": "t"}, "may not write threads")
	}
	if viewer.ok("restore", dict{"thread_id": "t"}) == nil {
		t.Error("a viewer reads threads")
	}
}

func TestSocketIsolation(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := serveSocket(t, d)
		s.login("p1").ok("save", dict{"thread_id": "t", "user_data": `{"of":"p1"}`})
		for _, key := range []string{"p2", "other"} {
			c := s.login(key)
			if got := c.ok("restore", dict{"thread_id": "t"}); got != nil {
				t.Errorf("%s restored %s", key, *got)
			}
			c.ok("delete", dict{"thread_id": "t"})
		}
		s.login("p2").refused("save", dict{"thread_id": "t", "user_data": `{}`}, "thread t not found")
		s.login("p2").refused("merge", dict{"thread_id": "t"}, "thread t not found")
		s.login("other").ok("save", dict{"thread_id": "t", "user_data": `{"of":"other"}`})
		if got := s.login("p1").ok("restore", dict{"thread_id": "t"}); got == nil || *got != `{"of":"p1"}` {
			t.Errorf("restored %v", got)
		}
	})
}

func TestSocketKeys(t *testing.T) {
	s := serveSocket(t, dbtest.Open(t, db.SQLite))
	token := *whole // an access token for something else
	token.ClientID, token.Scopes = "oac_a", []string{"storage:read"}
	s.keys.set("token", &token)
	for _, first := range []string{`{"authorization":"token"}`, `{"authorization":"no"}`, `{"authorization":7}`, `{`, `{}`, `[]`, `""`} {
		c := s.dial()
		c.send(first)
		if a := c.receive(); a.Success || a.Error == "" {
			t.Errorf("%s: %+v", first, a)
		}
		c.closed(websocket.StatusPolicyViolation)
	}
	c := s.dial()
	c.send(`{"authorization":"` + strings.Repeat("x", maxFirst) + `"}`)
	c.closed(websocket.StatusMessageTooBig)

	c = s.login("p1")
	c.ok("save", dict{"thread_id": "t"})
	s.keys.set("p1", nil)
	c.refused("save", dict{"thread_id": "t"}, "unknown key")
	c.closed(websocket.StatusPolicyViolation)
}

func TestBrokenFrames(t *testing.T) {
	s := serveSocket(t, dbtest.Open(t, db.SQLite))
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
	c.ok("save", dict{"thread_id": "t"})
}

// TestMergesAtOnce has 32 sockets push to one thread: every push is there, each once, and those of a socket in their order.
func TestMergesAtOnce(t *testing.T) { mergesAtOnce(t, "", 10) }

// TestLargeMergesAtOnce is the same for a state that is merged outside of the lock.
func TestLargeMergesAtOnce(t *testing.T) { mergesAtOnce(t, strings.Repeat("x", 2*smallMerge), 3) }

func mergesAtOnce(t *testing.T, pad string, pushes int) {
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s := serveSocket(t, d)
		const sockets = 32
		if pad != "" { // else the sockets race to make it
			s.login("p1").ok("save", dict{"thread_id": "t", "user_data": `{"state":{"pad":"` + pad + `"}}`})
		}
		var all sync.WaitGroup
		for i := range sockets {
			c := s.login("p1")
			all.Go(func() {
				for j := range pushes {
					a := c.do("merge", dict{"thread_id": "t", "operations": []dict{{"op": "push", "key": "l", "value": []int{i, j}}}})
					if !a.Success {
						t.Errorf("socket %d: %+v", i, a)
					}
				}
			})
		}
		all.Wait()
		var got struct{ State struct{ L [][2]int } }
		must(t, json.Unmarshal([]byte(*s.login("p1").ok("restore", dict{"thread_id": "t"})), &got))
		if len(got.State.L) != sockets*pushes {
			t.Fatalf("%d of %d pushes are there", len(got.State.L), sockets*pushes)
		}
		next := [sockets]int{}
		for _, p := range got.State.L {
			if next[p[0]] != p[1] {
				t.Fatalf("socket %d: push %d came where %d was next", p[0], p[1], next[p[0]])
			}
			next[p[0]]++
		}
		n, err := total(d.Read(t.Context()), org, "p1", countThreads)
		must(t, err)
		if n != 1 {
			t.Errorf("counted %d threads: two sockets made the same one", n)
		}
	})
}

// TestSlowReader: a peer that takes no answers stops only itself.
func TestSlowReader(t *testing.T) {
	s := serveSocket(t, dbtest.Open(t, db.SQLite))
	quick, slow := s.login("whole"), s.login("whole")
	quick.ok("save", dict{"thread_id": "t", "user_data": `"` + strings.Repeat("x", MaxText-2) + `"`})
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan int, 1)
	go func() {
		n := 0
		ask := []byte(`{"id":"1","action":"restore","data":{"thread_id":"t"},"pad":"` + strings.Repeat("x", 32<<10) + `"}`)
		for ctx.Err() == nil && slow.conn.Write(ctx, websocket.MessageText, ask) == nil && n < 5000 {
			n++
		}
		sent <- n
	}()
	for range 200 {
		quick.ok("save", dict{"thread_id": "u", "user_data": `{}`})
	}
	s.socket.mu.Lock()
	for l := range s.socket.live {
		l.mu.Lock()
		if len(l.ready) > MaxText+2*smallFrame {
			t.Errorf("%d bytes are kept for a peer that takes none", len(l.ready))
		}
		l.mu.Unlock()
	}
	s.socket.mu.Unlock()
	cancel()
	if n := <-sent; n == 5000 {
		t.Error("5000 frames were taken from a peer that reads none of the answers")
	}
}

// TestPong: a ping is answered, between actions too.
func TestPong(t *testing.T) {
	s := serveSocket(t, dbtest.Open(t, db.SQLite))
	c := s.login("whole")
	c.ok("save", dict{"thread_id": "t"})
	must(t, c.conn.Ping(c.conn.CloseRead(t.Context())))
}

func TestNoUpgrade(t *testing.T) {
	s := serveSocket(t, dbtest.Open(t, db.SQLite))
	res, err := http.Get(s.url)
	must(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(t, err)
	if res.StatusCode != http.StatusBadRequest || !strings.Contains(string(text), `"code":"malformed"`) {
		t.Errorf("got %d %s", res.StatusCode, text)
	}
	if !slices.Equal(res.Header.Values("Content-Type"), []string{"application/problem+json"}) {
		t.Errorf("got %v", res.Header)
	}
}
